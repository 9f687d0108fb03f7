"""On stdio without --all, and with a bound token, nothing of elsewhere is there for any tool (S-19)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import clew
from clew.server.mcp.tools import TOOLS, tools_for
from clew.server.mcp.view import View
from tests.server.mcp.safety.asking import BY_NAME, ELSEWHERE, HERE, ask, call, refused, view_of, walk
from tests.server.mcp.safety.elsewhere import BOUND, EACH_CALLER, MARK, bound, fill, secret_names
from tests.support.rows import each_named_row, each_row, named


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "store.db") as store:
        fill(store, tmp_path / "files")
        yield store


@EACH_CALLER
def test_s19_no_name_leads_to_what_is_elsewhere(store: clew.Store, limits: dict[str, Any]) -> None:
    view = view_of(store, writes=True, **limits)
    before = len(list(store.list(limit=100))), store.get("here").head
    for name in secret_names(store):
        for tool, field in (
            ("session_overview", "session"),
            ("read_session", "place"),
            ("diff_files", "a"),
            ("usage_summary", "session"),
        ):
            said = refused(view, tool, **{field: name})
            assert MARK not in said.replace(name, "").replace(name.partition("@")[0], "").replace(
                name.rpartition("@")[2], ""
            ), (tool, said)
        refused(view, "diff_files", a="here@begun", b=name)
        refused(view, "checkpoint", name="mine", session=name)
        refused(view, "remember", note="mine", place=name)
    assert (len(list(store.list(limit=100))), store.get("here").head) == before


@EACH_CALLER
def test_s19_not_there_and_not_yours_are_the_same_words(store: clew.Store, limits: dict[str, Any]) -> None:
    view = view_of(store, writes=True, **limits)
    for theirs, nothing in (
        (f"{MARK}-away", f"{MARK}-none"),
        (f"{MARK}-alias", f"{MARK}-nonce"),
        (f"{MARK}-gone", f"{MARK}-noth"),
        (f"{MARK}-away@0", f"{MARK}-none@0"),
        (f"{MARK}-away@{MARK}-checkpoint", f"{MARK}-none@{MARK}-checkpoint"),
    ):
        asked: list[tuple[str, str, dict[str, str]]] = [
            *((tool, "session", {}) for tool in ("session_overview", "usage_summary")),
            ("read_session", "place", {}), ("diff_files", "a", {}), ("remember", "place", {"note": "n"}),
            ("checkpoint", "session", {"name": "n"}),
        ]  # fmt: skip
        for tool, field, more in asked:
            said = [refused(view, tool, **{field: name}, **more) for name in (theirs, nothing)]
            assert said[0].replace(theirs, "X").replace(theirs.partition("@")[0], "X") == said[1].replace(
                nothing, "X"
            ).replace(nothing.partition("@")[0], "X")
    entry = next(entry.id for entry in store.get(f"{MARK}-fork").entries(newest_first=True))
    made_up = re.sub("[0-9a-f]", "0", entry.partition(".")[0]) + ".1"
    assert refused(view, "read_session", place=f"here@{entry}").replace(entry, "X") == refused(
        view, "read_session", place=f"here@{made_up}"
    ).replace(made_up, "X")


def test_s19_no_list_search_or_sum_shows_what_is_elsewhere(store: clew.Store) -> None:
    view = view_of(store)
    answers: list[Any] = [
        walk(view, "list_sessions", "sessions", limit=1),
        walk(view, "search_sessions", "hits", query="shared", limit=1),
        walk(
            view, "search_sessions", "hits", query="shared", order="newest", tools=True, include_current=True
        ),
        ask(view, "list_sessions", agent=MARK),
        ask(view, "list_sessions", tag=MARK),
        ask(view, "search_sessions", query="shared", tag=MARK),
        ask(view, "session_overview", session="here"),
        ask(view, "session_overview", session="child"),
        ask(view, "usage_summary"),
        ask(view, "usage_summary", by="workspace"),
        ask(view, "usage_summary", by="day"),
        ask(view, "usage_summary", session="here"),
    ]
    told = json.dumps(answers)
    assert [hit["place"].partition("@")[0] for hit in answers[1]] == ["back", "here"]
    # What a fork took along is its own: it was there when it came here.
    assert MARK not in told.replace(f"{MARK} shared words", "")
    assert [one["cost"] for one in answers[0] if one["id"] == "here"] == [1.0], "the subagent is not ours"
    assert answers[6]["cost"] == 1.0
    assert (answers[6]["forks"], answers[6]["subagents"]) == ([], [])
    assert [one["parent"] for one in answers[0] if one["id"] == "child"] == [None]


def test_what_a_fork_brought_along_is_read_and_nothing_that_was_said_later(store: clew.Store) -> None:
    entries = walk(view_of(store), "read_session", "entries", place="back@0", after=0)
    assert [one["text"] for one in entries] == [f"{MARK} shared words"]


@each_row(
    "workspace",
    [ELSEWHERE, "all", "", ".", "..", "~", "/", "/work", f"{HERE}/..", f"{HERE}/sub", f"{HERE}\0", "\0", "*",
     "%", "HERE", "here ", "x" * 400, "file:///srv/elsewhere", "../elsewhere"],
)  # fmt: skip
def test_s19_no_other_workspace_can_be_asked_for(store: clew.Store, workspace: str) -> None:
    for tool, more in (
        ("search_sessions", {"query": "shared"}),
        ("list_sessions", {}),
        ("usage_summary", {}),
    ):
        said = refused(view_of(store), tool, workspace=workspace, **more)
        assert "InvalidError" in said
        assert MARK not in said


def test_the_own_workspace_can_be_named_by_any_of_its_names(store: clew.Store, tmp_path: Path) -> None:
    real, link, other = tmp_path / "real", tmp_path / "link", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    link.symlink_to(real)
    store.create("in real", workspace=real)
    view = view_of(store, workspace=str(real.resolve()))
    for name in ("here", str(real), str(link), f"{link}/", f"{other}/../real"):
        assert [one["id"] for one in ask(view, "list_sessions", workspace=name)["sessions"]] == ["in real"]
    link.unlink()
    link.symlink_to(other)
    refused(view, "list_sessions", workspace=str(link))


def test_with_all_other_workspaces_are_there_when_they_are_asked_for(store: clew.Store) -> None:
    view = view_of(store, sees_all=True)
    ids = [one["id"] for one in ask(view, "list_sessions")["sessions"]]
    assert sorted(ids) == ["back", "child", "here"]
    for workspace in ("all", ELSEWHERE):
        assert MARK in json.dumps(ask(view, "list_sessions", workspace=workspace))
    assert ask(view, "read_session", place=f"{MARK}-away")["entries"]
    refused(view, "read_session", place=f"{MARK}-gone")


def test_a_server_of_all_workspaces_searches_all_unless_one_is_named(store: clew.Store) -> None:
    view = view_of(store, sees_all=True, looks_everywhere=True)
    everywhere, here = (
        {one["id"] for one in ask(view, "list_sessions", **more)["sessions"]}
        for more in ({}, {"workspace": "here"})
    )
    assert here == {"back", "child", "here"}
    assert here < everywhere
    assert MARK in json.dumps(ask(view, "search_sessions", query="shared"))
    assert ELSEWHERE in json.dumps(ask(view, "usage_summary", by="workspace"))


def test_an_empty_answer_says_where_was_looked(store: clew.Store) -> None:
    further = {
        "here only": ({}, "let the user start it with `clew mcp --all`"),
        "all if asked for": ({"sees_all": True}, 'Ask for workspace="all"'),
        "all": ({"sees_all": True, "looks_everywhere": True}, "the sessions of all directories"),
    }
    for name, (fields, said) in further.items():
        view = view_of(store, **fields)
        for tool, more in (
            ("search_sessions", {"query": "zyxwvut"}),
            ("list_sessions", {"status": "running"}),
            ("usage_summary", {"since": "2199-01-01"}),
        ):
            with named(f"{tool}, {name}"):
                note = ask(view, tool, **more)["note"]
                assert said in note
                assert (HERE in note) == (name != "all")
        assert ask(view, "list_sessions")["note"] == ""
    theirs = bound(workspace=HERE)
    assert ask(view_of(store, principal=theirs), "list_sessions", tag="none")["note"] == (
        f"Nothing was found in the sessions of {HERE}."
    ), "its token reaches no other"
    assert ask(view_of(store, principal=theirs, sees_all=True), "list_sessions", workspace=ELSEWHERE)[
        "note"
    ] == "The token of this client reaches no such session."  # fmt: skip


def test_an_agent_is_known_by_its_short_name(store: clew.Store) -> None:
    store.create("by claude", workspace=HERE, metadata={"agent": "claude-code"})
    for agent in ("claude-code", "claude"):
        assert [one["id"] for one in ask(view_of(store), "list_sessions", agent=agent)["sessions"]] == [
            "by claude"
        ]


@each_named_row("limits", BOUND)
def test_s19_a_bound_token_sees_no_other_sessions(store: clew.Store, limits: dict[str, Any]) -> None:
    view = view_of(store, **limits)
    answers = [
        ask(view, tool, workspace=workspace, **({"query": "shared"} if tool == "search_sessions" else {}))
        for tool in ("search_sessions", "list_sessions", "usage_summary")
        for workspace in ("here", "all", HERE, ELSEWHERE)
    ]
    told = json.dumps([*answers, ask(view, "session_overview", session="here")])
    assert "a shared beginning" in told
    assert MARK not in told.replace(f"{MARK} shared words", "")


def test_whom_one_session_is_shared_with_has_no_tools(store: clew.Store) -> None:
    guest = bound(session="here", head=None)
    assert tools_for(View(store=store, principal=guest, sees_all=True, writes=True)) == {}


def test_a_caller_whom_nothing_is_revealed_to_is_not_told_secrets(store: clew.Store) -> None:
    key = "sk-ant-api03-" + "a7" * 40 + "AA"
    store.get("here").append({"role": "user", "content": key})
    shown = replace(view_of(store), reveals=True)
    assert key in str(ask(shown, "read_session", place="here"))
    assert key not in str(ask(replace(shown, principal=bound(redact=True)), "read_session", place="here"))


def test_tools_are_offered_by_what_a_caller_may(store: clew.Store) -> None:
    def offered(*scopes: Any, writes: bool = True) -> set[str]:
        view = View(store=store, principal=bound(scopes=frozenset(scopes)), sees_all=True, writes=writes)
        return set(tools_for(view))

    reading = {tool.name for tool in TOOLS if tool.needs == "read"}
    assert offered() == set()
    assert offered("read") == reading
    assert offered("read", "files") == reading | {"diff_files"}
    assert offered("read", "write") == reading | {"checkpoint", "remember"}
    assert offered("read", "write", writes=False) == reading
    assert set(BY_NAME) == offered("read", "write", "files", "admin")


def test_s01_s45_a_snapshot_is_never_a_directory_of_this_machine(store: clew.Store, tmp_path: Path) -> None:
    """A record that names a path instead of a snapshot, as a hostile store may have it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "id_rsa").write_text(f"{MARK} key")
    with store.get("here")._look() as (reader, row):
        value = reader.get_record(row.sid, "checkpoint", "begun")
    assert value is not None
    forged = json.loads(value) | {"snapshot": str(outside)}
    store._engine.run(lambda tx: tx.put_record(row.sid, "checkpoint", "forged", json.dumps(forged).encode()))
    for a, b in (("here@begun", "here@forged"), ("here@forged", "here@begun"), ("here@forged", None)):
        said = call(view_of(store), "diff_files", a=a, **({} if b is None else {"b": b}))
        assert said.is_error
        assert "id_rsa" not in str(said)


