"""Signing in, what is seen when a sign-in ends while the page is open (S-36), and what one may do then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import clew
from clew.server.access.shares import add_share, link, remove_share
from clew.server.access.tokens import add_token, remove_token
from tests.server.conftest import TOKEN, Running
from tests.server.page.conftest import Problems, with_token
from tests.server.page.workshop import make

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]


def said(store: clew.Store) -> clew.Session:
    session = store.create("login", title="Fix the login")
    session.append({"role": "user", "content": "The cookie was too old"})
    return session


def type_token(page: Page, token: str) -> None:
    page.fill("#token", token)
    page.click("button[type=submit]")


def is_out(page: Page) -> None:
    """It asks to sign in, says why, and shows nothing of what it showed before."""
    page.locator("#who", has_text="Your sign-in has ended. Sign in again to go on.").wait_for()
    page.locator("#token").wait_for()
    assert page.locator("#transcript").count() == 0
    assert "The cookie was too old" not in page.content()
    assert "Fix the login" not in page.content()


def test_s36_a_page_whose_token_ended_says_so_and_goes_on_after_a_new_sign_in(
    timed: Running, context: BrowserContext, problems: Problems
) -> None:
    problems.may_say("401")
    session = said(timed.store)
    _, first = add_token(timed.store, "first")
    page = with_token(timed, context, first, "/s/login?panel=info")
    page.locator("#transcript", has_text="The cookie was too old").wait_for()
    remove_token(timed.store, "first")
    timed.wait(2)
    is_out(page)
    session.append({"role": "user", "content": "said meanwhile"})
    type_token(page, "not a token")
    page.locator("#who", has_not_text="Sign in again").wait_for()
    assert page.inner_text("#who") == "The token is not valid here."
    assert page.input_value("#token") == "", "what was typed does not stay"
    assert page.get_by_role("heading", name="Sign in to Clew").is_visible()
    _, second = add_token(timed.store, "second")
    type_token(page, second)
    page.locator("#who", has_text="signed in as second").wait_for()
    page.locator("#transcript", has_text="said meanwhile").wait_for()
    assert page.url.endswith("/s/login?panel=info"), "it goes on where it was"
    session.append({"role": "user", "content": "and it is live again"})
    page.locator("#transcript", has_text="and it is live again").wait_for()


def test_s36_a_page_whose_token_expires_asks_to_sign_in(
    timed: Running, context: BrowserContext, problems: Problems
) -> None:
    problems.may_say("401")
    said(timed.store)
    _, token = add_token(timed.store, "short", lasts=timedelta(hours=1))
    page = with_token(timed, context, token, "/s/login")
    page.locator("#transcript", has_text="The cookie was too old").wait_for()
    timed.wait(3600)
    is_out(page)


def test_s36_a_share_that_ends_while_it_is_looked_at_says_so(
    timed: Running, context: BrowserContext, problems: Problems
) -> None:
    problems.may_say("401")
    share, token = add_share(timed.store, said(timed.store), at=None)
    page = context.new_page()
    page.goto(link(timed.url, token))
    page.locator("#transcript", has_text="The cookie was too old").wait_for()
    remove_share(timed.store, share.id)
    timed.wait(2)
    page.get_by_role("heading", name="This link has ended").wait_for()
    page.get_by_text("Ask whoever gave it to you for a new one.").wait_for()
    assert page.inner_text("#who") == "It does not show anything any more."
    assert page.locator("#token").count() == 0, "who has a link has no token"
    assert "The cookie was too old" not in page.content()


def test_signing_out_in_one_tab_signs_out_the_others(
    server: Running, visit: Visit, problems: Problems
) -> None:
    problems.may_say("401")
    said(server.store)
    first, second = visit(), visit("/s/login")
    second.locator("#transcript", has_text="The cookie was too old").wait_for()
    first.click("#account")
    first.click("#leave")
    first.locator("#token").wait_for()
    is_out(second)
    type_token(second, TOKEN)
    second.locator("#transcript", has_text="The cookie was too old").wait_for()
    assert second.url == f"{server.url}/s/login"


def test_who_opens_the_address_with_the_code_again_is_still_signed_in(
    server: Running, context: BrowserContext, problems: Problems
) -> None:
    """As from the history of a terminal: the code is used up, the cookie is good."""
    problems.may_say("401")
    with server.client() as client:
        once = client.post("/api/v1/login/codes").json()["once"]
    for _ in range(2):
        page = context.new_page()
        page.goto(f"{server.url}/#once={once}")
        page.locator("#who", has_text="signed in as owner").wait_for(state="attached")
        assert page.url == f"{server.url}/"


def test_an_address_pasted_into_an_open_tab_signs_in_or_shows_the_share(
    server: Running, context: BrowserContext, problems: Problems
) -> None:
    """Only what is behind the `#` changes then, and the browser loads nothing by itself."""
    problems.may_say("401")
    _, token = add_share(server.store, said(server.store), at=None)

    def paste(address: str) -> None:
        page.evaluate("address => { location.href = address; }", address)

    page = context.new_page()
    page.goto(f"{server.url}/")
    page.locator("#token").wait_for()
    with server.client() as client:
        once = client.post("/api/v1/login/codes").json()["once"]
    paste(f"{server.url}/#once={once}")
    page.locator("#who", has_text="signed in as owner").wait_for(state="attached")
    page.locator("#list", has_text="Fix the login").wait_for()
    assert page.url == f"{server.url}/"
    paste(link(server.url, token))
    page.locator("#who", has_text="shared: Fix the login").wait_for()
    page.locator("#transcript", has_text="The cookie was too old").wait_for()
    assert page.locator("#list").count() == 0
    context.clear_cookies()
    paste(f"{server.url}/#once={once}")
    page.locator("#who", has_text="This sign-in link has expired or was already used.").wait_for()
    assert once not in page.url


def test_a_token_that_reads_is_offered_nothing_that_changes(
    server: Running, new_context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    """Neither in the list, nor beside the transcript, nor by a key."""
    make(server.store, tmp_path / "project")
    _, token = add_token(server.store, "reader", scopes=["read"])
    page = with_token(server, new_context(), token, "/s/login?panel=files")
    page.get_by_text("Your token may not read files.").wait_for()
    page.locator("#list li", has_text="The login page").hover()
    assert page.locator("#list li").get_by_role("button").count() == 0
    page.locator("#transcript", has_text="All of them pass").wait_for()
    page.keyboard.press("i")
    page.get_by_role("button", name="Resume").wait_for()
    assert page.get_by_role("button", name="Share").count() == 0
    page.keyboard.press("S")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    keys.get_by_text("Export this session").wait_for()
    assert keys.get_by_text("Share a link").count() == 0
    assert page.get_by_role("dialog").count() == 1
    page.keyboard.press("Escape")
    keys.wait_for(state="detached")
    page.keyboard.press("t")
    page.get_by_role("treeitem").filter(has_text="Let tokens expire").click()
    for name in ("Fork here", "Rewind to here", "Undo", "Redo"):
        button = page.get_by_role("button", name=name)
        assert button.get_attribute("aria-disabled") == "true"
        assert "only reads" in (button.get_attribute("title") or "")
    page.keyboard.press("f")
    page.locator(".toast", has_text="Your token only reads.").wait_for()
    assert server.store.find("login#fork-1") is None
