"""How hard the tests look: a choice of every long list of cases, or all of them with `CLEW_THOROUGH=1`.

A choice is the same on every run. It is spread over the whole list, and has its first and its last case.
It may be smaller in `make check` and `make test`: `quick` says how small.
Imports no pytest: the processes that tests start import it too.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

THOROUGH = os.environ.get("CLEW_THOROUGH", "") not in ("", "0")

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that a whole run may need at once, with a wide margin."""

T = TypeVar("T")


def is_quick() -> bool:
    """Whether a tier below `full` runs; `tests/conftest.py` says which one it is."""
    return os.environ.get("CLEW_TIER", "full") != "full"


def usually(number: T, *, thorough: T, quick: T | None = None) -> T:
    """How often, how many, how long, or one of how many."""
    if THOROUGH:
        return thorough
    return number if quick is None or not is_quick() else quick


def spread(cases: Sequence[T], most: int, *, quick: int | None = None) -> list[T]:
    """At most so many of the cases, evenly spread, the first and the last among them."""
    most = usually(most, quick=quick, thorough=len(cases))
    if len(cases) <= most:
        return list(cases)
    step = (len(cases) - 1) / (most - 1)
    return [cases[round(number * step)] for number in range(most)]


def use_memory_for_temporary_files() -> None:
    """Let everything temporary lie where a sync costs nothing; a thorough run waits for the disk.

    What a test promises about syncs it shows by counting or by losing them, never by their time.
    """
    if THOROUGH or "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def keep_compiled_code() -> None:
    """Hundreds of processes are started; each would compile the package again where Python may not
    keep what it compiled."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
