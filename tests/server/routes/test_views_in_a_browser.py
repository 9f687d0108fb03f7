"""What the server renders, placed into a page of a real browser that has no policy of its own."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import httpx

from clew.server.routing import encoded
from tests.exporters.hostile import conversation
from tests.exporters.payloads import payloads, session_of
from tests.server.conftest import Running
from tests.server.routes.asking import S, pieces
from tests.support.browsers import settled
from tests.support.rows import named

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PLACE = """texts => {
    for (const text of texts) {
        const place = document.createElement("div");
        place.innerHTML = text;
        document.querySelector("main").append(place);
    }
    for (const one of document.querySelectorAll("details")) one.open = true;
}"""


def note(page: Page, done: list[str]) -> None:
    """Write down what the page asks for, and what it says in dialogs."""
    page.on("request", lambda request: done.append(request.url))
    page.on("dialog", lambda dialog: done.append(dialog.message))


def test_s11_s12_nothing_that_is_rendered_runs_or_asks_for_anything(
    server: Running, client: httpx.Client, browser: Browser
) -> None:
    session_of(server.store, payloads("https://evil.example"))
    conversation(server.store)
    ids = [encoded(info.id) for info in server.store.list()]
    for view in ("blocks", "html"):
        rendered = [piece for id in ids for piece in pieces(client, f"{S}/{id}/entries", view)]
        assert len(rendered) > 20
        done: list[str] = []
        page = browser.new_page()
        with named(view), closing(page):
            note(page, done)
            page.set_content("<main></main>")
            page.evaluate(PLACE, rendered)
            settled(page)
            assert page.evaluate("window.pwned") is None
            assert page.locator("script, iframe, object, embed, form, style, link, base, svg").count() == 0
            assert page.evaluate("document.querySelectorAll('main *').length") > 100
            assert [url for url in done if not url.startswith("data:image/")] == []
