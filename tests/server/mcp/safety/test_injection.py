"""Stored text is data (S-23): whatever it says, it stays in its field; nothing else of an answer changes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.server.mcp.places import checkpoint_in, escaped, place_in, points_of, split, unescaped
from clew.server.mcp.view import View
from tests.server.mcp.safety.asking import ask, view_of, walk
from tests.server.mcp.safety.attacks import ATTACKS, HARMLESS, fill, id_of
from tests.server.page.hostile_store import fill as fill_hostile
from tests.support.rows import each_row, named

TEXTS = {
    "title", "agent", "origin", "snippet", "text", "first_prompt", "group", "place", "id", "parent",
    "previous", "next", "files", "forks", "subagents", "resume", "updated", "at", "truncated",
}  # fmt: skip
"""Fields that depend on what was recorded, or on when. All others must not."""

EXPECTED = {
    "title": {"title", "prompt"},
    "agent": {"agent", "origin"},
    "origin": {"agent"},
    "snippet": {"prompt", "answer", "odd", "last", "result", "value", "key", "note", "summary", "tool"},
    "first_prompt": {"prompt"},
    "text": {
        "prompt", "answer", "odd", "last", "result", "value", "key", "tool", "summary", "media", "type",
        "other",
    },
    "group": {"used", "workspace"},
    "place": {"id", "child", "fork", "checkpoint"},
    "previous": {"id"},
    "next": {"id"},
    "id": {"id", "child", "fork"},
    "parent": {"id"},
    "forks": {"fork"},
    "subagents": {"child"},
    "resume": {"id", "workspace"},
}  # fmt: skip
"""Which fields of sessions a field of an answer may tell."""
FIELD = re.compile(r"([a-z]+)-field needle")


def answers(store: clew.Store, session: clew.Session) -> dict[str, Any]:
    """What every tool says of it."""
    view = view_of(store, workspace=session.info.workspace)
    place = escaped(session.id)
    everyone = ["user", "assistant", "tool", "system", "other"]
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "search": ("search_sessions", {"query": "needle", "tools": True, "limit": 30}),
        "newest": ("search_sessions", {"query": "needle", "tools": True, "limit": 2, "order": "newest"}),
        "noted": ("search_sessions", {"query": '"note field"'}),
        "list": ("list_sessions", {}),
        "overview": ("session_overview", {"session": place}),
        "read": ("read_session", {"place": place, "roles": everyone, "max_tokens": 20_000}),
        "full": ("read_session", {"place": f"{place}@0", "tools": "full", "max_chars": 300}),
        "none": ("read_session", {"place": f"{place}@1", "tools": "none", "max_chars": 100}),
        "models": ("usage_summary", {}),
        "workspaces": ("usage_summary", {"by": "workspace"}),
    }
    return {name: ask(view, tool, **arguments) for name, (tool, arguments) in asked.items()}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Each text of an answer, with the name of its field."""
    if isinstance(value, dict):
        for field, one in value.items():
            yield from leaves(one, field)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one, name)
    elif isinstance(value, str):
        yield name, value


def shape(value: Any, name: str = "") -> Any:
    """An answer without its texts."""
    if isinstance(value, dict):
        return {field: shape(one, field) for field, one in value.items()}
    if isinstance(value, list):
        return [shape(one, name) for one in value]
    return (None if value is None else "…") if name in TEXTS - {"truncated"} else name in TEXTS or value


@pytest.fixture(scope="module")
def harmless() -> Any:
    with clew.open("memory:") as store:
        found = answers(store, fill(store, HARMLESS))
    assert [hit["in_note"] for hit in found["noted"]["hits"]] == [True]
    assert len(found["search"]["hits"]) == 5
    return shape(found)


@pytest.mark.parametrize("number", range(3))
def test_s23_s45_recorded_text_stays_in_its_field(number: int, harmless: Any) -> None:
    """And ids and places lead back to where they came from."""
    for attack in ATTACKS[number::3]:
        with clew.open("memory:") as store, named(repr(attack[:100])):
            session = fill(store, attack)
            found = answers(store, session)
            for name, text in leaves(found):
                assert set(FIELD.findall(text)) <= EXPECTED.get(name, set()), (name, text[:200])
            told = shape(found)
            for one in (told, harmless):  # a command that cannot be typed is left out
                one["overview"]["resume"] = None
            assert told == harmless
            lead_back(view_of(store, workspace=session.info.workspace), found)


def lead_back(view: View, found: dict[str, Any]) -> None:
    for one in found["list"]["sessions"]:
        assert ask(view, "session_overview", session=one["id"])["id"] == one["id"]
        assert view.find(one["id"]).id == unescaped(one["id"])
    for hit in found["search"]["hits"]:
        [here] = ask(
            view, "read_session", place=hit["place"], before=0, after=0,
            roles=["user", "assistant", "tool", "system", "other"],
        )["entries"]  # fmt: skip
        assert here["place"].rpartition("@")[2] == hit["place"].rpartition("@")[2]
    [mark] = found["overview"]["checkpoints"]
    [there] = ask(view, "read_session", place=mark["place"], before=0, after=0, roles=["other"])["entries"]
    assert there["place"].endswith(".3")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.data())
