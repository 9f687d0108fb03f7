"""The command line as a real process: into pipes, or on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "clew"]


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.lines]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


class Clew:
    """`clew` with a store of its own, and nothing of the user's settings."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home / "agents.db"
        kept = {
            name: os.environ[name]
            for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "CLEW_STATE_DIR")
            if name in os.environ
        }
        self.env = {**kept, "HOME": str(home), "CLEW_STORE": str(self.store), "TZ": "UTC", "LANG": "C.UTF-8"}

    def __call__(self, *args: str, code: int = 0, env: dict[str, str] | None = None) -> Done:
        """Run it with pipes on all sides; `code` is how it must end."""
        done = subprocess.run(
            [*COMMAND, *args],
            env={**self.env, **(env or {})},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.code == code, result
        return result

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *args],
            env={**self.env, "PYTHONUNBUFFERED": "1"},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_terminal(
        self, *args: str, width: int = 80, typed: str = "", env: Mapping[str, str | None] | None = None
    ) -> Done:
        """Run it on a pseudo-terminal; standard output and error come together. None removes a variable."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        # A terminal with colours, no pager: a test has no keys to press in one.
        wanted = {**self.env, "TERM": "xterm-256color", "PAGER": "cat", **(env or {})}
        process = subprocess.Popen(
            [*COMMAND, *args],
            env={name: value for name, value in wanted.items() if value is not None},
            cwd=self.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            os.write(ours, typed.encode())
            printed = b"".join(iter(lambda: _read(ours), b""))
            code = process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        return Done(code, printed.decode().replace("\r\n", "\n"), "")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
