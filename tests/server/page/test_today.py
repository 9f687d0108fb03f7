"""The first screen, what an agent's state looks like, and the branch of an agent that went on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.server.conftest import Running
from tests.support.browsers import settled
from tests.support.owned import OWNED, written
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

NOTES = """
    window.told = [];
    window.Notification = class {
      static permission = "default";
      static async requestPermission() {
        window.asked = true;
        return (Notification.permission = "granted");
      }
      constructor(title, { body }) { window.told.push(`${title}: ${body}`); }
      close() {}
    };
"""


def test_an_agent_that_went_on_after_a_rewind_is_seen_and_followed(
    server: Running, visit: Callable[..., Page]
) -> None:
    """A rewind, news of the agent over the stream, and the way there: three waits, more than a second."""
    store = server.store
    store.load(written(range(8)))
    page = visit(f"/s/{OWNED}")
    page.locator("#transcript article").nth(3).click()
    page.keyboard.press("R")
    dialog = page.locator("dialog[open]")
    dialog.get_by_text("This moves Clew's view only: codex stays at entry 7.").wait_for()
    assert f"resume {OWNED}@" in dialog.locator(".branches-command code").inner_text()
    dialog.get_by_role("button", name="Rewind").click()
    page.locator("#list").get_by_text("4 messages").wait_for()
    assert page.get_by_text("on the agent's branch").count() == 0
    store.load(written(range(10), turn="open"))
    page.get_by_text("2 new messages on the agent's branch.").wait_for()
    page.locator("#list").get_by_text("2 new on the agent's branch").wait_for()
    page.keyboard.press("A")
    page.locator("#list").get_by_text("10 messages").wait_for()
    page.locator(".branches-news").wait_for(state="detached")
    settled(page)


def test_the_first_screen_says_who_waits_and_notifies_only_if_asked(
    server: Running, visit: Callable[..., Page], context: BrowserContext
) -> None:
    """A page, three changes of the store and a permission: more than a second."""
    store, now = server.store, datetime.now(UTC) - timedelta(minutes=2)
    store.load(written([0], turn="open", began=now))
    store.load(written([0, 1], turn="ended", began=now - timedelta(minutes=9), id="codex:2"))
    store.load(written([0], turn="open", began=now - timedelta(minutes=40), id="codex:3"))
    context.add_init_script(NOTES)
    page = visit("/")
    page.get_by_role("heading", name="Waiting for you").wait_for()
    settled(page)
    figures = {
        name: page.locator(".today-figures div", has_text=name).locator("dd").inner_text() for name in NAMES
    }
    last = [now - timedelta(minutes=ago) for ago in (0, 8, 40)]
    today = sum(
        at.astimezone().date() == datetime.now(UTC).astimezone().date() for at in last
    )  # 3, or after midnight
    assert figures == {"Waiting for you": "1", "Working": "1", "Sessions": str(today)}
    assert page.title() == "1 waiting · Clew"
    assert page.locator("#list .sessions-mark").evaluate_all("all => all.map(one => one.title)") == [
        "working",
        "waiting for you",
        "its agent was at work, and has written nothing for a while",
    ]
    store.load(written([0, 1], turn="ended", began=now))
    until(lambda: page.title() == "2 waiting · Clew")
    assert page.evaluate("[window.asked, window.told]") == [None, []], "nobody asked for it"
    page.get_by_label("Notify me in this browser").check()
    until(lambda: page.evaluate("window.asked"))
    store.load(written([0, 1, 2], turn="open", began=now - timedelta(minutes=9), id="codex:2"))
    until(lambda: page.title() == "1 waiting · Clew")
    store.load(written([0, 1, 2, 3], turn="ended", began=now - timedelta(minutes=9), id="codex:2"))
    until(lambda: page.evaluate("window.told.length"))
    assert page.evaluate("window.told") == ["text 0: codex waits for you"]
    page.locator(".today-waits a").first.click()
    until(lambda: page.title() == "2 waiting · text 0 · Clew")


NAMES = ("Waiting for you", "Working", "Sessions")
