"""The reference of keys says what the sheet of the page says: `CLEW_WRITE_SCREENS=1` writes it anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tests.docs.pages import DOCS
from tests.server.conftest import Running
from tests.support.browsers import settled

if TYPE_CHECKING:
    from playwright.sync_api import Page

Sheet: TypeAlias = Sequence[tuple[str, Sequence[tuple[str, Sequence[Sequence[str]]]]]]
"""The groups of the sheet of keys: what a row says, and its keys."""

REFERENCE = DOCS / "reference" / "page-keys.md"
HEAD = """# Keys of the page

`?` shows those that can be used where you are.
What they are for: [look at sessions in the browser](../how-to/look-at-sessions-in-the-browser.md).
On a Mac `⌘` takes the place of `Ctrl`.
"""
ORDER = ("General", "Sessions", "Transcript", "Branches", "Files", "Usage", "Go on")

VIEWS = {
    "/s/one": "#panel-content [role=treeitem]",
    "/": "#list a",
    "/usage": ".usage h1",
    "/compare?a=one&b=other": ".compare-entry",
}
"""The views that have keys, each with what it shows last."""

_SHEET = """() => [...document.querySelectorAll(".keysheet section")].map((section) => [
  section.querySelector("h3").textContent,
  [...section.querySelectorAll("dl > div")].map((row) => [
    row.querySelector("dt").textContent,
    [...row.querySelectorAll(".keys")].map((keys) =>
      [...keys.querySelectorAll("kbd")].map((key) => key.textContent)),
  ]),
])"""


def test_the_reference_has_every_key(server: Running, visit: Callable[..., Page]) -> None:
    """Parts of a page offer their commands as they come: each is waited for, in four views, which takes more
    than a second."""
    for id in ("one", "other"):
        session = server.store.session(id)
        session.append({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello."})
    page = visit()
    sheets = []
    for path, shows in VIEWS.items():
        page.goto(server.url + path)
        page.locator(shows).first.wait_for()
        settled(page)
        page.keyboard.press("?")
        page.locator(".keysheet dl").first.wait_for()
        settled(page)
        sheets.append(page.evaluate(_SHEET))
    text = reference(sheets)
    if os.environ.get("CLEW_WRITE_SCREENS") and not is_told(text):
        REFERENCE.write_text(text, "utf-8")
    assert is_told(text), f"CLEW_WRITE_SCREENS=1 writes this to {REFERENCE.name}:\n{text}"


def is_told(text: str) -> bool:
    return sorted(text.splitlines()) == sorted(REFERENCE.read_text("utf-8").splitlines())


def reference(sheets: Sequence[Sheet]) -> str:
    groups: dict[str, dict[str, list[str]]] = {name: {} for name in ORDER}
    for sheet in sheets:
        for group, rows in sheet:
            for title, keys in rows:
                groups[group].setdefault(title, [" ".join(one) for one in keys])
    lines = [HEAD]
    for name, found in groups.items():
        if found:
            lines += [f"## {name}", "", "| key | what it does |", "|---|---|"]
            lines += [
                f"| {' '.join(f'`{key}`' for key in keys)} | {title} |" for title, keys in found.items()
            ]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"
