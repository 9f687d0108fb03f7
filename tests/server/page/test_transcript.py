"""The transcript of a session: what is drawn of it, how one moves in it, and what comes while one reads."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import clew
from clew.server.access.shares import add_share, link
from tests.exporters.rich import picture
from tests.server.conftest import Running, running
from tests.server.page.reading import read
from tests.server.page.rich_store import MAIN
from tests.support.browsers import becomes_true, settled

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Locator, Page

Visit = Callable[..., "Page"]

DRAWN = """() => {
  const feed = document.querySelector("#transcript").getBoundingClientRect();
  return [...document.querySelectorAll("#transcript article")]
    .map((row) => [Number(row.dataset.at), row.getBoundingClientRect()])
    .filter(([at, row]) => row.bottom > feed.top + 1 && row.top < feed.bottom - 1)
    .map(([at]) => at);
}"""
"""The positions of the entries in the window."""


def talk(store: clew.Store, id: str = "talk", count: int = 5000) -> clew.Session:
    """A person and an assistant, who say the numbers of what they say."""
    session = store.session(id)
    session.append(
        *(
            {"role": "user", "content": f"question {number}"}
            if number % 2 == 0
            else {"role": "assistant", "content": f"answer {number}\n\n" + "It goes on. " * (number % 40)}
            for number in range(count)
        )
    )
    return session


def call(id: str, command: str = "pytest -q") -> dict[str, Any]:
    asked = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}
    return {"role": "assistant", "content": [asked]}


def result(id: str, text: str = "2 failed, 3 passed in 0.1s") -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}


def row(page: Page, position: int) -> Locator:
    return page.locator(f"#transcript article[data-at='{position}']")


def said(page: Page, text: str) -> Locator:
    """A text in the transcript; other parts of the page may show it, too."""
    return page.locator("#transcript").get_by_text(text)


def entry_id(session: clew.Session, position: int) -> str:
    return (
        next(iter(session.entries(after=position - 1))).id if position else next(iter(session.entries())).id
    )


def in_window(page: Page, position: int) -> None:
    """Wait until an entry is in the window."""
    becomes_true(page, f"(position) => ({DRAWN})().includes(position)", arg=position)


# -- what is drawn


def test_a_call_is_one_line_that_gets_its_result_when_it_comes_and_unfolds_to_both(
    server: Running, visit: Visit
) -> None:
    session = server.store.create("tools")
    page = visit("/s/tools")
    said(page, "Nothing was said yet.").wait_for()
    session.append({"role": "user", "content": "Run the tests"}, call("c1"))
    page.get_by_role("button", name="Ran pytest -q", exact=True).wait_for()
    assert said(page, "Nothing was said yet.").count() == 0
    session.append(result("c1"))
    line = page.get_by_role("button", name=re.compile("Ran pytest -q 2 failed, 3 passed"))
    line.wait_for()
    assert page.locator("#transcript article").count() == 2  # the result has no row of its own
    line.click()
    page.locator(".transcript-inside", has_text="in 0.1s").wait_for()
    line.click()
    page.locator(".transcript-inside").wait_for(state="detached")


def test_entries_of_one_speaker_stand_under_one_name_and_what_it_thought_is_folded(
    server: Running, visit: Visit
) -> None:
    thought = {"type": "thinking", "thinking": "It may be the clock", "signature": "s"}
    server.store.session("joined").append(
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "The clock is wrong."}]},
        call("c1"),
        result("c1"),
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Thanks"},
    )
    page = visit("/s/joined")
    said(page, "Thanks").wait_for()
    assert page.locator("#transcript h2").all_inner_texts() == ["User", "Assistant", "User"]
    fold = page.get_by_role("button", name=re.compile("^Thinking It may"))
    fold.click()
    page.locator(".transcript-inside", has_text="It may be the clock").wait_for()
    page.get_by_role("button", name="Thinking", exact=True).click()
    fold.wait_for(state="detached")
    said(page, "The clock is wrong.").wait_for()


def test_tools_are_hidden_and_only_prompts_are_shown(server: Running, visit: Visit) -> None:
    session = server.store.session("many")
    for number in range(30):
        session.append(
            {"role": "user", "content": f"prompt {number}"}, call(f"c{number}"), result(f"c{number}")
        )
        session.append({"role": "assistant", "content": f"answer {number}"})
    page = visit("/s/many")
    said(page, "answer 29").wait_for()
    assert page.locator(".transcript-call").count() > 0
    page.get_by_role("button", name="Tools", exact=True).click()
    page.locator(".transcript-call").first.wait_for(state="detached")
    said(page, "answer 29").wait_for()
    page.get_by_role("button", name="Only prompts").click()
    said(page, "answer 29").wait_for(state="detached")
    said(page, "prompt 29").wait_for()
    page.get_by_role("button", name="Only prompts").click()
    page.get_by_role("button", name="Tools", exact=True).click()
    page.locator(".transcript-call").first.wait_for()


def test_what_other_programs_wrote_is_drawn_and_a_subagent_is_a_link(rich: Running, visit: Visit) -> None:
    page = visit(f"/s/{MAIN.replace(':', '%3A')}", of=rich)
    page.locator("#transcript article").last.wait_for()
    page.locator("#transcript").press("Home")
    row(page, 0).wait_for()
    page.get_by_role("button", name="Edit src/auth.py +2").click()
    page.locator(".transcript-inside .gi").first.wait_for()
    page.get_by_role("button", name=re.compile("Ran pytest")).first.click()
    page.locator(".transcript-inside .f1").first.wait_for()  # red, as in the terminal
    page.locator("#transcript").press("End")
    page.get_by_role("link", name=re.compile("^Open the subagent")).click()
    page.locator("#transcript article", has_text="Two places").wait_for()


def test_pictures_are_shown_small_and_large(server: Running, visit: Visit) -> None:
    def shown(name: str, data: str) -> dict[str, Any]:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {
            "role": "user",
            "content": [{"type": "text", "text": name}, {"type": "image", "source": source}],
        }

    small = picture(24, 12)
    large = base64.b64encode(base64.b64decode(small) + bytes(40_000)).decode()  # behind its end
    server.store.session("pictures").append(shown("small", small), shown("large", large))
    page = visit("/s/pictures")
    becomes_true(
        page,
        """() => {
          const all = [...document.querySelectorAll("#transcript img")];
          return all.length === 2 && all.every((one) => one.complete && one.naturalWidth > 0);
        }""",
    )
    sources = page.locator("#transcript img").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('src'))"
    )
    assert sources[0].startswith("data:")
    assert "/media/0" in sources[1]


def test_marks_are_drawn_and_an_entry_is_shown_whole_or_as_it_is_stored(
    server: Running, visit: Visit
) -> None:
    session = talk(server.store, count=6)
    session.checkpoint("before the change")
    session.compact("They counted to six.")
    server.store.session("large").append({"role": "assistant", "content": "word " * 100_000 + "the end"})
    server.store.session("raw").append('{"role":"assistant","content":"<b>hi</b>","n":12345678901234567890}')
    page = visit("/s/talk")
    page.locator(".transcript-flag", has_text="before the change").wait_for()
    page.locator("article.mark", has_text="They counted to six").wait_for(state="attached")
    page.goto(f"{server.url}/s/large")
    page.get_by_role("button", name="Show all (488 KiB)").click()
    page.get_by_role("button", name="Show all (488 KiB)").click()  # it is there, and folded
    said(page, "the end").wait_for()
    page.goto(f"{server.url}/s/raw")
    row(page, 0).wait_for()
    page.locator("#transcript").press("j")
    page.keyboard.press("r")
    page.locator(".transcript-raw pre", has_text='"n": 12345678901234567890').wait_for()
    page.keyboard.press("r")
    page.locator(".transcript-raw").wait_for(state="detached")


def test_what_is_damaged_or_was_removed_is_shown_as_such(
    serve: Callable[..., Running], visit: Visit, tmp_path: Path
) -> None:
    path = tmp_path / "harmed.db"
    with clew.open(path) as store:
        talk(store, count=8)
        store.set_retention(clew.Retention(max_messages=6))
        store.sweep()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE entries SET body = zeroblob(5) WHERE (key & 4294967295) = 4")
    connection.close()
    with clew.open(path) as store:
        page = visit("/s/talk", of=serve(store))
        said(page, "Entry 4 cannot be read.").wait_for()
        assert "question 6" in row(page, 6).inner_text()
        page.locator("#transcript").press("Home")
        assert "removed" in row(page, 0).inner_text().lower()


def test_a_share_shows_the_same_without_links_to_what_is_not_shared(
    server: Running, context: BrowserContext
) -> None:
    session = server.store.create("shared", title="Shared")
    large = base64.b64encode(base64.b64decode(picture(24, 12)) + bytes(40_000)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": large}
    session.append(*({"role": "user", "content": f"question {number}"} for number in range(150)))
    session.append(
        {"role": "user", "content": [{"type": "image", "source": source}]}, call("c1"), result("c1")
    )
    _, token = add_share(server.store, session, at=None)
    page = context.new_page()
    page.goto(link(server.url, token))
    page.get_by_role("button", name=re.compile("Ran pytest -q 2 failed")).wait_for()
    becomes_true(page, "() => document.querySelector('#transcript img')?.naturalWidth > 0")
    assert (page.locator("#transcript img").get_attribute("src") or "").startswith("blob:")
    assert page.locator("#transcript a[href]").count() == 0
    session.append({"role": "assistant", "content": "It is live."})
    said(page, "It is live.").wait_for()
    page.keyboard.press("Control+f")
    page.locator("#find").fill("question 77")
    page.locator(".transcript-find-count", has_text="1 of 1").wait_for()
    in_window(page, 77)


# -- moving in it


SCROLL_UP = """async () => {
  const feed = document.querySelector("#transcript");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const jumps = [];
  for (let step = 0; step < 30; step++) {
    while (feed.querySelector(".transcript-waiting")) await frame();
    const rows = [...feed.querySelectorAll("article")];
    const row = rows.find((one) => one.getBoundingClientRect().top > feed.getBoundingClientRect().top + 20);
    const { at } = row.dataset;
    const before = row.getBoundingClientRect().top;
    feed.scrollTop -= 300;
    await frame();
    await frame();
    const now = feed.querySelector(`article[data-at="${at}"]`).getBoundingClientRect().top;
    if (Math.abs(now - before - 300) > 2) jumps.push([at, now - before]);
  }
  return jumps;
}"""
"""Rows that moved by anything else than what was scrolled."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of a session with 5,000 entries. Tests only read it."""
    with clew.open(tmp_path_factory.mktemp("long") / "store.db") as store, running(store) as server:
        talk(store)
        yield server