@EACH_CALLER
def test_s19_notes_do_not_cross_into_or_out_of_what_is_elsewhere(
    store: clew.Store, limits: dict[str, Any]
) -> None:
    """Both share an entry. What is noted there is read, found and replaced on its own side only."""
    view = view_of(store, writes=True, **limits)
    for ours, theirs in (("here", f"{MARK}-fork"), ("back", f"{MARK}-away")):
        other = store.get(theirs)
        shared = next(other.entries())
        other.annotate(shared, note=f"{MARK} teapot", label=f"{MARK}-label", noted_by=MARK)

        read = [
            ask(view, "read_session", place=f"{ours}@0"),
            ask(view, "search_sessions", query="teapot"),
            ask(view, "search_sessions", query="teapot", order="newest"),
            ask(view, "session_overview", session=ours),
        ]
        assert "teapot" not in json.dumps(read)

        ask(view, "remember", note="samovar, not teapot", place=f"{ours}@{shared.id}", label="mine")

        assert next(other.entries()).annotations == {
            "note": f"{MARK} teapot",
            "label": f"{MARK}-label",
            "noted_by": MARK,
        }
        assert list(other.entries(label="mine")) == []
        assert list(store.search("samovar", session=theirs)) == []
        [hit] = ask(view, "search_sessions", query="teapot")["hits"]
        assert hit["place"].startswith(f"{ours}@")
        assert (hit["snippet"], hit["in_note"]) == ("samovar, not teapot", True)
        noted = next(store.get(ours).entries()).annotations
        assert (noted["note"], noted["label"]) == ("samovar, not teapot", "mine")
        store.get(ours).annotate(0, note=None)
