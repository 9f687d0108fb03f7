"""pi: a file that is followed piece by piece leaves what one import of it leaves."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.importers.contract import NotFollowedError, Place, Problem, SourceSession
from clew.importers.programs import pi
from tests.importers.following import check, check_all, grow, line_ends
from tests.importers.programs.test_pi import HEADER, ONE, TWO, line, said, session_file
from tests.support.effort import spread, usually
from tests.support.rows import named

HOME = Path(__file__).parents[2] / "home" / "files"
RECORDED = sorted((HOME / ".pi").rglob("*.jsonl"))


@pytest.mark.parametrize("file", RECORDED, ids=[file.stem for file in RECORDED])
def test_recorded_files(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / file.name
    followed = check_all(pi, path, file.read_bytes())
    assert followed.place is not None
    assert followed.whole == 1
    monkeypatch.setattr(pi, "RECENT", 2)
    assert check_all(pi, path, file.read_bytes()).place is not None


def timed(records: list[Any]) -> list[Any]:
    """Each a second later than the one before."""
    return [
        {**record, "timestamp": f"2026-03-15T10:00:{number:02d}.000Z"} if isinstance(record, dict) else record
        for number, record in enumerate(records, 10)
    ]


def branches() -> list[Any]:
    back = [said("a5", "a1", "user", "again"), said("a6", "a3", "user", "far"), said("a7", "zz", "user", "?")]
    return [ONE, TWO, said("a3", "a2", "user", "x"), said("a4", "a3", "assistant", "y"), *back]


def events_and_labels() -> list[Any]:
    return [
        line("model_change", "c1", None, provider="p", modelId="m"),
        said("a1", "c1", "user", "one"),
        line("session_info", "s1", "a1", name="A name"),
        line("label", "l1", "s1", targetId="a1", label="here"),
        said("a2", "l1", "assistant", "two", model="m2", provider="q", usage={"input": 5, "output": 7}),
        line("custom", "x1", "a2", customType="ext", data={"n": 1}),
        line("label", "l2", "x1", targetId="a2", label="here"),
        line("label", "l3", "l2", targetId="c1", label="before"),
        line("custom_message", "m1", "l3", customType="ext", content="injected"),
        line("session_info", "s2", "m1", name="Another"),
        line("model_change", "c2", "a1", provider="p", modelId="m3"),
    ]


def compactions() -> list[Any]:
    told = {"summary": "short", "tokensBefore": 50}
    return [
        ONE,
        TWO,
        said("a3", "a2", "user", "x"),
        said("a4", "a3", "assistant", "y"),
        line("compaction", "k1", "a4", firstKeptEntryId="a3", **told),
        said("a5", "k1", "user", "z"),
        line("branch_summary", "b1", "a1", summary="left"),
        line("compaction", "k2", "a5", firstKeptEntryId="a1", **told),
        line("compaction", "k3", "k2", firstKeptEntryIndex=3, **told),
        said("a6", "k3", "user", "end"),
    ]


def repeated() -> list[Any]:
    other = said("a1", None, "user", "another with this id")
    return [ONE, TWO, ONE, other, ONE, said("a3", "a1", "user", "x"), TWO, line("custom", None, None), TWO]


def damage() -> list[Any]:
    return [
        ONE,
        "",
        "{torn",
        TWO,
        "[]",
        said("a3", "lost", "user", "x"),
        said("a4", "a4", "user", "self"),
        " ",
    ]


def without_times() -> list[Any]:
    bare = {key: value for key, value in said("a3", "a2", "user", "x").items() if key != "timestamp"}
    event = {"type": "custom", "id": "a4", "parentId": "a3"}
    later = {**said("a5", "a4", "user", "y", timestamp="2026-03-15T11:00:00Z"), "timestamp": None}
    return [ONE, TWO, bare, event, later, said("a6", "a5", "user", "z")]


def repeated_far_back() -> list[Any]:
    first = [ONE, TWO, said("a3", "a2", "user", "x"), said("a1", None, "user", "another with this id")]
    records = timed([*first, said("a4", "a3", "user", "y"), line("custom", "c1", "a4", n=1)])
    return [*records, records[0], *timed([said("a5", "a4", "user", "z")])]


def the_same_label() -> list[Any]:
    more = [line("custom", f"c{number}", "a2", n=number) for number in range(4)]
    labels = [line("label", "l1", "a1", targetId="a1", label="here"), TWO, *more]
    return [
        ONE,
        *labels,
        line("label", "l2", "c3", targetId="a2", label="here"),
        said("a3", "l2", "user", "x"),
    ]


OWN_TIMES = [without_times, repeated_far_back]
TRAPS = [
    branches, events_and_labels, compactions, repeated, repeated_far_back, the_same_label, damage,
    without_times,
]  # fmt: skip


WINDOWS = [
    (256, 3, False), (256, 1, True), (2, 3, False), (2, 1, True), (4, 3, True), (6, 3, True), (1, 3, True)
]  # fmt: skip
"""How many ids are known, of which version the file is, and whether each record has a time of its own."""


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_traps_at_every_cut(
    tmp_path: Path, trap: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for window, version, spread_out in spread(WINDOWS, 7, quick=3):
        monkeypatch.setattr(pi, "RECENT", window)
        records = timed(trap()) if spread_out and trap not in OWN_TIMES else trap()
        path = session_file(tmp_path, *records, header={**HEADER, "version": version})
        with named(f"a window of {window}, version {version}"):
            check_all(pi, path, path.read_bytes(), most=usually(100, thorough=1000))


def test_a_fork_does_not_pay_again_for_what_it_copied(tmp_path: Path) -> None:
    usage = {"input": 5, "output": 7}
    source = session_file(tmp_path, ONE, name="t_base.jsonl")
    header = {**HEADER, "timestamp": "2026-03-15T10:00:12.000Z", "parentSession": str(source)}
    records = [ONE, said("a2", "a1", "assistant", "x", usage=usage), said("a3", "a2", "user", "y")]
    path = session_file(
        tmp_path, *timed([*records, said("a4", "a3", "assistant", "z", usage=usage)]), header=header
    )
    check_all(pi, path, path.read_bytes())


def made_by_chance(seed: int, count: int) -> list[Any]:
    chance = random.Random(seed)
    names: list[str] = []
    found: list[Any] = []
    for number in range(count):
        name, above = f"n{number}", None
        if names and chance.random() < 0.95:
            above = names[-1] if chance.random() < 0.7 else chance.choice(names[-chance.choice([3, 99]) :])
        kind = chance.randrange(9)
        if kind <= 4:
            record = said(name, above, chance.choice(["user", "assistant"]), f"words {number}", model=name)
        elif kind == 5:
            record = line("custom", name, above, n=number)
        elif kind == 6 and names:
            record = line("compaction", name, above, firstKeptEntryId=chance.choice(names), summary=name)
        elif kind == 7 and names:
            record = line("label", name, above, targetId=f"n{chance.randrange(number)}", label=name)
            if any(one.get("targetId") == record["targetId"] for one in found):
                continue  # a label that is taken away stays in the store
        elif found:
            found.append(chance.choice([one for one in found if one["type"] != "label"] or [ONE]))
            continue
        else:
            continue
        if chance.random() < 0.8:
            record["timestamp"] = f"2026-03-15T10:00:{number + 10:02d}.000Z"
        names.append(name)
        found.append(record)
    return found


@settings(max_examples=usually(60, quick=25, thorough=1500), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    count=st.integers(3, 40),
    window=st.integers(1, 20),
    parts=st.lists(st.integers(0, 10**6), min_size=1, max_size=12),
    twice=st.booleans(),
)
def test_any_file_at_any_cuts(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    window: int,
    parts: list[int],
    twice: bool,
) -> None:
    path = session_file(tmp_path_factory.mktemp("p"), *made_by_chance(seed, count))
    content = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pi, "RECENT", window)
        check(pi, path, content, [part % len(content) for part in parts], twice=twice)


# -- what a live file looks like


def test_a_header_that_is_not_whole_yet_is_no_problem(store: clew.Store, tmp_path: Path) -> None:
    path = session_file(tmp_path, ONE, TWO)
    content = path.read_bytes()
    followed = grow(store, pi, path, content, [10, line_ends(content)[0]])
    assert followed.problems == []
    assert store.get("pi:0198-s").info.messages == 2


def test_a_file_without_header_is_a_problem_when_it_is_followed_too(tmp_path: Path) -> None:
    path = session_file(tmp_path, TWO, header=ONE)
    problems: list[Problem] = []
    assert list(pi.follow(path, None, problems.append, lambda _: None)) == []
    assert [problem.reason for problem in problems] == ["no header: no line of type session"]


def test_a_branch_from_far_back_has_the_file_read_as_a_whole(tmp_path: Path) -> None:
    records = [said(f"n{n}", f"n{n - 1}" if n else None, "user", f"words {n}") for n in range(pi.RECENT + 40)]
    for number, record in enumerate(records):
        record["timestamp"] = f"2026-03-15T{number // 60:02d}:{number % 60:02d}:00.000Z"
    path = session_file(tmp_path, *records)
    _, place = list(_asked(path, None))
    assert isinstance(place, Place)
    assert len(place.state) < 32 * 1024
    back = {**said("back", "n3", "user", "back"), "timestamp": "2026-03-16T00:00:00.000Z"}
    with path.open("a") as file:
        file.write(json.dumps(back) + "\n")
    with pytest.raises(NotFollowedError, match="'n3'"):
        list(_asked(path, place))
    assert check(pi, path, path.read_bytes(), line_ends(path.read_bytes())[-8:]).whole == 2


def _asked(path: Path, place: Place | None) -> Any:
    """One pass, in which all is read."""
    for found in pi.follow(path, place, lambda _: None, lambda _: None):
        if isinstance(found, SourceSession):
            list(found.entries)
        yield found
