"""What every benchmark script has in common: its options, its scratch folder, its output."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from benchmarks.harness.measure import Neighbours
from benchmarks.harness.report import Result, disturbance, table

HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Lab:
    """Where a script works, and how thoroughly."""

    directory: Path
    """Empty, on a real disk, removed afterwards."""
    quick: bool
    chosen: frozenset[str] = frozenset()
    """The options of this script alone that were given."""

    def has(self, option: str) -> bool:
        return option in self.chosen

    def say(self, text: str) -> None:
        """Show progress."""
        print(f"    {text}", file=sys.stderr, flush=True)

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every script has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--quick", action="store_true", help="smaller and less exact")
    options.add_argument(
        "--dir", type=Path, default=HERE / ".work", help="scratch space on the disk to measure"
    )
    return options


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder below `parent`, gone afterwards, also when the run is stopped."""
    parent.mkdir(parents=True, exist_ok=True)
    if in_memory(parent):
        print(f"warning: {parent} is in memory; its fsync costs nothing. Use --dir.", file=sys.stderr)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    signal.signal(signal.SIGTERM, _stop)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if not any(parent.iterdir()):
            parent.rmdir()


def in_memory(path: Path) -> bool:
    """Is the folder on tmpfs?"""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [m for m in mounts if path.resolve().is_relative_to(m[1])]
    return max(holding, key=lambda m: len(m[1]))[2] in ("tmpfs", "ramfs")


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    del signum, frame
    raise KeyboardInterrupt


def main(run: Callable[[Lab], Awaitable[Result]], description: str | None, **own: str) -> None:
    """Run one script: a table for a person, or JSON in a file for `python -m benchmarks`.

    `own`: options of this script alone, each with its help.
    """
    options = parser(description or "")
    for name, help in own.items():
        options.add_argument(f"--{name}", action="store_true", help=help)
    options.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    neighbours = Neighbours()
    try:
        with scratch(chosen.dir) as directory:
            given = frozenset(name for name in own if getattr(chosen, name))
            result = asyncio.run(_run(run, Lab(directory, chosen.quick, given)))
    except KeyboardInterrupt:
        sys.exit(130)
    result.neighbours = neighbours.share()
    if chosen.json:
        chosen.json.write_bytes(msgspec.json.encode(result))
    else:
        print(table(result.rows))
        print(disturbance([result]))
        print(msgspec.json.format(msgspec.json.encode(result.details)).decode())


async def _run(run: Callable[[Lab], Awaitable[Result]], lab: Lab) -> Result:
    return await run(lab)
