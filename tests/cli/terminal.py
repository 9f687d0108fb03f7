"""`clew` on a real terminal: a pseudo-terminal with an emulator behind it, at home in a recorded directory.

The clock of the processes stands at `NOW`, and goes on by a millisecond whenever it is looked at, so that
screens are the same on every run.
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

from tests.home.make import NOW, environment

LINES: Final = 24
SCROLLED: Final = 1000
"""Lines of a screen that does not scroll, for commands that print more than a terminal shows."""
PATIENCE: Final = 30.0
"""Seconds until a screen that does not come is a failure."""
CLOCK: Final = f"""
import datetime, itertools, sys, time
ticks = itertools.count({int(NOW.timestamp())} * 1000)
time.time_ns = lambda: next(ticks) * 1_000_000
time.time = lambda: next(ticks) / 1000
import clew.cli.text
clew.cli.text.now = lambda: datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
from clew.cli import main
main(sys.argv[1:])
"""


class Terminal:
    """Where commands are typed."""

    def __init__(self, home: Path, columns: int = 80) -> None:
        self.home, self.columns = home, columns
        self.env = {**environment(home), "TERM": "xterm-256color", "PAGER": "cat"}

    def run(self, command: str, code: int = 0) -> str:
        """Type a command, and wait for its end: all that it left on the screen, and how it must end."""
        with Running(self, command, SCROLLED) as running:
            running.wait(lambda: running.is_over)
        assert running.code == code, running.text
        return running.text

    def start(self, command: str) -> Running:
        """A program of the full screen, to be left with `with`."""
        return Running(self, command, LINES)


class Running:
    """A process on a terminal."""

    def __init__(self, terminal: Terminal, command: str, lines: int) -> None:
        self.code: int | None = None
        self.is_over = False
        self._screen = pyte.Screen(terminal.columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, terminal.columns, 0, 0))
        name, *arguments = shlex.split(command)
        assert name == "clew"
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLOCK, *arguments],
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
        self.code = self._process.wait(PATIENCE)
        os.close(self._ours)

    @property
    def text(self) -> str:
        """What is to be seen, without the empty ends of lines and of the screen."""
        lines = [line.rstrip() for line in self._screen.display]
        return "\n".join(lines).rstrip("\n") + "\n"

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """The screen, as soon as it shows a text and nothing more comes."""
        self.wait(lambda: text in self.text)
        while self._read(0.3):
            pass
        return self.text

    def wait(self, until: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < end, self.text
            assert not self.is_over, self.text
            self._read(1.0)

    def _read(self, seconds: float) -> bool:
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
