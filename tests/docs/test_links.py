"""Links lead somewhere, pages are found, and each kind of page keeps to its size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, all_pages, anchors, links, name, prose
from tests.support.rows import each_row


@each_row("page", all_pages(), ids=name)
def test_links_resolve(page: Path) -> None:
    """Files exist, and a `#heading` is a heading of the page it points into."""
    broken = []
    for line, target in links(page):
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(f"{name(page)}:{line}: {target}")
    assert not broken


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for _, target in links(index)}
    assert {page for page in DOCS.rglob("*.md") if page != index} <= linked


@pytest.mark.parametrize(("folder", "limit"), [("how-to", 120), ("adr", 60)])
def test_pages_are_short(folder: str, limit: int) -> None:
    lengths = {name(page): len(page.read_text("utf-8").splitlines()) for page in (DOCS / folder).glob("*.md")}
    assert lengths
    assert {page: length for page, length in lengths.items() if length > limit} == {}


def test_decisions_are_numbered_and_complete() -> None:
    """A decision says what it rests on, what was decided, what it costs and what would change it."""
    records = sorted((DOCS / "adr").glob("[0-9]*.md"))
    assert [record.name[:4] for record in records] == [f"{n:04}" for n in range(1, len(records) + 1)]
    for record in records:
        headings = [line.removeprefix("## ") for _, line in prose(record) if line.startswith("## ")]
        assert headings == ["Context", "Decision", "What we gave up", "What would make us revisit"], record


@each_row("page", all_pages(), ids=name)
def test_no_page_names_a_machine(page: Path) -> None:
    """Paths of the machine that a page was written on mean nothing to its readers."""
    text = page.read_text("utf-8")
    assert not re.search(r"(?<![\w.])/(work|root|tmp|home)/|localhost:\d", text)
    assert str(ROOT) not in text


@each_row("page", all_pages(), ids=name)
def test_a_sentence_begins_on_a_line_of_its_own(page: Path) -> None:
    """So that a change of one sentence is a change of one line. Tables cannot do it."""
    lines = [(number, line) for number, line in prose(page) if not line.startswith(("|", "#"))]
    crowded = [
        number for number, line in lines if re.search(r"[a-z)][.!?] [A-Z]", re.sub(r"`[^`]*`", "`", line))
    ]
    assert crowded == []


MAKES = re.compile(r"\.(?:session|create|fork)\(\s*\"([^\"{]+)\"")


def test_no_two_how_tos_make_the_same_session() -> None:
    """Whoever follows both, in one store, would add to the session of the other."""
    makers: dict[str, set[str]] = {}
    for page in sorted((DOCS / "how-to").glob("*.md")):
        for id in MAKES.findall(page.read_text("utf-8")):
            makers.setdefault(id, set()).add(page.name)
    assert {id: pages for id, pages in makers.items() if len(pages) > 1} == {}
