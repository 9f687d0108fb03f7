"""Reading the documentation: pages, their code, their links.

A block of Python in a page may say what it prints, line by line:

    print(s.info.messages)  # prints: 2

Then all that the block prints must be said. `…` stands for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w-]*)")
_PRINTS = re.compile(r"(?:#|//) prints: ?(.*)$")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+(?:\([^()\s]*\))?)\)")
_INLINE_CODE = re.compile(r"(`+).*?\1")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")


class Block(NamedTuple):
    """A fenced piece of code."""

    line: int
    """The number of its first line in the page."""
    language: str
    code: str

    @property
    def expected(self) -> list[str]:
        """What it says that it prints."""
        return [found[1].strip() for line in self.code.splitlines() if (found := _PRINTS.search(line))]


def all_pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def pages_that_run() -> list[Path]:
    """README, tutorial and how-to: what people copy from."""
    found = sorted([*DOCS.glob("tutorial/*.md"), *DOCS.glob("how-to/*.md")])
    elsewhere = {*server_pages(), DOCS / "how-to" / "run-a-server.md"}  # tests/server/process/test_how_to.py
    return [ROOT / "README.md", *(page for page in found if page not in elsewhere)]


def server_pages() -> list[Path]:
    """Those whose code needs a server that runs: test_server_pages.py starts one."""
    how_to = ("use-a-remote-store", "use-from-the-shell", "use-from-typescript")
    return [DOCS / "tutorial" / "a-store-for-the-team.md", *(DOCS / "how-to" / f"{one}.md" for one in how_to)]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def parts(page: Path) -> Iterator[Block | tuple[int, str]]:
    """The blocks of code, and between them the other lines with their numbers."""
    inside: list[str] = []
    opening: re.Match[str] | None = None
    start = 0
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if opening is None and found:
            opening, start, inside = found, number + 1, []
        elif opening is not None and found and line.strip() == opening["fence"]:
            yield Block(start, opening["language"], "\n".join(inside))
            opening = None
        elif opening is not None:
            inside.append(line.removeprefix(opening["indent"]))
        else:
            yield number, line
    assert opening is None, f"{name(page)}:{start - 1}: a block of code that does not end"


def blocks(page: Path, language: str) -> list[Block]:
    return [part for part in parts(page) if isinstance(part, Block) and part.language == language]


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of blocks."""
    return (part for part in parts(page) if not isinstance(part, Block))


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and targets of the links that lead to other places of this repository."""
    for number, line in prose(page):
        for found in _LINK.finditer(_INLINE_CODE.sub("``", line)):
            if not re.match(r"[a-z][a-z0-9+.-]*:", found["target"]):
                yield number, found["target"]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = (found[1] for _, line in prose(page) if (found := _HEADING.match(line)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_printed(page: Path, block: Block, lines: list[str]) -> None:
    """Compare what a block printed with what it says that it prints, if it says anything."""
    if block.expected:
        where = f"{name(page)}:{block.line}"
        assert len(block.expected) == len(lines), f"{where} printed {lines}"
        for expected, line in zip(block.expected, lines, strict=True):
            pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
            assert re.fullmatch(pattern, line.rstrip()), f"{where} printed {line!r}, not {expected!r}"
