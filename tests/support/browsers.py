"""One browser for all tests of a process: each test opens contexts of its own in it, and closes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.needs import CHROMIUM, need

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PATIENCE: Final = 240_000
"""Milliseconds for whatever a page has to show: less than pytest's limit, so that a failure names it."""
_PAUSE: Final = 20
"""Milliseconds between two looks."""
_NAMES: Final = "MAP rebound.example 127.0.0.1, MAP evil.example 127.0.0.1"
"""Names of attackers lead to this machine: no test asks a name server of the world."""
_NO_HURRY: Final = """
    const later = window.setTimeout;
    const SHOWN = [2000, 6000, 12000];
    window.setTimeout = (run, wait, ...rest) => later(run, SHOWN.includes(wait) ? 60 * wait : wait, ...rest);
    Object.defineProperty(KeyboardEvent.prototype, "timeStamp", { get: () => 0 });
"""


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """The browser. Only tests and fixtures with the scope of a test can use it."""
    need("chromium")
    opened: Browser = request.getfixturevalue("_browser_of_the_process")
    # Between two calls playwright leaves its loop marked as the running one, and `asyncio.run` of any other
    # test would be refused.
    asyncio._set_running_loop(opened._loop)
    yield opened
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def _browser_of_the_process() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", f"--host-resolver-rules={_NAMES}"]
        )
        yield opened
        asyncio._set_running_loop(opened._loop)
        opened.close()


def unhurried(context: BrowserContext) -> None:
    """Notices stay, and keys that are pressed one after the other belong together: a machine may be slow."""
    context.add_init_script(_NO_HURRY)


def settled(page: Page) -> None:
    """Wait until the page has drawn what was done to it, and every picture has come or was refused."""
    page.evaluate(
        """async () => {
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            await Promise.all([...document.images].map(one => one.decode().catch(() => undefined)));
        }"""
    )


def becomes_true(page: Page, condition: str, arg: Any = None) -> None:
    """Wait until an expression, or a function of `arg`, gives something true.

    `page.wait_for_function` compiles its condition in the page again and again, which the policies of our
    pages refuse: it works only if the condition holds at once.
    """
    while not _holds(page, condition, arg):
        page.wait_for_timeout(_PAUSE)


def _holds(page: Page, condition: str, arg: Any) -> bool:
    from playwright.sync_api import Error

    try:
        return bool(page.evaluate(condition, arg))
    except Error as error:
        # What it looks at is not there yet, or the page is just another one.
        if "TypeError" in error.message or "context was destroyed" in error.message:
            return False
        raise
