"""Addresses of sessions: short ids, the ids that links had before, and what fits no single session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.server.conftest import Running
from tests.server.page.conftest import Problems

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]

ONE = "claude-code:0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
NEAR = "codex:0b1c2d3e-4fff-4a61-8b72-93a4b5c6d7e8"
OTHER = "codex:7e5a9f00-1111-7222-8333-444455556666"


def test_sessions_are_called_by_short_ids_in_addresses(
    server: Running, visit: Visit, problems: Problems
) -> None:
    """Long ones still work, what is behind them stays, and going back leads back."""
    for id, words in ((OTHER, "Fix the login"), (ONE, "Draw a map")):
        server.store.create(id).append({"role": "user", "content": words})
    page = visit("/")
    for name in ("7e5a9f00", OTHER, "7e5a", OTHER.partition(":")[2]):
        page.goto(f"{server.url}/s/{name}?panel=info")
        page.wait_for_url(lambda url: url.endswith("/s/7e5a9f00?panel=info"))
        page.locator("#main", has_text="Fix the login").wait_for()
        page.locator("#list [aria-current=page]", has_text="Fix the login").wait_for()
    page.locator("#list a", has_text="Draw a map").click()
    page.wait_for_url("**/s/0b1c2d3e")
    page.locator("#main", has_text="Draw a map").wait_for()
    page.go_back()
    page.wait_for_url(lambda url: url.endswith("/s/7e5a9f00?panel=info"))
    page.locator("#main", has_text="Fix the login").wait_for()
    page.goto(f"{server.url}/compare?a=7e5a9f00&b={ONE}")
    page.locator("#compare-files").wait_for()
    problems.may_say("404")
    page.goto(f"{server.url}/s/nobody")
    page.locator(".toast", has_text="There is no such session.").wait_for()


def test_an_address_that_fits_several_sessions_names_them(
    server: Running, visit: Visit, problems: Problems
) -> None:
    for id in (ONE, NEAR):
        server.store.create(id).append({"role": "user", "content": f"Hello from {id}"})
    problems.may_say("409")
    page = visit("/s/0b1c2d3e")
    said = page.get_by_role("alert")
    said.get_by_text("2 sessions begin with '0b1c2d3e'").wait_for()
    said.get_by_role("link", name="0b1c2d3e-4ff").click()
    page.wait_for_url("**/s/0b1c2d3e-4ff")
    page.locator("#main", has_text=f"Hello from {NEAR}").wait_for()
