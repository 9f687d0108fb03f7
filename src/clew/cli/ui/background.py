"""Work beside the screen: threads that read from the store while keys are answered.

Of each kind of work one thread runs at a time; of those that wait only the newest is kept: the hits of a word
that was typed further are not needed. The threads end with the process, so that no search delays the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, TypeVar

from textual.app import App
from textual.message_pump import MessagePump

from clew.cli.app import Refused, described
from clew.cli.text import clean
from clew.errors import ClewError

T = TypeVar("T")
Job = tuple[Callable[[], Any], Callable[[Any], None]]
PATIENCE = 2.0
"""Seconds that the end of the program waits for work that is under way."""


def after(seconds: float, pump: MessagePump, callback: Callable[[], None]) -> asyncio.TimerHandle:
    """Call a function of a widget or screen later. A timer of Textual is never called if the machine is busy
    elsewhere for so long just when it starts."""
    return asyncio.get_running_loop().call_later(seconds, pump.call_later, callback)


class Background:
    """The threads of one application. Results arrive where keys do: no lock is needed there."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._lock = Lock()
        self._running: dict[str, Thread] = {}
        self._waiting: dict[str, Job] = {}
        self._arriving = 0
        self._is_over = False

    @property
    def is_busy(self) -> bool:
        with self._lock:
            return bool(self._running or self._arriving)

    def run(self, kind: str, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Do the work in a thread, and then give what came of it to `done`. What is refused is shown."""
        with self._lock:
            if kind in self._running:
                self._waiting[kind] = (work, done)
                return
            thread = Thread(target=self._work, args=(kind, work, done), daemon=True, name=f"clew ui: {kind}")
            self._running[kind] = thread
        thread.start()

    def stop(self) -> None:
        """Nothing arrives any more; wait a moment for what is under way."""
        with self._lock:
            self._is_over = True
            threads = list(self._running.values())
            self._waiting.clear()
        for thread in threads:
            thread.join(PATIENCE)

    def _work(self, kind: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        while True:
            try:
                result = work()
            except (ClewError, Refused, OSError) as exc:
                self._arrive(self._refused, clean(described(exc)))
            except Exception as exc:  # noqa: BLE001 - shown by textual, in its own thread
                self._arrive(self._mistaken, exc)
            else:
                self._arrive(done, result)
            with self._lock:
                if kind not in self._waiting or self._is_over:
                    del self._running[kind]
                    return
                work, done = self._waiting.pop(kind)

    def _arrive(self, done: Callable[[Any], None], result: Any) -> None:
        with self._lock:
            if self._is_over:
                return
            self._arriving += 1

        def arrived() -> None:
            try:
                if not self._is_over:
                    done(result)
            finally:
                with self._lock:
                    self._arriving -= 1

        if not self._app.call_later(arrived):
            with self._lock:
                self._arriving -= 1

    def _refused(self, text: str) -> None:
        self._app.notify(text, severity="error", markup=False)

    def _mistaken(self, exc: Exception) -> None:
        raise exc
