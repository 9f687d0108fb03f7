"""The worker of the story: a process of its own, which is killed in the middle of its work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import clew
from clew.core.own_program import own_module


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(id: str, name: str, argument: str) -> dict[str, Any]:
    function = {"name": name, "arguments": f'{{"what": "{argument}"}}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def result(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


@contextmanager
def worker(path: Path, id: str) -> Iterator[subprocess.Popen[str]]:
    """A child process that appends; gone when the block is left, however it is left."""
    command = [*own_module("clew.cli.demo.worker"), str(path), id]
    # A Ctrl-C waits until there is a process to end.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    patience = threading.Timer(30, process.kill)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        patience.start()
        yield process
    finally:
        patience.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def work(path: str, id: str) -> None:
    """The worker: call a tool, wait for it, keep its result. Writes position and hash after each append."""
    with clew.open(path) as store:
        s = store.get(id)
        for number in range(10_000):
            for message in (call(f"t{number}", "pytest", f"round {number}"), result(f"t{number}", "passed")):
                [entry] = s.append(message)
                os.write(1, f"{entry.position} {entry.hash}\n".encode())
                time.sleep(0.003 if "tool_calls" in message else 0)


if __name__ == "__main__":
    try:
        work(*sys.argv[1:])
    except BrokenPipeError:  # the reader has gone
        pass
