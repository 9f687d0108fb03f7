"""What a transcript on the page says, first entry to last: only those near the window are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

_READ = """async () => {
    const feed = document.getElementById("transcript");
    const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const found = new Map();
    do { // what comes just now may lead back to the end
        feed.scrollTop = 0;
        await drawn();
    } while (!feed.querySelector("article[aria-posinset='1']"));
    for (;;) {
        await drawn();
        if (feed.querySelector(".transcript-waiting")) continue;
        let last = 0;
        for (const one of feed.querySelectorAll("article")) {
            const at = Number(one.ariaPosInSet);
            if (at <= last) throw new Error(`entry ${at} is drawn behind entry ${last}`);
            last = at;
            const known = found.get(at);
            if (known && known[0] !== one.dataset.entry) throw new Error(`there are two entries ${at}`);
            found.set(at, [one.dataset.entry, one.innerText]);
        }
        const before = feed.scrollTop;
        feed.scrollTop += feed.clientHeight / 2;
        if (feed.scrollTop === before) return [...found].sort(([a], [b]) => a - b).map(([, one]) => one);
    }
}"""

_WATCH = """() => {
    window.__doubled = [];
    new MutationObserver(() => {
        const ids = [...document.querySelectorAll("#transcript article")].map(one => one.dataset.entry);
        const rows = [...document.querySelectorAll("#list a")].map(one => one.getAttribute("href"));
        for (const all of [ids, rows])
            if (new Set(all).size !== all.length) window.__doubled.push(all.join(" "));
    }).observe(document.getElementById("app"), {childList: true, subtree: true});
}"""


class Shown(NamedTuple):
    id: str
    text: str


def read(page: Page) -> list[Shown]:
    """All entries, in order. It scrolls from the beginning to the end."""
    page.bring_to_front()  # a browser hardly ever draws the tabs behind
    page.locator("#transcript[aria-busy=false]").wait_for()
    return [Shown(id, text) for id, text in page.evaluate(_READ)]


def watch(page: Page) -> None:
    """From now on, notice each moment in which an entry or a session is drawn twice."""
    page.evaluate(_WATCH)


def doubled(page: Page) -> list[str]:
    return list(page.evaluate("window.__doubled"))
