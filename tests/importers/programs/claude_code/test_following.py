"""Claude Code: a file that is followed piece by piece leaves what one import of it leaves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.importers.contract import NotFollowedError, Place, SourceSession
from clew.importers.programs.claude_code import file_history, reader, tree
from clew.importers.reading.recent import Recent, RecentState
from tests.importers.following import (
    Followed,
    check,
    check_all,
    check_sync,
    follow,
    grow,
    line_ends,
)
from tests.importers.programs.claude_code.test_reader import ID, SESSION, Log
from tests.support.effort import spread, usually
from tests.support.rows import named

HOME = Path(__file__).parents[3] / "home" / "files"
RECORDED = sorted((HOME / ".claude" / "projects").rglob("*.jsonl"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "claude" / "projects" / "p" / f"{SESSION}.jsonl")


def small_window(monkeypatch: pytest.MonkeyPatch, entries: int, links: int = 1, moments: int = 1) -> None:
    monkeypatch.setattr(tree, "ENTRIES", entries)
    monkeypatch.setattr(tree, "LINKS", links)
    monkeypatch.setattr(file_history, "MOMENTS", moments)


@pytest.mark.parametrize("file", RECORDED, ids=[file.stem for file in RECORDED])
def test_recorded_files(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    shutil.copytree(HOME, home)
    path = home / file.relative_to(HOME)
    content = path.read_bytes()
    followed = check_all(reader, path, content, most=usually(12, quick=3, thorough=200))
    assert followed.place is not None
    assert followed.whole <= 3  # until there is a message
    small_window(monkeypatch, 3)
    assert check_all(reader, path, content, most=usually(12, quick=3, thorough=200)).place is not None


# -- traps, each as a few records


def parallel_results(log: Log) -> None:
    log.user("u1").model("a1", "m1", call="t1").model("a2", "m1", call="t2").model("a3", "m1", call="t3")
    log.result("r1", "t1", parentUuid="a1").result("r3", "t3", parentUuid="a3")
    log.result("r2", "t2", parentUuid="a2", sourceToolAssistantUUID="a2").model("a4", "m2")


def repeated_records(log: Log) -> None:
    log.user("u1").model("a1", "m1").user("u2").model("a2", "m2")
    first = log.path.read_text().splitlines()
    log.raw(first[0]).raw(first[1]).user("u3").raw(first[3]).model("a3", "m3")


def a_compaction(log: Log) -> None:
    log.user("u1").model("a1", "m1").user("u2").model("a2", "m2")
    about = {"trigger": "auto", "preTokens": 900, "preservedSegment": {"headUuid": "u2", "tailUuid": "a2"}}
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "a2", "compactMetadata": about}
    log.put("c1", "system", parentUuid=None, **boundary)
    log.user("k1", isCompactSummary=True).user("u3", parentUuid="a2").model("a3", "m3")
    listed = {"preTokens": 5, "preservedMessages": {"uuids": ["u3", "a3"]}}
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "a3", "compactMetadata": listed}
    log.put("c2", "system", parentUuid=None, **boundary)
    log.put("p1", "progress", data={"x": 1}).user("k2", parentUuid="c2", isCompactSummary=True).user("u4")


def titles_and_tags(log: Log) -> None:
    log.raw({"type": "summary", "summary": "of another one", "leafUuid": "zz"})
    log.raw({"type": "summary", "summary": "not yet", "leafUuid": "a2"}).user("u1").model("a1", "m1")
    log.raw({"type": "summary", "summary": "first", "leafUuid": "a1"}).user("u2").model("a2", "m2")
    log.raw({"type": "summary", "summary": "first again", "leafUuid": "a1"}).user("u3")
    log.raw({"type": "last-prompt", "lastPrompt": " said  last "}).raw({"type": "tag", "tag": "red"})
    log.raw({"type": "ai-title", "aiTitle": "made up"}).model("a3", "m3").raw({"type": "tag", "tag": "blue"})
    log.raw({"type": "custom-title", "customTitle": "given"}).raw({"type": ["odd"]}).raw({"type": None})


def summaries_only(log: Log) -> None:
    log.raw({"type": "summary", "summary": "of u2", "leafUuid": "u2"}).user("u1").model("a1", "m1")
    log.raw({"type": "summary", "summary": "of a1", "leafUuid": "a1"}).user("u2").model("a2", "m2")
    log.raw({"type": "summary", "summary": "of a1, again", "leafUuid": "a1"}).user("u3")


def links_and_meta(log: Log) -> None:
    log.put("p0", "progress").user("u1").put("p1", "progress", data={"n": 1}).put("p2", "attachment")
    log.user("m1", isMeta=True).model("a1", "x").put("s1", "system", subtype="turn_duration")
    log.user("u2", parentUuid="p1").model("a2", "y").model("a3", "y")
    log.user("u3", parentUuid="s1").user("u4", parentUuid="nowhere").user("u5", teamName="crew")


def branches(log: Log) -> None:
    log.user("u1").model("a1", "m1").user("u2").model("a2", "m2").user("u3", parentUuid="a1")
    log.model("a3", "m2").model("a4", "m2").user("u4", parentUuid="u1").user("u5", parentUuid="a2")


def damage(log: Log) -> None:
    log.raw('\ufeff{"type":"summary"').user("u1").raw("").raw("[1]").model("a1", "m1").raw("\0\0\0")
    log.raw('{"torn": {"type":"user","parentUuid":"a1","uuid":"g1","sessionId":"s","message":{"role":"user"')
    log.user("u2").raw(
        '{"type":"user","uuid":"u3","parentUuid":"u2","message":{"role":"user","content":NaN}}'
    )
    log.raw("  ").raw("not json").user("u4", content="\ud800 lone").raw("")


def without_times(log: Log) -> None:
    log.user("u1").model("a1", "m1", timestamp=None).raw({"type": "mode", "mode": "plan"})
    log.user("u2", timestamp="never").put("p1", "progress", timestamp=None).model("a2", "m2").user("u3")


def many_calls(log: Log) -> None:
    log.user("u1").model("a1", "m1", tokens=1).model("a2", "m1", tokens=5).model("a3", "m1", tokens=5)
    advice = [{"type": "advisor_message", "model": "claude-y", "input_tokens": 7, "output_tokens": 8}]
    usage = {"input_tokens": 3, "output_tokens": 4, "iterations": advice}
    answer = {"id": "m2", "role": "assistant", "model": "claude-x", "content": [], "usage": usage}
    log.put("a4", "assistant", answer).put("a5", "assistant", answer).user("u2").model(
        "a6", "m3", costUSD=0.5
    )


def changing_header(log: Log) -> None:
    log.user("u1", cwd=None, version=None).model("a1", "m1", slug="plum", cwd=None)
    log.user("u2", slug="plum", gitBranch="main").user("u3", slug="pear", gitBranch="main", cwd="/w2")


def long_header(log: Log) -> None:
    for number in range(70):
        log.put(f"p{number}", "progress").user(f"u{number}", slug=None if number < 25 else "s")
    log.user("x", gitBranch="late").model("a", "m").user("y", gitBranch="later")


def file_history_records(log: Log) -> None:
    def snapshot(message: str, seconds: int, at: str = "", **files: str | None) -> None:
        tracked = {path: {"backupFileName": name} for path, name in files.items()}
        told = {
            "messageId": message,
            "trackedFileBackups": tracked,
            "timestamp": f"2025-06-01T10:00:{seconds:02d}Z",
        }
        log.raw(
            {
                "type": "file-history-snapshot",
                "messageId": at or message,
                "snapshot": told,
                "isSnapshotUpdate": bool(at),
            }
        )

    (log.path.parents[2] / "file-history" / SESSION).mkdir(parents=True)
    snapshot("u1", 1)
    log.user("u1").model("a1", "m1")
    snapshot("u1", 1, at="a1", a="aa@v1")
    log.user("u2")
    snapshot("u2", 4, a="aa@v2")
    log.model("a2", "m2")
    snapshot("u2", 4, at="a2", a="aa@v2", b="bb@v1")
    snapshot("u3", 8, a="aa@v2", b="bb@v1")
    log.user("u3").model("a3", "m3")
    backup = {"backupFileName": None, "version": 1}
    log.raw(
        {
            "type": "file-history-delta",
            "messageId": "a3",
            "snapshotMessageId": "u3",
            "trackingPath": "/elsewhere/c",
            "backup": backup,
            "timestamp": "2025-06-01T10:00:30Z",
        }
    )
    log.user("u4")
    snapshot("u4", 40, a="aa@v3", b="bb@v1")
    snapshot("u1", 1, at="u4", a="aa@v1", d="dd@v1")
    snapshot("nobody", 50, a="aa@v4")
    log.model("a4", "m4")
    snapshot("u4", 40, at="a4", a="aa@v3", e="ee@v1")
    log.user("u5")
    snapshot("u2", 4, at="u5", a="aa@v9")
    snapshot("u6", 55, a="aa@v9")
    log.user("u6")
    snapshot("a1", 59, a="aa@v9")


def a_fork(log: Log) -> None:
    base = Log(log.path.with_name("0b1c2d3e-9999-4222-8333-444455556666.jsonl"))
    base.user("b1").model("b2", "m1").user("b3").model("b4", "m2").user("b5").model("b6", "m9")
    for number, (kind, id) in enumerate([("user", ""), ("model", "m1"), ("user", ""), ("model", "m2")]):
        origin = {"sessionId": base.path.stem, "messageUuid": f"b{number + 1}"}
        if kind == "user":
            log.user(f"f{number}", forkedFrom=origin)
        else:
            log.model(f"f{number}", id, forkedFrom=origin)
    log.user("u1").model("a1", "m3")


def a_copy(log: Log) -> None:
    base = Log(log.path.with_name("0b1c2d3e-9999-4222-8333-444455556666.jsonl"))
    base.user("u1").model("a1", "msg_1").user("u2")
    log.user("u1").user("u1b").model("a1", "msg_1").user("u2").model("a2", "msg_2")


def queued_prompts(log: Log) -> None:
    def queue(uuid: str, prompt: str, **more: Any) -> None:
        log.put(uuid, "attachment", attachment={"type": "queued_command", "prompt": prompt, **more})

    log.user("u1").model("a1", "m1", call="t1").result("r1", "t1")
    log.raw({"type": "queue-operation", "operation": "enqueue", "content": "x", "sessionId": SESSION})
    queue("q1", "x", source_uuid="s1")
    log.model("a2", "m2", call="t2").result("r2", "t2")
    queue("q2", "y", commandMode="prompt", origin={"kind": "human"})
    log.user("u2", "y").model("a3", "m3")
    log.raw({"type": "queue-operation", "operation": "dequeue", "sessionId": SESSION})
    log.user("u3", "x").model("a4", "m4").user("s1", "x").model("a5", "m5").user("u4", "x")


TRAPS = [
    parallel_results, repeated_records, a_compaction, titles_and_tags, summaries_only, links_and_meta,
    branches, damage, without_times, many_calls, changing_header, file_history_records, a_fork,
    a_copy, queued_prompts,
]  # fmt: skip


WINDOWS = [(128, 64, 100), (128, 64, 1), (2, 1, 2), (3, 2, 1), (5, 1, 3), (1, 1, 1)]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_traps_at_every_cut(log: Log, trap: Callable[[Log], None], monkeypatch: pytest.MonkeyPatch) -> None:
    trap(log)
    content = log.path.read_bytes()
    for window in spread(WINDOWS, 6, quick=3):
        small_window(monkeypatch, *window)
        with named(f"a window of {window}"):
            check_all(reader, log.path, content, most=usually(100, thorough=1000))


def test_a_header_that_is_not_whole_yet(log: Log) -> None:
    long_header(log)
    check_all(reader, log.path, log.path.read_bytes(), most=usually(10, thorough=200))


@pytest.mark.parametrize("trap", [*TRAPS, long_header], ids=lambda trap: trap.__name__)
def test_traps_by_a_sync(log: Log, trap: Callable[[Log], None]) -> None:
    trap(log)
    content = log.path.read_bytes()
    ends = line_ends(content)
    for cuts in [ends, ends[len(ends) // 2 :: 3]][: usually(2, quick=1, thorough=2)]:
        check_sync(log.path, content, cuts, root=log.path.parents[1])


@pytest.mark.parametrize("file", RECORDED, ids=[file.stem for file in RECORDED])
def test_recorded_files_by_a_sync(tmp_path: Path, file: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(HOME, home)
    path = home / file.relative_to(HOME)
    content = path.read_bytes()
    ends = line_ends(content)
    check_sync(path, content, spread(ends, 15, quick=5), root=home / ".claude" / "projects")


# -- files made by chance


def made_by_chance(log: Log, seed: int, count: int) -> None:
    """Records that name others far back and near, repeat some, and go on in other orders."""
    chance = random.Random(seed)
    names: list[str] = []
    open_calls: list[tuple[str, str]] = []

    def above() -> str | None:
        if not names or chance.random() < 0.05:
            return None
        return names[-1] if chance.random() < 0.7 else chance.choice(names[-chance.choice([3, 10, 1000]) :])

    for number in range(count):
        name = f"n{number}"
        kind = chance.randrange(16)
        more: dict[str, Any] = {"parentUuid": above()}
        if chance.random() < 0.1:
            more["timestamp"] = f"2025-06-01T10:00:{chance.randrange(60):02d}.{chance.randrange(999):03d}Z"
        if kind <= 2:
            log.user(name, chance.choice([None, "x", "y"]), **more)
        elif kind <= 5:
            call = f"t{number}" if chance.random() < 0.6 else None
            if call:
                open_calls.append((name, call))
            log.model(name, f"m{number // chance.choice([1, 4])}", call=call, tokens=number + 1, **more)
        elif kind <= 7 and open_calls:
            at, call = open_calls.pop(chance.randrange(len(open_calls)))
            log.result(name, call, parentUuid=at if chance.random() < 0.8 else more["parentUuid"])
        elif kind == 8:
            log.put(name, "progress", **more)
        elif kind == 9 and names:
            lines = log.path.read_text().splitlines()
            log.raw(chance.choice(lines))
            continue
        elif kind == 10 and names:
            about = {"preservedSegment": {"headUuid": chance.choice(names), "tailUuid": names[-1]}}
            more |= {"parentUuid": None, "logicalParentUuid": chance.choice([above(), names[-1]])}
            log.put(name, "system", subtype="compact_boundary", compactMetadata=about, **more)
        elif kind == 11 and names:
            log.user(name, isCompactSummary=True, **more)
        elif kind == 12:
            told = {"type": "summary", "summary": name, "leafUuid": f"n{chance.randrange(count)}"}
            log.raw(told if chance.random() < 0.5 else {"type": "ai-title", "aiTitle": name})
            continue
        elif kind == 13:
            what = chance.choice([{"operation": "dequeue"}, {"operation": "enqueue", "content": "x"}])
            log.raw({"type": "queue-operation", "sessionId": SESSION, **what})
            continue
        elif kind == 14:
            known = {"source_uuid": f"n{number + chance.randrange(-2, 3)}"} if chance.random() < 0.5 else {}
            attachment = {"type": "queued_command", "prompt": chance.choice(["x", "y"]), **known}
            log.put(name, "attachment", attachment=attachment, **more)
        else:
            message = chance.choice([*names, f"n{number + 1}"]) if chance.random() < 0.5 else f"n{number + 1}"
            tracked = {f"f{chance.randrange(4)}": {"backupFileName": f"f@v{number}"} for _ in range(2)}
            taken = f"2025-06-01T10:{number // 60:02d}:{number % 60:02d}Z"
            snapshot = {"messageId": message, "trackedFileBackups": tracked, "timestamp": taken}
            log.raw({"type": "file-history-snapshot", "messageId": message, "snapshot": snapshot})
            continue
        names.append(name)


@settings(max_examples=usually(60, quick=25, thorough=1500), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    count=st.integers(3, 40),
    window=st.tuples(st.integers(1, 20), st.integers(1, 8), st.integers(1, 8)),
    parts=st.lists(st.integers(0, 10**6), min_size=1, max_size=12),
    twice=st.booleans(),
)
def test_any_file_at_any_cuts(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    window: tuple[int, int, int],
    parts: list[int],
    twice: bool,
) -> None:
    log = Log(tmp_path_factory.mktemp("c") / "projects" / "p" / f"{SESSION}.jsonl")
    made_by_chance(log, seed, count)
    content = log.path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        small_window(patch, *window)
        check(reader, log.path, content, [part % len(content) for part in parts], twice=twice)


# -- what a live file looks like


def passes(path: Path, place: Place | None = None) -> tuple[list[SourceSession], list[Place]]:
    """One pass, in which all is read."""
    sessions, places = list[SourceSession](), list[Place]()
    for found in reader.follow(path, place, lambda _: None, lambda _: None):
        if isinstance(found, Place):
            places.append(found)
        else:
            list(found.entries)
            found.updates()
            sessions.append(found)
    return sessions, places


def test_before_the_first_message_there_is_no_session_and_nothing_is_lost(
    store: clew.Store, log: Log
) -> None:
    log.raw({"type": "file-history-snapshot", "messageId": "u1", "snapshot": {"messageId": "u1"}})
    assert passes(log.path) == ([], [])
    followed = Followed()
    follow(store, reader, log.path, followed)
    assert store.list().sessions == ()
    log.user("u1")
    follow(store, reader, log.path, followed)
    assert [event.type for event in store.get(ID).events()] == ["file-history-snapshot"]
    assert store.get(ID).info.messages == 1


def test_a_first_message_without_its_end_is_no_session_yet(log: Log) -> None:
    log.user("u1")
    log.path.write_bytes(log.path.read_bytes()[:-1])
    assert passes(log.path) == ([], [])


def test_a_copy_is_found_by_its_first_call_however_late_that_comes(log: Log) -> None:
    other = Log(log.path.with_name("0b1c2d3e-9999-4222-8333-444455556666.jsonl"))
    other.user("u1").model("a1", "msg_1")
    for number in range(70):
        log.user(f"u{number}")
    (session,), (place,) = passes(log.path)
    assert session.copies == ()
    log.model("a1", "msg_1")
    (session,), _ = passes(log.path, place)
    assert session.copies == (f"claude-code:{other.path.stem}",)


def test_a_pass_in_which_no_line_came_gives_no_session(log: Log) -> None:
    log.user("u1").model("a1")
    _, (place,) = passes(log.path)
    assert passes(log.path, place) == ([], [place])
    with log.path.open("a") as file:
        file.write('\n\n{"type":')
    assert passes(log.path, place) == ([], [Place(place.offset + 2, place.lines + 2, place.state)])


def test_what_waits_at_the_end_of_a_pass_comes_with_it(store: clew.Store, log: Log) -> None:
    log.user("u1").put("p1", "progress")
    content = log.path.read_bytes()
    followed = grow(store, reader, log.path, content, line_ends(content))
    assert [event.id for event in store.get(ID).events()] == ["p1"]
    log.model("a1").raw({"type": "mode"})
    follow(store, reader, log.path, followed)
    progress, mode = store.get(ID).events()
    assert (progress.id, mode.type) == ("p1", "mode")


def test_a_subagent_between_the_lines_of_its_session_is_not_followed(log: Log) -> None:
    log.user("u1")
    _, (place,) = passes(log.path)
    log.user("s1", isSidechain=True, agentId="x", parentUuid=None)
    with pytest.raises(NotFollowedError, match="subagent"):
        passes(log.path, place)
    sessions, places = passes(log.path)
    assert [session.id for session in sessions] == [ID, f"{ID}/agent-x"]
    assert places == []


@pytest.mark.parametrize(
    "more",
    [
        {"type": "custom-title", "customTitle": "\ud800"},
        {"type": "tag", "tag": "x" * 1_000_000},
        {"type": "progress", "uuid": "two\nlines", "timestamp": "2025-06-01T10:00:02Z"},
    ],
)
def test_what_cannot_be_kept_for_later_is_no_error(store: clew.Store, log: Log, more: dict[str, Any]) -> None:
    log.user("u1").raw(more).model("a1")
    content = log.path.read_bytes()
    followed = check(reader, log.path, content, line_ends(content))
    assert followed.place is None


def test_a_record_far_back_has_the_file_read_as_a_whole(log: Log) -> None:
    for number in range(tree.ENTRIES + tree.LINKS):
        log.user(f"u{number}", timestamp=f"2025-06-01T{number // 60:02d}:{number % 60:02d}:00Z")
    _, (place,) = passes(log.path)
    log.user("new", parentUuid="u3", timestamp="2025-06-02T00:00:00Z")
    with pytest.raises(NotFollowedError, match="'u3'"):
        passes(log.path, place)
    ends = line_ends(log.path.read_bytes())
    assert check(reader, log.path, log.path.read_bytes(), ends[-10:]).whole == 2


# -- what it costs


def test_one_more_line_costs_one_line(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime(2025, 6, 1, tzinfo=UTC)
    for number in range(1000):
        at = {"timestamp": (start + timedelta(seconds=number)).isoformat()}
        log.user(f"0b1c2d3e-1111-4222-8333-u{number:011d}", "x" * 500, **at)
        log.model(
            f"0b1c2d3e-1111-4222-8333-a{number:011d}", f"msg_{number:024d}", f"toolu_{number:024d}", **at
        )
    _, (place,) = passes(log.path)
    assert len(place.state) < 16 * 1024
    for name in ("beginning_of", "_files_by_call", "_summaries_of", "_calls_in", "content_of"):
        monkeypatch.delattr(reader, name)  # nothing else is read
    log.user("new", timestamp="2025-07-01T10:00:00Z")
    told: list[int] = []
    new = None
    for found in reader.follow(log.path, place, lambda _: None, told.append):
        if isinstance(found, Place):
            new = found
            continue
        assert [entry.uid for entry in found.entries] == ["new"]
        assert found.updates()["model"] == "claude-x"
        assert (list(found.checkpoints()), list(found.events())) == ([], [])
    assert new is not None
    assert new.offset - place.offset == sum(told) < 1000
    assert len(new.state) < 16 * 1024


# -- the last names of a file


def test_recent_names_keep_how_new_the_forgotten_ones_are() -> None:
    times = [datetime(2025, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2, 9, 3, 4, 5)]
    recent = Recent(2, RecentState())
    for number, at in enumerate(times):
        recent.add(f"n{number}", at)
    state = recent.state()
    assert state is not None
    assert (state.names, state.forgotten) == (b"n4\nn5\n", times[2])
    again = Recent(2, state)
    assert [again.may_have_been(at) for at in (None, times[2], datetime(2025, 1, 2, tzinfo=UTC))] == [
        True,
        True,
        False,
    ]
    assert Recent(2, RecentState()).may_have_been(None) is False
    assert again.state() == state


def test_names_without_any_time_cannot_be_forgotten() -> None:
    recent = Recent(1, RecentState())
    recent.add("a", None)
    assert recent.state() is not None
    recent.add("b", None)
    assert recent.state() is None
