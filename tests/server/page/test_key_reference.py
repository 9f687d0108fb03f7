"""The reference of keys says what the sheet of the page says: `CLEW_WRITE_SCREENS=1` writes it anew."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.docs.pages import DOCS
from tests.server.conftest import Running
from tests.server.page.conftest import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

REFERENCE = DOCS / "reference" / "page-keys.md"
HEAD = """# Keys of the page

`?` shows those that can be used where you are.
What they are for: [look at sessions in the browser](../how-to/look-at-sessions-in-the-browser.md).
On a Mac `⌘` takes the place of `Ctrl`.
"""
ORDER = ("General", "Sessions", "Transcript", "Branches", "Files", "Usage", "Go on")

_SHEET = """() => [...document.querySelectorAll(".keysheet section")].map((section) => [
  section.querySelector("h3").textContent,
  [...section.querySelectorAll("dl > div")].map((row) => [
    row.querySelector("dt").textContent,
    [...row.querySelectorAll(".keys")].map((keys) =>
      [...keys.querySelectorAll("kbd")].map((key) => key.textContent)),
  ]),
])"""


def test_the_reference_has_every_key(server: Running, visit: Callable[..., Page]) -> None:
    """Parts of a page offer their commands as they come: it is looked at until all are there."""
    for id in ("one", "other"):
        session = server.store.session(id)
        session.append({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello."})
    tabs = [visit(path) for path in ("/s/one", "/", "/usage", "/compare?a=one&b=other")]
    writes = bool(os.environ.get("CLEW_WRITE_SCREENS"))
    end = time.monotonic() + (5 if writes else PATIENCE / 1000)
    while not is_told(text := reference(tabs)) and time.monotonic() < end:
        tabs[0].wait_for_timeout(200)
    if writes and not is_told(text):
        REFERENCE.write_text(text, "utf-8")
    assert is_told(text), f"CLEW_WRITE_SCREENS=1 writes this to {REFERENCE.name}:\n{text}"


def is_told(text: str) -> bool:
    return sorted(text.splitlines()) == sorted(REFERENCE.read_text("utf-8").splitlines())


def reference(tabs: Sequence[Page]) -> str:
    groups: dict[str, dict[str, list[str]]] = {name: {} for name in ORDER}
    for tab in tabs:
        for group, rows in sheet(tab):
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


def sheet(tab: Page) -> Sequence[tuple[str, Sequence[tuple[str, Sequence[Sequence[str]]]]]]:
    """The groups of the sheet of keys, which is opened if it is not; what a row says, and its keys."""
    if tab.locator(".keysheet").count() == 0:
        tab.bring_to_front()
        tab.keyboard.press("?")
    found: Sequence[tuple[str, Sequence[tuple[str, Sequence[Sequence[str]]]]]] = tab.evaluate(_SHEET)
    return found
