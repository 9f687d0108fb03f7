"""Snapshots of a directory tree and restoring them, beside shadow git and restic, in turns.

Every contender has a copy of the tree for itself. Git is a new process for each command, as agents run it;
Clew is a store that is open. A restore of Clew includes its safety snapshot; git keeps no such thing.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import clew
from benchmarks.files import trees
from benchmarks.files.series import series
from benchmarks.files.trees import Editor
from benchmarks.harness.measure import Samples, bytes_written, shuffled, size_on_disk, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.peers.tree_keepers import (
    GIT,
    KEEPERS,
    RESETTING,
    SLOW,
    SLOW_TO_RESTORE,
    TreeKeeper,
    is_there,
    start,
)

SMALL, MIDDLE, LARGE = 2_000, 10_000, 50_000
FEW, MANY = 5, 500
FIRST, NOTHING, CHANGED = "first snapshot", "nothing changed", f"{FEW} files changed"
FIND = "find"
A_FEW_KB = 16_384
UNTUNED_OR_SLOW = (*SLOW, "git commit")
"""Not asked again with large trees."""


async def run(lab: Lab) -> Result:
    """Trees of growing size, a real one, many snapshots, and one very large tree."""
    result = Result()
    rounds = {SMALL: 9} if lab.quick else {SMALL: 9, MIDDLE: 5, LARGE: 3}
    for files, times in rounds.items():
        names = present(() if files == SMALL else ("git commit",) if files < LARGE else UNTUNED_OR_SLOW)
        contest = Contest(lab, f"{files:,} files", names, rounds=times)
        contest.make(lambda root, files=files: trees.make(root, files))  # type: ignore[misc]
        contest.run(result, firsts=3 if files == SMALL else 1)
    if not lab.quick:
        contest = Contest(lab, "libraries", present(UNTUNED_OR_SLOW), rounds=3)
        contest.make(trees.copy_libraries)
        contest.run(result, firsts=1)
    series(lab, result)
    result.details["absent"] = absent = [name for name in KEEPERS if not is_there(name)]
    result.rows += [Row(f"the same by {name}", "", "is not there", 0.0) for name in absent]
    return result


def present(without: Collection[str]) -> list[str]:
    """The keepers that can run here."""
    return [name for name in KEEPERS if name not in without and is_there(name)]


class Contest:
    """One tree, kept by several."""

    def __init__(self, lab: Lab, title: str, names: Sequence[str], rounds: int) -> None:
        self._lab = lab
        self._title = title
        self._names = list(names)
        self._rounds = rounds
        self._is_patient = any(name in SLOW for name in names)
        """Whether there is time for those that write every file of the tree when one is restored."""
        self._folder = lab.directory / "".join(c for c in title if c.isalnum())
        self._roots = {name: self._folder / f"tree-{number}" for number, name in enumerate(names)}
        self._keepers: dict[str, TreeKeeper] = {}
        self._latest: dict[str, str] = {}
        self._homes: dict[str, Path] = {}
        self._written: dict[str, float] = {}
        self.times = Samples()

    def make(self, fill: Callable[[Path], object]) -> None:
        """The tree, once for each."""
        self._lab.say(f"{self._title}: making {len(self._names)} trees")
        first, *others = self._roots.values()
        first.mkdir(parents=True)
        fill(first)
        for root in others:
            trees.copy(first, root)
        trees.settle()

    def run(self, result: Result, firsts: int) -> None:
        """Everything, in the order in which it happens to a tree."""
        self._lab.say(f"{self._title}: {', '.join(self._names)}")
        with steady():
            for number in range(firsts):
                self._first(number)
            disks = {name: size_on_disk(home) for name, home in self._homes.items()}
            editors = {name: Editor(root) for name, root in self._roots.items()}
            self._rescan(NOTHING, lambda name: None)
            self._rescan(CHANGED, lambda name: editors[name].edit(FEW))
            for count in (FEW, MANY):
                self._restore(count, editors)
        for keeper in self._keepers.values():
            keeper.close()
        result.rows += self._rows(disks)
        result.details[self._title] = self._details(disks)
        subprocess.run(["rm", "-rf", str(self._folder)], check=True)

    def _first(self, number: int) -> None:
        """A new keeper for each; the last ones stay. Opened again: a store is small once it was closed."""
        for name in shuffled(self._names, number):
            if name in SLOW and number:
                continue
            if name in self._keepers:
                self._keepers[name].close()
            home = self._homes[name] = self._folder / f"kept-{number}-{self._names.index(name)}"
            keeper = self._keepers[name] = start(name, home, self._roots[name])
            self._latest[name] = self._time(f"{FIRST} {name}", keeper.snapshot)
            keeper.settle()

    def _rescan(self, work: str, prepare: Callable[[str], object]) -> None:
        for number in range(self._rounds):
            for name in shuffled([*self._names, FIND], number):
                if name == FIND:
                    self._time(f"{work} {FIND}", self._find)
                elif name not in SLOW or number == 0:
                    prepare(name)
                    before = bytes_written()
                    self._latest[name] = self._time(f"{work} {name}", self._keepers[name].snapshot)
                    self._written[f"{work} {name}"] = bytes_written() - before

    def _find(self) -> str:
        """What a walk costs: every name, and one look at each file."""
        done = subprocess.run(
            ["find", str(self._roots["clew"]), "-size", "+1024G"], check=True, capture_output=True
        )
        return done.stdout.decode()

    def _restore(self, count: int, editors: dict[str, Editor]) -> None:
        for number in range(self._rounds):
            for name in shuffled(self._names, number):
                if name in SLOW_TO_RESTORE and (number or count == MANY or not self._is_patient):
                    continue
                before = editors[name].edit(count)
                keeper, snapshot = self._keepers[name], self._latest[name]
                self._time(_restoring(count, name), lambda k=keeper, s=snapshot: k.restore(s))  # type: ignore[misc]
                assert all(file.read_bytes() == content for file, content in before.items()), name

    def _time(self, name: str, act: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        made = act()
        self.times.add(name, time.perf_counter() - started)
        return made

    # -- what came out

    def _rows(self, disks: dict[str, int]) -> list[Row]:
        git = [name for name in self._names if name in GIT]
        smallest = min(git, key=lambda name: disks[name])
        rows = [
            self._row(FIRST, git, 0.3),
            Row(
                f"{FIRST}, {self._title}: disk",
                size(disks["clew"]),
                f"{smallest}: {size(disks[smallest])}",
                disks["clew"] / disks[smallest],
                1.0,
            ),
        ]
        limit = 1.0 if self._title == f"{SMALL:,} files" else 1.5
        for work in (NOTHING, CHANGED):
            rows.append(self._row(work, git, limit))
            if "clew, watching" in self._names:
                rows.append(self._row(work, git, 0.1, who="clew, watching"))
            rows.append(self._row(work, [FIND], None))
            written = self._written[f"{work} clew"]
            rows.append(
                Row(
                    f"{work}, {self._title}: bytes written",
                    size(written),
                    f"a few KB: {size(A_FEW_KB)}",
                    written / A_FEW_KB,
                    1.0,
                )
            )
        for count, limit in ((FEW, 1.3), (MANY, 1.0)):
            rows.append(self._row(_restoring(count), [n for n in git if n in RESETTING], limit))
        if "restic" in self._names:
            rows += [self._row(work, ["restic"], None) for work in (FIRST, CHANGED, _restoring(FEW))]
        return rows

    def _row(self, work: str, others: Iterable[str], limit: float | None, who: str = "clew") -> Row:
        """Against the fastest of the others."""
        fastest = min(others, key=lambda name: self.times.median(_named(work, name)))
        ours, theirs = self.times.median(_named(work, who)), self.times.median(_named(work, fastest))
        label = f"{work}, {self._title}" + who.removeprefix("clew")
        return Row(label, ms(ours), f"{fastest}: {ms(theirs)}", ours / theirs, limit)

    def _details(self, disks: dict[str, int]) -> dict[str, Any]:
        tree = size_on_disk(self._roots["clew"])
        medians = {name: self.times.median(name) * 1e3 for name in sorted(self.times)}
        return {"medians_ms": medians, "disk": disks, "written": self._written, "tree": tree}


def _restoring(count: int, name: str = "") -> str:
    return _named(f"restore after {count} changed", name)


def _named(work: str, name: str) -> str:
    return f"{work} {name}".rstrip()


if __name__ == "__main__":
    main(run, f"{__doc__}\nclew {clew.__version__}")
