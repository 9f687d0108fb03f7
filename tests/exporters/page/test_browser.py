"""HTML pages in a real browser: nothing runs, nothing is asked for, everything can be read."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from clew.exporters.page.frame import script
from tests.exporters.hostile import conversation
from tests.exporters.page.seen import Seen
from tests.exporters.payloads import RUN, payloads, session_of
from tests.support.browsers import settled
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a session in which everything attacks."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.html"
    with clew.open("memory:") as store:
        conversation(store)
        store.export("hostile", "html", path=path, whole=True)
    return path


def _unfold(page: Page) -> None:
    for summary in page.locator("summary:visible").all():
        summary.click()


def _attributes(page: Page) -> list[str]:
    """The names of all of them."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name))"
    )
    return found


def test_s11_s12_no_script_runs_and_the_dom_is_what_we_wrote(browser: Browser, hostile: Path) -> None:
    with Seen(browser, hostile, width=360) as seen:
        page = seen.page
        assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "as on a phone"
        _unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.mouse.move(180, 300)
        page.locator("main").hover()
        seen.assert_it_did_nothing()
        assert page.locator("iframe, form, svg, object, embed, link, base").count() == 0
        assert page.locator("script").all_text_contents() == [script()]
        assert [name for name in _attributes(page) if name.startswith("on") or name == "style"] == []
        assert page.locator("meta[http-equiv=refresh]").count() == 0
        assert page.evaluate("document.images.length") == 1
        assert page.evaluate("document.images[0].naturalWidth") == 1
        assert page.locator("section").count() == 3


def test_a_wide_table_scrolls_sideways_on_a_phone_and_its_words_stay_whole(
    browser: Browser, tmp_path: Path
) -> None:
    row = "| Donaudampfschifffahrtsgesellschaft " * 6 + "|\n"
    with clew.open("memory:") as store:
        store.create("wide").append({"role": "assistant", "content": f"{row}{'|---' * 6}|\n{row}"})
        store.export("wide", "html", path=tmp_path / "wide.html")
    with Seen(browser, tmp_path / "wide.html", width=390) as seen:
        shown = seen.page.evaluate(
            """() => {
              const word = document.createRange();
              word.selectNodeContents(document.querySelector("td"));
              const table = document.querySelector("table");
              return [word.getClientRects().length, table.scrollWidth > table.clientWidth];
            }"""
        )
        assert shown == [1, True]
        assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_what_was_said_can_be_read_branch_by_branch(browser: Browser, hostile: Path) -> None:
    with Seen(browser, hostile, width=360) as seen:
        page = seen.page
        assert page.locator("text=MARK-0").first.is_visible()
        assert page.locator("text=<script>window.pwned=1</script>").first.is_visible()
        assert page.title().startswith("Title </title><script>")
        first, second = page.locator("article:has-text('MARK-1')"), page.locator("article:has-text('MARK-2')")
        assert (first.is_visible(), second.is_visible()) == (False, True)
        page.locator("label[for=p1]").click()
        assert (first.is_visible(), second.is_visible()) == (True, False)
        assert page.locator("text=MARK-0").first.is_visible()
        page.keyboard.press("ArrowUp")
        assert (first.is_visible(), second.is_visible()) == (False, True)
        block = page.locator("main details").first
        assert block.locator("p, pre").first.is_hidden()
        block.locator("summary").click()
        assert block.locator("p, pre").first.is_visible()


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


@pytest.fixture(scope="module")
def exported(counting: Counting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Every payload in every field, as a file in one of the formats that a browser shows."""
    folder = tmp_path_factory.mktemp("exported")
    with clew.open("memory:") as store:
        id = session_of(store, payloads(counting.origin))

        def export(format: str) -> Path:
            if format == "json":
                return Path(store.export(id, "json", path=folder / "page.json", whole=True))
            if format == "markdown":
                return _rendered(store.export(id, "markdown", whole=True), folder / "markdown.html")
            redact = format == "html, redacted"
            return Path(store.export(id, "html", path=folder / "page.html", whole=True, redact=redact))

        yield export


def _rendered(markdown: str, path: Path) -> Path:
    """As a viewer shows it that lets HTML and every address through, and has no policy."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    path.write_text(f"<!doctype html><meta charset=utf-8>{parser.render(markdown)}", "utf-8")
    return path


@pytest.mark.parametrize("format", ["html", "html, redacted", "markdown", "json"])
def test_s11_s12_no_payload_in_any_field_runs_asks_or_leads_away(
    browser: Browser, counting: Counting, exported: Callable[[str], Path], format: str
) -> None:
    counting.asked.clear()
    with Seen(browser, exported(format), width=360) as seen:
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
        seen.assert_it_did_nothing()
        assert counting.asked == []
        acting = "iframe, frame, object, embed, form, input:not([type=radio]), svg, math, link, base"
        more = "video, audio, source, portal, [ping], [srcset], [background], meta[http-equiv=refresh]"
        assert page.locator(f"{acting}, {more}").count() == 0
        assert page.locator("script").all_text_contents() == ([script()] if format.startswith("html") else [])
        assert [name for name in _attributes(page) if name.startswith("on")] == []
        schemes = page.evaluate("[...document.querySelectorAll('[href]')].map(e => new URL(e.href).protocol)")
        assert set(schemes) <= {"http:", "https:", "mailto:", "file:"}
        assert "__pwned" in page.locator("body").inner_text()


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
    asked = {"/picture", "/frame", "/sheet", "/main", "/style", "/poster"}
    path = tmp_path / "page.html"
    counting.asked.clear()
    path.write_text(page, "utf-8")
    with Seen(browser, path) as seen:
        settled(seen.page)
        assert seen.page.evaluate("window.__pwned") is None
        assert any("Content Security Policy" in line for line in seen.told)
        assert counting.asked == []
    path.write_text(without_policy, "utf-8")
    with Seen(browser, path) as seen:
        assert seen.page.evaluate("window.__pwned") == 1
        until(lambda: set(counting.asked) == asked)
        assert f"{origin}picture" in seen.requests
