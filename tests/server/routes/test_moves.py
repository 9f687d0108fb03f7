"""Moves over HTTP: rewind, undo, redo, compact, truncate, replace, clear, fork; and what they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import Running
from tests.server.routes.asking import JSON, A, S, plain, refusal, user
from tests.support.owned import OWNED, written


@pytest.fixture
def session(server: Running) -> clew.Session:
    made = server.store.create("a")
    made.append(*(user(f"{number}") for number in range(4)))
    return made


def post(client: httpx.Client, what: str, body: Any = None, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(f"{A}/{what}", json=body, headers=sent)


def stands(session: clew.Session, answer: httpx.Response) -> None:
    """The answer says where the session stands."""
    assert answer.status_code == 200, answer.text
    head = session.head
    assert answer.json()["head"] == {"branch": head.branch, "position": head.position}
    assert answer.headers["etag"] == (f'"{head}"' if head.position >= 0 else '"start"')


def said(session: clew.Session) -> list[str]:
    return [message["content"] for message in session.messages()]


def test_rewind_undo_redo(session: clew.Session, client: httpx.Client) -> None:
    there = session.head
    stands(session, post(client, "rewind", {"to": 1}))
    assert said(session) == ["0", "1"]
    stands(session, post(client, "undo"))
    assert session.head == there
    stands(session, post(client, "redo", {}))
    assert said(session) == ["0", "1"]
    assert refusal(post(client, "redo")) == (409, "nothing_to_undo")


def test_a_rewind_of_a_session_that_an_agent_owns_says_so_and_follow_goes_back_to_the_agent(
    server: Running, client: httpx.Client
) -> None:
    server.store.create("own")
    server.store.load(written(range(8)))
    s = server.store.get(OWNED)
    there = f"{S}/{OWNED}"
    for is_plan in (True, False):
        told = client.post(f"{there}/rewind", json={"to": 3, "dry_run": is_plan}).json()
        assert told["agent_branch"]["head"]["position"] == 7
        assert told["resume"].endswith(f" resume {OWNED}@{told['head']['branch']}.3")
    server.store.load(written(range(10), turn="ended"))
    listed = client.get(S).json()["data"][0]
    assert listed == client.get(there).json()
    assert (listed["messages"], listed["agent_branch"]["new"]) == (4, 2)
    assert [one["state"] for one in listed["states"]] == ["waiting", "idle"]
    assert client.post(f"{there}/follow", json={"dry_run": True}).json()["head"]["position"] == 9
    assert s.head.position == 3
    followed = client.post(f"{there}/follow", json={}).json()
    assert (followed["head"]["position"], "agent_branch" in followed) == (9, False)
    assert client.get(there).json()["agent_branch"]["new"] == 0
    assert refusal(client.post(f"{S}/own/follow", json={})) == (422, "invalid")


def test_a_dry_run_moves_nothing(session: clew.Session, client: httpx.Client) -> None:
    before = session.head
    session.rewind(1)
    answer = post(client, "undo", {"dry_run": True})
    assert answer.json()["head"] == {"branch": before.branch, "position": before.position}
    assert said(session) == ["0", "1"]


def test_a_dry_run_of_a_rewind_moves_nothing(session: clew.Session, client: httpx.Client) -> None:
    there, moves = session.head, session.moves()
    answer = post(client, "rewind", {"to": 1, "dry_run": True})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"head": {"branch": there.branch, "position": 1}}
    assert "etag" not in answer.headers
    assert (session.head, session.moves()) == (there, moves)
    assert refusal(post(client, "rewind", {"to": 99, "dry_run": True})) == (404, "checkpoint_not_found")
    moved = post(client, "rewind", {"to": 1, "dry_run": True}, if_match='"start"')
    assert refusal(moved) == (412, "head_moved")


def test_a_place_is_a_position_a_name_an_id_or_a_head(session: clew.Session, client: httpx.Client) -> None:
    session.checkpoint("half")
    second = list(session.entries())[1]
    head = session.head
    places: tuple[tuple[Any, list[str]], ...] = (
        (2, ["0", "1", "2"]),
        ("half", ["0", "1", "2", "3"]),
        (second.id, ["0", "1"]),
        ({"branch": head.branch, "position": 0}, ["0"]),
        ("start", []),
        ({"branch": "", "position": -1}, []),
    )
    for to, left in places:
        stands(session, post(client, "rewind", {"to": to}))
        assert said(session) == left, to
    for to in ("nowhere", 99, -1, "", {"branch": head.branch, "position": 99}):
        assert refusal(post(client, "rewind", {"to": to})) == (404, "checkpoint_not_found"), to
    for bad in (
        {},
        {"to": None},
        {"to": True},
        {"to": 1.5},
        {"to": 1, "on_conflict": "x"},
        {"to": 1, "x": 1},
    ):
        assert post(client, "rewind", bad).status_code == 422, bad


MOVES: list[tuple[str, Any]] = [
    ("rewind", {"to": 1}), ("undo", {}), ("redo", {}), ("compact", {"text": "short"}),
    ("truncate", {"keep_last": 1}), ("replace", {"messages": [{"a": 1}]}), ("clear", {}),
    ("fork", {"id": "f"}),
]  # fmt: skip


@pytest.mark.parametrize(("what", "body"), MOVES)
def test_a_move_by_a_reader_of_an_old_head_is_refused(
    server: Running, session: clew.Session, client: httpx.Client, what: str, body: Any
) -> None:
    session.rewind(2)
    if what == "redo":
        session.undo()
    old = client.get(A).headers["etag"]
    session.append(user("meanwhile"))
    before = session.info
    answer = post(client, what, body, if_match=old)
    assert refusal(answer) == (412, "head_moved")
    assert answer.json()["head"] == {"branch": before.head.branch, "position": before.head.position}
    assert session.info == before
    assert server.store.find("f") is None
    now = client.get(A).headers["etag"]
    assert post(client, what, body, if_match=now).status_code in (200, 201)


@pytest.mark.parametrize(("what", "body"), [move for move in MOVES if move[0] != "fork"])
def test_a_move_needs_the_lease(session: clew.Session, client: httpx.Client, what: str, body: Any) -> None:
    session.rewind(2)
    if what == "redo":
        session.undo()
    secret = client.post(f"{A}/runs", json={}).json()["secret"]
    assert refusal(post(client, what, body)) == (423, "lease_held")
    assert post(client, what, body, clew_lease=secret).status_code == 200


def test_compact(session: clew.Session, client: httpx.Client) -> None:
    answer = post(client, "compact", {"text": "in short", "upto": 1, "tokens": 5})
    stands(session, answer)
    assert answer.json()["entry"]["kind"] == "compaction"
    assert [message["content"] for message in session.context()] == ["in short", "2", "3"]
    message = '{ "role": "user", "content":"as\\u0020it is" }'
    content = f'{{"messages": [{message}]}}'
    sent = client.post(f"{A}/compact", content=content, headers=JSON)
    stands(session, sent)
    assert message.encode() in list(session.entries())[-1].raw
    several: list[Any] = [{}, {"text": "x", "messages": [{}]}, {"text": " "}, {"messages": [1]}]
    for bad in several:
        assert post(client, "compact", bad).status_code == 422, bad
    stands(session, post(client, "compact", {"messages": []}))
    assert list(session.context()) == []


def test_truncate(session: clew.Session, client: httpx.Client) -> None:
    answer = post(client, "truncate", {"keep_last": 2})
    stands(session, answer)
    assert answer.json()["entry"]["kind"] == "truncation"
    assert [message["content"] for message in session.context()] == ["2", "3"]
    nothing = post(client, "truncate", {"keep_last": 50})
    stands(session, nothing)
    assert "entry" not in nothing.json()
    assert post(client, "truncate", {"keep_last": -1}).status_code == 422


def test_replace(session: clew.Session, client: httpx.Client) -> None:
    first = list(session.entries())[:2]
    answer = post(client, "replace", {"messages": [user("0"), user("1"), user("new")], "user_turns": 9})
    stands(session, answer)
    assert said(session) == ["0", "1", "new"]
    assert session.info.user_turns == 9
    assert [one["id"] for one in answer.json()["data"]][:2] == [entry.id for entry in first]
    stands(session, post(client, "replace", {"messages": []}))
    assert said(session) == []
    session.undo()
    assert said(session) == ["0", "1", "new"]


def test_clear(session: clew.Session, client: httpx.Client) -> None:
    stands(session, post(client, "clear"))
    assert said(session) == []
    session.undo()
    assert said(session) == ["0", "1", "2", "3"]


def test_the_summary_rewinds(session: clew.Session, client: httpx.Client) -> None:
    assert client.get(f"{A}/summary").json() == {"summary": None}
    before = session.head
    stands(session, client.put(f"{A}/summary", json={"summary": "so far"}))
    assert client.get(f"{A}/summary").json() == {"summary": "so far"} == {"summary": session.summary}
    session.rewind(before)
    assert client.get(f"{A}/summary").json() == {"summary": None}
    assert client.put(f"{A}/summary", json={}).status_code == 422


def test_the_history_of_moves(session: clew.Session, client: httpx.Client) -> None:
    session.rewind(1)
    session.undo()
    session.clear()
    known = plain(session.moves())
    assert client.get(f"{A}/moves").json() == {"data": known, "cursor": None}
    first = client.get(f"{A}/moves", params={"limit": 2})
    rest = client.get(first.links["next"]["url"])
    assert first.json()["data"] + rest.json()["data"] == known
    assert client.get(f"{A}/moves", params={"cursor": "x"}).status_code == 422


# -- forks


def test_a_fork_shares_what_came_before(server: Running, session: clew.Session, client: httpx.Client) -> None:
    made = post(client, "fork", {"id": "f/1", "at": 1})
    assert made.status_code == 201
    assert made.headers["location"] == f"{S}/f%2F1"
    fork = server.store.get("f/1")
    assert said(fork) == ["0", "1"]
    assert made.json() == plain(fork.info)
    session.checkpoint("ahead")
    session.rewind(0)
    taking = post(client, "fork", {"id": "f/2", "checkpoints": "all"})
    assert (taking.status_code, server.store.get("f/2").checkpoints()[0].name) == (201, "ahead")
    assert post(client, "fork", {"checkpoints": "none"}).status_code == 422
    unnamed = post(client, "fork")
    assert unnamed.json()["id"] == "a#fork-1"
    assert client.get(unnamed.headers["location"]).json()["id"] == "a#fork-1"
    assert refusal(post(client, "fork", {"id": "f/1"})) == (409, "session_exists")


def test_a_fork_has_no_star_but_for_a_caller_who_sees_starred_sessions_only(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    session.update(tags=["work", "starred"])
    assert post(client, "fork").json()["tags"] == ["work"]
    _, text = add_token(server.store, "stars", scopes=("read", "write"), tags=["starred"])
    with server.client(text) as bound:
        made = post(bound, "fork").json()
        assert made["tags"] == ["starred"], "none beyond those of the token"
        assert bound.get(f"{S}/{quote(made['id'], safe='')}").status_code == 200


def test_the_tree(session: clew.Session, client: httpx.Client) -> None:
    session.fork("f", at=1).append(user("f"))
    session.checkpoint("here", state={"a": 1})
    session.rewind(0)
    session.append(user("other"))
    tree = session.tree()
    answer = client.get(f"{A}/tree").json()
    assert answer == plain(tree)
    assert set(answer["heads"]) == {"a", "f"}
    assert answer["checkpoints"][0]["state"] == {"a": 1}


# -- files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "project"
    found.mkdir()
    (found / "a.txt").write_text("before")
    return found


def test_files_are_refused_unless_the_server_allows_it(
    session: clew.Session, client: httpx.Client, project: Path
) -> None:
    session.checkpoint("c", files=project)
    (project / "a.txt").write_text("after")
    for what, body in (
        ("rewind", {"to": "c", "files": True}),
        ("rewind", {"to": "c", "files": str(project)}),
    ):
        assert refusal(post(client, what, body)) == (403, "files_not_allowed")
    put = client.put(f"{A}/checkpoints/d", json={"files": str(project)})
    assert refusal(put) == (403, "files_not_allowed")
    session.rewind("c", files=True)
    for refused in ({}, {"dry_run": True, "root": str(project)}):
        assert refusal(post(client, "undo", refused)) == (403, "files_not_allowed")
    assert (project / "a.txt").read_text() == "before"


def test_the_owner_is_told_what_would_be_done_to_files_that_the_server_may_not_change(
    session: clew.Session, server: Running, client: httpx.Client, project: Path
) -> None:
    session.checkpoint("c", files=project)
    session.append(user("later"))
    (project / "a.txt").write_text("after")
    (project / "new.txt").write_text("new")
    there = session.head
    plan = post(client, "rewind", {"to": "c", "files": True, "dry_run": True})
    assert plan.status_code == 200, plan.text
    told = plan.json()["files"]
    assert told["dry_run"] is True
    assert {(one["verb"], one["path"]) for one in told["changes"]} == {
        ("overwrite", "a.txt"),
        ("delete", "new.txt"),
    }
    assert set(told["conflicts"]) == {"a.txt", "new.txt"}
    assert plan.json()["head"]["position"] == 3
    assert "etag" not in plan.headers
    assert (session.head, (project / "a.txt").read_text()) == (there, "after")
    named = post(client, "rewind", {"to": "c", "files": str(project), "dry_run": True})
    assert refusal(named) == (403, "files_not_allowed")
    far = post(client, "rewind", {"to": "c", "files": True, "dry_run": True}, x_forwarded_for="10.0.0.1")
    assert refusal(far) == (403, "not_local")
    _, token = add_token(server.store, "files", scopes=["admin", "files"])
    with server.client(token) as other:
        refused = post(other, "rewind", {"to": "c", "files": True, "dry_run": True})
        assert refusal(refused) == (403, "files_not_allowed")
    session.rewind("c", files=True)
    undo = post(client, "undo", {"dry_run": True})
    assert undo.status_code == 200, undo.text
    assert {one["path"] for one in undo.json()["files"]["changes"]} == {"a.txt", "new.txt"}
    assert (project / "a.txt").read_text() == "before"


def test_files_move_with_the_head_where_it_is_allowed(serve: Callable[..., Running], project: Path) -> None:
    server = serve(allow_files=True)
    session = server.store.create("a")
    session.append(user("0"), user("1"))
    with server.client() as client:
        made = client.put(f"{A}/checkpoints/c", json={"files": str(project), "state": 1})
        assert made.status_code == 200, made.text
        assert session.get_checkpoint("c").snapshot == made.json()["snapshot"] is not None
        (project / "a.txt").write_text("after")
        session.append(user("2"))
        answer = post(client, "rewind", {"to": "c", "files": True})
        stands(session, answer)
        assert (project / "a.txt").read_text() == "before"
        assert answer.json()["files"]["root"] == str(project)
        plan = post(client, "undo", {"dry_run": True})
        assert (project / "a.txt").read_text() == "before"
        assert plan.json()["files"] is not None
        stands(session, post(client, "undo"))
        assert (project / "a.txt").read_text() == "after"
        assert refusal(post(client, "redo", {}, if_match=f'"{session.head}"')) == (422, "invalid")
        stands(session, post(client, "redo"))
        assert (project / "a.txt").read_text() == "before"
    _, token = add_token(server.store, "writer", scopes=["write"])
    with server.client(token) as client:
        for what in ("undo", "rewind"):
            answer = post(client, what, {"to": "c", "files": True} if what == "rewind" else {})
            assert refusal(answer) == (403, "forbidden")
