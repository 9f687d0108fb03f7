"""The log: one line a request, and the errors of handlers with what it takes to find them.

A line has the time, the client's address, the principal, method, path, status, bytes and milliseconds:

    2026-11-16T17:52:19.123Z 127.0.0.1 owner GET /api/v1/sessions 200 1234 5.2ms

It holds no query, no header and no body, so no token; and nothing of it can look like another line or act on
a terminal. A thread writes, several lines at once: a slow disk or a full pipe holds up no request. If it
cannot keep up, lines are left out, and the log says how many.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.backends.registry import masked_addresses

if TYPE_CHECKING:
    from clew.server.application import Finished

_UNSAFE: Final = re.compile(r"[^!-~]|%(?![0-9A-Fa-f]{2})|\"")
_TOKEN: Final = re.compile(r"clew_[A-Za-z0-9_.~-]{8,}")
_LONG: Final = re.compile(r"[A-Za-z0-9_-]{32,}")
_UNSAFE_NOTE: Final = re.compile(r"[^ -~]")
_LONGEST: Final = 300
_MOST_LINES: Final = 20_000
AUDIT: Final = "clew.audit"
"""The logger of what cannot be taken back."""
_GATHER: Final = 0.05
"""Seconds in which lines are gathered for one write."""


def safe(text: str) -> str:
    """A text as one word of a line: what is not a visible ASCII character is written as %XX."""
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return _UNSAFE.sub(_escaped, short) or "-"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def safe_path(raw: str, *, is_known: bool = True) -> str:
    """The path of a request. One that leads nowhere (`is_known` False) may have anything pasted into it:
    there, what is long enough to be a secret is left out too."""
    path = _TOKEN.sub("***", raw.partition("?")[0])
    return safe(path if is_known else _LONG.sub("***", path))


class Log:
    """Lines to a file or to standard error, from any thread."""

    def __init__(self, path: Path | None = None, *, is_quiet: bool = False, is_threaded: bool = True) -> None:
        """`is_quiet`: without a file, only errors are written. Not `is_threaded`: lines are written at
        once."""
        self._path = path
        self._is_quiet = is_quiet and path is None
        self._fd = self._open()
        self._lines: list[str] = []
        self._lost = 0
        self._lock = threading.RLock()  # a signal may come while it is held
        self._is_told = threading.Event()
        self._is_ended = False
        self._is_broken = False
        self._thread: threading.Thread | None = None
        if is_threaded:
            self._thread = threading.Thread(target=self._write_all, name="clew-log", daemon=True)
            self._thread.start()

    def _open(self) -> int:
        if self._path is None:
            return 2
        return _appended(self._path)

    def request(self, done: Finished) -> None:
        """A request that ended."""
        if self._is_quiet:
            return
        failed = f" error={safe(done.error)}" if done.error else ""
        self._add(
            f"{_stamp()} {safe(done.client)} {safe(done.principal or '-')} {safe(done.method)} "
            f"{safe_path(done.path, is_known=done.route is not None)} {done.status or '-'} {done.sent} "
            f"{done.seconds * 1000:.1f}ms{failed}\n"
        )

    def refused(self, client: str, status: int) -> None:
        """What came was no request that could be read, or one too many."""
        if not self._is_quiet:
            self._add(f"{_stamp()} {safe(client)} - - - {status} 0 0.0ms\n")

    def failed(self, what: str, exc: BaseException) -> None:
        """Something failed in a way that it should not. The message of an error may quote what a client sent,
        so its kind and its places are written, not its text."""
        lines = [f"{_stamp()} error: {_UNSAFE_NOTE.sub('?', what)}\n"]
        seen: BaseException | None = exc
        while seen is not None:
            lines.append(f"    {safe(f'{type(seen).__module__}.{type(seen).__qualname__}')}\n")
            lines += [
                f"      {safe(frame.filename)}:{frame.lineno} {safe(frame.name)}\n"
                for frame in traceback.extract_tb(seen.__traceback__)[-30:]
            ]
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
        self._add("".join(lines))

    def note(self, text: str) -> None:
        """Something about the server itself. The text is ours."""
        self._add(f"{_stamp()} {_UNSAFE_NOTE.sub('?', masked_addresses(text))}\n")

    def _add(self, line: str) -> None:
        with self._lock:
            if len(self._lines) >= _MOST_LINES:
                self._lost += 1
                return
            self._lines.append(line)
        if self._thread is None:
            self.flush()
        else:
            self._is_told.set()

    # -- writing

    def _write_all(self) -> None:
        while not self._is_ended:
            self._is_told.wait()
            if not self._is_ended:
                time.sleep(_GATHER)
            self._is_told.clear()
            self.flush()

    def flush(self) -> None:
        """Write what is there."""
        with self._lock:
            lines, self._lines = self._lines, []
            lost, self._lost = self._lost, 0
        if lost:
            lines.append(f"{_stamp()} {lost} lines were left out: the log was not written fast enough\n")
        data = "".join(lines).encode("ascii", "replace")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            self._is_broken = False
        except OSError as exc:
            if self._path is not None and not self._is_broken:
                self._is_broken = True
                sys.stderr.write(f"clew: cannot write to the log {self._path}: {exc.strerror}\n")

    def reopen(self) -> None:
        """After the file was moved away, as logrotate does. The old one stays if no new one can be made."""
        if self._path is None:
            return
        self.flush()
        fd = self._open()
        os.dup2(fd, self._fd)
        os.close(fd)

    def close(self) -> None:
        """Write what is left; a pipe that is not read is waited for a second."""
        self._is_ended = True
        self._is_told.set()
        if self._thread is not None:
            self._thread.join(1.0)
        self.flush()


def _stamp() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"


class LogHandler(logging.Handler):
    """What the server, uvicorn and the SDK of MCP tell by `logging`, in the same log. What is not ours may
    quote what a client sent: it is cut."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not record.name.startswith("clew"):
            text = text[:_LONGEST]
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failed(text, record.exc_info[1])
        else:
            self._log.note(f"audit: {text}" if record.name == AUDIT else text)


def _appended(path: Path) -> int:
    """Only the user may read a new one. One that is there keeps its mode."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
