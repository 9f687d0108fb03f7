"""An agent in a process of its own, which goes on writing whatever happens to the server.

    python -m tests.server.page.writer STORE SESSION

A line with a number on its standard input makes it write so many messages; it answers with the number.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import clew


class Writer:
    """That process, seen from a test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, count: int) -> None:
        """Let it write so many messages more."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Wait until it has written what it was told to."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def write(self, count: int) -> None:
        self.begin(count)
        self.end()


@contextmanager
def writing(store: Path, session: str) -> Iterator[Writer]:
    command = [sys.executable, "-m", __name__, str(store), session]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Writer(process)
        finally:
            process.kill()


def main(url: str, id: str) -> None:
    number = 0
    with clew.open(url) as store:
        session = store.session(id)
        for line in sys.stdin:
            for _ in range(int(line)):
                number += 1
                role = "user" if number % 5 == 1 else "assistant"
                session.append({"role": role, "content": f"message {number} of {id}"})
            sys.stdout.write(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
