"""What was packed once can be read for ever."""

from __future__ import annotations

import base64

import clew
from clew.adapters.langgraph_settling import opened, packed

NAME = "c//1f0a-1"
DOCUMENT = b"o" + b"\x88\xa7content\xbdlangchain_core.messages.human\xacHumanMessage" * 4
PACKED = "epPEAADEFii1L/0g0W0AABBviAIAmasoACKnwAI="


def test_a_document_packed_by_the_first_version_is_read_by_this_one() -> None:
    """The words that documents are packed against are a part of the format."""
    with clew.open("memory:") as store:
        session = store.session("thread")

        assert opened(session, NAME, base64.b64decode(PACKED)) == DOCUMENT
        assert opened(session, NAME, packed(NAME, DOCUMENT)) == DOCUMENT
