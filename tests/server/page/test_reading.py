"""What makes a transcript easy to read: copies of code, wide tables, notes, marked hits, files to save."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import Running
from tests.server.page.conftest import PHONE
from tests.server.page.test_transcript import call, result, row, said
from tests.server.page.workshop import assistant, user
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Route

Visit = Callable[..., "Page"]
WORD = "Donaudampfschifffahrtsgesellschaft"
CODE = "def check(token):\n    return token.age < 3600"


def test_code_and_tool_output_are_copied_by_mouse_and_by_keyboard(
    server: Running, visit: Visit, copied: Callable[[Page], str]
) -> None:
    session = server.store.session("code")
    session.append(user("Show it"), assistant(f"Here:\n\n```python\n{CODE}\n```"))
    session.append(call("c1", "git diff"), result("c1", "\x1b[31m2 failed\x1b[0m in 0.1s"))
    page = visit("/s/code")
    said(page, "def").first.hover()
    row(page, 1).get_by_role("button", name="Copy this block").click()
    row(page, 1).get_by_role("status").filter(has_text="Copied").wait_for(state="attached")
    assert copied(page) == CODE + "\n"
    row(page, 2).get_by_role("button", name="Ran").click()
    output = row(page, 2).get_by_role("button", name="Copy this block")
    output.last.focus()
    page.keyboard.press("Enter")
    row(page, 2).get_by_role("status").filter(has_text="Copied").wait_for(state="attached")
    assert copied(page) == "2 failed in 0.1s"


@pytest.mark.parametrize("width", [390, 1440])
def test_a_wide_table_scrolls_sideways_and_its_words_stay_whole(
    server: Running, visit: Visit, new_context: Callable[..., BrowserContext], width: int
) -> None:
    columns = 4 if width == 390 else 12
    head = "|" + f" {WORD} |" * columns + "\n|" + "---|" * columns + "\n"
    server.store.session("wide").append(user("A table"), assistant(head + "|" + f" {WORD} |" * columns))
    narrow = new_context(**(PHONE if width == 390 else {}))
    page = visit("/s/wide", within=narrow)
    said(page, WORD).first.wait_for()
    shown = page.evaluate(
        """() => {
          const table = document.querySelector("#transcript table");
          const word = document.createRange();
          word.selectNodeContents(table.querySelector("td"));
          const feed = document.querySelector("#transcript");
          return {
            scrolls: table.scrollWidth > table.clientWidth,
            pieces: word.getClientRects().length,
            feed: feed.scrollWidth - feed.clientWidth,
            focus: table.tabIndex,
          };
        }"""
    )
    assert shown == {"scrolls": True, "pieces": 1, "feed": 0, "focus": 0}


def test_notes_tasks_footnotes_links_and_directions_are_seen(server: Running, visit: Visit) -> None:
    session = server.store.session("notes")
    session.append(user("שלום עולם"), assistant("- [x] Done[^1], see https://example.com/a.\n\n[^1]: First"))
    session.annotate(0, note="A greeting\nin <b>Hebrew</b>", label="hello", requestId="req_1")
    page = visit("/s/notes")
    row(page, 0).get_by_text("Note A greeting").wait_for()
    notes = row(page, 0).locator(".transcript-remark")
    assert notes.all_inner_texts() == ["Label hello", "Note A greeting\nin <b>Hebrew</b>"]
    assert said(page, "שלום עולם").evaluate("one => getComputedStyle(one).direction") == "rtl"
    assert row(page, 1).locator(".task > .task").inner_text() == "☑"
    assert row(page, 1).locator("sup").inner_text() == "1"
    assert row(page, 1).locator(".notes li").inner_text() == "First"
    link = row(page, 1).get_by_role("link", name="https://example.com/a", exact=True)
    assert link.get_attribute("href") == "https://example.com/a"


def test_a_hit_is_marked_in_the_transcript_that_it_opens(server: Running, visit: Visit) -> None:
    session = server.store.session("harbor")
    session.append(*(assistant(f"hay {number}") for number in range(300)))
    session.append(user("Run"), call("c1"), result("c1", "line\n" * 5 + "xylophone\n"))
    session.append(assistant("A needle in the hay"))
    session.append(*(assistant(f"later {number}") for number in range(300)))
    page = visit("/?q=needle")
    page.locator(".sessions-hit", has_text="needle").click()
    row(page, 303).wait_for()
    becomes_true(page, "() => [...(CSS.highlights.get('clew-find') ?? [])].map(String).join() === 'needle'")
    page.locator("#search").fill("xylophone")
    page.locator(".sessions-hit", has_text="xylophone").click()
    page.locator(".transcript-inside", has_text="xylophone").wait_for()
    becomes_true(
        page, "() => [...(CSS.highlights.get('clew-find') ?? [])].map(String).join() === 'xylophone'"
    )
    page.locator("#search").fill("")
    becomes_true(page, "() => !CSS.highlights.has('clew-find')")


def test_a_small_pdf_and_a_large_one_are_saved(server: Running, visit: Visit) -> None:
    contents = {"small.pdf": b"%PDF-1.7 small", "large.pdf": b"%PDF-1.7 " + b"large" * 20_000}
    parts = [
        {
            "type": "document",
            "title": name,
            "source": {
                "type": "base64", "media_type": "application/pdf", "data": base64.b64encode(content).decode(),
            },
        }
        for name, content in contents.items()
    ]  # fmt: skip
    server.store.session("papers").append({"role": "user", "content": parts})
    page = visit("/s/papers")
    for name, content in contents.items():
        with page.expect_download() as saving:
            page.get_by_role("link", name=f"Save {name}").click()
        assert saving.value.suggested_filename == name
        assert saving.value.path().read_bytes() == content


def test_what_is_loaded_says_so(server: Running, visit: Visit) -> None:
    server.store.session("slow").append(user("Hello"))
    page = visit("/")
    held: list[Route] = []
    answers = False

    def hold(route: Route) -> None:
        if answers:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/v1/sessions/slow*", hold)
    page.route("**/api/v1/sessions/slow/**", hold)
    page.goto(f"{server.url}/s/slow")
    page.locator("#panel-content", has_text="Loading…").wait_for()
    page.locator("#transcript", has_text="Loading…").wait_for()
    answers = True
    for route in held:
        route.continue_()
    said(page, "Hello").wait_for()
    said(page, "Loading…").wait_for(state="detached")
