"""F-04 for any subject: record an operation, make every state that a crash may leave, open the store."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.campaign import Result, told_by
from tests.faults.campaigns.calls import Case
from tests.faults.disk.file_states import FileState, file_states
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.steps import View, look_again, message
from tests.support.children import Child

Tell = Callable[[Any], None]


def crash_everywhere(
    subject: Subject,
    *,
    operations: list[str],
    most: int = 0,
    at_once: int = 0,
    seed: int = 0,
    planted: str = "",
) -> Result:
    """Open the store from every state that a crash during these operations may leave; `most`: of each
    operation only so many of them, `at_once`: of each moment."""
    result = Result()
    for operation in operations:
        case = Case(subject, operation, result, planted)
        case.put_back()
        base = tree_below(case.subject)
        states = list(file_states(case.record(), base, seed=seed, at_once=at_once))
        result.saw("states there are", len(states))
        if most and len(states) > most:
            states = random.Random(seed).sample(states, most)
        looker = Child(_look_at_all, case.subject, case.files, states, case.views)
        result.found(operation, told_by(looker))
        result.cycles += len(states)
        result.acknowledged += sum(state.marks.count("done") for state in states)
    return result


def tree_below(subject: Subject) -> dict[str, bytes | None]:
    """Everything in the place of a subject, by path; None is a directory."""
    return {
        str(path.relative_to(subject.place)): None if path.is_dir() else path.read_bytes()
        for path in sorted(subject.place.rglob("*"))
        if not path.name.endswith(subject.forgets or ("\0",))
    }


def _look_at_all(
    tell: Tell, subject: Subject, files: Path, states: list[FileState], views: list[View]
) -> None:
    for number, state in enumerate(states):
        place = subject.place.with_name(f"state-{number}")
        state.write_to(place)
        if line := _wrong_with(subject.at(place), files, state, views):
            tell(f"state {number} ({state.story}), after {state.marks}: {line}"[:1500])


def _wrong_with(subject: Subject, files: Path, state: FileState, views: list[View]) -> str:
    found = look_again(subject, files)
    done = state.marks.count("done")
    if found["wrong"]:
        return "; ".join(found["wrong"])
    if found["view"] not in views[done : done + 2]:
        where = views.index(found["view"]) if found["view"] in views else "no"
        return f"{done} operations were done, but it looks as after {where}: {found['view']}"
    return ""


def lose_the_index(subject: Subject, *, planted: str = "") -> Result:
    """F-03: a log is written anew, as long as before and with the same end. Then a power cut leaves that, but
    none of what the index, which is never synced, was told of it."""
    result = Result(cycles=1)
    (kept,) = told_by(Child(_write_anew, subject))
    result.wrong += told_by(Child(_look_without_an_index, subject, Path(kept), planted))
    return result


def _write_anew(tell: Tell, subject: Subject) -> None:
    kept = subject.place / "kept"
    lengths: list[tuple[int, bytes]] = []
    for number in (100_001, 100_002):
        with subject.open() as store:
            session = store.session("a")
            if not lengths:
                session.append(message("one"))
            session.set_var("first", number)
            session.set_var("last", 0)
            session.fork("gone")
            store.delete("gone", purge=True)
            store.vacuum()
        (log,) = subject.place.rglob("a.jsonl")
        lengths.append((log.stat().st_size, log.read_bytes().splitlines()[-1]))
        if number == 100_001:
            kept.mkdir()
            for file in log.parents[1].glob("index.db*"):
                shutil.copy(file, kept)
    if lengths[0] != lengths[1]:
        raise AssertionError(f"this proves nothing: {lengths}")
    tell(str(kept))


def _look_without_an_index(tell: Tell, subject: Subject, kept: Path, planted: str) -> None:
    plant(planted)
    (log,) = subject.place.rglob("a.jsonl")
    for file in log.parents[1].glob("index.db*"):
        file.unlink()
    for file in kept.iterdir():
        shutil.copy(file, log.parents[1])
    with subject.open() as store:
        match store.get("a").vars():
            case {"first": 100_002, "last": 0}:
                pass
            case {"first": 100_001, "last": 0}:
                tell("it looks as before the log was written anew")
            case other:
                tell(f"it has {other}")
