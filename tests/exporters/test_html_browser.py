"""HTML pages in a real browser: nothing runs, nothing is asked for, everything can be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from tests.exporters.hostile import conversation

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Seen:
    """A page with all that it did."""

    def __init__(self, browser: Browser, path: Path, *, dark: bool = False) -> None:
        context = browser.new_context(
            viewport={"width": 360, "height": 640}, color_scheme="dark" if dark else "light"
        )
        self.page: Page = context.new_page()
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())


@pytest.fixture
def hostile(browser: Browser, tmp_path: Path) -> Iterator[Seen]:
    path = tmp_path / "hostile.html"
    with clew.open("memory:") as store:
        conversation(store)
        store.export("hostile", "html", path=path, whole=True)
    seen = Seen(browser, path)
    yield seen
    seen.page.context.close()


def _unfold(page: Page) -> None:
    for summary in page.locator("summary:visible").all():
        summary.click()


def test_s11_s12_no_script_runs_and_no_request_is_made(hostile: Seen) -> None:
    page = hostile.page
    _unfold(page)
    page.mouse.move(180, 300)
    page.locator("main").hover()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.pwned") is None
    assert [url for url in hostile.requests if not url.startswith(("file://", "data:image/png"))] == []
    assert hostile.dialogs == []
    assert hostile.errors == []
    assert page.url.startswith("file://")


def test_the_dom_is_what_we_wrote(hostile: Seen) -> None:
    page = hostile.page
    assert page.locator("script, iframe, form, svg, object, embed, link, base, button").count() == 0
    names = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name))"
    )
    assert [name for name in names if name.startswith("on") or name == "style"] == []
    assert page.locator("meta[http-equiv=refresh]").count() == 0
    assert page.evaluate("document.images.length") == 1
    assert page.evaluate("document.images[0].naturalWidth") == 1
    assert page.evaluate("document.body.parentElement.querySelectorAll('section').length") == 3


def test_what_was_said_can_be_read(hostile: Seen) -> None:
    page = hostile.page
    assert page.locator("text=MARK-0").first.is_visible()
    assert page.locator("text=<script>window.pwned=1</script>").first.is_visible()
    assert page.title().startswith("Title </title><script>")


def test_the_style_is_in_force_and_the_page_fits_a_phone(hostile: Seen) -> None:
    page = hostile.page
    assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    _unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_switch_shows_one_branch_at_a_time(hostile: Seen) -> None:
    page = hostile.page
    first, second = page.locator("article:has-text('MARK-1')"), page.locator("article:has-text('MARK-2')")
    assert (first.is_visible(), second.is_visible()) == (False, True)
    page.locator("label[for=p1]").click()
    assert (first.is_visible(), second.is_visible()) == (True, False)
    assert page.locator("text=MARK-0").first.is_visible()
    page.keyboard.press("ArrowUp")
    assert (first.is_visible(), second.is_visible()) == (False, True)


def test_tools_and_thinking_unfold_without_a_script(hostile: Seen) -> None:
    page = hostile.page
    block = page.locator("details").first
    assert block.locator("p, pre").first.is_hidden()
    block.locator("summary").click()
    assert block.locator("p, pre").first.is_visible()


def test_an_attack_that_got_through_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    # The other tests are worth nothing if this browser runs nothing and asks for nothing anyway.
    path = tmp_path / "bad.html"
    path.write_text("<script>window.pwned=1</script><img src=http://127.0.0.1:9/x.png>")
    seen = Seen(browser, path)
    assert seen.page.evaluate("window.pwned") == 1
    assert "http://127.0.0.1:9/x.png" in seen.requests
    seen.page.context.close()


def test_s13_the_policy_stops_what_would_get_past_the_escaping(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "leak.html"
    with clew.open("memory:") as store:
        store.create("a").append({"role": "user", "content": "HOLE"})
        page = store.export("a", "html")
    hole = "<script>window.pwned=1</script><img src=http://127.0.0.1:9/x.png onerror='window.pwned=1'>"
    path.write_text(page.replace("HOLE", hole))
    seen = Seen(browser, path)
    seen.page.wait_for_load_state("networkidle")
    assert seen.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in error for error in seen.errors)
    seen.page.context.close()
