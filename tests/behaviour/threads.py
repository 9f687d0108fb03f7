"""Work that several threads do at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], given: Iterable[T]) -> None:
    """Do the work for each at once; a failure in a thread is a failure of the test."""
    errors: list[BaseException] = []

    def guarded(one: T) -> None:
        try:
            work(one)
        except BaseException as exc:  # noqa: BLE001 (raised again below)
            errors.append(exc)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
