"""A browser on a real store: keys are pressed, and what is on the screen is read."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textual.pilot import Pilot

import clew
from clew.cli.ui.actions import StoreScreen
from clew.cli.ui.app import Browser
from clew.cli.ui.lines import Lines
from clew.cli.ui.reader import ReaderScreen
from clew.cli.ui.search import SearchScreen
from clew.cli.ui.sessions import SessionsScreen
from clew.cli.ui.tree import TreeScreen
from clew.cli.ui.view import CursorView, Rows
from tests.cli.processes import Clew

S = TypeVar("S")


class Screen:
    """The browser of a test, its keys and what it shows."""

    def __init__(self, store: clew.Store, app: Browser, pilot: Pilot[None]) -> None:
        self.store, self.app, self.pilot = store, app, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def write(self, text: str) -> None:
        """Letters, as fast as they can be typed."""
        names = {" ": "space", "/": "slash", "-": "minus", '"': "quotation_mark", "*": "asterisk"}
        await self.pilot.press(*(names.get(char, char) for char in text))
        await self.settle()

    async def settle(self) -> None:
        """Until everything was read that the screen needs."""
        quiet = 0
        while quiet < 3:  # what was asked for last has begun by then
            await self.pilot.pause()
            quiet = 0 if self._is_busy() else quiet + 1
            await asyncio.sleep(0.001 if quiet == 0 else 0)

    def _is_busy(self) -> bool:
        screen = self.app.screen
        if isinstance(screen, StoreScreen) and screen.is_stale:
            return True
        if isinstance(screen, SearchScreen) and screen.is_waiting:
            return True
        views = list(screen.query(CursorView))
        if any(view.size.width == 0 for view in views):
            return True
        return self.app.background.is_busy or any(view.is_reading for view in screen.query(Lines))

    @property
    def rows(self) -> Rows[Any]:
        return self.app.screen.query_one(Rows)

    @property
    def lines(self) -> Lines[Any]:
        return self.app.screen.query_one(Lines)

    @property
    def texts(self) -> list[str]:
        """The lines of the list, the transcript or the tree, those beyond the screen too."""
        view = self.app.screen.query(Rows).first() if self.app.screen.query(Rows) else self.lines
        return [line.rstrip() for line in view.texts]

    @property
    def here(self) -> str:
        """The line under the cursor."""
        view = self.app.screen.query(Rows).first() if self.app.screen.query(Rows) else self.lines
        return view.texts[view.cursor].strip()

    @property
    def text(self) -> str:
        """What is on the screen, without its colours."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    @property
    def toasts(self) -> list[str]:
        return [toast.message for toast in self.app._notifications]

    async def go_to(self, words: str) -> None:
        """As many arrows would."""
        view = self.app.screen.query(Rows).first() if self.app.screen.query(Rows) else self.lines
        found = [at for at, text in enumerate(view.texts) if words in text]
        assert found, (words, view.texts)
        view.go_to(found[0])
        await self.settle()

    def shown(self, kind: type[S]) -> S:
        """The screen, which is of this kind."""
        found: object = self.app.screen
        assert isinstance(found, kind), found
        return found

    @property
    def sessions(self) -> SessionsScreen:
        return self.shown(SessionsScreen)

    @property
    def reader(self) -> ReaderScreen:
        return self.shown(ReaderScreen)

    @property
    def tree(self) -> TreeScreen:
        return self.shown(TreeScreen)

    @property
    def search(self) -> SearchScreen:
        return self.shown(SearchScreen)

    def head(self, id: str = "login-bug") -> int:
        return self.store.get(id).head.position


Steps = Callable[[Screen], Awaitable[None]]


def browse(cli: Clew, steps: Steps, size: tuple[int, int] = (80, 24)) -> None:
    async def drive() -> None:
        with clew.open(cli.store) as store:
            app = Browser(store)
            async with app.run_test(size=size, notifications=True) as pilot:
                screen = Screen(store, app, pilot)
                await screen.settle()
                try:
                    await steps(screen)
                finally:
                    app.background.stop()

    asyncio.run(drive())


def browsing(store: str, size: tuple[int, int] = (80, 24)) -> Callable[[Steps], Callable[..., None]]:
    """Make steps a test: with a browser on the store that a fixture of this name has."""

    def decorate(steps: Steps) -> Callable[..., None]:
        @functools.wraps(steps)
        def test(**fixtures: Clew) -> None:
            browse(fixtures[store], steps, size)

        wanted = inspect.Parameter(store, inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = inspect.Signature([wanted])  # type: ignore[attr-defined]
        return test

    return decorate
