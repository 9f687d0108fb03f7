"""A process that is gone between any two of its writes: for certain, in this process, or by a real signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from clew.core.engine.engine import Engine
from clew.core.load.load import Loading, OnLast

Told = Callable[[int, str], None]
"""Is told of every write to a store: its number, and "before" or "after"."""


class GoneError(BaseException):
    """What follows does not happen."""


@contextmanager
def each_write(told: Told) -> Iterator[None]:
    run, numbers = Engine.run, count(1)

    def and_tell(engine: Engine, work: Any) -> Any:
        number = next(numbers)
        told(number, "before")
        found = run(engine, work)
        told(number, "after")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "run", and_tell)
        yield


def gone_at(wanted: int, when: str) -> Told:
    def told(number: int, at: str) -> None:
        if (number, at) == (wanted, when):
            raise GoneError

    return told


def killed_at(wanted: int, when: str) -> Told:
    """By the system. `when` may be "during" too: at some moment of the write."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def told(number: int, at: str) -> None:
        if number != wanted:
            return
        if at == when:
            die()
        elif when == "during" and at == "before":
            threading.Thread(target=die).start()

    return told


def claim_too_early(patch: pytest.MonkeyPatch) -> None:
    """Plant a bug: the record of a file is written before the end of its session, and not with it."""
    finish = Loading.finish

    def early(loading: Loading, last: OnLast | None = None) -> None:
        if last is not None and loading._row is not None:
            loading._run([last])
            last = None
        finish(loading, last)

    patch.setattr(Loading, "finish", early)
