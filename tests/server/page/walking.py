"""A walk through a transcript, from its beginning to its end, that unfolds all on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.server.page.harm import harm
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import Page

_UNFOLD = """async () => {
    const feed = document.getElementById("transcript");
    const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const folded = "article button[aria-expanded=false], details:not([open]) > summary";
    do {
        for (const one of feed.querySelectorAll(folded)) one.click();
        await drawn();
    } while (feed.querySelector(`.transcript-waiting, ${folded}`));
}"""
_FIRST = """() => {
    const feed = document.getElementById("transcript");
    feed.scrollTop = 0;
    return feed.querySelector("article[aria-posinset='1']");
}"""
_GO_ON = """() => {
    const feed = document.getElementById("transcript");
    const before = feed.scrollTop;
    feed.scrollTop += feed.clientHeight;
    return feed.scrollTop > before;
}"""


def walk(page: Page) -> list[str]:
    """What is harmful on the way; each thing once."""
    page.locator("#transcript[aria-busy=false] article").first.wait_for(state="attached")
    becomes_true(page, _FIRST)
    found: dict[str, None] = {}
    while True:
        page.evaluate(_UNFOLD)
        found.update(dict.fromkeys(harm(page)))
        if not page.evaluate(_GO_ON):
            return list(found)
