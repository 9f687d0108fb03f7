"""Commands run inside the test's own process: hundreds of them in the time of a few processes.

A command finds what a process of its own would have: descriptors 0, 1 and 2, variables, a directory, a time
zone, signals. Whatever it changes of this is put back. What only a process can show (it is killed, replaced
by another program, started by a shell) is in `tests.cli.processes`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import pytest

import clew
from clew.cli import completion, output, run

LINES: Final = 24
NEVER: Final = 1e6
"""Seconds until something is shown that is only for slow machines."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


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


def in_pipe(*args: str) -> str:
    """All that a command prints, where nobody looks."""
    done = run_in_pipes(args, {**os.environ, "PAGER": "cat", "TERM": "xterm-256color"})
    return done.out + done.err


def on_terminal(*args: str, width: int = 80, **environment: str) -> str:
    """All that a command sends to a terminal without a keyboard."""
    wanted = {**os.environ, "COLUMNS": None, "LINES": None, **environment}
    return run_on_terminal(args, wanted, width=width, typed=None).out


def run_in_pipes(
    args: tuple[str, ...],
    environment: Mapping[str, str],
    directory: Path | None = None,
    given: bytes | Path | None = None,
) -> Done:
    """What a command prints into pipes. `given` comes through a pipe, or is the file that it reads."""
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        source = stack.enter_context(_source(given))
        code = _run(args, (source, out.fileno(), err.fileno()), environment, directory)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="surrogateescape"))
    return Done(code, *texts)


def run_on_terminal(
    args: tuple[str, ...],
    environment: Mapping[str, str | None],
    directory: Path | None = None,
    *,
    width: int = 80,
    typed: str | None = "",
) -> Done:
    """Standard output and error come together. A variable that is None is not there; a keyboard neither."""
    # A terminal with colours, no pager: a test has no keys to press in one.
    wanted = {"TERM": "xterm-256color", "PAGER": "cat", **environment}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, width, 0, 0))
    os.write(ours, (typed or "").encode())
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.extend(iter(lambda: read(ours), b"")))
    reader.start()
    try:
        known = {name: value for name, value in wanted.items() if value is not None}
        with _source(None) as nothing:
            keyboard = nothing if typed is None else theirs
            code = _run(args, (keyboard, theirs, theirs), known, directory)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return Done(code, b"".join(seen).decode(errors="surrogateescape").replace("\r\n", "\n"), "")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


@contextmanager
def _source(given: bytes | Path | None) -> Iterator[int]:
    if isinstance(given, bytes):
        reading, writing = os.pipe()
        feeding = threading.Thread(target=_feed, args=(writing, given))
        feeding.start()
        try:
            yield reading
        finally:
            os.close(reading)
            feeding.join()
    else:
        with open(os.devnull if given is None else given, "rb") as file:
            yield file.fileno()


def _feed(pipe: int, data: bytes) -> None:
    with open(pipe, "wb", buffering=0) as file:
        try:
            file.write(data)
        except BrokenPipeError:
            pass


def _run(
    args: tuple[str, ...],
    descriptors: tuple[int, int, int],
    environment: Mapping[str, str],
    directory: Path | None,
) -> int:
    with (
        _own_place(directory, environment),
        _own_descriptors(descriptors),
        _own_signals(),
        _own_state(args),
        _own_streams(environment.get("PYTHONIOENCODING", "utf-8")),
    ):
        return run(list(args))


@contextmanager
def _own_place(directory: Path | None, environment: Mapping[str, str]) -> Iterator[None]:
    before, variables = os.getcwd(), dict(os.environ)
    os.chdir(directory or before)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
        time.tzset()


@contextmanager
def _own_descriptors(descriptors: tuple[int, int, int]) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def _own_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _own_state(args: tuple[str, ...]) -> Iterator[None]:
    """What a module, once imported, keeps for its process."""
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, sys.unraisablehook
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(Path(clew.__file__).with_name("__main__.py")), *args])
        patch.setattr(tempfile, "tempdir", os.environ.get("TMPDIR", tempfile.gettempdir()))
        patch.setattr(output._look, "colours", "auto")
        for slow in (completion, output, output.ImportLine):
            patch.setattr(slow, "PATIENCE", NEVER)
        for name in ("_exit", "execv", "execve", "execvp", "execvpe"):
            patch.setattr(os, name, _needs_a_process)
        try:
            yield
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
            sys.unraisablehook = hook


def _needs_a_process(*_: object) -> NoReturn:
    raise AssertionError("this ends or replaces the process: run it with Clew.process")


@contextmanager
def _own_streams(encoding: str) -> Iterator[None]:
    # Python's input() asks C for standard input if that is descriptor 0, and C keeps what it has read.
    with (
        open(os.dup(0), encoding=encoding) as stdin,
        open(1, "w", encoding=encoding, errors="surrogateescape", closefd=False) as stdout,
        open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False) as stderr,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, stream in {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items():
            patch.setattr(sys, name, stream)
            patch.setattr(sys, f"__{name}__", stream)
        yield
