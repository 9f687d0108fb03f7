"""Signing in, and what is seen when a sign-in ends while the page is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import clew
from clew.server.access.shares import add_share, link
from clew.server.access.tokens import add_token, remove_token
from tests.server.conftest import Running
from tests.server.page.conftest import with_token

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]


def without_refusals(problems: list[str]) -> None:
    """A browser notes in its console that a request was refused: here that is meant."""
    problems[:] = [one for one in problems if "401" not in one]


def said(store: clew.Store, id: str = "login") -> clew.Session:
    session = store.create(id, title="Fix the login")
    session.append({"role": "user", "content": "The cookie was too old"})
    return session


def test_a_page_whose_token_ended_says_so_and_goes_on_after_a_new_sign_in(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    session = said(server.store)
    _, first = add_token(server.store, "first")
    page = with_token(server, context, first, "/s/login?panel=info")
    page.locator("#transcript", has_text="The cookie was too old").wait_for()
    remove_token(server.store, "first")
    page.locator("#who", has_text="Your sign-in has ended. Sign in again to go on.").wait_for()
    assert page.locator("#transcript").count() == 0, "what was shown is gone"
    session.append({"role": "user", "content": "said meanwhile"})
    _, second = add_token(server.store, "second")
    page.fill("#token", second)
    page.click("button[type=submit]")
    page.locator("#who", has_text="signed in as second").wait_for()
    page.locator("#transcript", has_text="said meanwhile").wait_for()
    assert page.url.endswith("/s/login?panel=info"), "it goes on where it was"
    session.append({"role": "user", "content": "and it is live again"})
    page.locator("#transcript", has_text="and it is live again").wait_for()
    without_refusals(problems)


def test_a_wrong_token_is_refused_with_a_reason(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    page = context.new_page()
    page.goto(server.url)
    page.fill("#token", "not a token")
    page.keyboard.press("Enter")
    page.locator("#who", has_not_text="You are not signed in").wait_for()
    assert page.input_value("#token") == "", "what was typed does not stay"
    assert page.get_by_role("heading", name="Sign in to Clew").is_visible()
    without_refusals(problems)


def test_a_share_that_ends_while_it_is_looked_at_says_so(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    session = said(server.store)
    share, token = add_share(server.store, session, at=None)
    page = context.new_page()
    page.goto(link(server.url, token))
    page.locator("#transcript", has_text="The cookie was too old").wait_for()
    with server.client() as client:
        client.delete(f"/api/v1/shares/{share.id}")
    page.get_by_role("heading", name="This link has ended").wait_for()
    page.get_by_text("Ask whoever gave it to you for a new one.").wait_for()
    assert page.inner_text("#who") == "It does not show anything any more."
    assert page.locator("#transcript").count() == 0
    without_refusals(problems)
