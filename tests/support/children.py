"""Real processes, to be killed by real signals."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec


class ProcessFailed(AssertionError):
    """A process that should have ended well did not. Its output is in the message."""


_START: Final = """
import importlib, json, pathlib, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
function = getattr(importlib.import_module(given["module"]), given["function"])
pathlib.Path(given["answer"]).write_text(json.dumps(function(*given["args"])))
"""


def call(
    function: Callable[..., Any],
    *args: Any,
    under: Sequence[str] = (),
    timeout: float | None = None,
    expect: int | None = 0,
) -> Any:
    """Call a function of some module in a new interpreter; its answer, which like `args` must be JSON.

    Args:
        under: A command to run the interpreter under, such as strace with its arguments.
        timeout: In seconds, if pytest's own limit is too long. A process that takes longer has failed.
        expect: The exit status that is right; None: any. A killed process has minus its signal.
    """
    with tempfile.TemporaryDirectory(prefix="clew-call-") as directory:
        answer = Path(directory, "answer")
        given = {
            "path": sys.path,
            "module": function.__module__,
            "function": function.__name__,
            "args": args,
            "answer": str(answer),
        }
        command = [*under, sys.executable, "-X", "faulthandler", "-c", _START]
        with subprocess.Popen(
            [*command, msgspec.json.encode(given).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGABRT)  # faulthandler says where it hung
                words = process.communicate(timeout=10)[0].decode(errors="replace")
                raise ProcessFailed(f"{function.__name__} hung for {timeout:g} s:\n{words}") from None
            finally:
                if process.poll() is None:  # whatever stops a test stops its processes too
                    os.killpg(process.pid, signal.SIGKILL)
        if expect is not None and process.returncode != expect:
            text = output.decode(errors="replace")
            raise ProcessFailed(f"{function.__name__} ended with {process.returncode}, not {expect}:\n{text}")
        return msgspec.json.decode(answer.read_bytes()) if answer.exists() else None


class Child:
    """A function in a fork of this process. What it says through `tell` arrives here line by line.

    The child never returns into the caller's code: it leaves by `os._exit`, without cleaning up.
    """

    def __init__(self, function: Callable[..., None], *args: Any) -> None:
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._reading)
                function(lambda value: _tell(writing, value), *args)
                status = 0
            except BaseException:  # noqa: BLE001 (there is nobody above to catch it)
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(writing)
        self._buffer = b""
        self.status: int | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever stops a test stops its process too."""
        if self.status is None:
            self.kill()
            self.wait()

    def hear(self) -> Any:
        """The next thing it says; None when it has ended."""
        while b"\n" not in self._buffer:
            data = os.read(self._reading, 65536)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return msgspec.json.decode(line)

    def hear_all(self) -> list[Any]:
        """All else that it says, until it ends."""
        return list(iter(self.hear, None))

    def kill(self, signum: int = signal.SIGKILL) -> None:
        os.kill(self.pid, signum)

    def wait(self) -> int:
        """Its exit status, or minus the signal that killed it."""
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
            os.close(self._reading)
        return self.status


def forked(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a fork of this process; its answer, which must be JSON."""
    child = Child(lambda tell: tell([function(*args)]))
    heard = child.hear()
    if child.wait() != 0 or heard is None:
        raise ProcessFailed(f"{function.__name__} ended with {child.status}")
    return heard[0]


def preload(modules: Iterable[str]) -> None:
    """Import what a child has imported, so that the next one need not: a fork that imports nothing does its
    work in a fraction of the time, most of all under strace."""
    for name in modules:
        if name not in sys.modules and not name.startswith("_"):
            with suppress(ImportError):
                importlib.import_module(name)


def _tell(descriptor: int, value: Any) -> None:
    # Not by write(), which a test may let fail: what is told must arrive.
    os.writev(descriptor, [msgspec.json.encode(value) + b"\n"])