def test_a_long_session_opens_at_its_end_never_jumps_and_keys_reach_both_ends(
    long: Running, visit: Visit
) -> None:
    """It takes more than a second: 30 times something is scrolled and drawn."""
    page = visit("/s/talk", of=long)
    in_window(page, 4999)
    assert page.locator("#transcript article").count() < 100
    assert page.evaluate(SCROLL_UP) == []
    assert min(page.evaluate(DRAWN)) < 4950
    page.keyboard.press("g")
    page.keyboard.press("g")
    in_window(page, 0)
    page.locator("#transcript").press("End")
    in_window(page, 4999)
    page.locator("#transcript").press("Home")
    in_window(page, 0)


def test_a_link_to_an_entry_in_the_middle_opens_there(long: Running, visit: Visit) -> None:
    session = long.store.get("talk")
    wanted = entry_id(session, 2501)
    page = visit("/", of=long)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{long.url}/s/talk#{wanted}")
    in_window(page, 2501)
    page.locator("article[data-at='2501']:focus").wait_for()
    assert not any("last=" in url for url in asked), "the end was read first"
    assert sum("/entries?" in url for url in asked) < 8
    page.evaluate(f"location.hash = '{entry_id(session, 17)}'")
    in_window(page, 17)


def test_keys_go_from_prompt_to_prompt_and_from_entry_to_entry(server: Running, visit: Visit) -> None:
    session = server.store.session("prompts")
    for number in range(40):
        session.append({"role": "user", "content": f"prompt {number}"})
        session.append(*({"role": "assistant", "content": f"step {number}.{step}"} for step in range(60)))
    server.store.session("steps").append(
        {"role": "user", "content": "Go"}, call("c1"), result("c1"), {"role": "assistant", "content": "Done."}
    )
    page = visit("/s/prompts")
    said(page, "step 39.59").wait_for()
    page.keyboard.press("K")
    in_window(page, 39 * 61)
    page.keyboard.press("K")
    in_window(page, 38 * 61)
    page.keyboard.press("J")
    in_window(page, 39 * 61)
    page.locator(f"article[data-at='{39 * 61}']:focus").wait_for()
    page.goto(f"{server.url}/s/steps")
    said(page, "Done.").wait_for()
    for key, at in ("j0", "j1", "j3", "k1"):  # the result has no row
        page.keyboard.press(key)
        page.locator(f"article[data-at='{at}']:focus").wait_for()


