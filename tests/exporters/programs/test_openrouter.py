"""The state file of the OpenRouter agent SDK: what came from there is the same again, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.exporters.programs import openrouter
from tests.exporters.programs.test_round_trip import TEXT, VALUE, go
from tests.importers.programs.test_openrouter import AGAIN, ANSWER, ASK, CALL, session
from tests.support.effort import usually
from tests.support.rows import each_row


def as_written(*sessions: dict[str, Any], **counters: int) -> str:
    """As the SDK writes it: maps have their keys in order, structs do not."""
    found = {}
    for one in sorted(sessions, key=lambda one: one["ID"]):
        maps = {name: in_order(one[name]) for name in ("Messages", "Checkpoints", "FileCheckpoints")}
        found[one["ID"]] = {**one, **maps}
    return go({"sessions": found, "fork_counters": in_order(counters)}, html=True, indent=2)


def in_order(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))


def bring(store: clew.Store, folder: Path, text: str) -> None:
    (folder / "state.json").write_text(text, encoding="utf-8")
    assert store.import_path(folder / "state.json").ok


FILES = {"src/a.txt": "v1 <b>", "gone.txt": None}
CASES: dict[str, dict[str, Any]] = {
    "messages": {},
    "none": {"messages": None},
    "checkpoints": {"Checkpoints": {"default-u1": [ASK], "before": [], "z": [ASK, AGAIN]}},
    "what a rewind left": {"messages": [ASK], "Checkpoints": {"a": [ASK], "b": [ASK, CALL, ANSWER, AGAIN]}},
    "files": {"Checkpoints": {"u1": [ASK]}, "FileCheckpoints": {"u1": FILES, "default-u9": {}}},
    "turns that were taken back": {"UserTurns": 7},
}


@each_row("one", CASES.values(), ids=CASES)
def test_what_came_from_there_is_the_same_again(tmp_path: Path, one: dict[str, Any]) -> None:
    with clew.open("memory:") as store:
        text = as_written(session(**one), default=2, gone=1)
        bring(store, tmp_path, text)
        assert store.export("openrouter:default", "openrouter") == text


@settings(max_examples=usually(40, quick=20, thorough=1000))
@given(
    said=st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "system"]), "content": TEXT},
            optional={"reasoning": TEXT, "x": VALUE},
        ),
        min_size=1,
        max_size=5,
    ),
    kept=st.dictionaries(TEXT.filter(lambda text: text.strip() == text != ""), st.integers(0, 5), max_size=3),
)
def test_whatever_was_said_is_the_same_again(
    tmp_path_factory: pytest.TempPathFactory, said: list[dict[str, Any]], kept: dict[str, int]
) -> None:
    checkpoints = {name: said[:count] for name, count in kept.items() if name.isprintable()}
    turns = sum(message["role"] == "user" for message in said)
    text = as_written(session(messages=said, Checkpoints=checkpoints, UserTurns=turns))
    with clew.open("memory:") as store:
        bring(store, tmp_path_factory.mktemp("x"), text)
        assert b"".join(openrouter.pieces(store, "openrouter:default")).decode() == text


def test_many_sessions_are_one_file(store: clew.Store, tmp_path: Path) -> None:
    text = as_written(session("b"), session("a"), session("a#fork-1"), a=1)
    bring(store, tmp_path, text)
    ids = [info.id for info in store.list()]
    openrouter.write(store, ids, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == text


def exported(store: clew.Store, id: str) -> Any:
    return json.loads(store.export(id, "openrouter"))["sessions"][id.removeprefix("openrouter:")]


def test_what_was_said_here_follows(store: clew.Store, tmp_path: Path) -> None:
    bring(store, tmp_path, as_written(session(Checkpoints={"default-u1": [ASK]})))
    s = store.get("openrouter:default")
    s.append(AGAIN)
    s.checkpoint("default-u2")
    s.append(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c2", "name": "f", "input": {"a": 1}}]}
    )
    found = exported(store, s.id)
    assert found["Messages"][:4] == [ASK, CALL, ANSWER, AGAIN]
    assert found["Messages"][4]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert found["Checkpoints"] == {"default-u1": [ASK], "default-u2": [ASK, CALL, ANSWER, AGAIN]}
    assert found["UserTurns"] == 2
    assert found["UpdatedAt"] > "2026-04-10T08:05:00Z"
    with clew.open("memory:") as other:
        other.import_path(store.export(s.id, "openrouter", path=tmp_path / "again.json"))
        assert [len(other.get(s.id).messages(at=name)) for name in ("default-u1", "default-u2")] == [1, 4]


def test_turns_are_never_counted_down(store: clew.Store, tmp_path: Path) -> None:
    """The SDK names checkpoints after them."""
    bring(store, tmp_path, as_written(session(UserTurns=1)))
    s = store.get("openrouter:default")
    s.append(AGAIN)
    s.checkpoint("default-u2")
    s.rewind(0)
    assert exported(store, s.id)["UserTurns"] == 2


def test_of_a_compacted_session_comes_what_a_model_gets(store: clew.Store) -> None:
    s = store.create("x")
    s.append(ASK, CALL, ANSWER)
    s.compact("They met.")
    s.append(AGAIN)
    assert exported(store, "x")["Messages"] == [{"content": "They met.", "role": "user"}, AGAIN]
