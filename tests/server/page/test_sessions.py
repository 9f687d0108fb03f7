"""The list of sessions: all of them as they are now, what was said in them, and what can be done to them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import clew
from clew.model.source import SourceEntry, SourceSession
from tests.server.conftest import Running
from tests.server.page.conftest import PHONE, Problems, sign_in
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page, Route

Visit = Callable[..., "Page"]


def say(store: clew.Store, id: str, *texts: str, cost: str | None = None, **settings: Any) -> clew.Session:
    """A session in which a person says something."""
    session = store.create(id, **settings)
    session.append(*({"role": "user", "content": text} for text in texts or ("Hello",)))
    if cost is not None:
        session.add_usage(model="m-1", input_tokens=10, output_tokens=5, cost=cost)
    return session


def entry_ids(session: clew.Session) -> list[str]:
    return [entry.id for entry in session.entries()]


def row(page: Page, text: str, **options: Any) -> Locator:
    return page.locator("#list li", has_text=text, **options)


def at(page: Page, place: int, text: str) -> None:
    """Wait until a session stands at this place of the list."""
    page.locator(f"#list li[aria-posinset='{place}']", has_text=text).wait_for()


def length(page: Page, count: int) -> None:
    """Wait until the list has so many rows, and no more are to be read."""
    page.locator(f"#list li[aria-setsize='{count}']").first.wait_for()


def query_of(page: Page) -> str:
    found: str = page.evaluate("location.search")
    return found


# -- the list is live


def test_two_tabs_show_what_happens_without_being_loaded_again(server: Running, visit: Visit) -> None:
    """It takes more than a second: two tabs draw each of seven changes."""
    store = server.store
    say(store, "old", title="An old session", workspace="/home/ada/webshop", metadata={"agent": "codex"})
    tabs = [visit(), visit()]
    for tab in tabs:
        row(tab, "webshop · codex · 1 message").wait_for()
    new = say(store, "new", title="A new session")
    for tab in tabs:
        at(tab, 1, "A new session")
        at(tab, 2, "An old session")
    with new.run("go"):
        for tab in tabs:
            row(tab, "running").wait_for()
    store.get("old").append({"role": "user", "content": "It goes on"})
    for tab in tabs:
        at(tab, 1, "An old session")
        row(tab, "running").wait_for(state="detached")
    new.update(title="Another name", tags=("later",))
    for tab in tabs:
        row(tab, "Another name").locator(".sessions-tag", has_text="later").wait_for()
    store.delete("new")
    for tab in tabs:
        row(tab, "Another name").wait_for(state="detached")
        length(tab, 1)


HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_tab_behind_others_gives_its_stream_back_and_misses_nothing(server: Running, page: Page) -> None:
    """A browser has six of them: with one for each tab, the seventh tab would wait for ever."""
    page.get_by_text("There is no session yet.").wait_for()
    page.locator("code", has_text="clew import --scan").wait_for()
    until(lambda: server.app.hub.streams == 1)
    page.evaluate(HIDE, True)
    until(lambda: server.app.hub.streams == 0)
    say(server.store, "a", title="Meanwhile")
    page.evaluate(HIDE, False)
    at(page, 1, "Meanwhile")


def test_more_tabs_than_a_browser_has_connections(
    server: Running, visit: Visit, context: BrowserContext
) -> None:
    """It has six to a server. Each tab follows its session; those behind give way to the one in front."""
    for number in range(8):
        say(server.store, f"s{number}", f"What was said in session {number}")
    context.add_init_script("Object.defineProperty(document, 'hidden', { configurable: true, value: false })")
    tabs = [visit("/s/s0")]
    for number in range(1, 8):
        tabs[-1].evaluate(HIDE, True)
        tabs.append(context.new_page())
        tabs[-1].goto(f"{server.url}/s/s{number}")
        tabs[-1].locator("#transcript", has_text=f"What was said in session {number}").wait_for()
    server.store.get("s7").append({"role": "user", "content": "And more"})
    tabs[-1].locator("#transcript", has_text="And more").wait_for()


def test_what_went_wrong_has_a_mark_with_words(
    tmp_path: Path, serve: Callable[..., Running], visit: Visit
) -> None:
    """A session that failed, and one whose worker was killed."""
    code = "import clew, os, sys; clew.open(sys.argv[1]).create('a', title='Cut off').run(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "worked.db")], check=False)
    with clew.open(tmp_path / "worked.db") as store:
        say(store, "b", title="Needs you").fail("no more money")
        page = visit(of=serve(store))
        row(page, "Cut off").locator(".sessions-mark-interrupted", has_text="interrupted").wait_for()
        assert row(page, "Needs you").locator(".sessions-mark-failed").text_content() == "!failed"


# -- search


def test_search_as_you_type_marks_the_words_and_enter_opens_the_place(server: Running, visit: Visit) -> None:
    store = server.store
    say(store, "other", "Something else", title="Not this one")
    session = say(store, "auth", "Hello", "The login <b>loops</b> when the token expires", title="Fix it")
    page = visit()
    row(page, "Fix it").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("login lo")
    hit = page.locator("#found a.sessions-hit")
    hit.locator("mark", has_text="login").wait_for()
    assert "<b>loops</b>" in (hit.text_content() or ""), "what was said is text"
    assert page.locator("#found .sessions-group").count() == 1
    page.keyboard.type("ops")
    page.wait_for_url("**/?q=login+loops")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/s/auth\?q=login\+loops#"))
    assert page.evaluate("location.hash.slice(1)") == entry_ids(session)[1]
    page.locator("#search").press("Escape")
    row(page, "Not this one").wait_for()
    assert query_of(page) == ""


def test_hits_are_of_tools_and_other_branches_too_and_keys_go_from_one_to_the_next(
    server: Running, visit: Visit
) -> None:
    session = say(server.store, "a", "A login", "Another login", "More about the login", title="Ran it")
    hashes = [f"#{id}" for id in reversed(entry_ids(session))]
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "pytest"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "ZeroDivisionError in shop.py"}
    session.append({"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})
    other = say(server.store, "b", "Start", "A forgotten idea")
    left = entry_ids(other)[1]
    other.rewind(entry_ids(other)[0])
    page = visit("/?q=login")
    page.locator("#found a.sessions-hit").nth(2).wait_for()
    for key, hash in [("]", hashes[0]), ("]", hashes[1]), ("]", hashes[2]), ("[", hashes[1])]:
        page.keyboard.press(key)
        page.wait_for_url(lambda url, hash=hash: url.endswith(hash))  # type: ignore[misc]
        page.locator(f"#found a[aria-current][href$='{hash}']").wait_for()
    page.fill("#search", "zerodivisionerror")
    hit = page.locator("#found a.sessions-hit")
    hit.locator("mark", has_text="ZeroDivisionError").wait_for()
    assert (hit.locator("small").text_content() or "").startswith("Tool")
    page.fill("#search", "nowhere")
    page.get_by_text("Nothing has these words.").wait_for()
    page.fill("#search", "forgotten")
    page.locator("#found a", has_text="another branch").click()
    page.wait_for_url(re.compile(rf"/s/b\?q=forgotten&at={re.escape(left)}#"))


# -- filters


@pytest.fixture
def unlike(server: Running, visit: Visit) -> Page:
    """A list of three sessions of which each is like no other one."""
    store = server.store
    say(store, "a", title="Alpha", workspace="/w/shop", model="m-1", metadata={"agent": "codex"}, cost="2.50")
    say(store, "b", title="Beta", workspace="/w/shop", metadata={"agent": "cline"}, tags=("urgent",))
    say(store, "c", title="Gamma", workspace="/w/blog", metadata={"agent": "codex"}).fail("no")
    page = visit()
    length(page, 3)
    return page


def choose(page: Page, name: str, value: str) -> None:
    """Choose from the menu of a filter."""
    page.locator(f"#filter-{name}").click()
    page.locator(".popover:popover-open button", has_text=value).click()


def test_chips_narrow_the_list_and_are_the_address(unlike: Page) -> None:
    """It takes more than a second: the list is asked for again with each of them."""
    page = unlike
    choose(page, "agent", "codex")
    length(page, 2)
    choose(page, "project", "shop")
    length(page, 1)
    at(page, 1, "Alpha")
    assert query_of(page) == "?agent=codex&project=shop"
    page.reload()
    length(page, 1)
    at(page, 1, "Alpha")
    page.get_by_role("button", name="Clear", exact=True).click()
    length(page, 3)
    assert query_of(page) == ""


def test_every_chip_finds_what_it_names_and_is_taken_off(unlike: Page) -> None:
    """It takes more than a second: the list is asked for again with each of them."""
    page = unlike
    for name, value, title, query in [
        ("model", "m-1", "Alpha", "?model=m-1"),
        ("status", "failed", "Gamma", "?status=failed"),
        ("tag", "urgent", "Beta", "?tag=urgent"),
        ("cost", "$1 or more", "Alpha", "?min_cost=1"),
    ]:
        choose(page, name, value)
        length(page, 1)
        at(page, 1, title)
        assert query_of(page) == query
        page.get_by_role("button", name=f"Do not filter by {name}").click()
        length(page, 3)


def test_days_are_chosen_from_a_menu_or_typed(unlike: Page) -> None:
    page = unlike
    choose(page, "date", "Last 7 days")
    page.wait_for_url("**/?since=7d")
    length(page, 3)
    page.locator("#filter-date").click()
    page.get_by_label("From").fill("2026-01-02")
    page.get_by_label("To").fill("2026-01-03")
    page.wait_for_url("**/?since=2026-01-02&until=2026-01-04")
    page.get_by_text("No session is like that.").wait_for()
    page.get_by_label("Date: 2026-01-02 – 2026-01-03").wait_for()


def test_a_day_is_that_of_the_reader(
    server: Running, visit: Visit, new_context: Callable[..., BrowserContext]
) -> None:
    """On an island 14 hours ahead of UTC, where it is noon of Monday, the 16th."""
    for id, hour in (("sunday", 10), ("saturday", 9)):
        time = datetime(2026, 11, 14, hour, tzinfo=UTC)
        said = SourceEntry(uid=id, parent=None, at=time, message={"role": "user", "content": id})
        server.store.load(SourceSession(id=id, entries=iter([said])))
    context = new_context(timezone_id="Pacific/Kiritimati")
    context.clock.install(time="2026-11-15T22:00:00Z")
    page = visit("/?since=2026-11-15&until=2026-11-16", within=context)
    length(page, 1)
    at(page, 1, "sunday")
    page.locator("#list").get_by_text("yesterday").wait_for()
    page.goto(f"{server.url}/")
    length(page, 2)
    at(page, 2, "Nov 14")


def test_a_session_comes_and_goes_as_it_answers_to_the_filters(server: Running, visit: Visit) -> None:
    session = say(server.store, "a", title="Alpha")
    page = visit("/?tag=urgent")
    page.get_by_text("No session is like that.").wait_for()
    session.update(tags=("urgent",))
    at(page, 1, "Alpha")
    session.update(tags=())
    page.get_by_text("No session is like that.").wait_for()
    page.get_by_role("button", name="Clear the filters").click()
    at(page, 1, "Alpha")


# -- subagents


def test_subagents_are_folded_below_their_parent_which_sums_them_up(server: Running, visit: Visit) -> None:
    store = server.store
    say(store, "main", title="The whole task", cost="1")
    say(store, "sub", title="Look around", cost="0.25", metadata={"parent": "main"})
    page = visit()
    length(page, 1)
    parent = row(page, "The whole task")
    parent.locator(".sessions-cost", has_text="$1.25").wait_for()
    parent.get_by_role("button", name="1 subagent").click()
    at(page, 2, "Look around")
    length(page, 2)
    say(store, "sub-2", title="Write it", cost="0.50", metadata={"parent": "main"})
    row(page, "Write it").wait_for()
    parent.locator(".sessions-cost", has_text="$1.75").wait_for()
    parent.get_by_role("button", name="2 subagents").click()
    length(page, 1)


def test_forks_and_copies_fold_into_the_session_that_they_began_with(server: Running, visit: Visit) -> None:
    """It takes more than a second: each change is drawn."""
    store = server.store
    base = say(store, "base", title="Fix the login")
    say(store, "newer", title="Something else")
    fork = base.fork("fork")
    fork.append({"role": "user", "content": "Try it"})
    for number in range(60):  # the base is behind the first page
        say(store, f"other-{number}")
    say(store, "copy", title="Copied for Codex", metadata={"copied_from": "base", "agent": "codex"})
    page = visit()
    at(page, 1, "Fix the login")  # where its newest member would stand
    assert row(page, "Copied for Codex").count() == 0
    row(page, "Fix the login").get_by_role("button", name="2 forks").click()
    at(page, 2, "copy Copied for Codex")
    at(page, 3, "fork Fix the login")

    fork.fork("again").append({"role": "user", "content": "Once more"})
    say(store, "last", title="The last one")
    at(page, 1, "The last one")
    at(page, 2, "Fix the login")
    page.get_by_role("button", name="3 forks").wait_for()
    fork.append({"role": "user", "content": "More"})
    at(page, 1, "Fix the login")
    at(page, 2, "fork Fix the login")
    page.get_by_role("button", name="3 forks").click()
    at(page, 2, "The last one")

    store.delete("base")  # what was folded comes into the list
    at(page, 1, "fork Fix the login")
    at(page, 3, "copy Copied for Codex")
    store.restore_deleted("base")
    at(page, 1, "Fix the login")
    at(page, 2, "The last one")

    # A filter that fits a copy and not its base shows the copy.
    page.goto(f"{page.url.partition('?')[0]}?agent=codex")
    at(page, 1, "copy Copied for Codex")
    length(page, 1)


# -- what can be done


def act(page: Page, title: str, action: str) -> None:
    """Choose from the menu of a row."""
    row(page, title).hover()
    page.get_by_role("button", name=f"Actions for {title}").click()
    page.locator(".popover:popover-open button", has_text=action).click()


def test_a_star_a_title_and_tags_are_changed_in_their_place(server: Running, visit: Visit) -> None:
    session = say(server.store, "a", title="Alpha", tags=("later",))
    page = visit("/s/a")
    at(page, 1, "Alpha")
    page.locator("#transcript article").wait_for()
    page.keyboard.press(".")
    row(page, "starred").wait_for()
    assert list(session.info.tags) == ["later", "starred"]
    row(page, "Alpha").hover()
    page.get_by_role("button", name="Star Alpha").click()
    row(page, "starred").wait_for(state="detached")
    assert list(session.info.tags) == ["later"]
    act(page, "Alpha", "Rename")
    field = page.get_by_label("Title")
    field.fill("Never mind")
    field.press("Escape")
    row(page, "Alpha").wait_for()
    act(page, "Alpha", "Rename")
    field.fill("Beta")
    field.press("Enter")
    row(page, "Beta").wait_for()
    assert session.info.title == "Beta"
    act(page, "Beta", "Tags")
    page.get_by_role("button", name="Take the tag later away").click()
    page.get_by_label("New tag").fill("release 2")
    page.get_by_role("button", name="Save").click()
    row(page, "Beta").locator(".sessions-tag", has_text="release 2").wait_for()
    assert session.info.tags == ("release 2",)


def test_a_key_that_comes_before_the_session_is_read_is_not_lost(server: Running, visit: Visit) -> None:
    say(server.store, "a", title="Alpha")
    page = visit()
    held: list[Route] = []
    page.route("**/api/v1/sessions/a", lambda route: held.append(route))
    with page.expect_request("**/api/v1/sessions/a"):
        page.goto(f"{server.url}/s/a")
    page.locator("#transcript article").first.wait_for()
    page.keyboard.press("l")
    assert page.locator("dialog").count() == 0
    assert held
    for route in held:
        route.continue_()
    page.get_by_role("dialog", name="Tags").wait_for()


def test_the_trash_takes_subagents_along_and_gives_all_back(server: Running, visit: Visit) -> None:
    store = server.store
    say(store, "main", title="Alpha")
    say(store, "sub", title="Beta", metadata={"parent": "main"})
    say(store, "other", title="Gamma")
    page = visit("/s/main")
    length(page, 2)
    page.locator("#transcript[aria-busy=false] article").first.wait_for()
    page.locator("#panel-content [role=treeitem]").first.wait_for()
    page.keyboard.press("#")
    page.get_by_text("Moved to the trash, with 1 subagent.").wait_for()
    length(page, 1)
    page.wait_for_url("**/")
    assert (store.find("main"), store.find("sub")) == (None, None)
    page.get_by_role("button", name="Undo").click()
    length(page, 2)
    page.wait_for_url("**/s/main")
    assert store.get("sub").info.parent == "main"
    page.locator("#transcript[aria-busy=false] article").first.wait_for()
    page.locator("#panel-content [role=treeitem]").first.wait_for()
    page.keyboard.press("#")
    length(page, 1)
    page.get_by_role("link", name="Trash").click()
    at(page, 1, "Alpha")
    assert query_of(page) == "?deleted=true"
    page.get_by_role("button", name="Restore Alpha").click()
    page.get_by_text("The trash is empty.").wait_for()
    assert store.get("main").info.title == "Alpha"
    assert store.get("sub").info.parent == "main"
    page.get_by_role("link", name="Back to the sessions").click()
    length(page, 2)


# -- keys, and what was seen


def test_keys_go_up_and_down_the_list_and_what_went_on_is_marked_until_it_is_looked_at(
    server: Running, visit: Visit
) -> None:
    store = server.store
    for id in "cba":
        say(store, id, title=f"Session {id}")
    page = visit("/s/a")
    length(page, 3)
    page.locator("#list a[aria-current]", has_text="Session a").wait_for()
    page.locator("#transcript article").wait_for()
    assert page.locator(".is-unread").count() == 0
    for key, id in ("]b", "]c", "[b"):
        page.keyboard.press(key)
        page.wait_for_url(f"**/s/{id}")
        page.locator("#list a[aria-current]", has_text=f"Session {id}").wait_for()
    store.get("c").append({"role": "user", "content": "More"})
    unread = page.locator(".is-unread", has_text="Session c")
    unread.wait_for()
    page.reload()
    unread.wait_for()
    unread.locator("a").click()
    page.wait_for_url("**/s/c")
    unread.wait_for(state="detached")
    page.locator("#list li", has_text="Session a").locator("a").click()
    page.locator("#list a[aria-current]", has_text="Session a").wait_for()
    assert page.locator(".is-unread").count() == 0


# -- many, and narrow


def test_two_thousand_sessions_are_scrolled_with_few_rows_in_the_document(
    server: Running, visit: Visit
) -> None:
    def fill(store: clew.Store) -> None:
        for number in range(2000):
            store.create(f"s{number:04}", title=f"Session number {number:04}").append(
                {"role": "user", "content": "x"}
            )

    server.store.transact(fill)
    page = visit()
    at(page, 1, "Session number 1999")
    most = 0
    last = row(page, "Session number 0000")
    while last.count() == 0:
        page.locator(".sessions-scroll").evaluate("one => { one.scrollTop = one.scrollHeight; }")
        most = max(most, page.locator("#list li").count())
        page.locator("#list").evaluate("() => new Promise(requestAnimationFrame)")
    assert most < 60
    length(page, 2000)
    last.locator("a").focus()
    page.keyboard.press("Home")
    at(page, 1, "Session number 1999")
    page.locator("#list a:focus", has_text="Session number 1999").wait_for()
    page.keyboard.press("ArrowDown")
    page.locator("#list a:focus", has_text="Session number 1998").wait_for()


def test_the_last_session_that_was_read_stays_when_its_title_changes(
    server: Running, visit: Visit, context: BrowserContext
) -> None:
    """The first page has fifty, and the next one does not come."""
    for number in range(60):
        say(server.store, f"s{number:02}", title=f"Number {number:02}")
    held: list[Route] = []
    context.route(re.compile("/sessions[?].*cursor="), lambda route: held.append(route))
    page = visit()
    at(page, 1, "Number 59")
    page.locator(".sessions-scroll").evaluate("one => { one.scrollTop = one.scrollHeight; }")
    at(page, 50, "Number 10")
    server.store.get("s10").update(title="Another name")
    at(page, 50, "Another name")
    for route in held:
        route.continue_()
    at(page, 51, "Number 09")


def test_what_comes_above_does_not_move_what_is_looked_at(server: Running, visit: Visit) -> None:
    store = server.store
    for number in range(100):
        say(store, f"s{number:02}", title=f"Number {number:02}")
    page = visit()
    at(page, 1, "Number 99")
    scroll = page.locator(".sessions-scroll")
    scroll.evaluate("one => { one.scrollTop = 40 * one.querySelector('li').offsetHeight; }")
    looked_at = row(page, "Number 55")
    looked_at.wait_for()
    before = looked_at.bounding_box()
    say(store, "new", title="On top")
    page.locator("#list li[aria-posinset='46']", has_text="Number 55").wait_for()
    after = looked_at.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 2


def test_a_phone_shows_the_list_alone_and_then_the_session_alone(
    server: Running, new_context: Callable[..., BrowserContext], problems: Problems
) -> None:
    say(server.store, "a", title="Alpha")
    page = sign_in(server, new_context(**PHONE), problems)
    box = row(page, "Alpha").bounding_box()
    assert box is not None
    assert box["width"] == 390
    row(page, "Alpha").locator("a").tap()
    page.locator("#transcript").wait_for()
    assert not page.locator("#list").is_visible()
    page.keyboard.press("g")
    page.keyboard.press("/")
    page.locator("#search:focus").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
