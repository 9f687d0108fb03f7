"""Functions called in processes of their own, without an interpreter that starts each time.

One process per run of pytest imports what the functions need, and forks for each call: it has one thread,
opens no store and has nothing of anybody else's. `tests.support.children.call` starts an interpreter instead:
for those that run under another command, or must not have imported anything.
"""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.support.children import ProcessFailed

_MODULES: Final = (
    "clew",
    "clew.backends.sqlite.backend",
    "clew.backends.jsonl.backend",
    "clew.files.service",
)
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import tests.support.forks as f; f.obey()"
)


def call_in_fork(
    function: Callable[..., Any], *args: Any, expect: int | None = 0, also: Sequence[str] = ()
) -> Any:
    """Call a function of some module in a new process; its answer, which like `args` must be JSON.

    Args:
        expect: The exit status that is right; None: any. A killed process has minus its signal.
        also: Modules that it will import, beside its own: those who call it next need not import them either.
    """
    with tempfile.TemporaryDirectory(prefix="clew-call-") as directory:
        answer, output = Path(directory, "answer"), Path(directory, "output")
        given = {
            "module": function.__module__,
            "also": also,
            "function": function.__name__,
            "args": args,
            "answer": str(answer),
            "output": str(output),
            "environment": dict(os.environ),
            "directory": os.getcwd(),
        }
        status = _parent(os.getpid()).call(given, output)
        if expect is not None and status != expect:
            text = output.read_text(errors="replace")
            raise ProcessFailed(f"{function.__name__} ended with {status}, not {expect}:\n{text}")
        return msgspec.json.decode(answer.read_bytes()) if answer.exists() else None


@cache
def _parent(pid: int) -> _Parent:
    """Of this process: a fork of it must not use the same one."""
    return _Parent()


class _Parent:
    """The process that forks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _START, msgspec.json.encode(sys.path).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self._end)

    def call(self, given: dict[str, Any], output: Path) -> int:
        """Its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(given) + b"\n")
        self._process.stdin.flush()
        child = self._hear()
        try:
            return self._hear()
        except BaseException as error:  # whatever stops a test stops its processes too
            os.killpg(child, signal.SIGABRT)  # faulthandler says where it was
            self._hear()
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            error.add_note(output.read_text(errors="replace"))
            raise

    def _hear(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def _end(self) -> None:
        self._process.communicate()


# -- in the process that forks


def obey() -> None:
    """Fork for each line that comes, and tell the number and the status of the child. Returns in the child,
    which then ends as any program does."""
    for name in _MODULES:
        importlib.import_module(name)
    orders, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    with os.fdopen(orders, "rb") as lines:
        for line in lines:
            given = msgspec.json.decode(line)
            for name in (given["module"], *given["also"]):
                with suppress(Exception):  # the child fails in the same way, and tells it
                    importlib.import_module(name)
            child = os.fork()
            if child == 0:
                os.close(answers)
                _obey_one(given)
                return
            os.write(answers, b"%d\n" % child)
            os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _obey_one(given: dict[str, Any]) -> None:
    os.setsid()
    output = os.open(given["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(given["directory"])
    os.environ.clear()
    os.environ.update(given["environment"])
    tempfile.tempdir = None
    try:
        function = getattr(importlib.import_module(given["module"]), given["function"])
        Path(given["answer"]).write_bytes(msgspec.json.encode(function(*given["args"])))
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001 (there is nobody above to catch it)
        traceback.print_exc()
        sys.exit(1)
