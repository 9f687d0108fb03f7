"""Threads of a test that do something at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def in_threads(work: Callable[[Given], Made], given: Iterable[Given]) -> list[Made]:
    """Do some work in a thread for each thing; what each gave, or the first error, when all have ended."""
    things = list(given)
    with ThreadPoolExecutor(len(things)) as threads:
        return list(threads.map(work, things))
