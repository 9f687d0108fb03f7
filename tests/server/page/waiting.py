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
    while not page.evaluate(condition, arg):
        assert time.monotonic() < until, f"this did not become true: {condition}"
        page.wait_for_timeout(50)
