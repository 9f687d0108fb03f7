"""A database of OpenCode that grows: followed while it is written, it leaves what one import of it leaves."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.importers.contract import Place, SourceSession
from clew.importers.programs.opencode import database, reader
from clew.importers.reading.seen import watching
from tests.importers.following import content_of
from tests.support.effort import usually

SQL = Path(__file__).parents[2] / "home" / "files" / ".local" / "share" / "opencode" / "opencode.db.sql"
T0 = 1_760_000_000_000


class Program:
    """OpenCode, row by row, with a clock of its own."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.time = T0
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        statements = SQL.read_text().split(";\n")
        for statement in statements:
            if statement.lstrip().startswith("CREATE"):
                self.db.execute(statement)
        monkeypatch.setattr(database, "now", lambda: self.time)

    def tick(self, by: int = 1) -> int:
        self.time += by
        return self.time

    def session(self, id: str, **columns: Any) -> str:
        at = self.tick()
        given = {"project_id": "pr", "slug": id, "directory": "/w", "title": f"T {id}", "version": "1"}
        row = {"id": id, "time_created": at, "time_updated": at, **given, **columns}
        marks = ", ".join("?" * len(row))
        self.db.execute(f"INSERT INTO session ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
        return id

    def change(self, id: str, **columns: Any) -> None:
        for name, value in {**columns, "time_updated": self.tick()}.items():
            self.db.execute(f"UPDATE session SET {name} = ? WHERE id = ?", (value, id))

    def message(self, session: str, role: str, at: int | None = None, **data: Any) -> str:
        made = self.tick() if at is None else at
        id = f"msg_{self.tick()}"
        whole = {"role": role, "time": {"created": made}, **data}
        values = (id, session, made, self.time, json.dumps(whole))
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", values)
        return id

    def data(self, table: str, id: str) -> Any:
        return json.loads(self.db.execute(f"SELECT data FROM {table} WHERE id = ?", (id,)).fetchone()[0])

    def put(self, table: str, id: str, data: Any) -> None:
        values = (json.dumps(data), self.tick(), id)
        self.db.execute(f"UPDATE {table} SET data = ?, time_updated = ? WHERE id = ?", values)

    def part(self, session: str, message: str, **data: Any) -> str:
        id = f"prt_{self.tick()}"
        values = (id, message, session, self.time, self.time, json.dumps(data))
        self.db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", values)
        return id

    def prompt(self, session: str, text: str = "do it") -> str:
        id = self.message(session, "user", agent="build", model={"providerID": "p", "modelID": "m"})
        self.part(session, id, type="text", text=text)
        return id

    def finish(self, message: str) -> None:
        data = self.data("message", message)
        data["time"]["completed"] = self.tick()
        tokens = {"input": 5, "output": 7, "reasoning": 0, "cache": {"read": 1, "write": 0}}
        self.put("message", message, {**data, "finish": "stop", "tokens": tokens, "cost": 0.5})

    def answer(self, session: str, text: str = "done") -> str:
        id = self.message(session, "assistant", modelID="m2", providerID="p")
        self.part(session, id, type="text", text=text)
        self.finish(id)
        return id


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    made = Program(tmp_path / "opencode.db", monkeypatch)
    yield made
    made.db.close()


@pytest.fixture
def session(program: Program) -> str:
    return program.session("ses_1", title="Fix")


class Follower:
    def __init__(self, path: Path) -> None:
        self.store = clew.open("memory:")
        self.path = path
        self.place: Place | None = None
        self.told: list[str] = []
        """The sessions of the last pass,"""
        self.entries = 0
        """and the entries that were read for it."""
        self.problems: list[str] = []

    def follow(self) -> Follower:
        self.told, self.entries, place = [], 0, None
        for one in reader.follow(self.path, self.place, self._on_problem, lambda _: None):
            if isinstance(one, Place):
                place = one
            else:
                self.told.append(one.id)
                self.store.load(_counted(one, self))
        self.place = place
        return self

    def said(self, id: str = "ses_1") -> list[str]:
        return said(self.store, id)

    def _on_problem(self, problem: Any) -> None:
        self.problems.append(problem.reason)


def _counted(session: SourceSession, follower: Follower) -> SourceSession:
    def entries() -> Iterator[Any]:
        for entry in session.entries:
            follower.entries += 1
            yield entry

    return msgspec.structs.replace(session, entries=entries())


def imported(path: Path) -> dict[str, Any]:
    with clew.open("memory:") as store:
        for session in reader.read(path, lambda _: None, lambda _: None):
            store.load(session)
        return content_of(store)


def said(store: clew.Store, id: str) -> list[str]:
    return [
        "".join(part.get("text", "") for part in message["content"] if isinstance(part, dict))
        for message in store.get(f"opencode:{id}").messages()
    ]


@pytest.fixture
def follower(program: Program) -> Follower:
    return Follower(program.path)


# -- the law


def check(follower: Follower) -> None:
    here, there = content_of(follower.store), imported(follower.path)
    assert here.keys() == there.keys()
    for id, wanted in there.items():
        for part, value in wanted.items():
            assert here[id][part] == value, (part, id)


def story(program: Program, chance: random.Random, follower: Follower, *, may_revert: bool) -> None:
    """Some sessions at once, each a step at a time; looked at by chance between any two writes."""
    sessions = [program.session(f"ses_{number}") for number in range(3)]
    open_answers: dict[str, str] = {}
    parts: dict[str, str] = {}
    for _ in range(chance.randrange(20, 80)):
        session = chance.choice(sessions)
        step = chance.randrange(12)
        answer = open_answers.get(session)
        if answer is None:
            program.prompt(session, f"u{program.time}")
            open_answers[session] = program.message(session, "assistant", modelID="m2", providerID="p")
        elif step < 3:
            parts[answer] = program.part(session, answer, type="text", text=f"t{program.time}")
        elif step < 6 and answer in parts:
            data = program.data("part", parts[answer])
            program.put("part", parts[answer], {**data, "text": data["text"] + " and on"})
        elif step == 6:
            state = {"status": "running", "input": {"n": 1}}
            id = program.part(session, answer, type="tool", callID=f"c{program.time}", tool="x", state=state)
            if chance.random() < 0.5:
                follower.follow()
            done = {"status": "completed", "input": {"n": 1}, "output": "ok", "time": {"start": 1, "end": 2}}
            program.put("part", id, {**program.data("part", id), "state": done})
        elif step < 9:
            program.finish(answer)
            del open_answers[session]
        elif step == 9:
            program.change(session, title=f"renamed {program.time}")
        elif step == 10 and may_revert and not open_answers:
            last = program.db.execute(
                "SELECT id FROM message WHERE session_id = ? AND data LIKE '%\"user\"%' ORDER BY id DESC",
                (session,),
            ).fetchone()
            program.change(session, revert=json.dumps({"messageID": last[0]}))
        else:
            program.prompt(session, f"queued {program.time}")
        if chance.random() < 0.6:
            follower.follow()
    for session, answer in open_answers.items():
        program.part(session, answer, type="text", text="end")
        program.finish(answer)
    program.tick(10_000_000)
    follower.follow()


@pytest.mark.parametrize("seed", range(usually(12, quick=4, thorough=100)))
def test_a_database_that_is_followed_while_it_is_written(
    program: Program, follower: Follower, seed: int
) -> None:
    story(program, random.Random(seed), follower, may_revert=seed % 2 == 1)
    assert follower.place is not None
    assert len(follower.place.state) < 4000
    check(follower)
    assert follower.follow().told == []


def test_the_recorded_database(program: Program, follower: Follower, tmp_path: Path) -> None:
    """Its rows written one after the other, an answer first without its end, and followed after each."""
    whole = sqlite3.connect(tmp_path / "whole.db")
    whole.executescript(SQL.read_text())
    program.db.execute("PRAGMA foreign_keys = OFF")

    def insert(table: str, row: tuple[Any, ...], at: int) -> None:
        program.db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        program.time = at
        follower.follow()

    for session in whole.execute("SELECT * FROM session ORDER BY time_created").fetchall():
        insert("session", session, T0)
    for id, session, made, changed, data in whole.execute("SELECT * FROM message ORDER BY time_created, id"):
        begun = json.loads(data)
        begun["time"].pop("completed", None)
        insert("message", (id, session, made, made, json.dumps(begun)), made)
        for part in whole.execute("SELECT * FROM part WHERE message_id = ? ORDER BY id", (id,)):
            insert("part", part, made)
        program.db.execute("UPDATE message SET data = ?, time_updated = ? WHERE id = ?", (data, changed, id))
        follower.follow()
    whole.close()
    program.tick(10_000_000)
    follower.follow()
    check(follower)
    assert follower.follow().told == []


# -- what waits


def test_an_answer_waits_until_it_is_finished(program: Program, follower: Follower, session: str) -> None:
    program.prompt(session, "go")
    answer = program.message(session, "assistant", modelID="m")
    part = program.part(session, answer, type="text", text="hal")
    assert follower.follow().said() == ["go"]
    program.put("part", part, {"type": "text", "text": "half"})
    assert follower.follow().said() == ["go"]
    program.finish(answer)
    assert follower.follow().said() == ["go", "half"]
    assert follower.store.stats().entries == 2
    assert follower.follow().told == []


def test_an_answer_that_was_left_unfinished_is_taken_when_the_session_goes_on(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "go")
    answer = program.message(session, "assistant", modelID="m")
    program.part(session, answer, type="text", text="killed h")
    follower.follow()
    program.prompt(session, "again")
    assert follower.follow().said() == ["go"]  # it may be a prompt that waits for its turn
    program.message(session, "assistant", modelID="m")
    assert follower.follow().said() == ["go", "killed h", "again"]


def test_an_answer_that_nobody_wrote_to_for_an_hour_is_taken(
    program: Program, follower: Follower, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.prompt(session, "go")
    answer = program.message(session, "assistant", modelID="m")
    program.part(session, answer, type="text", text="killed")
    monkeypatch.setattr("clew.importers.reading.seen.RECENT", 0)
    with watching() as seen:
        assert follower.follow().said() == ["go"]
    assert not seen.is_settled  # it is asked again, though nothing changes
    program.tick(3_600_000)
    with watching() as seen:
        assert follower.follow().said() == ["go", "killed"]
    assert seen.is_settled
    assert list(imported(program.path)) == ["opencode:ses_1"]


def test_a_prompt_waits_for_its_parts(program: Program, follower: Follower, session: str) -> None:
    prompt = program.message(session, "user")
    follower.follow()
    program.part(session, prompt, type="text", text="first")
    follower.follow()
    program.part(session, prompt, type="text", text=" second")
    program.tick(5000)
    assert follower.follow().said() == ["first second"]
    assert follower.store.stats().entries == 1


def test_an_import_leaves_out_what_is_being_written_too(store: clew.Store, program: Program) -> None:
    session = program.session("ses_1")
    program.prompt(session, "go")
    answer = program.message(session, "assistant", modelID="m")
    program.part(session, answer, type="text", text="hal")
    store.import_path(program.path)
    assert said(store, session) == ["go"]
    program.finish(answer)
    store.import_path(program.path)
    assert said(store, session) == ["go", "hal"]
    assert store.stats().entries == 2


# -- only what changed is read


def test_only_what_is_new_of_a_session_is_read(program: Program, follower: Follower) -> None:
    for session in (program.session("ses_1"), program.session("ses_2")):
        for number in range(20):
            program.prompt(session, f"u{number}")
            program.answer(session)
    assert len(follower.follow().told) == 2
    assert follower.entries == 80
    assert follower.follow().told == []
    program.prompt("ses_2", "one more")
    program.answer("ses_2")
    assert (follower.follow().told, follower.entries) == (["opencode:ses_2"], 2)
    program.change("ses_1", title="given")
    assert (follower.follow().told, follower.entries) == (["opencode:ses_1"], 0)
    assert follower.store.get("opencode:ses_1").info.title == "given"
    check(follower)


def test_a_revert_and_what_follows_it(program: Program, follower: Follower, session: str) -> None:
    program.prompt(session, "one")
    program.answer(session, "1")
    second = program.prompt(session, "two")
    program.answer(session, "2")
    follower.follow()
    program.change(session, revert=json.dumps({"messageID": second}))
    assert follower.follow().said() == ["one", "1"]
    # The next prompt deletes what was reverted.
    program.db.execute("DELETE FROM part WHERE message_id >= ?", (second,))
    program.db.execute("DELETE FROM message WHERE id >= ?", (second,))
    program.change(session, revert=None)
    program.prompt(session, "other")
    program.answer(session, "3")
    assert follower.follow().said() == ["one", "1", "other", "3"]
    assert follower.store.stats().entries == 6


def test_rows_that_take_the_numbers_of_deleted_ones_are_seen(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "one")
    program.answer(session, "1")
    gone = program.prompt(session, "two")
    program.tick(6000)
    follower.follow()
    program.db.execute("DELETE FROM part WHERE message_id = ?", (gone,))
    program.db.execute("DELETE FROM message WHERE id = ?", (gone,))
    program.prompt(session, "other")
    program.tick(6000)
    assert follower.follow().said() == ["one", "1", "other"]


def test_notes_that_come_later_make_no_other_message(
    program: Program, follower: Follower, session: str
) -> None:
    prompt = program.prompt(session, "go")
    answer = program.message(session, "assistant", modelID="m")
    state = {"status": "completed", "input": {}, "output": "long", "time": {"start": 1, "end": 2}}
    part = program.part(session, answer, type="tool", callID="c", tool="x", state=state)
    program.finish(answer)
    follower.follow()
    program.put("message", prompt, {**program.data("message", prompt), "summary": {"diffs": [{"file": "a"}]}})
    data = program.data("part", part)
    data["state"]["time"]["compacted"] = program.tick()
    program.put("part", part, data)
    program.prompt(session, "next")
    program.answer(session, "2")
    follower.follow()
    assert follower.store.stats().entries == 5
    assert len(follower.store.get("opencode:ses_1").tree().branches) == 1


def test_a_message_that_was_changed_since_is_read_anew(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "go")
    answer = program.answer(session, "first words")
    follower.follow()
    part = program.db.execute("SELECT id FROM part WHERE message_id = ?", (answer,)).fetchone()[0]
    program.put("part", part, {"type": "text", "text": "other words"})
    program.prompt(session, "next")
    program.answer(session)
    assert follower.follow().said() == ["go", "other words", "next", "done"]
    assert follower.store.stats().entries == 5


def test_a_part_that_comes_after_the_end_of_its_message_is_not_lost(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "go")
    answer = program.answer(session, "first words")
    follower.follow()
    program.part(session, answer, type="text", text=", and more")
    assert follower.follow().said() == ["go", "first words, and more"]


def test_what_was_reverted_comes_back(program: Program, follower: Follower, session: str) -> None:
    program.prompt(session, "one")
    answer = program.answer(session, "1")
    program.part(session, answer, type="text", text=" and on")
    follower.follow()
    part = program.db.execute("SELECT max(id) FROM part").fetchone()[0]
    program.change(session, revert=json.dumps({"messageID": answer, "partID": part}))
    assert follower.follow().said() == ["one", "1"]
    program.change(session, revert=None)
    assert follower.follow().said() == ["one", "1 and on"]
    program.prompt(session, "two")
    program.answer(session, "2")
    assert follower.follow().said() == ["one", "1 and on", "two", "2"]


def test_a_summary_names_what_stays_in_view_however_far_back(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "one")
    kept = program.answer(session, "1")
    program.prompt(session, "two")
    program.answer(session, "2")
    follower.follow()
    request = program.message(session, "user")
    program.part(session, request, type="compaction", auto=True, tail_start_id=kept)
    program.tick(6000)
    follower.follow()
    summary = program.message(session, "assistant", modelID="m", summary=True, parentID=request)
    program.part(session, summary, type="text", text="so far")
    follower.follow()
    program.finish(summary)
    program.prompt(session, "on")
    program.answer(session, "3")
    follower.follow()
    context = list(follower.store.get("opencode:ses_1").context())
    assert [message["role"] for message in context] == ["user", "assistant"] * 3
    check(follower)


def test_a_fork_does_not_pay_again_for_what_it_copied(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "one")
    answer = program.answer(session, "1")
    program.prompt(session, "two")
    program.answer(session, "2")
    follower.follow()
    fork = program.session("ses_2", title="Fix (fork #1)")
    made = program.db.execute("SELECT time_created FROM message WHERE id = ?", (answer,)).fetchone()[0]
    copy = program.message(fork, "assistant", at=made)
    program.put("message", copy, program.data("message", answer))
    program.part(fork, copy, type="text", text="1")
    program.prompt(fork, "mine")
    program.answer(fork, "own")
    follower.follow()
    assert follower.told == ["opencode:ses_2"]
    assert follower.store.get("opencode:ses_2").info.metadata["copied_from"] == "opencode:ses_1"
    assert follower.store.usage().calls == 3
    check(follower)


def test_a_subagent_that_comes_later_is_linked(program: Program, follower: Follower) -> None:
    program.prompt(program.session("ses_1"), "one")
    follower.follow()
    child = program.session("ses_2", parent_id="ses_1")
    program.prompt(child, "do this")
    program.answer(child, "ok")
    follower.follow()
    assert follower.store.get("opencode:ses_2").info.parent == "opencode:ses_1"


def test_a_session_that_is_gone_from_the_database_stays(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "one")
    program.answer(session)
    follower.follow()
    for table in ("part", "message", "session"):
        program.db.execute(f"DELETE FROM {table}")
    program.prompt(program.session("ses_2"), "new")
    program.tick(6000)
    follower.follow()
    assert said(follower.store, "ses_1") == ["one", "done"]
    assert said(follower.store, "ses_2") == ["new"]


def test_sessions_beyond_the_window_are_read_as_a_whole(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_MOST_SESSIONS", 2)
    follower = Follower(program.path)
    for number in range(4):
        program.prompt(program.session(f"ses_{number}"), "one")
        program.answer(f"ses_{number}")
    follower.follow()
    program.prompt("ses_0", "two")
    program.answer("ses_0")
    follower.follow()
    assert (follower.told, follower.entries) == (["opencode:ses_0"], 4)
    program.prompt("ses_0", "three")
    program.answer("ses_0")
    assert follower.follow().entries == 2
    # One that waits, and would be forgotten: then nothing is kept, and all is read the next time.
    program.message("ses_1", "assistant")
    for number in (2, 3):
        program.prompt(f"ses_{number}", "on")
        program.answer(f"ses_{number}")
    assert follower.follow().place is None or any(
        one.waits
        for one in database.decode_state(follower.place.state).sessions  # type: ignore[union-attr]
    )
    program.tick(10_000_000)
    follower.follow()
    check(follower)


# -- what cannot be followed


def test_damaged_rows_are_told_and_the_rest_is_followed(
    program: Program, follower: Follower, session: str
) -> None:
    program.prompt(session, "one")
    bad = program.answer(session, "1")
    program.db.execute("UPDATE message SET data = '{' WHERE id = ?", (bad,))
    program.prompt(session, "two")
    program.answer(session, "2")
    follower.follow()
    assert follower.problems == [f"the data of message {bad} is not a JSON object"]
    program.prompt(session, "three")
    program.answer(session, "3")
    assert follower.follow().entries == 2
    assert follower.said() == ["one", "two", "2", "three", "3"]


def test_no_transaction_is_left_open_while_a_session_is_loaded(program: Program, session: str) -> None:
    """A checkpoint could not come to its end."""
    for number in range(5):
        program.prompt(session, f"u{number}")
        program.answer(session)
    found = reader.follow(program.path, None, lambda _: None, lambda _: None)
    source = next(found)
    assert isinstance(source, SourceSession)
    for _ in source.entries:
        program.prompt(session, "meanwhile")
        busy, log, done = program.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert (busy, log, done) == (0, 0, 0)
