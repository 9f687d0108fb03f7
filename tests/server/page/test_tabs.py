"""Several tabs of one browser, and a sign-in that ends while a page is open (S-36)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from clew.server.access.shares import add_share, link, remove_share
from clew.server.access.tokens import add_token, remove_token
from tests.server.conftest import TOKEN, Running

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]


def with_session(server: Running) -> None:
    server.store.create("login", title="Fix the login").append({"role": "user", "content": "secret words"})


def signed_in_by(token: str, page: Page) -> None:
    page.fill("#token", token)
    page.click("button[type=submit]")
    page.locator("#who", has_text="signed in as").wait_for()


def is_out(page: Page) -> None:
    """It asks to sign in, says why, and shows nothing of what it showed before."""
    page.locator("#token").wait_for()
    page.locator("#who", has_text="Your sign-in has ended").wait_for()
    assert "secret words" not in page.content()
    assert "Fix the login" not in page.content()


def forgive(problems: list[str]) -> None:
    """The browser tells of answers that say "sign in": 401."""
    problems[:] = [line for line in problems if "401" not in line]


def test_signing_out_in_one_tab_signs_out_the_others(
    server: Running, visit: Visit, context: BrowserContext, problems: list[str]
) -> None:
    with_session(server)
    first, second = visit(), visit("/s/login")
    second.locator("#transcript", has_text="secret words").wait_for()
    first.click("#account")
    first.click("#leave")
    first.locator("#token").wait_for()
    is_out(second)
    signed_in_by(TOKEN, second)
    second.locator("#transcript", has_text="secret words").wait_for()
    assert second.url == f"{server.url}/s/login"
    forgive(problems)


def test_s36_a_page_whose_token_is_removed_asks_to_sign_in(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    with_session(server)
    _, token = add_token(server.store, "ci")
    page = context.new_page()
    page.goto(f"{server.url}/s/login")
    signed_in_by(token, page)
    page.locator("#transcript", has_text="secret words").wait_for()
    remove_token(server.store, "ci")
    is_out(page)
    forgive(problems)


def test_s36_a_page_whose_token_expires_asks_to_sign_in(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    with_session(server)
    page = context.new_page()
    page.goto(f"{server.url}/s/login")
    page.locator("#token").wait_for()
    _, token = add_token(server.store, "short", lasts=timedelta(seconds=6))
    signed_in_by(token, page)
    is_out(page)
    forgive(problems)


def test_s36_a_share_that_is_removed_shows_nothing_any_more(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    with_session(server)
    share, token = add_share(server.store, server.store.get("login"), at=None)
    page = context.new_page()
    page.goto(link(server.url, token))
    page.locator("#transcript", has_text="secret words").wait_for()
    remove_share(server.store, share.id)
    page.locator("#who", has_text="ended").or_(page.locator("#who", has_text="any more")).first.wait_for()
    assert page.locator("#token").count() == 0, "who has a link has no token"
    assert "secret words" not in page.content()
    forgive(problems)


def test_tabs_show_what_was_done_in_another_one(server: Running, visit: Visit) -> None:
    with_session(server)
    first, second = visit(), visit()
    first.locator("#list a", has_text="Fix the login").wait_for()
    with server.client() as client:
        body = {"title": "Fixed"}
        headers = {"content-type": "application/merge-patch+json"}
        assert client.patch("/api/v1/sessions/login", json=body, headers=headers).status_code == 200
    for tab in (first, second):
        tab.locator("#list a", has_text="Fixed").wait_for()


def test_who_opens_the_address_with_the_code_again_is_still_signed_in(
    server: Running, context: BrowserContext, problems: list[str]
) -> None:
    """As from the history of a terminal: the code is used up, the cookie is good."""
    with server.client() as client:
        once = client.post("/api/v1/login/codes").json()["once"]
    for _ in range(2):
        page = context.new_page()
        page.goto(f"{server.url}/#once={once}")
        page.locator("#who", has_text="signed in as owner").wait_for(state="attached")
        assert page.url == f"{server.url}/"
    forgive(problems)
