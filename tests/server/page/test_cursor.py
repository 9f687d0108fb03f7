"""One cursor: the entry with the ring is the one that keys, menus and the panel act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import clew
from tests.server.conftest import Running
from tests.server.page.workshop import assistant, user
from tests.support.browsers import becomes_true, settled

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]

LAST = 55


def long_session(store: clew.Store) -> clew.Session:
    """More entries than a window shows."""
    session = store.create("login")
    for number in range(0, LAST + 1, 2):
        session.append(user(f"prompt {number}\n\nand more"), assistant(f"answer {number + 1}"))
    return session


def has_ring(page: Page, position: int) -> None:
    """Wait until this entry has the ring; no other one has it, nor the focus, and the panel says the same."""
    page.locator(f"#transcript .transcript-cursor[data-at='{position}']").wait_for()
    page.locator(".branches-where", has_text=f"At entry {position}").wait_for()
    settled(page)
    assert page.locator("#transcript .transcript-cursor").count() == 1
    focused = page.evaluate("document.activeElement.closest('#transcript article')?.dataset.at ?? null")
    assert focused in (str(position), None)


def test_keys_act_on_the_entry_that_has_the_ring(server: Running, visit: Visit) -> None:
    """A rewind, its undo, both ends, a button inside an entry, a row of the tree, and a fork after each."""
    session = long_session(server.store)
    page = visit("/s/login?panel=tree")
    page.get_by_role("treeitem").filter(has_text="prompt 16").click()
    has_ring(page, 16)
    page.keyboard.press("R")
    page.get_by_role("dialog").get_by_role("button", name="Rewind", exact=True).click()
    page.locator(".toast", has_text="Rewound to entry 16").wait_for()
    has_ring(page, 16)
    page.locator("#transcript article[data-at='16']").focus()
    page.keyboard.press("u")
    page.locator(".toast", has_text="Undone. The session is at entry 55").wait_for()
    has_ring(page, LAST)
    assert page.locator(".toast", has_text="another branch").count() == 0
    page.keyboard.press("g")
    page.keyboard.press("g")
    has_ring(page, 0)
    page.keyboard.press("G")
    has_ring(page, LAST)
    page.locator("#transcript").press("Home")
    has_ring(page, 0)
    for _ in range(3):  # the menu and the time of entry 0, the menu of entry 1
        page.keyboard.press("Tab")
    has_ring(page, 1)
    page.get_by_role("treeitem").filter(has_text="prompt 2 and").focus()
    page.keyboard.press("ArrowDown")
    page.locator("[role=treeitem]:focus", has_text="prompt 4").wait_for()
    page.keyboard.press("f")
    page.locator(".toast", has_text="Forked at entry 4. You are in the fork").wait_for()
    assert server.store.get("login#fork-1").info.head.position == 4
    assert session.info.head.position == LAST


def test_a_fork_at_an_entry_that_is_not_in_sight_is_asked_for(server: Running, visit: Visit) -> None:
    long_session(server.store)
    page = visit("/s/login?panel=info")
    page.locator("#transcript", has_text="answer 55").wait_for()
    page.keyboard.press("k")
    page.keyboard.press("G")
    page.locator(f"#transcript .transcript-cursor[data-at='{LAST}']").wait_for()
    page.evaluate("document.querySelector('#transcript').scrollTop = 0")
    becomes_true(page, "!!document.querySelector('#transcript article[data-at=\"0\"]')")
    settled(page)
    page.keyboard.press("f")
    asked = page.get_by_role("dialog", name="Fork at entry 55")
    asked.get_by_text("answer 55").wait_for()
    assert server.store.find("login#fork-1") is None
    page.keyboard.press("Escape")
    asked.wait_for(state="detached")
    page.keyboard.press("f")
    page.locator("dialog button:focus", has_text="Fork").wait_for()
    page.keyboard.press("Enter")
    page.locator(".toast", has_text="Forked at entry 55.").wait_for()
    assert server.store.get("login#fork-1").info.head.position == LAST
