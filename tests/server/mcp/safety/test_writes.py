"""What agents may write: notes and checkpoints beside what was said, and nothing that was there is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.model import Retention
from clew.server.mcp.places import place_in
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.tools.marks import MOST_NOTED, NOTE
from clew.server.mcp.view import View
from tests.faults.crash.threads import together
from tests.server.mcp.safety.asking import HERE, ask, call, refused, view_of, walk
from tests.support.rows import each_row


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "store.db") as store:
        session = store.create("s", workspace=HERE, title="a title", tags=["t"])
        session.append(*({"role": "user", "content": f"message {number}"} for number in range(5)))
        yield store


@pytest.fixture
def view(store: clew.Store) -> View:
    return view_of(store, writes=True, session="s", client="Claude Code")


def last(store: clew.Store) -> clew.Entry:
    return next(store.get("s").entries(newest_first=True))


def test_no_tool_is_named_or_described_as_one_that_takes_something_away() -> None:
    for tool in TOOLS:
        words = f"{tool.name} {tool.description} {' '.join(tool.input_schema()['properties'])}".lower()
        for verb in ("delete", "purge", "restore", "rewind", "remove", "truncate", "update", "send", "exec"):
            assert verb not in words


def test_a_checkpoint_is_set_and_says_by_whom(store: clew.Store, view: View) -> None:
    answer = ask(view, "checkpoint", name="before the change", note="it worked")
    assert answer["place"] == "s@before the change"
    made = store.get("s").get_checkpoint("before the change")
    assert made.state == {"by": "mcp:Claude Code", "note": "it worked"}
    assert made.head == store.get("s").head
    assert ask(view, "read_session", place=answer["place"], before=0)["entries"][0]["text"] == "message 4"


def test_a_checkpoint_never_moves_a_name(
    store: clew.Store, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.get("s")
    session.checkpoint("mine", state={"by": "a person"})
    session.append({"role": "user", "content": "more"})
    assert "already" in refused(view, "checkpoint", name="mine")
    assert session.get_checkpoint("mine").position == 4
    with monkeypatch.context() as patched:  # another one sets it after this one looked
        patched.setattr(clew.Session, "checkpoints", lambda self: [])
        assert "already" in refused(view, "checkpoint", name="mine")
    assert session.get_checkpoint("mine").state == {"by": "a person"}
    outcomes: list[bool] = []

    def race() -> None:
        outcomes.append(bool(call(view, "checkpoint", name="race").is_error))

    assert together([race] * 6) == []
    assert sorted(outcomes) == [False] + [True] * 5


def test_s23_a_checkpoint_cannot_be_named_like_an_entry_or_a_position(store: clew.Store, view: View) -> None:
    for name in (last(store).id, "12", "0", "٣", "x.7"):
        assert "choose another name" in refused(view, "checkpoint", name=name)
    for name in ("", "x" * 201, "a\0b", "漢" * 180, "\ud800"):
        refused(view, "checkpoint", name=name)
    assert store.get("s").checkpoints() == []


def test_a_checkpoint_with_files_keeps_those_of_the_own_workspace_only(
    store: clew.Store, view: View, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    session = store.create("w", workspace=work)
    session.append({"role": "user", "content": "go"})
    here = View(store=store, workspace=str(work), writes=True, takes_files=True, sees_all=True)
    first = ask(here, "checkpoint", name="one", files=True, session="w")["place"]
    (work / "a.txt").write_text("two\n")
    second = ask(here, "checkpoint", name="two", files=True, session="w")["place"]
    assert "-one\n+two" in ask(here, "diff_files", a=first, b=second)["files"][0]["diff"]
    assert "already" in refused(here, "checkpoint", name="two", files=True, session="w")
    assert "does not work in the directory" in refused(here, "checkpoint", name="x", files=True, session="s")
    over_http = View(store=store, writes=True, sees_all=True)
    assert "takes no snapshots" in refused(over_http, "checkpoint", name="x", files=True, session="w")
    assert [one.name for one in session.checkpoints()] == ["one", "two"]


def test_a_note_is_put_beside_an_entry_and_found(store: clew.Store, view: View) -> None:
    place = ask(view, "remember", note="the teapot leaks", label="bug")["place"]
    assert place == place_in("s", last(store).id)
    noted = last(store).annotations
    assert (noted["note"], noted["noted_by"], noted["label"]) == (
        "the teapot leaks",
        "mcp:Claude Code",
        "bug",
    )
    assert str(noted["noted_at"]).startswith("20")
    assert last(store).message == {"role": "user", "content": "message 4"}
    [hit] = ask(view, "search_sessions", query="teapot")["hits"]
    assert (hit["place"], hit["in_note"]) == (place, True)
    assert "teapot" in hit["snippet"]


def test_a_note_comes_behind_those_that_are_there(store: clew.Store, view: View) -> None:
    store.get("s").annotate(last(store), note="of a person", noted_by="ann", label="kept", stars=5)
    ask(view, "remember", note="of an agent", place="s")
    ask(view, "remember", note="again")
    noted = last(store).annotations
    assert noted["note"] == "of a person\n\nof an agent\n\nagain"
    assert noted["noted_by"] == "ann, mcp:Claude Code"
    assert (noted["label"], noted["stars"]) == ("kept", 5)
    assert "another label" in refused(view, "remember", note="n", label="other")
    assert last(store).annotations == noted
    ask(view, "remember", note="n", label="kept")


def test_notes_that_are_written_at_once_all_stay(store: clew.Store, view: View) -> None:
    notes = [f"note {number}" for number in range(8)]
    assert together([partial(ask, view, "remember", note=note) for note in notes]) == []
    assert sorted(str(last(store).annotations["note"]).split("\n\n")) == notes


def test_notes_have_an_end(store: clew.Store, view: View) -> None:
    for _ in range(MOST_NOTED // (NOTE + 2)):
        ask(view, "remember", note="x" * NOTE)
    assert "put it at another one" in refused(view, "remember", note="x" * NOTE)
    refused(view, "remember", note="x" * (NOTE + 1))
    refused(view, "remember", note="")


@each_row("name", ["", "a, b", "\x1b[31mred\n\u202e", "x" * 5000, "漢" * 500])
def test_the_name_of_a_client_is_only_a_name(store: clew.Store, name: str) -> None:
    store.get("s").append({"role": "user", "content": "the next one"})
    ask(view_of(store, writes=True, session="s", client=name), "remember", note="n")
    by = str(last(store).annotations["noted_by"])
    assert by.startswith("mcp:")
    assert len(by) <= 90
    assert by.isprintable()
    assert "," not in by


def test_a_lease_of_another_neither_stops_a_note_nor_is_broken_by_it(store: clew.Store, view: View) -> None:
    with store.get("s").run() as run:
        run.append({"role": "assistant", "content": "working"})
        ask(view, "remember", note="while it runs")
        ask(view, "checkpoint", name="while it runs")
        run.append({"role": "assistant", "content": "still working"})
    entries = list(store.get("s").entries())
    assert [one.message["content"] for one in entries[-2:]] == ["working", "still working"]
    assert entries[-2].annotations["note"] == "while it runs"


def test_a_note_at_what_is_not_there(store: clew.Store, view: View) -> None:
    store.create("empty", workspace=HERE).checkpoint("start")
    for place in ("empty", "empty@start", "s@5", "s@nothing", "none", "none@0"):
        refused(view, "remember", note="n", place=place)
    store.set_retention(Retention(max_messages=2))
    store.sweep()
    assert "removed this entry" in refused(view, "remember", note="n", place="s@0")
    store.get("s").compact("in short")
    ask(view, "remember", note="at a mark")
    assert [one["in_note"] for one in walk(view, "search_sessions", "hits", query="mark")] == [True]


def rows(store: clew.Store) -> dict[str, list[Any]]:
    """All that is in the file, but the index of words."""
    db = sqlite3.connect(store.location)
    try:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: db.execute(f"SELECT * FROM '{name}'").fetchall()
            for name in names
            if not name.startswith(("search_", "sqlite_"))
        }
    finally:
        db.close()


def test_no_tool_that_reads_changes_anything(store: clew.Store, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("one\n")
    session = store.get("s")
    session.checkpoint("a", files=files)
    (files / "a.txt").write_text("two\n")
    session.checkpoint("b", files=files)
    session.rewind(2)
    session.fork("f")
    session.annotate(session.head, note="a note")
    session.add_usage(model="m", input_tokens=1, cost="1")
    store.delete("f")
    before = rows(store)
    assert before["entries"]
    for fields in ({}, {"sees_all": True}, {"reveals": True}, {"session": "s"}, {"writes": True}):
        view = view_of(store, **fields)
        for place in ("s", "s@0", "s@a", "s@4", "none", "f", place_in("s", last(store).id)):
            for tools in ("fold", "full", "none"):
                call(view, "read_session", place=place, tools=tools)
            call(view, "session_overview", session=place)
            call(view, "usage_summary", session=place)
            call(view, "diff_files", a=place, b="s@b")
        for order in ("best", "newest"):
            walk(view, "search_sessions", "hits", query="message", order=order, tools=True)
        for by in ("model", "day", "workspace"):
            ask(view, "usage_summary", by=by)
        walk(view, "list_sessions", "sessions", limit=1)
        call(view, "list_sessions", workspace="all")
    assert rows(store) == before
