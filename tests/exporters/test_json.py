"""The JSON document."""

from __future__ import annotations

import asyncio
import json

import pytest

import clew
from tests.exporters.hostile import BIDI, conversation


def test_the_document_has_the_documented_fields(store: clew.Store) -> None:
    s = store.create("a", title="T", tags=["x"], model="m", metadata={"k": 1})
    s.append({"role": "user", "content": "hi"})
    s.checkpoint("cp", state={"n": 1})
    document = json.loads(store.export("a", "json"))
    assert list(document) == [
        "format", "version", "whole", "session", "usage", "checkpoints", "branches", "entries", "redaction",
    ]  # fmt: skip
    assert (document["format"], document["version"], document["redaction"]) == ("clew-session", 1, None)
    assert document["session"]["id"] == "a"
    assert document["session"]["head"] == {"branch": s.head.branch, "position": 0}
    assert document["checkpoints"][0]["name"] == "cp"
    assert document["checkpoints"][0]["state"] == {"n": 1}
    (entry,) = document["entries"]
    stored = next(iter(s.entries()))
    assert entry == {
        "id": stored.id,
        "branch": s.head.branch,
        "position": 0,
        "kind": "message",
        "role": "user",
        "time": stored.time.isoformat().replace("+00:00", "Z"),
        "hash": stored.hash,
        "redacted": 0,
        "annotations": {},
        "message": {"role": "user", "content": "hi"},
    }


def test_messages_are_the_stored_bytes(store: clew.Store) -> None:
    raw = '{"role":"user","content":"é","n":123456789012345678901234567890,"f":1.10}'
    store.create("a").append(raw)
    assert raw in store.export("a", "json")


def test_the_path_or_all_branches(store: clew.Store) -> None:
    s = conversation(store)
    path = json.loads(store.export("hostile", "json"))
    assert [entry["id"] for entry in path["entries"]] == [entry.id for entry in s.entries()]
    whole = json.loads(store.export("hostile", "json", whole=True))
    assert len(whole["entries"]) == len(path["entries"]) + 1
    assert "abandoned" not in json.dumps(path)
    assert "abandoned" in json.dumps(whole)
    assert {entry["branch"] for entry in whole["entries"]} == {branch["id"] for branch in whole["branches"]}
    labelled = [entry for entry in whole["entries"] if entry["annotations"]]
    assert len(labelled) == 1


def test_nothing_in_the_file_acts_on_a_terminal(store: clew.Store) -> None:
    conversation(store)
    text = store.export("hostile", "json", whole=True)
    assert not set(text) & set("\x1b\x07\x7f\x9b\u202e\u2066\u200f")
    assert BIDI in json.loads(text)["entries"][1]["message"]["content"]


def test_an_empty_session_is_a_document(store: clew.Store) -> None:
    store.create("empty")
    for whole in (False, True):
        assert json.loads(store.export("empty", "json", whole=whole))["entries"] == []


def test_a_fork_has_the_entries_of_its_base(store: clew.Store) -> None:
    s = store.create("a")
    s.append({"role": "user", "content": "one"})
    s.fork("b").append({"role": "user", "content": "two"})
    s.append({"role": "user", "content": "not in the fork"})
    for whole in (False, True):
        entries = json.loads(store.export("b", "json", whole=whole))["entries"]
        assert [entry["message"]["content"] for entry in entries] == ["one", "two"]


def test_options_that_a_format_does_not_have_are_refused(store: clew.Store) -> None:
    store.create("a")
    with pytest.raises(clew.InvalidError, match="json has no option 'tools'; there is whole, redact"):
        store.export("a", "json", tools=False)
    with pytest.raises(clew.InvalidError, match="redact must be True, False or a Redactor"):
        store.export("a", "json", redact="yes")
    with pytest.raises(clew.InvalidError, match="no export to 'pdf'; there is"):
        store.export("a", "pdf")  # type: ignore[arg-type]


async def _exported() -> str:
    async with clew.open_async("memory:") as store:
        s = await store.session("a")
        await s.append({"role": "user", "content": "PASSWORD=hunter2"})
        return await store.export("a", "json", redact=True)


def test_tasks_have_the_same_options() -> None:
    document = json.loads(asyncio.run(_exported()))
    assert document["entries"][0]["message"]["content"] == "PASSWORD=[REDACTED:secret]"
