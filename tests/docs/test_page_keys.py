"""What the how-to says of keys is what the reference says, which a browser compares with the page itself."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS

HOW_TO = DOCS / "how-to" / "look-at-sessions-in-the-browser.md"
REFERENCE = DOCS / "reference" / "page-keys.md"


def test_every_key_of_the_how_to_is_in_the_reference() -> None:
    """A key is one letter or sign, `Ctrl` with one, or two that are typed one after the other."""
    key = re.compile(r"`((?:Ctrl )?[^\s`▸]|g \S)`")
    known = set(key.findall(REFERENCE.read_text("utf-8")))
    told = set(key.findall(HOW_TO.read_text("utf-8")))
    assert len(told) > 20
    assert told <= known
