"""F-04: from every state in which a crash can leave the disk, the store opens with all it promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.sqlite import connection
from tests.faults.crash.common import chain_of, check_file, everything, message, quick_directory
from tests.faults.disk.file_states import FileState, file_states
from tests.faults.disk.sqlite_log import Disk, recording
from tests.support.effort import spread

Step = Callable[[clew.Store], Any]

BIG = "x" * 9_000 + "y" * 9_000
MOST = 15
"""States of a workload that are opened, of hundreds; a thorough run opens all."""


def say(session: str, *words: str) -> Step:
    return lambda store: store.get(session).append(*map(message, words))


def make(session: str) -> Step:
    return lambda store: store.create(session)


def do(session: str, method: str, *args: Any, **kwargs: Any) -> Step:
    return lambda store: getattr(store.get(session), method)(*args, **kwargs)


WORKLOADS: dict[str, list[Step]] = {
    "create": [lambda store: store.create("new", title="t", tags=["a"], metadata={"chat": "42"})],
    "append": [say("a", "a2"), say("b", "b2"), say("a", "a3")],
    "append a batch": [say("a", "a2", BIG, "a4"), make("new"), say("new", "n0", "n1", "n2")],
    "rewind and go on": [do("a", "rewind", 0), say("a", "another way")],
    "fork and go on": [do("a", "fork", "c", at=0), say("c", "c1"), say("a", "a2")],
    "compact and undo": [do("a", "compact", "in short"), do("a", "undo")],
    "replace and summarise": [do("a", "replace", [message("z0")]), do("a", "set_summary", "z")],
    "name things": [do("a", "checkpoint", "here", state={"n": 1}), do("a", "set_var", "k", [1, 2])],
    "annotate": [do("a", "annotate", 0, label="gold", note="why"), do("a", "add_alias", "also-a")],
    "delete and restore": [lambda store: store.delete("a"), lambda store: store.restore_deleted("a")],
    "purge": [lambda store: store.delete("a", purge=True), say("b", "b2")],
}


@pytest.fixture
def place() -> Iterator[Path]:
    with quick_directory() as directory:
        yield directory


def prepare(place: Path, *, tidy: bool) -> dict[str, bytes]:
    """The files of a small store; untidy: as a killed process leaves them, with a log beside."""
    path = place / "base" / "a.db"
    with clew.open(path) as store:
        for name in "ab":
            store.session(name).append(message(f"{name}0"), message(f"{name}1"))
        left = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".db-shm"}
    return {"a.db": path.read_bytes()} if tidy else left


def play(
    base: dict[str, bytes], place: Path, steps: list[Step], disk: Disk, **options: Any
) -> list[dict[str, Any]]:
    """Open, take the steps, close; what was in the store after each."""
    path = place / "play" / "a.db"
    path.parent.mkdir()
    for name, content in base.items():
        path.with_name(name).write_bytes(content)
    disk.mark("begin")
    store = clew.open(path, **options)
    disk.mark("done")
    expected = [everything(store)]
    for step in steps:
        disk.mark("begin")
        step(store)
        disk.mark("done")
        expected.append(everything(store))
    store.close()
    return expected


def wrong_with(state: FileState, expected: list[dict[str, Any]], directory: Path) -> str | None:
    """What is wrong with the store that a crash left, if anything."""
    state.write_to(directory)
    path = directory / "a.db"
    try:
        with clew.open(path) as store:
            found = everything(store)
            broken = [line for info in store.list(limit=100) for line in chain_of(store.get(info.id))]
        verdict = check_file(path)
    except Exception as error:  # noqa: BLE001 (whatever it is, this state is bad)
        return f"it cannot be read: {error!r}"
    begun, done = state.marks.count("begin"), state.marks.count("done")
    if verdict != "ok" or broken:
        return f"{verdict} {broken}"
    if found not in expected[max(done - 1, 0) : begun]:
        where = expected.index(found) if found in expected else "no"
        return f"{done} operations were done and {begun} begun, but it shows {where} moment of the history"
    return None


def losses(
    place: Path,
    steps: list[Step],
    base: dict[str, bytes],
    *,
    most: int = MOST,
    lying: bool = False,
    **options: Any,
) -> tuple[int, list[str]]:
    """How many states there are, and what is wrong with which of those that were looked at."""
    with recording(lying=lying) as disk:
        expected = play(base, place, steps, disk, **options)
    states = list(enumerate(file_states(disk.events, base)))
    bad: list[str] = []
    for number, state in spread(states, most):
        wrong = wrong_with(state, expected, place / f"state-{number}")
        if wrong is not None:
            bad.append(f"state {number} ({state.story}): {wrong}")
    return len(states), bad


@pytest.mark.parametrize("workload", WORKLOADS)
def test_f04_every_crash_state_holds_all_that_was_acknowledged_and_nothing_half(
    place: Path, workload: str
) -> None:
    count, bad = losses(place, WORKLOADS[workload], prepare(place, tidy=True))

    assert bad == []
    assert count > 20


def test_f04_a_store_that_was_never_opened_before_survives_every_crash(place: Path) -> None:
    count, bad = losses(place, [make("a"), say("a", "a0")], {"a.db": b""})

    assert bad == []
    assert count > 20


@pytest.mark.parametrize("workload", ["append", "fork and go on", "delete and restore"])
def test_f04_a_crash_after_a_crash_loses_nothing_either(place: Path, workload: str) -> None:
    """The log that the first crash left is what the second one may damage."""
    count, bad = losses(place, WORKLOADS[workload], prepare(place, tidy=False))

    assert bad == []
    assert count > 20


@pytest.mark.parametrize("workload", ["append", "append a batch", "rewind and go on"])
def test_f04_folding_the_log_into_the_database_at_every_commit_loses_nothing(
    place: Path, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CHECKPOINT_PAGES", 1)

    count, bad = losses(place, WORKLOADS[workload], prepare(place, tidy=True))

    assert bad == []
    assert count > 50


def test_f04_a_crash_during_the_recovery_from_a_crash_loses_nothing(place: Path) -> None:
    """F-05: states of a store that is being opened from a crash state."""
    base = prepare(place, tidy=False)
    base["a.db-wal"] = base["a.db-wal"][:-2000]  # a torn tail: the last commit is not whole

    count, bad = losses(place, [], base)

    assert bad == []
    assert count > 0


def test_the_crash_states_find_what_the_weaker_durability_loses(place: Path) -> None:
    """A planted bug: `process` survives kill -9 and not power loss, and says so."""
    _, bad = losses(place, WORKLOADS["append"], prepare(place, tidy=True), durability="process", most=60)

    assert any("no moment" not in line and "operations were done" in line for line in bad), bad


def test_the_crash_states_find_a_disk_that_lies_about_syncs(place: Path) -> None:
    """A planted bug: every sync is ignored."""
    _, bad = losses(place, WORKLOADS["append"], prepare(place, tidy=True), lying=True, most=60)

    assert bad
