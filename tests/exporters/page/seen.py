"""A page in a file, opened in a browser, with all that it did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.browsers import PATIENCE, settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class Seen:
    """Until the end of a `with` block."""

    def __init__(self, browser: Browser, path: Path, *, width: int = 1400, **options: Any) -> None:
        self._context = browser.new_context(
            viewport={"width": width, "height": 900},
            permissions=["clipboard-read", "clipboard-write"],
            **options,
        )
        self._context.set_default_timeout(PATIENCE)
        self.page = page = self._context.new_page()
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.told: list[str] = []
        """By the console."""
        self.navigations: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        page.on("console", lambda message: self.told.append(message.text))
        page.on("pageerror", lambda error: self.told.append(str(error)))
        page.on("framenavigated", lambda frame: self.navigations.append(frame.url))
        page.goto(path.as_uri())

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *raised: object) -> None:
        self._context.close()

    def assert_it_did_nothing(self) -> None:
        """Nothing ran, was asked for, or led away."""
        settled(self.page)
        assert self.page.evaluate("window.pwned ?? window.__pwned ?? null") is None
        assert [url for url in self.requests if not url.startswith(("file://", "data:image/png"))] == []
        assert self.dialogs == []
        assert self.told == []
        assert len(self.navigations) == 1
        assert self.navigations[0].startswith("file://")