@settings(max_examples=100, deadline=None)
def test_any_id_and_any_name_of_a_checkpoint_is_understood_again(id: str, data: st.DataObject) -> None:
    name = data.draw(st.text(st.sampled_from("0129.@%aA4\n\u202e\U000e0041é"), min_size=1))
    assert unescaped(escaped(id)) == id
    assert split(place_in(id, "0a.1")) == (escaped(id), "0a.1")
    parts = split(checkpoint_in(id, name))
    assert parts is not None
    assert unescaped(parts[0]) == id
    assert points_of(parts[1])[0] == name


@each_row("id", ["plain", "claude-code:0b1c-9f", "a b", "user@host", "100%", "ü/漢", "a%zz"])
def test_an_id_without_characters_that_act_is_as_it_was(id: str) -> None:
    assert escaped(id) == id


def test_sessions_whose_ids_look_like_the_escapes_of_others_are_told_apart() -> None:
    ids = ["a\n", "a%0A", "a%250A", "a@b", "a%40b", "a", "a%"]
    with clew.open("memory:") as store:
        for id in ids:
            store.create(id, workspace="/w").append({"role": "user", "content": f"I am {id!r}"})
        store.get("a").checkpoint("0")
        store.get("a").checkpoint("b%0A@\n")
        view = view_of(store, workspace="/w")
        listed = [one["id"] for one in ask(view, "list_sessions")["sessions"]]
        assert len(set(listed)) == len(ids)
        for id in ids:
            [entry] = ask(view, "read_session", place=escaped(id))["entries"]
            assert entry["text"] == f"I am {id!r}"
            assert ask(view, "read_session", place=entry["place"])["entries"] == [entry]
        for mark in ask(view, "session_overview", session="a")["checkpoints"]:
            assert ask(view, "read_session", place=mark["place"])["entries"][0]["text"] == "I am 'a'"


def test_s23_a_checkpoint_named_like_an_entry_does_not_stand_for_it() -> None:
    with clew.open("memory:") as store:
        session = store.create("s", workspace="/w")
        first, second = session.append({"role": "user", "content": "one"}, {"role": "user", "content": "two"})
        session.checkpoint(first.id)
        view = view_of(store, workspace="/w")
        [at_entry] = ask(view, "read_session", place=place_in("s", first.id), before=0, after=0)["entries"]
        [mark] = ask(view, "session_overview", session="s")["checkpoints"]
        [at_mark] = ask(view, "read_session", place=mark["place"], before=0, after=0)["entries"]
        assert (at_entry["text"], at_mark["text"]) == ("one", "two")
        assert at_mark["place"] == place_in("s", second.id)


def test_s17_s23_the_store_that_attacks_the_page_attacks_no_answer(tmp_path: Path) -> None:
    with clew.open(tmp_path / "store.db") as store:
        (tmp_path / "files").mkdir()
        fill_hostile(store, tmp_path / "files")
        view = view_of(store, sees_all=True, workspace=None)
        listed = ask(view, "list_sessions", workspace="all", limit=100)["sessions"]
        assert len(listed) > 12
        for one in listed:
            overview = ask(view, "session_overview", session=one["id"])
            roles = ["user", "tool", "other"]
            ask(view, "read_session", place=one["id"], before=50, tools="full", roles=roles)
            ask(view, "usage_summary", session=one["id"], by="workspace")
            marks = [mark["place"] for mark in overview["checkpoints"] if mark["files"]]
            for a in marks:
                ask(view, "diff_files", a=a)
                ask(view, "diff_files", a=marks[-1], b=a)
        ask(view, "search_sessions", query="needle", limit=30, tools=True, workspace="all")


def test_s18_files_with_names_that_act_are_listed_once_and_can_be_asked_for(tmp_path: Path) -> None:
    names = [id_of(attack).replace("/", "_")[:60] for attack in ATTACKS]
    files = tmp_path / "files"
    files.mkdir()
    with clew.open(tmp_path / "store.db") as store:
        session = store.create("s", workspace="/w")
        session.append({"role": "user", "content": "go"})
        session.checkpoint("a", files=files)
        for name in (*dict.fromkeys(names), os.fsdecode(b"no text \xff"), os.fsdecode(b"\xed\xa0\x80")):
            (files / name).write_text("new\n")
        session.checkpoint("b", files=files)
        view = view_of(store, workspace="/w")
        assert ask(view, "diff_files", a="s@a", b="s@b", max_tokens=500)["next"].isdecimal(), (
            "no text of a file's name is in it"
        )
        found = walk(view, "diff_files", "files", a="s@a", b="s@b", max_tokens=500)
        assert len(found) == len(list(files.iterdir()))
        assert len({one["path"] for one in found}) == len(found)
        for one in found:
            if "\\" not in one["path"]:
                again = ask(view, "diff_files", a="s@a", b="s@b", path=one["path"])["files"]
                assert [each["path"] for each in again] == [one["path"]]
