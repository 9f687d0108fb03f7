"""Waiting until a page is as it should be.

`page.wait_for_function` compiles its condition in the page again and again, which the policy of the page
refuses: it works only if the condition holds at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE = 30.0


def becomes_true(page: Page, condition: str, arg: Any = None) -> None:
    """Wait until an expression, or a function of `arg`, gives something true."""
    until = time.monotonic() + PATIENCE
    while not _holds(page, condition, arg):
        assert time.monotonic() < until, f"this did not become true: {condition}"
        page.wait_for_timeout(50)


def _holds(page: Page, condition: str, arg: Any) -> bool:
    from playwright.sync_api import Error

    try:
        return bool(page.evaluate(condition, arg))
    except Error as error:
        # What it looks at is not there yet, or the page is just another one.
        if "TypeError" in error.message or "context was destroyed" in error.message:
            return False
        raise
