"""Commands run inside the test's own process: hundreds of them in the time of a few processes."""

from __future__ import annotations

import io
import os
import pty
import sys
import threading

import pytest

from clew.cli import run


def in_pipe(*args: str) -> str:
    """All that a command prints, where nobody looks."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    _run(args, out, err)
    return b"".join(file.buffer.getvalue() for file in (out, err)).decode(errors="surrogateescape")


def on_terminal(*args: str, width: int = 80, **environment: str) -> str:
    """All that a command sends to a terminal."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.extend(iter(lambda: _read(ours), b"")))
    reader.start()
    try:
        with os.fdopen(theirs, "w", encoding="utf-8", newline="") as screen:
            _run(args, screen, screen, COLUMNS=str(width), **environment)
    finally:
        reader.join()
        os.close(ours)
    return b"".join(seen).decode(errors="surrogateescape").replace("\r\n", "\n")


def _run(args: tuple[str, ...], out: io.TextIOBase, err: io.TextIOBase, **environment: str) -> None:
    with pytest.MonkeyPatch.context() as patch, open(os.devnull, encoding="utf-8") as nothing:
        patch.setattr(sys, "stdin", nothing)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        for name, value in {"PAGER": "cat", "TERM": "xterm-256color", **environment}.items():
            patch.setenv(name, value)
        run(list(args))
        out.flush()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
