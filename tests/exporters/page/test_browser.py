"""HTML pages in a real browser: nothing runs, nothing is asked for, everything can be read."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from clew.exporters.page.frame import script
from tests.exporters.hostile import conversation
from tests.exporters.payloads import RUN, payloads, session_of

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
        self.navigations: list[str] = []
        self.page.on("framenavigated", lambda frame: self.navigations.append(frame.url))
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
    assert page.locator("iframe, form, svg, object, embed, link, base").count() == 0
    assert page.locator("script").count() == 1
    assert page.locator("script").text_content() == script()
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
    block = page.locator("main details").first
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


class Counting:
    """A server on this machine that notes every request: nobody may ever ask it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        counting = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                counting.asked.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_HEAD = do_OPTIONS = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="module")
def counting() -> Iterator[Counting]:
    server = Counting()
    yield server
    server.stop()


def _exported(format: str, origin: str, folder: Path) -> Path:
    """Every payload in every field, as a file that a browser shows."""
    with clew.open("memory:") as store:
        id = session_of(store, payloads(origin))
        if format == "json":
            return Path(store.export(id, "json", path=folder / "page.json", whole=True))
        if format == "markdown":
            return _rendered(store.export(id, "markdown", whole=True), folder / "page.html")
        redact = format == "html, redacted"
        return Path(store.export(id, "html", path=folder / "page.html", whole=True, redact=redact))


def _rendered(markdown: str, path: Path) -> Path:
    """As a viewer shows it that lets HTML and every address through, and has no policy."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    path.write_text(f"<!doctype html><meta charset=utf-8>{parser.render(markdown)}", "utf-8")
    return path


@pytest.mark.parametrize("format", ["html", "html, redacted", "markdown", "json"])
def test_s11_s12_no_payload_in_any_field_runs_asks_or_leads_away(
    browser: Browser, counting: Counting, tmp_path: Path, format: str
) -> None:
    counting.asked.clear()
    path = _exported(format, counting.origin, tmp_path)
    seen = Seen(browser, path)
    page = seen.page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate(
        "document.querySelectorAll('*').forEach(one =>"
        " ['mouseover', 'pointerenter', 'focus', 'toggle', 'load', 'error'].forEach("
        "kind => one.dispatchEvent(new Event(kind, {bubbles: false}))))"
    )
    page.mouse.move(180, 300)
    for _ in range(3):
        page.keyboard.press("Tab")
    page.wait_for_load_state("networkidle")

    assert page.evaluate("window.__pwned") is None
    assert [url for url in seen.requests if not url.startswith(("file://", "data:image/png"))] == []
    assert counting.asked == []
    assert seen.dialogs == []
    assert seen.navigations == [path.as_uri()]
    acting = "iframe, frame, object, embed, form, input:not([type=radio]), svg, math, link, base"
    assert (
        page.locator(f"{acting}, video, audio, source, portal, [ping], [srcset], [background]").count() == 0
    )
    assert page.locator("script").all_text_contents() == ([script()] if format.startswith("html") else [])
    assert seen.errors == []
    assert page.locator("meta[http-equiv=refresh]").count() == 0
    names = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name))"
    )
    assert [name for name in names if name.startswith("on")] == []
    schemes = page.evaluate("[...document.querySelectorAll('[href]')].map(e => new URL(e.href).protocol)")
    assert set(schemes) <= {"http:", "https:", "mailto:", "file:"}
    assert "__pwned" in page.locator("body").inner_text()
    seen.page.context.close()


def test_s12_s13_the_policy_allows_nothing_but_the_pages_own_style_script_and_pictures(
    tmp_path: Path,
) -> None:
    page = _exported("html", "http://127.0.0.1:9/", tmp_path).read_text("utf-8")
    head = page[: page.index("<title>")]
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', head)
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules.pop("style-src").startswith("'sha256-")
    assert rules.pop("script-src").startswith("'sha256-")
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert not re.search("unsafe-|https?:|\\*", policy)


def test_s13_payloads_past_the_escaping_would_be_noticed_and_the_policy_stops_them(
    browser: Browser, counting: Counting, tmp_path: Path
) -> None:
    origin = counting.origin
    hole = (
        f"<script>{RUN}</script><img src={origin}picture><iframe src={origin}frame></iframe>"
        f"<link rel=stylesheet href={origin}sheet><style>main{{background:url({origin}main)}}</style>"
        f"<p style='background:url({origin}style)'>x</p><video poster={origin}poster></video>"
    )
    with clew.open("memory:") as store:
        store.create("a").append({"role": "user", "content": "HOLE"})
        page = store.export("a", "html").replace("HOLE", hole)
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    does = []
    for number, text in enumerate((page, without_policy)):
        counting.asked.clear()
        path = tmp_path / f"{number}.html"
        path.write_text(text, "utf-8")
        seen = Seen(browser, path)
        seen.page.wait_for_load_state("networkidle")
        does.append((seen.page.evaluate("window.__pwned"), set(counting.asked)))
        seen.page.context.close()
    assert does == [(None, set()), (1, {"/picture", "/frame", "/sheet", "/main", "/style", "/poster"})]
