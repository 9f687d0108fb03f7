"""What the how-to says of keys is what the reference says, which a browser compares with the page itself."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS

HOW_TOS = [DOCS / "how-to" / f"{name}-in-the-browser.md" for name in ("look-at-sessions", "go-back")]
REFERENCE = DOCS / "reference" / "page-keys.md"


def test_every_key_of_the_how_tos_is_in_the_reference() -> None:
    """A key is one letter or sign, `Ctrl` with one, or two that are typed one after the other."""
    key = re.compile(r"`((?:Ctrl )?[^\s`▸]|g \S)`")
    known = set(key.findall(REFERENCE.read_text("utf-8")))
    told = {found for page in HOW_TOS for found in key.findall(page.read_text("utf-8"))}
    assert len(told) > 20
    assert told <= known