def test_find_sees_what_is_not_drawn_and_goes_from_hit_to_hit(server: Running, visit: Visit) -> None:
    session = server.store.session("words")
    for number in range(5000 // 50):
        session.append(
            *(
                {
                    "role": "assistant",
                    "content": "needle in hay" if number * 50 + at in (17, 4100) else f"hay {at}",
                }
                for at in range(50)
            )
        )
    page = visit("/s/words")
    in_window(page, 4999)
    page.keyboard.press("Control+f")
    page.locator("#find").fill("needle")
    page.locator(".transcript-find-count", has_text="2 of 2").wait_for()
    in_window(page, 4100)
    page.locator("#find").press("Enter")
    page.locator(".transcript-find-count", has_text="1 of 2").wait_for()
    in_window(page, 17)
    becomes_true(page, "() => CSS.highlights.get('clew-find')?.size === 1")
    page.locator("#find").press("Escape")
    page.locator("#find").wait_for(state="detached")
    becomes_true(page, "() => !CSS.highlights.has('clew-find')")


def test_find_unfolds_the_tool_that_holds_a_hit_and_scrolls_to_words_inside_of_a_long_entry(
    server: Running, visit: Visit
) -> None:
    session = server.store.session("output")
    session.append({"role": "user", "content": "Run"}, call("c1"), result("c1", "line\n" * 5 + "xylophone\n"))
    text = "\n\n".join(f"paragraph {number}" for number in range(600))
    session.append({"role": "assistant", "content": f"{text}\n\nglockenspiel"})
    session.append(*({"role": "assistant", "content": f"later {number}"} for number in range(300)))
    page = visit("/s/output")
    said(page, "later 299").wait_for()
    page.keyboard.press("Control+f")
    page.locator("#find").fill("xylophone")
    page.locator(".transcript-inside", has_text="xylophone").wait_for()
    page.locator("#find").fill("glockenspiel")
    becomes_true(
        page,
        """() => {
          const [range] = CSS.highlights.get("clew-find") ?? [];
          const feed = document.querySelector("#transcript").getBoundingClientRect();
          const found = range?.getBoundingClientRect();
          return String(range) === "glockenspiel"
            && found.height > 0 && found.top > feed.top && found.bottom < feed.bottom;
        }""",
    )


# -- what comes while one reads


def test_new_entries_are_followed_at_the_end_only(server: Running, visit: Visit) -> None:
    session = talk(server.store, count=200)
    page = visit("/s/talk")
    in_window(page, 199)
    session.append({"role": "assistant", "content": "a new answer"})
    in_window(page, 200)
    page.keyboard.press("g")
    page.keyboard.press("g")
    in_window(page, 0)
    session.append(*({"role": "assistant", "content": f"later {number}"} for number in range(7)))
    pill = page.get_by_role("button", name="7 new")
    pill.wait_for()
    assert 0 in page.evaluate(DRAWN)
    pill.click()
    in_window(page, 207)
    pill.wait_for(state="detached")


def test_a_rewind_by_another_is_followed_and_what_it_left_can_be_read(server: Running, visit: Visit) -> None:
    session = talk(server.store, count=120)
    page = visit("/s/talk")
    in_window(page, 119)
    left = entry_id(session, 115)
    session.rewind(99)
    page.get_by_text("The session went back by 20 entries.").wait_for()
    in_window(page, 99)
    session.append({"role": "user", "content": "another way"})
    page.locator("article", has_text="another way").wait_for()
    assert page.locator("article", has_text="another way").get_attribute("data-at") == "100"
    assert row(page, 101).count() == 0
    page.get_by_role("button", name="Show what was left").click()
    in_window(page, 119)
    page.get_by_text("You are reading another branch.").wait_for()
    page.get_by_role("link", name="Back to the current one").click()
    page.locator("article", has_text="another way").wait_for()
    page.goto(f"{server.url}/")
    page.goto(f"{server.url}/s/talk#{left}")
    page.get_by_text("You are reading another branch.").wait_for()
    in_window(page, 115)
    said(page, "answer 115").wait_for()


def test_what_came_since_the_last_visit_is_behind_a_line(server: Running, visit: Visit) -> None:
    session = talk(server.store, count=40)
    page = visit("/s/talk")
    in_window(page, 39)
    becomes_true(page, "() => JSON.parse(localStorage['clew.read'] ?? '{}').talk === 39")
    page.goto(f"{server.url}/")
    session.append(*({"role": "assistant", "content": f"later {number}"} for number in range(60)))
    page.goto(f"{server.url}/s/talk")
    page.get_by_role("button", name="60 unread entries").click()
    in_window(page, 40)
    assert row(page, 40).get_by_text("New since your last visit").count() == 1


def test_many_writers_and_one_reader_lose_nothing(server: Running, visit: Visit) -> None:
    session = talk(server.store, count=10)
    page = visit("/s/talk")
    in_window(page, 9)

    def write(name: str) -> None:
        for number in range(20):
            session.append({"role": "assistant", "content": f"{name} {number}"})

    writers = [threading.Thread(target=write, args=(name,)) for name in ("ada", "bob")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    in_window(page, 49)
    found = re.findall(r"(?:ada|bob) \d+", "\n".join(one.text for one in read(page)[10:]))
    assert sorted(found) == sorted(f"{name} {number}" for name in ("ada", "bob") for number in range(20))


HIDE = """() => {
  Object.defineProperty(document, "hidden", { get: () => window.isHidden ?? true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW = "() => { window.isHidden = false; document.dispatchEvent(new Event('visibilitychange')); }"


def test_what_came_while_the_tab_was_hidden_is_counted_in_its_title(
    server: Running, visit: Visit, context: BrowserContext
) -> None:
    """Also when it has given its stream back."""
    context.clock.install()
    session = talk(server.store, count=10)
    page = visit("/s/talk")
    in_window(page, 9)
    page.evaluate(HIDE)
    session.append({"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"})
    becomes_true(page, "() => document.title.startsWith('(2) ')")
    page.clock.fast_forward(21_000)
    session.append({"role": "assistant", "content": "three"})
    page.clock.fast_forward(31_000)
    becomes_true(page, "() => document.title.startsWith('(3) ')")
    page.evaluate(SHOW)
    in_window(page, 12)
    becomes_true(page, "() => document.title.startsWith('question 0')")


def test_a_reader_in_the_middle_stays_there_while_the_session_is_rewound(
    server: Running, visit: Visit
) -> None:
    session = talk(server.store, count=400)
    page = visit("/")
    page.goto(f"{server.url}/s/talk#{entry_id(session, 101)}")
    in_window(page, 101)
    settled(page)
    where = row(page, 101).bounding_box()
    session.rewind(299)
    page.get_by_text("The session went back by 100 entries.").wait_for()
    becomes_true(page, "() => document.querySelector('article')?.ariaSetSize === '300'")
    settled(page)
    assert row(page, 101).bounding_box() == where


# -- taking it along


def test_an_entry_is_copied_as_markdown_place_and_link(
    server: Running, visit: Visit, copied: Callable[[Page], str]
) -> None:
    session = server.store.session("copy")
    session.append({"role": "user", "content": "Run *all*"}, call("c1"), result("c1", "ok ``` ok"))
    session.append({"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks"})
    page = visit("/s/copy")
    said(page, "Thanks").wait_for()
    row(page, 1).click(position={"x": 2, "y": 2})
    page.keyboard.press("Y")
    page.get_by_text("Copied as Markdown.").wait_for()
    assert "**Ran pytest -q" in copied(page)
    assert "````\nok ``` ok\n````" in copied(page)
    page.keyboard.press("y")
    page.get_by_text("The place is copied.").wait_for()
    assert copied(page) == f"copy@{entry_id(session, 1)}"
    row(page, 1).hover()
    row(page, 1).get_by_role("button", name="Actions for entry 1").click()
    page.get_by_role("menuitem", name="Copy the link").click()
    page.get_by_text("The link is copied.").wait_for()
    assert copied(page) == f"{server.url}/s/copy#{entry_id(session, 1)}"
    row(page, 1).get_by_role("button", name="Actions for entry 1").click()
    page.get_by_role("menuitem", name="Copy the turn as Markdown").click()
    page.get_by_text("The turn is copied as Markdown.").wait_for()
    assert copied(page).startswith("**User**\n\nRun *all*\n\n**Assistant**\n\n**Ran pytest -q")
    assert copied(page).endswith("Done.\n")
