"""`clew ui` as a process on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from clew.cli import run
from tests.cli.processes import COMMAND, Clew


def test_without_textual_one_line_says_what_to_install(
    story: Clew, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert 1 == run(["ui", "--store", str(story.store)])
    assert "clew: clew ui needs the package textual: pip install 'textual>=8.2'\n" == capsys.readouterr().err


def test_without_a_terminal_one_line_says_what_to_do_instead(story: Clew) -> None:
    assert "clew: clew ui needs a terminal to itself" in story("ui", code=1).err


@contextmanager
def process_on_terminal(cli: Clew, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *args],
        env={**cli.env, "TERM": "xterm-256color"},
        cwd=cli.home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """All that is printed until these bytes come; None: until the process ends."""
    printed = b""
    while wanted is None or wanted not in printed:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            got = b""
        if not got:
            assert wanted is None, printed
            break
        printed += got
    return printed


def test_on_a_terminal_it_searches_opens_copies_and_quits(agents: Clew) -> None:
    with process_on_terminal(agents, "ui") as (process, terminal):
        shown = read_until(terminal, b"9f3a1b2c")
        assert b"\x1b[?1049h" in shown  # a screen of its own
        os.write(terminal, b"/backtracks")
        read_until(terminal, b"1 hit in 1 session")
        os.write(terminal, b"\r")
        read_until(terminal, b"hit 1 of 1")
        os.write(terminal, b"y")
        read_until(terminal, b"\x1b]52;c;")  # to the clipboard
        os.write(terminal, b"q")
        assert b"\x1b[?1049l" in read_until(terminal, None)  # and back
        assert 0 == process.wait()
