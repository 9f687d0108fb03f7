"""For everyone: axe-core finds nothing wrong in any view, light or dark, wide or on a phone; keys do all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from clew.server.access.shares import add_share, link
from clew.server.routing import encoded
from tests.server.conftest import Running
from tests.server.page.accessible import sideways, violations
from tests.server.page.conftest import Problems, sign_in
from tests.server.page.rich_store import LANES, MAIN

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

NewContext = Callable[..., "BrowserContext"]

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
HALF = {"width": 720, "height": 450}
"""What is left of 1440 by 900 at a zoom of 200 %."""


class View(NamedTuple):
    path: str
    shows: str
    """What is there, once it is shown."""
    keys: tuple[str, ...] = ()
    """Pressed then;"""
    opens: str = ""
    """and what is there after that."""


LONG = f"/s/{encoded(MAIN)}"
READ = "#transcript[aria-busy=false] article"
VIEWS = {
    "list": View("/", "#list a"),
    "filtered": View("/?tag=harbor&since=7d", "#list a"),
    "trash": View("/?deleted=true", "nav h2"),
    "search": View("/?q=harbor", "#found mark"),
    "transcript": View(LONG, READ, ("Control+f",), "#find"),
    "stored": View(f"{LONG}#", READ, ("G", "k", "r"), "#transcript pre"),
    "branches": View(f"/s/{LANES}?panel=tree", "[role=tree] [role=treeitem]"),
    "files": View(f"/s/{LANES}?panel=files", "#panel-content .files-change"),
    "a file": View(f"/s/{LANES}?panel=files&file=src/lanes.py", "dialog [role=group], dialog .files-note"),
    "usage of a session": View(f"/s/{LANES}?panel=usage", "#panel-content *"),
    "facts": View(f"/s/{LANES}?panel=info", "#panel-content time"),
    "compare": View(f"/compare?a={LANES}&b=harbor-fork", ".compare-entry"),
    "usage": View("/usage", "main h1"),
    "keys": View("/", "#list a", ("?",), "dialog[open]"),
    "palette": View(f"/s/{LANES}", READ, ("Control+k",), "dialog [role=option]"),
    "tags": View(f"/s/{LANES}", READ, ("l",), "dialog[open]"),
    "resume": View(f"/s/{LANES}", READ, ("o",), "dialog[open]"),
    "export": View(f"/s/{LANES}", READ, ("e",), "dialog[open]"),
    "share": View(f"/s/{LANES}", READ, ("S",), "dialog[open]"),
    "not there": View("/s/none", ".toast"),
}
SOME = {"wide": ["list", "files"], "phone": ["transcript", "palette"]}
"""One of each kind; `make test` looks at no more."""
WINDOWS = {"wide": WIDE, "phone": PHONE}


def show(page: Page, server: Running, view: View) -> None:
    page.goto(server.url + view.path)
    page.locator(view.shows).first.wait_for(state="attached")
    for key in view.keys:
        page.keyboard.press(key)
    if view.opens:
        page.locator(view.opens).first.wait_for()


@pytest.mark.parametrize("which", ["some", "others"])
@pytest.mark.parametrize("window", WINDOWS)
def test_axe_finds_nothing_in_any_view(
    rich: Running, new_context: NewContext, problems: Problems, window: str, which: str
) -> None:
    """In light and in dark colours; and nothing is wider than the window. It takes two seconds: each view is
    looked at twice, by a hundred rules."""
    problems.may_say("404")  # a session that is not there
    page = sign_in(rich, new_context(viewport=WINDOWS[window], reduced_motion="reduce"), problems)
    found: list[str] = []
    for name in [name for name in VIEWS if (name in SOME[window]) == (which == "some")]:
        page.emulate_media(color_scheme="light")
        show(page, rich, VIEWS[name])
        found += [f"{name}: {one}" for one in violations(page)]
        page.emulate_media(color_scheme="dark")
        found += [f"{name}, dark: {one}" for one in violations(page, "color-contrast")]
        found += [f"{name}: it is scrolled sideways"] * (sideways(page) > 0)
    assert found == []


def test_nothing_is_scrolled_sideways_at_200_percent(
    rich: Running, new_context: NewContext, problems: Problems
) -> None:
    problems.may_say("404")
    page = sign_in(rich, new_context(viewport=HALF, device_scale_factor=2), problems)
    found: dict[str, int] = {}
    for name, view in VIEWS.items():
        show(page, rich, view)
        found[name] = sideways(page)
    assert found == dict.fromkeys(VIEWS, 0)


def test_axe_finds_nothing_before_a_sign_in_and_on_a_share(
    rich: Running, new_context: NewContext, problems: Problems
) -> None:
    problems.may_say("401")
    session = rich.store.get(MAIN)
    _, token = add_share(rich.store, session, at=session.head)
    for scheme, viewport in (("light", WIDE), ("dark", PHONE)):
        page = new_context(color_scheme=scheme, viewport=viewport).new_page()
        page.goto(rich.url)
        page.locator("#token").wait_for()
        assert violations(page) == []
        assert sideways(page) == 0
        page.goto("about:blank")
        page.goto(link(rich.url, token))
        page.locator(READ).first.wait_for(state="attached")
        assert violations(page) == []
        assert sideways(page) == 0


MOVING = """() => [...document.querySelectorAll("*")].filter(one => {
    const style = getComputedStyle(one);
    return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0
        || style.scrollBehavior === "smooth";
}).map(one => one.outerHTML.slice(0, 120))"""


def test_nothing_moves_for_who_wants_it_so(
    rich: Running, new_context: NewContext, problems: Problems
) -> None:
    page = sign_in(rich, new_context(reduced_motion="reduce"), problems, f"/s/{LANES}")
    page.locator(READ).first.wait_for()
    assert page.evaluate(MOVING) == []
    page.goto(f"{rich.url}/usage")
    page.get_by_role("heading", name="Cost by day").wait_for()
    assert page.evaluate(MOVING) == []


def test_the_way_through_the_page_needs_no_mouse(
    rich: Running, new_context: NewContext, problems: Problems
) -> None:
    """From the list to a session, through it, to its branches and back, by keys alone."""
    page = sign_in(rich, new_context(), problems)
    press = page.keyboard.press
    page.locator("#list a").first.wait_for()
    press("Tab")
    page.locator("a.skip:focus").wait_for()  # the first stop leads over what is on every page
    press("/")
    with page.expect_response(lambda answer: "/search?" in answer.url and "wider" in answer.url):
        page.keyboard.type("lanes wider")
    page.locator("#found mark").first.wait_for()
    press("ArrowDown")
    page.locator("#found a:focus").wait_for()
    press("Enter")
    page.wait_for_url(lambda url: f"/s/{LANES}" in url)
    page.locator(READ).first.wait_for()
    press("g")
    press("g")
    press("j")
    page.locator("#transcript article:focus").wait_for()
    press("J")
    page.locator("#transcript article:focus", has_text="5 wide").wait_for()
    press("i")
    page.locator("#tab-info[aria-selected=true]").wait_for()
    press("t")
    page.locator("#tab-tree[aria-selected=true]").wait_for()
    page.locator("#tab-tree").focus()
    press("ArrowRight")
    page.locator("#tab-files[aria-selected=true]:focus").wait_for()
    press("?")
    page.locator("dialog[open]").wait_for()
    press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")
    page.locator("#tab-files:focus").wait_for()  # a moment later the focus is back where it was
    press("Control+k")
    page.locator("dialog [role=option]").first.wait_for()
    page.keyboard.type("usage cost")
    page.locator("dialog [role=option][aria-selected=true]", has_text="Usage").wait_for()
    press("Enter")
    page.wait_for_url(lambda url: "/usage" in url)


def test_what_has_the_focus_can_be_seen(rich: Running, new_context: NewContext, problems: Problems) -> None:
    """Each stop of the Tab key is drawn, inside of the window, and has a ring."""
    page = sign_in(rich, new_context(), problems, f"/s/{LANES}?panel=info")
    page.locator(READ).first.wait_for()
    page.locator("#panel-content time").first.wait_for()
    stops: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        hidden = page.evaluate(
            """() => {
                const one = document.activeElement;
                if (one === document.body) return "";
                const box = one.getBoundingClientRect();
                const style = getComputedStyle(one);
                const isDrawn = box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0
                    && box.left < innerWidth && box.top < innerHeight && style.visibility === "visible";
                const hasRing = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1
                    || style.boxShadow !== "none";
                return isDrawn && hasRing ? "" : one.outerHTML.slice(0, 200);
            }"""
        )
        if hidden:
            stops.append(hidden)
    assert stops == []
