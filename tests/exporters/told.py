"""A session as its Markdown page tells it, without what is folded."""

from __future__ import annotations

import re

import clew

_FOLDED = re.compile(r"<details><summary>(.*?)</summary>.*?</details>", re.DOTALL)


def told(store: clew.Store, id: str, *, whole: bool = False) -> list[str]:
    """Who speaks ("# User"), what was said, and a line for what is folded, below the head of the page."""
    page = _FOLDED.sub(r"\1", store.export(id, "markdown", whole=whole))
    page = page[re.search("^(?=###? (?!Prompts))", page, re.MULTILINE).end() :]  # type: ignore[union-attr]
    page = re.sub(r"^### (\w+) ·.*", r"# \1", page, flags=re.MULTILINE)
    return [line.removeprefix("> ") for line in page.splitlines() if line.strip()]
