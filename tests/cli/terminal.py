"""`clew` on a real terminal: a pseudo-terminal with an emulator behind it, at home in a recorded directory.

The clock stands at `NOW`, and goes on by a millisecond whenever it is looked at, so that screens are the same
on every run. What fills the screen and waits for keys is a process; other commands run in here.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyte
import pytest

from clew.cli import text
from clew.cli.views import imports
from tests.cli.inside import run_on_terminal
from tests.home.make import NOW, environment

LINES: Final = 24
SCROLLED: Final = 1000
"""Lines of a screen that does not scroll, for commands that print more than a terminal shows."""
CLOCK: Final = f"""
import datetime, itertools, time
import clew.cli.text, clew.cli.views.imports
ticks = itertools.count({int(NOW.timestamp())} * 1000)
time.time_ns = lambda: next(ticks) * 1_000_000
time.time = lambda: next(ticks) / 1000
now = lambda: datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
clew.cli.text.now = clew.cli.views.imports.now = now
"""
PROGRAM: Final = f"""{CLOCK}
import sys
from clew.cli import main
main(sys.argv[1:])
"""
PAUSE: Final = 3.0
"""Seconds without anything new, after which a screen that is not as expected is taken to be whole."""


class Terminal:
    """Where commands are typed."""

    def __init__(self, home: Path, columns: int = 80) -> None:
        self.home, self.columns = home, columns
        self.env = {**environment(home), "TERM": "xterm-256color", "PAGER": "cat"}

    def run(self, command: str, code: int = 0) -> str:
        """Type a command, and wait for its end: all that it left on the screen, and how it must end."""
        with pytest.MonkeyPatch.context() as patch:
            for place, name in ((time, "time_ns"), (time, "time"), (text, "now"), (imports, "now")):
                patch.setattr(place, name, getattr(place, name))  # to be put back
            exec(CLOCK, {})  # noqa: S102 (our own)
            done = run_on_terminal(_words(command), self.env, self.home, width=self.columns)
        screen = pyte.Screen(self.columns, SCROLLED)
        pyte.Stream(screen).feed(done.out.replace("\n", "\r\n"))
        assert done.code == code, _shown(screen)
        return _shown(screen)

    def start(self, command: str) -> Running:
        """A program of the full screen, to be left with `with`."""
        return Running(self, command)


def _words(command: str) -> tuple[str, ...]:
    name, *arguments = shlex.split(command)
    assert name == "clew"
    return tuple(arguments)


def _shown(screen: pyte.Screen) -> str:
    """What is to be seen, without the empty ends of lines and of the screen."""
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n") + "\n"


class Running:
    """A process on a terminal."""

    def __init__(self, terminal: Terminal, command: str) -> None:
        self.code: int | None = None
        self.is_over = False
        self._screen = pyte.Screen(terminal.columns, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, terminal.columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *_words(command)],
            env=terminal.env,
            cwd=terminal.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_over:
            self._process.kill()
        self.code = self._process.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        return _shown(self._screen)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str, is_expected: Callable[[str], bool] = lambda _: False) -> str:
        """The screen, as soon as it shows a text and is as expected, or nothing more comes."""
        self.wait(lambda: text in self.text)
        while not is_expected(self.text) and self._read(PAUSE):
            pass
        return self.text

    def wait(self, until: Callable[[], bool]) -> None:
        while not until():
            assert not self.is_over, self.text
            self._read(None)

    def _read(self, seconds: float | None) -> bool:
        """Show what comes next; False: nothing came."""
        if self.is_over or not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the process has closed its end
            data = b""
        self.is_over = not data
        self._stream.feed(data)
        return bool(data)
