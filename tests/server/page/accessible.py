"""What axe-core finds wrong on a page, and whether the page needs to be scrolled sideways."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.npm import installed_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

WEB = Path(__file__).parents[3] / "web"


@cache
def _axe() -> str:
    return (installed_for(WEB) / "axe-core" / "axe.min.js").read_text()


def violations(page: Page, *only: str) -> list[str]:
    """Each as "rule: place"; of these rules, or of all, also those that are only good practice."""
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate(_axe())  # by the debugger: the policy of the page lets no test add a script
    found: list[dict[str, Any]] = page.evaluate(
        """async only => {
            // A colour on its way to another one is not what a reader sees.
            await Promise.all(document.getAnimations().map(one => one.finished.catch(() => undefined)));
            const rules = {"target-size": {enabled: true}};
            const chosen = only.length ? {runOnly: only} : {rules};
            const told = await axe.run(document, {resultTypes: ["violations"], ...chosen});
            return told.violations;
        }""",
        only,
    )
    return [
        f"{one['id']}: {' '.join(map(str, node['target']))} | {node['html'][:160]} | {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]


def sideways(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    return int(page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth"))
