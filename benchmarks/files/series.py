"""Many snapshots of one tree, each after a few edits; and one tree that is very large."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.files import trees
from benchmarks.files.trees import Editor
from benchmarks.harness.measure import ROOT, Samples, median, shuffled, size_on_disk, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab
from benchmarks.peers.tree_keepers import start

GIT = "git commit, tuned"
FEW = 5
EARLY = slice(2, 12)
"""Around the fifth."""
LATE = 20
TINY = 400
"""Bytes of a file of the very large tree: nothing of it is read when nothing changed."""
MEMORY = 150 * 1024 * 1024


def series(lab: Lab, result: Result) -> None:
    """Both parts."""
    many_snapshots(lab, result)
    if not lab.quick:
        large_tree(lab, result)


def many_snapshots(lab: Lab, result: Result) -> None:
    """500 snapshots of 5 edits each, 10,000 files: what they take on disk, and whether they get slower."""
    files, count = lab.pick(10_000, 2_000), lab.pick(500, 60)
    folder = lab.directory / "series"
    lab.say(f"{count} snapshots of {files:,} files, {FEW} edits each")
    roots = {name: folder / f"tree-{number}" for number, name in enumerate(("clew", GIT))}
    homes = {name: folder / f"kept-{number}" for number, name in enumerate(roots)}
    trees.make(roots["clew"], files)
    trees.copy(roots["clew"], roots[GIT])
    trees.settle()
    keepers = {name: start(name, homes[name], root) for name, root in roots.items()}
    editors = {name: Editor(root) for name, root in roots.items()}
    times = Samples()
    with steady():
        for number in range(count + 1):
            for name in shuffled(keepers, number):
                editors[name].edit(FEW if number else 0)
                started = time.perf_counter()
                keepers[name].snapshot()
                times.add(name, time.perf_counter() - started)
    first_disk = size_on_disk(homes[GIT])
    for keeper in keepers.values():
        keeper.tidy()
    for keeper in keepers.values():
        keeper.close()
    disks = {name: size_on_disk(home) for name, home in homes.items()}
    early, late = (median(times["clew"][part]) for part in (EARLY, slice(-LATE, None)))
    result.rows += [
        Row(
            f"{count} snapshots, {FEW} edits each, {files:,} files: disk",
            size(disks["clew"]),
            f"git after its gc: {size(disks[GIT])}",
            disks["clew"] / disks[GIT],
            1.2,
        ),
        Row(f"snapshot {count} of these", ms(late), f"snapshot 5: {ms(early)}", late / early, 1.2),
    ]
    result.details["series"] = {
        "disk": disks,
        "git_before_gc": first_disk,
        "early_ms": {name: median(values[EARLY]) * 1e3 for name, values in times.items()},
        "late_ms": {name: median(values[-LATE:]) * 1e3 for name, values in times.items()},
    }
    subprocess.run(["rm", "-rf", str(folder)], check=True)


class Look(msgspec.Struct):
    """What one process found that took snapshots of a tree."""

    seconds: list[float]
    memory: int
    """The most that the process had, in bytes."""


def large_tree(lab: Lab, result: Result) -> None:
    """200,000 files against 50,000, nothing changed, each in a process of its own."""
    looks: dict[int, Look] = {}
    sizes = (50_000, 200_000)
    for files in sizes:
        lab.say(f"{files:,} files, nothing changed")
        folder = lab.directory / f"large-{files}"
        trees.make(folder / "tree", files, file_bytes=TINY)
        trees.settle()
        _look_in_child(folder, 1)
        looks[files] = _look_in_child(folder, 4)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    small, large = (median(looks[files].seconds) for files in sizes)
    most = looks[sizes[1]].memory
    result.rows += [
        Row(
            f"nothing changed, {sizes[1]:,} files: memory", size(most), f"{size(MEMORY)}", most / MEMORY, 1.0
        ),
        Row(
            f"nothing changed, {sizes[1]:,} files",
            ms(large),
            f"4 times {sizes[0]:,}: {ms(4 * small)}",
            large / (4 * small),
            1.2,
        ),
    ]
    result.details["large"] = {f"{files}": msgspec.to_builtins(look) for files, look in looks.items()}


def _look_in_child(folder: Path, times: int) -> Look:
    command = [sys.executable, "-m", "benchmarks.files.series", str(folder), str(times)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=Look)


def _look(folder: Path, times: int) -> Look:
    import os

    import clew

    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    seconds = []
    with clew.open(str(folder / "clew.db")) as store:
        for _ in range(times):
            started = time.perf_counter()
            store.snapshot(folder / "tree")
            seconds.append(time.perf_counter() - started)
    return Look(seconds, _most_memory())


def _most_memory() -> int:
    """Of this program: `getrusage` would tell of the one that started it too, if that had more."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024


if __name__ == "__main__":
    print(msgspec.json.encode(_look(Path(sys.argv[1]), int(sys.argv[2]))).decode())
