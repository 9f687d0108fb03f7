"""What the server renders, placed into a page of a real browser that has no policy of its own."""

from __future__ import annotations

import os
import shutil
from typing import Any

import httpx
import pytest

from clew.server.routing import encoded
from tests.exporters.hostile import conversation
from tests.exporters.payloads import payloads, session_of
from tests.server.conftest import Running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium: apt-get install chromium"
)


def pieces(client: httpx.Client, id: str, view: str) -> list[str]:
    """The HTML of all entries on the path."""
    found: list[str] = []
    url: str | None = f"/api/v1/sessions/{id}/entries?view={view}&limit=200&large=true"
    while url:
        answer = client.get(url)
        for entry in answer.json()["data"]:
            found += [entry["html"]] if view == "html" else [one.get("html", "") for one in entry["blocks"]]
        url = answer.links.get("next", {}).get("url")
    return found


@pytest.mark.parametrize("view", ["blocks", "html"])
def test_s11_s12_nothing_that_is_rendered_runs_or_asks_for_anything(
    server: Running, client: httpx.Client, view: str
) -> None:
    from playwright.sync_api import sync_playwright

    session_of(server.store, payloads("https://evil.example"))
    conversation(server.store)
    ids = [encoded(info.id) for info in server.store.list()]
    rendered = [piece for id in ids for piece in pieces(client, id, view)]
    assert len(rendered) > 20
    requests: list[str] = []
    dialogs: list[Any] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.set_content("<main></main>")
        page.evaluate(
            "texts => { for (const text of texts) { const place = document.createElement('div');"
            " place.innerHTML = text; document.querySelector('main').append(place); } }",
            rendered,
        )
        for summary in page.locator("summary:visible").all()[:50]:
            summary.click()
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.pwned") is None
        assert page.locator("script, iframe, object, embed, form, style, link, base, svg").count() == 0
        assert page.evaluate("document.querySelectorAll('main *').length") > 100
        browser.close()
    assert [url for url in requests if not url.startswith("data:image/")] == []
    assert dialogs == []
