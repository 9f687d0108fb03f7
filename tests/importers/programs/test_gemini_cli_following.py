"""Chats of Gemini CLI that grow: followed from place to place they leave what one import of them leaves."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers.programs.gemini_cli import reader
from clew.importers.reading.seen import watching
from tests.importers.following import Followed, check, check_all, follow, grow, line_ends
from tests.importers.programs.test_gemini_cli import HEADER, gemini, session_file, user
from tests.support.effort import usually
from tests.support.rows import each_row

HOME = Path(__file__).parents[2] / "home" / "files" / ".gemini"
RECORDED = sorted(HOME.rglob("session-*.jsonl"))
TOKENS = {"input": 9, "output": 1}
ID = "gemini-cli:s1"


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": "ls", "args": {}, "status": "success", "result": f"of {name}", **more}


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem[-8:])
def test_recorded_chats(tmp_path: Path, file: Path) -> None:
    shutil.copytree(HOME, tmp_path / ".gemini")
    path = tmp_path / ".gemini" / file.relative_to(HOME)
    followed = check_all(reader, path, file.read_bytes(), most=40)
    assert followed.place is not None
    assert len(followed.place.state) < 8000


STORIES: dict[str, list[Any]] = {
    "words, then calls": [
        user("m1", "go"),
        gemini("m2", "let me see", tokens=TOKENS, model="g-1"),
        {"$set": {"lastUpdated": "2026-08-21T10:00:03.000Z"}},
        gemini("m2", "let me see", tokens=TOKENS, model="g-1", toolCalls=[call("c1")]),
        user("m3", [{"functionResponse": {"id": "c1", "name": "ls", "response": {}}}]),
        gemini("m4", "done", tokens=TOKENS, model="g-2"),
    ],
    "stubs": [
        user("m1", "go"),
        gemini("m2", ""),
        gemini("m2", "", tokens=TOKENS),
        gemini("m2", "", tokens=TOKENS, toolCalls=[call("c1", status="executing", result=None)]),
        gemini("m2", "", tokens=TOKENS, toolCalls=[call("c1")]),
        gemini("m2", "", tokens=TOKENS, toolCalls=[call("c1"), call("c2")]),
        gemini("m3", "half"),
        user("m4", "stopped"),
    ],
    "rewinds": [
        user("m1", "one"),
        gemini("m2", "first", tokens=TOKENS),
        user("m3", "two"),
        gemini("m4", ""),
        {"$rewindTo": "m3"},
        user("m5", "other"),
        {"$rewindTo": "m1"},
        user("m6", "anew"),
        {"$rewindTo": "nobody"},
        user("m7", "again"),
    ],
    "rewound to nothing": [user("m1", "one"), gemini("m2", "1", tokens=TOKENS), {"$rewindTo": "m1"}],
    "written over in the middle": [
        user("m1", "one"),
        gemini("m2", "first", tokens=TOKENS),
        user("m3", "two"),
        gemini("m2", "first, changed", tokens=TOKENS),
        gemini("m2", "first, changed", tokens=TOKENS, toolCalls=[call("c")]),
        user("m4", "three"),
    ],
    "lists": [
        {"$set": {"messages": [user("m0", "<session_context>")]}},
        user("m1", "one"),
        gemini("m2", "first", tokens=TOKENS, toolCalls=[call("c")]),
        {"$set": {"messages": [user("m9", "summary")], "summary": "T"}},
        gemini("m10", "on", tokens=TOKENS),
        {**HEADER, "startTime": "2026-08-22T10:00:00.000Z"},
        {"$set": {"messages": [user("m9", "summary"), gemini("m10", "on", tokens=TOKENS)]}},
        user("m11", "more"),
    ],
    "odd": [
        user("m1", "one"),
        {"novelty": 1},
        "damaged",
        {"id": "m2", "type": "gemini", "content": "no time", "tokens": TOKENS},
        "",
        [1],
        {"id": "m3", "type": "info", "content": "note"},
        {"$set": {"mood": {"is": 1}}},
        {"novelty": 2},
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_stories(tmp_path: Path, story: str) -> None:
    path = session_file(tmp_path, *STORIES[story])
    check_all(reader, path, path.read_bytes(), most=100, times_of_events=story != "odd")


@pytest.mark.parametrize("window", [2, 64])
def test_stories_by_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(reader, "_MOST_MESSAGES", window)
    for seed in range(usually(40, quick=8, thorough=400)):
        chance = random.Random(seed)
        records, last = [], ""
        for number in range(chance.randrange(4, 25)):
            at = {"timestamp": f"2026-08-21T10:{number:02d}:00.000Z"}
            step = chance.randrange(8)
            if step < 2:
                records.append({**user(f"u{number}", f"say {number}"), **at})
            elif step < 4:
                words = chance.choice(["", f"words {number}"])
                last = f"g{number}"
                records.append({**gemini(last, words, tokens=chance.choice([None, TOKENS])), **at})
            elif step < 6 and last:
                before = next(one for one in reversed(records) if one.get("id") == last)
                more: dict[str, Any] = chance.choice(
                    [{"tokens": TOKENS}, {"toolCalls": [call(f"c{number}")]}, {"content": "x"}]
                )
                records.append({**before, **more})
            elif step == 6:
                ids = [one["id"] for one in records if "id" in one]
                records.append({"$rewindTo": chance.choice([*ids[-4:], "nobody"])})
            else:
                records.append({"$set": {"lastUpdated": at["timestamp"], "n": number}})
        records.append({**user("end", "end"), "timestamp": "2026-08-21T11:00:00.000Z"})
        path = session_file(tmp_path / f"{seed}", *records)
        content = path.read_bytes()
        check(reader, path, content, line_ends(content))
        for _ in range(3):
            check(reader, path, content, chance.sample(range(1, len(content)), 5), twice=True)


# -- what waits


def texts(store: clew.Store) -> list[str]:
    return [json.dumps(message["parts"]) for message in store.get(ID).messages()]


def test_an_answer_is_there_as_soon_as_it_was_written(store: clew.Store, tmp_path: Path) -> None:
    path = session_file(tmp_path, user("m1", "hi"), gemini("m2", "hello", tokens=TOKENS))
    followed = Followed()
    follow(store, reader, path, followed)
    assert texts(store) == ['[{"text": "hi"}]', '[{"text": "hello"}]']


def test_a_message_that_will_be_written_again_waits(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.importers.reading.seen.RECENT", 0)
    path = session_file(tmp_path, user("m1", "hi"), gemini("m2", "", tokens=TOKENS))
    followed = Followed()
    with watching() as seen:
        follow(store, reader, path, followed)
    assert texts(store) == ['[{"text": "hi"}]']
    assert not seen.is_settled  # it is asked again, though the file did not change
    with path.open("a") as file:
        file.write(json.dumps(gemini("m2", "", tokens=TOKENS, toolCalls=[call("c")])) + "\n")
    with watching() as seen:
        follow(store, reader, path, followed)
    assert not seen.is_settled  # the next round may add a call
    with path.open("a") as file:
        file.write(json.dumps(gemini("m3", "done", tokens=TOKENS)) + "\n")
    with watching() as seen:
        follow(store, reader, path, followed)
    assert seen.is_settled
    assert len(texts(store)) == 4
    assert (store.stats().entries, followed.whole) == (4, 1)


def rounds(count: int, said: str = "") -> list[Any]:
    """One answer that gains a call in each round: without thoughts, Gemini CLI keeps writing to it."""
    made = [call(f"c{number}") for number in range(count)]
    first = [gemini("m2", said, tokens=TOKENS)] if said else []
    return [*first, *(gemini("m2", said, tokens=TOKENS, toolCalls=made[: n + 1]) for n in range(count))]


@each_row("said", ["", "let me see"])
def test_an_answer_that_gains_calls_is_one_message_however_often_it_is_looked_at(
    tmp_path: Path, said: str
) -> None:
    path = session_file(tmp_path, user("m1", "go"), *rounds(40, said), gemini("m3", "done", tokens=TOKENS))
    content = path.read_bytes()
    check(reader, path, content, line_ends(content))
    with clew.open("memory:") as store:
        grow(store, reader, path, content, line_ends(content))
        session = store.get(ID)
        assert len(session.tree().branches) == 1
        assert store.stats().entries == len(list(session.entries())) == (5 if said else 4)
        assert (session.usage().calls, session.usage().input_tokens) == (2, 18)


def test_while_an_answer_gains_calls_its_words_stay_in_view(store: clew.Store, tmp_path: Path) -> None:
    path = session_file(tmp_path, user("m1", "go"))
    followed = Followed()
    for record in rounds(3, "let me see"):
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        follow(store, reader, path, followed)
        assert texts(store) == ['[{"text": "go"}]', '[{"text": "let me see"}]']


def test_what_was_left_unfinished_long_ago_is_taken(store: clew.Store, tmp_path: Path) -> None:
    path = session_file(tmp_path, user("m1", "hi"), gemini("m2", "hal"))
    followed = Followed()
    follow(store, reader, path, followed)
    assert len(texts(store)) == 1
    os.utime(path, (time.time() - 3601, time.time() - 3601))
    follow(store, reader, path, followed)
    assert texts(store)[1] == '[{"text": "hal"}]'
    # It goes on after all: what was taken stays on a branch.
    with path.open("a") as file:
        file.write(json.dumps(gemini("m2", "half", tokens=TOKENS)) + "\n")
    follow(store, reader, path, followed)
    assert texts(store)[1] == '[{"text": "half"}]'
    assert (store.stats().entries, followed.whole) == (3, 1)


# -- what is in the state no more


def long_chat(tmp_path: Path, *more: Any) -> tuple[Path, int]:
    records = [
        {
            **user(f"m{number}", f"say {number}"),
            "timestamp": f"2026-08-21T{10 + number // 60}:{number % 60:02d}:00Z",
        }
        for number in range(100)
    ]
    cut = len(session_file(tmp_path, *records).read_bytes())
    return session_file(tmp_path, *records, *more), cut


@each_row(
    ("record", "whole"),
    [
        ({"$rewindTo": "m40"}, 1),
        ({"$rewindTo": "m30"}, 2),
        ({"$rewindTo": "nobody"}, 2),
        ({"$set": {"messages": []}}, 2),
        ({**user("m50", "changed"), "timestamp": "2026-08-21T10:50:00Z"}, 1),
        ({**user("m20", "changed"), "timestamp": "2026-08-21T10:20:00Z"}, 2),
        ({**user("new", "new"), "timestamp": "2026-08-21T20:00:00Z"}, 1),
        ({"id": "new", "type": "user", "content": "no time"}, 2),
        ({"$set": {"sessionId": "s1"}}, 1),
    ],
)
def test_what_reaches_beyond_the_window_takes_the_whole_file(tmp_path: Path, record: Any, whole: int) -> None:
    path, cut = long_chat(tmp_path, record, {**user("end", "end"), "timestamp": "2026-08-21T21:00:00Z"})
    followed = check(reader, path, path.read_bytes(), [cut])
    assert followed.whole == whole
    assert followed.place is not None
    assert len(followed.place.state) < 16_000


def test_a_file_without_an_id_is_told_and_nothing_is_made_of_it(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(user("m1", "one")) + "\n")
    followed = Followed()
    follow(store, reader, path, followed)
    assert list(store.list()) == []
    assert [problem.reason for problem in followed.problems] == ["no line tells the id of the session"]
