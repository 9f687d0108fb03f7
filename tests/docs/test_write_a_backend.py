"""The backend that a how-to writes passes the suite, all of it, by the class that the page shows."""

from __future__ import annotations

from typing import Any

from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "write-a-backend.md"


def _names() -> dict[str, Any]:
    """What the page defines: the blocks that only use it are run with all other pages."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(PAGE, "python"):
        if "\nclass " in block.code:
            exec(compile("\n" * (block.line - 1) + block.code, PAGE, "exec"), names)  # noqa: S102 (our own page)
    return names


TestFile = _names()["TestFile"]
