"""Everything with the keyboard, and with a finger: the palette, the sheet of keys, menus, sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import clew
from tests.server.conftest import Running, running
from tests.server.page.conftest import PHONE
from tests.support.rows import named

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

Visit = Callable[..., "Page"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of three sessions. Tests only read it."""
    with clew.open(tmp_path_factory.mktemp("shop") / "store.db") as store, running(store) as server:
        for id, title, text in [
            ("login", "Fix the login", "The cookie was too old"),
            ("docs", "Write the docs", "A page about harbours"),
            ("map", "Draw a map", "Tiles of the coast"),
        ]:
            session = store.create(id, title=title, workspace="/w/shop")
            session.append(
                {"role": "user", "content": f"{title}, please"}, {"role": "assistant", "content": text}
            )
            session.add_usage(model="m-1", input_tokens=1000, output_tokens=10, cost="1.20")
        yield server


def ready(page: Page) -> None:
    """Wait until the page has listed something: then it hears keys too."""
    page.locator("#list li").first.wait_for(state="attached")


def palette(page: Page, typed: str = "") -> Locator:
    """Open the palette, and type."""
    ready(page)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to, or do")
    page.locator("dialog input[role=combobox]:focus").wait_for()
    page.keyboard.type(typed)
    return field


def chosen(page: Page, text: str) -> Locator:
    """Wait until this option is the chosen one."""
    found = page.get_by_role("option", selected=True).filter(has_text=text)
    found.wait_for()
    return found


# -- the palette


def test_the_palette_leads_to_sessions_and_to_words_of_messages(shop: Running, visit: Visit) -> None:
    page = visit(of=shop)
    field = palette(page, "fxlog")
    option = chosen(page, "Fix the login")
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/login")
    field.wait_for(state="detached")
    palette(page, "tiles of the coa")
    chosen(page, "Tiles of the coast")
    page.keyboard.press("Enter")
    entry = list(shop.store.get("map").entries())[1].id
    page.wait_for_url("**/s/map#*")
    assert page.evaluate("decodeURIComponent(location.hash)") == f"#{entry}"
    field.wait_for(state="detached")
    palette(page, "qqqqq")
    page.get_by_text("Nothing is called so.").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("option").count() == 0
    page.keyboard.press("Control+k")
    field.wait_for(state="detached")


def test_the_arrows_of_the_palette_go_round_and_escape_leads_back(shop: Running, visit: Visit) -> None:
    page = visit("/s/docs", of=shop)
    page.locator("#transcript", has_text="harbours").wait_for()
    palette(page)
    chosen(page, "Draw a map")
    page.keyboard.press("ArrowDown")
    chosen(page, "Write the docs")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.locator("[role=option]:last-of-type[aria-selected=true]").last.wait_for()
    assert page.get_by_role("option").last.get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    page.get_by_role("listbox", name="Found").wait_for(state="detached")
    assert page.url.endswith("/s/docs")


def test_sessions_behind_the_first_page_are_found_too(server: Running, visit: Visit) -> None:
    def fill(store: clew.Store) -> None:
        store.create("docs", title="Write the docs")
        for number in range(250):
            store.create(f"n{number}", title=f"Number {number}")

    server.store.transact(fill)
    page = visit()
    palette(page, "write the docs")
    chosen(page, "Write the docs")


def test_commands_of_the_palette_are_run_when_it_is_gone(shop: Running, visit: Visit) -> None:
    page = visit("/s/login", of=shop)
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


def test_the_sheet_shows_every_key_and_no_key_means_two_things(shop: Running, visit: Visit) -> None:
    page = visit("/s/login", of=shop)
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


def test_letters_in_a_field_are_letters_and_two_keys_go_to_a_view(shop: Running, visit: Visit) -> None:
    page = visit(of=shop)
    ready(page)
    page.keyboard.press("/")
    field = page.locator("input:focus")
    field.wait_for()
    page.keyboard.type("?e")
    assert field.input_value() == "?e"
    assert page.get_by_role("dialog").count() == 0
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    views = page.get_by_role("navigation", name="Views")
    usage = page.get_by_role("heading", name="Usage", level=1)
    page.keyboard.press("g")
    page.keyboard.press("u")
    usage.wait_for()
    views.locator("[aria-current=page]", has_text="Usage").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("h")
    usage.wait_for(state="detached")
    views.locator("[aria-current=page]", has_text="Sessions").wait_for()
    page.wait_for_url(re.compile(r"/$"))


# -- the bar


def test_the_first_tab_skips_to_the_content_and_one_signs_out_with_the_keyboard(
    shop: Running, visit: Visit
) -> None:
    page = visit("/usage", of=shop)
    page.keyboard.press("Tab")
    skip = page.locator("a:focus", has_text="Skip to the content")
    skip.wait_for()
    box = skip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    page.keyboard.press("Enter")
    page.locator("#main:focus").wait_for()
    page.get_by_role("heading", name="Usage", level=1).wait_for()
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


# -- small screens and fingers


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


def test_on_a_phone_nothing_is_cut_off_and_every_target_is_large(
    shop: Running, visit: Visit, new_context: Callable[..., BrowserContext]
) -> None:
    """A window of 780 at 200 % has as much room."""
    page = visit(of=shop, within=new_context(**PHONE))
    for path, key in VIEWS:
        with named(f"{path} {key}"):
            page.goto(shop.url + path)
            page.locator(".usage-figures, .usage-panel, .info").first.wait_for()
            if key is not None:
                page.keyboard.press(key)
                page.get_by_role("dialog").wait_for()
            assert page.evaluate(CUT_OFF) == []
            within = "dialog[open]" if key else ":is(.topbar, .usage, .panel)"
            assert page.evaluate(SMALL, f"{within} :is(button, a, input, select, summary)") == []
