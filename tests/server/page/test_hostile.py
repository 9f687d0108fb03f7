"""S-11, S-12, S-40, S-48: whatever a store holds is text on the page: nothing runs, nothing is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest

from clew.server.access.shares import add_share, link
from clew.server.routing import encoded
from tests.exporters.payloads import RUN
from tests.server.conftest import Running
from tests.server.page.conftest import Problems
from tests.server.page.harm import harm, turned_around
from tests.server.page.hostile_store import ALL, IDS, PLACE, SHORT, WORD
from tests.server.page.walking import walk
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]
WEB = Path(__file__).parents[3] / "web" / "src"


def address(id: str, query: str = "") -> str:
    return f"/s/{encoded(id)}{query}"


def is_text(page: Page) -> None:
    """All that is on the page is text, and turns nothing around that stands beside it."""
    assert harm(page) == []
    assert turned_around(page) == []


def test_a_script_that_got_in_would_be_noticed(hostile: Running, visit: Visit, problems: Problems) -> None:
    """The other tests are worth nothing if they see nothing."""
    page = visit(of=hostile)
    assert harm(page) == []
    page.evaluate(
        """() => {
            window.__pwned = 1;
            const link = document.createElement("a");
            link.href = "javascript:1";
            document.body.append(link, document.createElement("iframe"));
            new Image().src = "https://evil.example/x.png";
        }"""
    )
    assert len(harm(page)) == 3
    assert [line for line in problems if "evil.example" in line], "the policy refused it"
    problems.clear()


@pytest.mark.parametrize("ids", [IDS[::4], IDS], ids=["some", "all"])
def test_a_list_of_sessions_and_a_session_with_any_id_are_text(
    hostile: Running, visit: Visit, ids: Sequence[str]
) -> None:
    """It takes more than a second: the page is loaded for each of the ids."""
    page = visit(of=hostile)
    page.locator("#list", has_text=SHORT).wait_for()
    is_text(page)
    for id in ids:
        number = IDS.index(id)
        page.goto(hostile.url + address(id))
        page.locator("#transcript", has_text=f"{WORD} {number} {SHORT}").wait_for()
        becomes_true(page, "text => document.title.startsWith(text)", SHORT)
        assert harm(page) == [], id


@pytest.fixture
def tall(new_context: Callable[..., BrowserContext]) -> BrowserContext:
    """A window in which a walk through a session takes few steps."""
    return new_context(viewport={"width": 1440, "height": 4000})


@pytest.mark.parametrize("number", [0, 1], ids=["left", "path"])
def test_every_kind_of_message_is_text_unfolded_as_well(
    hostile: Running, visit: Visit, tall: BrowserContext, number: int
) -> None:
    """On the path, and on the branch that was left, which holds one of each: to unfold 300 entries takes more
    than a second."""
    branches = hostile.store.get(ALL).tree().branches
    assert len(branches) == 2
    end = f"{branches[number].id}.{branches[number].last}"
    page = visit(f"{address(ALL)}?{urlencode({'at': end})}", of=hostile, within=tall)
    assert walk(page) == []


def test_a_session_of_every_kind_and_words_of_scripts_are_text_unfolded_as_well(
    hostile: Running, visit: Visit, tall: BrowserContext
) -> None:
    page = visit(address("words"), of=hostile, within=tall)
    assert walk(page) == []
    page.goto(f"{hostile.url}{address(PLACE)}")
    assert walk(page) == []


def test_messages_as_they_are_stored_are_text(hostile: Running, visit: Visit, tall: BrowserContext) -> None:
    page = visit(address(PLACE), of=hostile, within=tall)
    page.locator("#transcript article", has_text=WORD).wait_for()
    count = len(list(hostile.store.get(PLACE).entries()))
    page.keyboard.press("g")
    page.keyboard.press("g")
    for _ in range(count):
        page.keyboard.press("j")
        page.keyboard.press("r")
    page.locator("#transcript article pre", has_text="evil.example").first.wait_for()
    assert walk(page) == []


def test_what_is_found_in_all_sessions_and_in_one_is_text(hostile: Running, visit: Visit) -> None:
    page = visit(of=hostile)
    page.fill("#search", WORD)
    page.locator("#found mark", has_text=WORD).first.wait_for()
    page.locator("#found", has_text=SHORT[:40]).wait_for()
    is_text(page)
    page.locator("#found a", has_text="onerror").first.click()
    page.locator("#transcript article", has_text=WORD).first.wait_for()
    assert harm(page) == []
    page.goto(hostile.url + address(PLACE))
    page.locator("#transcript article", has_text=WORD).wait_for()
    page.keyboard.press("Control+f")
    page.fill("#find", WORD)
    page.locator(".transcript-find mark", has_text=WORD).wait_for()
    assert harm(page) == []


def test_branches_are_text(hostile: Running, visit: Visit) -> None:
    page = visit(address(PLACE, "?panel=tree"), of=hostile)
    page.locator("[role=treeitem]", has_text="MARK-2").wait_for()
    folded = page.locator("[role=treeitem][aria-expanded=false] > button")
    folded.evaluate_all("all => all.forEach(one => one.click())")
    page.locator("[role=treeitem]", has_text=f"javascript:{RUN}").first.wait_for()
    page.locator("[role=treeitem]", has_text="MARK-1").first.click()
    page.locator("#transcript article", has_text="MARK-1").wait_for()
    is_text(page)


def test_files_and_what_is_in_them_are_text(hostile: Running, visit: Visit) -> None:
    page = visit(address(PLACE, "?panel=files"), of=hostile)
    panel = page.locator("#panel-content")
    page.get_by_role("button", name="All files").click()
    panel.locator("[aria-expanded=false]").first.click()
    files = panel.locator("ul.files-tree button[aria-haspopup=dialog]")
    files.nth(9).wait_for()  # a folder that holds nothing but another one opens both, one after the other
    names = files.all_inner_texts()
    assert len(names) == 10
    for number, name in enumerate(names):
        if "\ufffd" in name:
            continue  # it has no name that an address could hold
        files.nth(number).click()
        dialog = page.locator("dialog[open]")
        dialog.wait_for()
        for tab in ("Text", "History", "Changes"):
            dialog.get_by_role("button", name=tab, exact=True).click()
            dialog.locator("[role=group], ol, p.files-note").last.wait_for()
            assert harm(page) == [], name
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
    page.get_by_role("button", name="Changes", exact=True).click()
    panel.locator(".files-change").first.wait_for()
    is_text(page)


def test_two_sessions_beside_each_other_are_text(hostile: Running, visit: Visit) -> None:
    page = visit(of=hostile)
    for other in (f"fork {SHORT}", ALL):
        page.goto(f"{hostile.url}/compare?{urlencode({'a': PLACE, 'b': other})}")
        page.locator(".compare-entry").first.wait_for()
        page.locator("main select option").nth(1).wait_for(state="attached")
        page.locator("main .compare-fold").evaluate_all("all => all.forEach(one => one.click())")
        assert harm(page) == [], other
    page.locator(".compare-session").first.click()
    page.locator("dialog li button").nth(3).wait_for()
    is_text(page)


def test_what_was_used_by_whom_is_text(hostile: Running, visit: Visit) -> None:
    page = visit("/usage", of=hostile)
    page.locator(".usage-cards", has_text="evil.example").wait_for()
    is_text(page)
    page.locator(".usage-cards a", has_text="constructor").first.click()
    page.locator(".usage-chosen", has_text="constructor").wait_for()
    assert harm(page) == []
    for panel in ("usage", "info"):
        page.goto(hostile.url + address(PLACE, f"?panel={panel}"))
        page.locator("#panel-content", has_text="evil.example").wait_for()
        is_text(page)


def test_dialogs_that_hand_on_are_text(hostile: Running, visit: Visit) -> None:
    page = visit(of=hostile)
    for id in (IDS[4], PLACE):  # one whose id is odd, and one with all fields
        page.goto(hostile.url + address(id))
        page.locator("#transcript article").first.wait_for()
        for key, title in (("o", "Resume"), ("e", "Export"), ("S", "Share"), ("l", "Tags")):
            page.keyboard.press(key)
            dialog = page.get_by_role("dialog", name=title)
            dialog.wait_for()
            assert harm(page) == [], title
            page.keyboard.press("Escape")
            dialog.wait_for(state="detached")


def test_the_palette_and_the_menus_of_filters_are_text(hostile: Running, visit: Visit) -> None:
    page = visit(of=hostile)
    for name in ("project", "agent", "model", "tag", "status"):
        page.click(f"#filter-{name}")
        page.locator(".popover-list button").first.wait_for()
        is_text(page)
        page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.locator("dialog [role=option]", has_text="onerror").first.wait_for()
    page.keyboard.type(WORD)
    page.locator("dialog [role=option]", has_text=WORD).first.wait_for()
    assert harm(page) == []
    page.locator("dialog [role=option]", has_text=WORD).first.click()
    page.locator("#transcript article", has_text=WORD).first.wait_for()
    assert harm(page) == []


def test_what_is_done_with_a_session_is_said_as_text(server: Running, visit: Visit) -> None:
    """Titles and tags that are attacks, typed into the page, and named in notices."""
    server.store.create("one", title=SHORT).append({"role": "user", "content": SHORT})
    page = visit("/s/one")
    page.locator("#transcript article").wait_for()
    page.keyboard.press("m")
    page.locator("#list input").fill(f"new {SHORT}")
    page.keyboard.press("Enter")
    page.locator("#list a", has_text="new").wait_for()
    page.locator("#panel-content [role=treeitem]").first.wait_for()
    page.keyboard.press("#")
    page.locator(".toast").wait_for()
    assert harm(page) == []
    page.locator(".toast button", has_text="Undo").click()
    page.locator("#list a", has_text="new").wait_for()
    assert harm(page) == []
    assert server.store.get("one").info.title == f"new {SHORT}"


def test_s37_an_address_that_attacks_shows_a_page_that_works(
    hostile: Running, visit: Visit, problems: Problems
) -> None:
    problems.may_say(*(f"status of {status}" for status in (400, 401, 404, 422)))
    page = visit(of=hostile)
    fields = ("q", "agent", "project", "model", "tag", "status", "since", "a", "b")
    given = urlencode(dict.fromkeys(fields, SHORT))
    addresses = [
        f"/?{given}",
        "/?panel=constructor&deleted=__proto__&status=constructor",
        f"/s/none?{given}&panel=__proto__#{quote(SHORT)}",
        f"/s/{PLACE}?{urlencode({'at': SHORT, 'panel': SHORT, 'step': SHORT, 'file': SHORT})}#{quote(SHORT)}",
        f"/s/{PLACE}?panel=files&{urlencode({'step': SHORT, 'against': SHORT, 'file': SHORT})}",
        f"/s/{PLACE}#__proto__",
        "/s/~%%%#once",
        f"/compare?{given}&a_at=constructor&b_at={quote(SHORT)}",
        f"/usage?{given}&period=constructor&show=__proto__",
        f"/#share2={quote(SHORT)}",
    ]
    for one in addresses:
        page.goto("about:blank")
        page.goto(hostile.url + one)
        page.locator("#who", has_text="signed in as owner").wait_for(state="attached")
        page.locator("main *").first.wait_for(state="attached")
        assert harm(page) == [], one
        page.keyboard.press("g")
        page.keyboard.press("h")
        page.wait_for_url(lambda url: url.partition("?")[0] == f"{hostile.url}/")


def test_markup_has_one_door() -> None:
    """In the sources: what makes markup of a text is in one file, and one policy is made."""
    ways = re.compile(
        r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|"
        r"new Function|createPolicy|createContextualFragment|DOMParser|srcdoc|HTMLUnsafe|javascript:"
    )
    found = {
        path.relative_to(WEB).as_posix(): ways.findall(path.read_text())
        for path in WEB.rglob("*.ts*")
        if ways.search(path.read_text())
    }
    assert found.keys() == {"parts/Markup.tsx"}
    assert found["parts/Markup.tsx"].count("dangerouslySetInnerHTML") == 1


def test_s48_no_second_policy_of_trusted_types_can_be_made(
    hostile: Running, visit: Visit, problems: Problems
) -> None:
    """Neither one of another name nor one of the same name, which is taken."""
    page = visit(of=hostile)
    for name in ("mine", "clew", "default"):
        refused = page.evaluate(
            "name => { try { trustedTypes.createPolicy(name, {createHTML: text => text}); return false }"
            " catch { return true } }",
            name,
        )
        assert refused, name
    refused = page.evaluate(
        "() => { try { document.body.insertAdjacentHTML('beforeend', '<i>x</i>'); return false }"
        " catch { return true } }"
    )
    assert refused
    assert len(problems) >= 3, "the console tells of each"
    problems.clear()


def test_s40_a_share_shows_the_hostile_session_and_nothing_else(
    hostile: Running, context: BrowserContext, problems: Problems
) -> None:
    session = hostile.store.get(PLACE)
    _, token = add_share(hostile.store, session, at=session.head)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(link(hostile.url, token))
    page.locator("#who", has_text="shared").wait_for()
    page.locator("#transcript", has_text=SHORT).wait_for()
    assert walk(page) == []
    assert turned_around(page) == []
    assert page.locator("#list").count() == 0
    paths = {url.removeprefix(hostile.url).partition("?")[0] for url in asked if url.startswith(hostile.url)}
    assert not [path for path in paths if re.search(r"/(tree|search|usage|snapshots|facets)|v1/live", path)]
    assert {url.split("/")[2] for url in asked if not url.startswith(("data:", "blob:"))} == {
        hostile.url.split("/")[2]
    }


def test_an_error_names_what_was_asked_for_as_text(
    hostile: Running, visit: Visit, problems: Problems
) -> None:
    """A session that is not there: its id is an attack, and the notice names it."""
    problems.may_say("404")
    page = visit(address(f"gone {SHORT}"), of=hostile)
    page.locator("main", has_text="There is no such session").wait_for()
    assert page.locator(".toast").count() == 1
    assert harm(page) == []
