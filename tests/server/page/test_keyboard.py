"""Everything with the keyboard, and with a finger: the palette, the sheet of keys, menus, sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import clew
from tests.server.conftest import Running

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

Visit = Callable[..., "Page"]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def store(server: Running) -> clew.Store:
    for id, title, text in [
        ("login", "Fix the login", "The cookie was too old"),
        ("docs", "Write the docs", "A page about harbours"),
        ("map", "Draw a map", "Tiles of the coast"),
    ]:
        session = server.store.create(id, title=title, workspace="/w/shop")
        session.append(
            {"role": "user", "content": f"{title}, please"}, {"role": "assistant", "content": text}
        )
        session.add_usage(model="m-1", input_tokens=1000, output_tokens=10, cost="1.20")
    return server.store


def ready(page: Page) -> None:
    """Wait until the page has listed something: then it hears keys too."""
    page.locator("#list li").first.wait_for(state="attached")


def palette(page: Page, typed: str = "") -> Locator:
    """Open the palette, and type."""
    ready(page)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to, or do")
    field.wait_for()
    assert field.evaluate("field => field === document.activeElement")
    page.keyboard.type(typed)
    return field


def chosen(page: Page, text: str) -> Locator:
    """Wait until this option is the chosen one."""
    found = page.get_by_role("option", selected=True).filter(has_text=text)
    found.wait_for()
    return found


# -- the palette


def test_a_session_is_gone_to_by_some_letters_of_its_title(store: clew.Store, visit: Visit) -> None:
    page = visit()
    field = palette(page, "fxlog")
    option = chosen(page, "Fix the login")
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/login")
    page.get_by_role("combobox", name="Go to, or do").wait_for(state="detached")


def test_the_arrows_go_round_and_escape_leads_back(store: clew.Store, visit: Visit) -> None:
    page = visit("/s/docs")
    page.locator("#transcript", has_text="harbours").wait_for()
    palette(page)
    chosen(page, "Draw a map")
    page.keyboard.press("ArrowDown")
    chosen(page, "Write the docs")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    last = page.get_by_role("option").last
    assert last.get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    page.get_by_role("listbox", name="Found").wait_for(state="detached")
    assert page.url.endswith("/s/docs")


def test_the_palette_opens_and_closes_with_the_same_key(store: clew.Store, visit: Visit) -> None:
    page = visit("/usage")
    field = palette(page)
    page.keyboard.press("Control+k")
    field.wait_for(state="detached")


def test_words_of_a_message_lead_to_it(store: clew.Store, visit: Visit) -> None:
    page = visit()
    palette(page, "tiles of the coa")
    chosen(page, "Tiles of the coast")
    page.keyboard.press("Enter")
    entry = list(store.get("map").entries())[1].id
    page.wait_for_url("**/s/map#*")
    assert page.evaluate("decodeURIComponent(location.hash)") == f"#{entry}"


def test_sessions_behind_the_first_page_are_found_too(store: clew.Store, visit: Visit) -> None:
    store.transact(lambda tx: [tx.create(f"n{number}", title=f"Number {number}") for number in range(250)])
    page = visit()
    palette(page, "write the docs")
    chosen(page, "Write the docs")


def test_commands_are_run_when_the_palette_is_gone(store: clew.Store, visit: Visit) -> None:
    page = visit("/s/login")
    page.locator("#transcript", has_text="cookie").wait_for()
    palette(page, "export this")
    chosen(page, "Export this session")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Export").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Export").wait_for(state="detached")
    palette(page, "search in all")
    chosen(page, "Search in all sessions")
    page.keyboard.press("Enter")
    page.get_by_role("navigation", name="Sessions").locator("input:focus").wait_for()


def test_nothing_found_is_said(store: clew.Store, visit: Visit) -> None:
    page = visit()
    palette(page, "qqqqq")
    page.get_by_text("Nothing is called so.").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("option").count() == 0


def test_colours_are_chosen_and_kept(store: clew.Store, visit: Visit) -> None:
    page = visit()
    palette(page, "colours: dark")
    chosen(page, "Colours: dark")
    page.keyboard.press("Enter")
    page.locator("html[data-theme=dark]").wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    page.reload()
    page.locator("html[data-theme=dark]").wait_for()
    page.get_by_role("button", name="Colours: dark. Change them").click()
    page.locator("html:not([data-theme])").wait_for()


# -- the sheet of keys


def test_the_sheet_shows_every_key_and_no_key_means_two_things(store: clew.Store, visit: Visit) -> None:
    page = visit("/s/login")
    page.locator("#transcript", has_text="cookie").wait_for()
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keys")
    sheet.get_by_role("heading", name="General").wait_for()
    sheet.get_by_role("heading", name="Go on").wait_for()
    keys = Counter(sheet.locator(".keys").all_inner_texts())
    assert {"?", "o", "e", "t", "i"} <= set(keys)
    assert [key for key, count in keys.items() if count > 1] == []
    columns = sheet.locator("section").evaluate_all("all => new Set(all.map(one => one.offsetLeft)).size")
    assert columns == 2
    page.keyboard.press("o")
    assert page.get_by_role("dialog").count() == 1, "a dialog has keys of its own"
    page.keyboard.press("Escape")
    sheet.wait_for(state="detached")


def test_letters_in_a_field_are_letters(store: clew.Store, visit: Visit) -> None:
    page = visit()
    ready(page)
    page.keyboard.press("/")
    field = page.locator("input:focus")
    field.wait_for()
    page.keyboard.type("?e")
    assert field.input_value() == "?e"
    assert page.get_by_role("dialog").count() == 0


def test_two_keys_one_after_the_other_go_to_a_view(store: clew.Store, visit: Visit) -> None:
    page = visit()
    ready(page)
    page.keyboard.press("g")
    page.keyboard.press("u")
    page.get_by_role("heading", name="Usage", level=1).wait_for()
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.get_by_role("heading", name="Usage", level=1).wait_for(state="detached")


# -- the bar


def test_the_first_tab_skips_to_the_content(store: clew.Store, visit: Visit) -> None:
    page = visit("/usage")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to the content"
    assert page.get_by_role("link", name="Skip to the content").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    page.locator("#main:focus").wait_for()
    page.get_by_role("heading", name="Usage", level=1).wait_for()


def test_one_signs_out_with_the_keyboard(store: clew.Store, visit: Visit) -> None:
    page = visit("/usage")
    page.locator("#account").focus()
    page.keyboard.press("Enter")
    page.locator("[role=menuitem]:focus", has_text="Keys").wait_for()
    page.keyboard.press("Escape")
    page.locator("#account:focus").wait_for()
    page.keyboard.press("Enter")
    page.locator("[role=menuitem]:focus", has_text="Keys").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#who", has_text="You are not signed in").wait_for()
    page.locator("#token").wait_for()


# -- small screens, fingers, and those who want no motion


def open_dialog(page: Page, key: str) -> None:
    page.keyboard.press(key)
    page.get_by_role("dialog").wait_for()


CUT_OFF = """() => [...document.querySelectorAll('body, main, .topbar, .panel, .panel-content, dialog *')]
    .filter(one => one.checkVisibility() && !one.matches('.unseen, input, pre, .palette-option *'))
    .filter(one => getComputedStyle(one).display !== 'inline')
    .filter(one => getComputedStyle(one).textOverflow !== 'ellipsis')
    .filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.outerHTML.slice(0, 120))"""
SMALL = """which => [...document.querySelectorAll(which)]
    .filter(one => one.checkVisibility() && !one.closest('.usage-bars, .keys, dd'))
    .map(one => one.closest('label') ?? one)
    .filter(one => one.getBoundingClientRect().height < 43.5)
    .map(one => one.outerHTML.slice(0, 120))"""
"""Bars of a chart are in a table too, and links within a line are as high as the line."""

VIEWS: list[tuple[str, str | None]] = [
    ("/usage", None),
    ("/s/login?panel=usage", None),
    ("/s/login?panel=info", None),
    ("/s/login?panel=info", "o"),
    ("/s/login?panel=info", "e"),
    ("/s/login?panel=info", "S"),
    ("/s/login?panel=info", "?"),
    ("/s/login?panel=info", "Control+k"),
]


@pytest.mark.parametrize(("path", "key"), VIEWS)
def test_on_a_phone_nothing_is_cut_off_and_every_target_is_large(
    store: clew.Store, visit: Visit, new_context: Callable[..., BrowserContext], path: str, key: str | None
) -> None:
    """A window of 780 at 200 % has as much room."""
    page = visit(path, within=new_context(**PHONE))
    page.locator(".usage-figures, .usage-panel, .info").first.wait_for()
    if key is not None:
        open_dialog(page, key)
    assert page.evaluate(CUT_OFF) == []
    within = "dialog[open]" if key else ":is(.topbar, .usage, .panel)"
    assert page.evaluate(SMALL, f"{within} :is(button, a, input, select, summary)") == []


def test_who_wants_no_motion_gets_none(
    store: clew.Store, visit: Visit, new_context: Callable[..., BrowserContext]
) -> None:
    page = visit("/usage", within=new_context(reduced_motion="reduce"))
    page.get_by_role("heading", name="Cost by day").wait_for()
    moving: list[Any] = page.evaluate(
        """() => [...document.querySelectorAll('*')].filter(one => {
            const style = getComputedStyle(one);
            return style.animationName !== 'none' || parseFloat(style.transitionDuration) > 0;
        }).map(one => one.outerHTML.slice(0, 120))"""
    )
    assert moving == []


def test_the_bar_says_where_one_is(store: clew.Store, visit: Visit) -> None:
    page = visit("/usage")
    views = page.get_by_role("navigation", name="Views")
    assert views.locator("[aria-current=page]").inner_text() == "Usage"
    views.get_by_role("link", name="Sessions").click()
    views.locator("[aria-current=page]", has_text="Sessions").wait_for()
    page.wait_for_url(re.compile(r"/$"))
