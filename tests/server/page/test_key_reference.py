"""The reference of keys says what the sheet of the page says: `CLEW_WRITE_SCREENS=1` writes it anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.docs.pages import DOCS
from tests.server.conftest import Running

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
    for id in ("one", "other"):
        session = server.store.session(id)
        session.append({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello."})
    groups: dict[str, dict[str, list[str]]] = {name: {} for name in ORDER}
    for path, ready in (
        ("/s/one", "#transcript article"),
        ("/", "#list li"),
        ("/usage", "#main h1"),
        ("/compare?a=one&b=other", "#main h1"),
    ):
        tab = visit(path)
        tab.locator(ready).first.wait_for()
        tab.keyboard.press("?")
        tab.locator(".keysheet section").first.wait_for()
        for group, rows in tab.evaluate(_SHEET):
            for title, keys in rows:
                groups[group].setdefault(title, [" ".join(one) for one in keys])
        tab.close()
    lines = [HEAD]
    for name, rows in groups.items():
        if rows:
            lines += [f"## {name}", "", "| key | what it does |", "|---|---|"]
            lines += [f"| {' '.join(f'`{key}`' for key in keys)} | {title} |" for title, keys in rows.items()]
            lines.append("")
    text = "\n".join(lines).rstrip("\n") + "\n"
    if os.environ.get("CLEW_WRITE_SCREENS"):
        REFERENCE.write_text(text, "utf-8")
    assert REFERENCE.read_text("utf-8") == text
