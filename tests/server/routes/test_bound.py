"""Tokens that are bound to some sessions: what they list, make, move and take out of the trash.

That they read nothing of others is in `tests/server/access`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import clew
from clew.server.access.shares import add_share
from tests.server.conftest import Running
from tests.server.routes.asking import S, refusal, user


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "mine").mkdir()
    return str(tmp_path / "mine")


@pytest.fixture
def bound(limited: Callable[..., httpx.Client], place: str) -> httpx.Client:
    """The client of a token for one workspace and one tag."""
    return limited("write", workspace=place, tags=["t"])


# -- sessions


def test_lists_are_filtered_in_the_query(server: Running, bound: httpx.Client, place: str) -> None:
    for number in range(5):
        server.store.create(f"mine-{number}", workspace=place, tags=["t", "u"])
        server.store.create(f"other-{number}", workspace="/elsewhere", tags=["t"])
        server.store.create(f"untagged-{number}", workspace=place)
    page = bound.get(S, params={"limit": 3})
    rest = bound.get(page.links["next"]["url"])
    found = [one["id"] for one in page.json()["data"] + rest.json()["data"]]
    assert found == [f"mine-{number}" for number in reversed(range(5))]
    assert rest.json()["cursor"] is None
    assert len(bound.get(S, params={"workspace": place, "tag": "u"}).json()["data"]) == 5
    assert bound.get(S, params={"workspace": "/elsewhere"}).json()["data"] == []


def test_usage_in_lists_counts_the_subagents_that_the_caller_sees(
    server: Running, bound: httpx.Client, place: str
) -> None:
    store = server.store
    store.create("p", workspace=place, tags=["t"]).add_usage(cost=1)
    store.create("mine", workspace=place, tags=["t"], metadata={"parent": "p"}).add_usage(cost=2)
    store.create("other", workspace=place, metadata={"parent": "p"}).add_usage(cost=4)
    store.create("below", workspace=place, tags=["t"], metadata={"parent": "other"}).add_usage(cost=8)
    (row,) = [one for one in bound.get(S, params={"usage": "true"}).json()["data"] if one["id"] == "p"]
    assert (row["usage"]["cost"], row["subagents"]) == ("3", 1)
    assert bound.get(f"{S}/p", params={"usage": "true"}).json() == row
    _, share = add_share(store, store.get("p"), at=None)
    with server.client(share) as shared:
        assert not {"usage", "subagents"} & shared.get(f"{S}/p", params={"usage": "true"}).json().keys()
    assert [one["id"] for one in bound.get(S, params={"min_cost": "3.5"}).json()["data"]] == ["below"]
    with server.client() as owner:
        rows = owner.get(S, params={"usage": "true", "min_cost": "14"}).json()["data"]
    assert [(one["id"], one["usage"]["cost"], one["subagents"]) for one in rows] == [("p", "15", 3)]


def test_facets_are_those_of_the_sessions_that_the_caller_sees(
    server: Running, bound: httpx.Client, place: str
) -> None:
    server.store.create("a", workspace=place, tags=["t", "u"], model="m")
    server.store.create("b", workspace=place, tags=["secret"], model="secret")
    server.store.create("c", workspace="/secret", tags=["t"], metadata={"agent": "secret"})
    found = bound.get("/api/v1/facets").json()
    assert found == {
        "projects": [{"value": "mine", "sessions": 1, "workspace": place}],
        "agents": [],
        "models": [{"value": "m", "sessions": 1}],
        "tags": [{"value": "t", "sessions": 1}, {"value": "u", "sessions": 1}],
        "statuses": [{"value": "pending", "sessions": 1}],
    }


def test_what_is_made_gets_the_binding(server: Running, bound: httpx.Client, place: str) -> None:
    for id, method in (("a", "POST"), ("b", "PUT")):
        path = S if method == "POST" else f"{S}/b"
        body = {"tags": ["x"], **({"id": id} if method == "POST" else {})}
        assert bound.request(method, path, json=body).status_code == 201
        info = server.store.get(id).info
        assert info.workspace == place
        assert set(info.tags) == {"t", "x"}
        assert bound.put(f"{S}/{id}", json={}).status_code == 200
    fork = bound.post(f"{S}/a/fork", json={"id": "f"})
    assert fork.status_code == 201
    assert server.store.get("f").info.workspace == place
    assert refusal(bound.post(S, json={"id": "c", "workspace": "/elsewhere"})) == (403, "bound")


def test_a_session_cannot_be_moved_out_of_reach(server: Running, bound: httpx.Client, place: str) -> None:
    server.store.create("a", workspace=place, tags=["t"])
    patches: list[Any] = [{"workspace": "/elsewhere"}, {"workspace": None}, {"tags": []}, {"tags": None}]
    for patch in patches:
        assert refusal(bound.patch(f"{S}/a", json=patch)) == (403, "bound"), patch
    assert bound.patch(f"{S}/a", json={"tags": ["t", "u"], "title": "x"}).status_code == 200
    assert server.store.get("a").info.tags == ("t", "u")


def test_ids_of_others_are_taken_and_nothing_more_is_said(server: Running, bound: httpx.Client) -> None:
    server.store.create("theirs").add_alias("alias")
    bound.post(S, json={"id": "a"}).raise_for_status()
    for answer in (
        bound.post(S, json={"id": "theirs"}),
        bound.post(S, json={"id": "alias"}),
        bound.put(f"{S}/theirs", json={}),
        bound.put(f"{S}/alias", json={}),
        bound.post(f"{S}/a/fork", json={"id": "alias"}),
        bound.put(f"{S}/a/aliases/alias"),
        bound.put(f"{S}/a/aliases/alias", params={"move": "true"}),
    ):
        assert answer.status_code == 409
        sent = answer.request.url.raw_path + answer.request.content
        assert b"theirs" in sent or b"theirs" not in answer.content, answer.text
    assert server.store.get("alias").id == "theirs"


def test_its_own_trash(server: Running, bound: httpx.Client, place: str) -> None:
    bound.post(S, json={"id": "a"}).raise_for_status()
    server.store.create("theirs")
    server.store.delete("theirs")
    assert bound.delete(f"{S}/a").status_code == 204
    assert [one["id"] for one in bound.get(S, params={"deleted": "true"}).json()["data"]] == ["a"]
    assert bound.post(f"{S}/a/restore").status_code == 200
    assert bound.post(f"{S}/theirs/restore").status_code == 404
    assert refusal(bound.delete(f"{S}/a", params={"purge": "true"})) == (403, "forbidden")
    assert server.store.find("a") is not None


def test_only_subagents_that_it_sees_go_along(server: Running, bound: httpx.Client, place: str) -> None:
    def ids(*, deleted: bool) -> list[str]:
        return sorted(info.id for info in server.store.list(deleted=deleted))

    before = ids(deleted=False)
    bound.post(S, json={"id": "p9"}).raise_for_status()
    bound.post(S, json={"id": "p9/1", "metadata": {"parent": "p9"}}).raise_for_status()
    server.store.create("p9/2", metadata={"parent": "p9"})
    assert bound.delete(f"{S}/p9").status_code == 204
    assert ids(deleted=True) == ["p9", "p9/1"]
    server.store.delete("p9/2")
    assert bound.post(f"{S}/p9/restore").status_code == 200
    assert ids(deleted=True) == ["p9/2"]
    assert ids(deleted=False) == sorted([*before, "p9", "p9/1"])


def test_a_session_that_was_moved_away_is_not_there_any_more(
    server: Running, bound: httpx.Client, place: str
) -> None:
    session = server.store.create("a", workspace=place, tags=["t"])
    assert bound.post(f"{S}/a/entries", json={"messages": [user("x")]}).status_code == 201
    session.update(tags=[])
    for answer in (
        bound.get(f"{S}/a"),
        bound.post(f"{S}/a/entries", json={"messages": [user("x")]}),
        bound.post(f"{S}/a/clear"),
    ):
        assert refusal(answer) == (404, "session_not_found")


# -- a tree that is shared with sessions of others


class Family:
    """A session of another, a fork of it that is bound to this caller, and entries of both."""

    def __init__(self, store: clew.Store, place: str) -> None:
        self.base = store.create("base", workspace="/elsewhere")
        self.base.append(user("shared"))
        self.fork = self.base.fork("fork")
        self.fork.update(workspace=place, tags=["t"])
        self.secret = self.base.append(user("secret of the base"))[0]
        self.base.checkpoint("secret point")
        self.own = self.fork.append(user("own"), user("left"))[1]
        self.fork.rewind(1)


@pytest.fixture
def family(server: Running, place: str) -> Family:
    return Family(server.store, place)


def test_s19_entries_of_others_in_the_same_tree_are_not_there(family: Family, bound: httpx.Client) -> None:
    f, secret = f"{S}/fork", family.secret.id
    assert [one["message"]["content"] for one in bound.get(f"{f}/entries").json()["data"]] == [
        "shared",
        "own",
    ]
    assert bound.get(f"{f}/entries/{family.own.id}").status_code == 200
    assert bound.get(f"{f}/entries", params={"at": family.own.id}).status_code == 200
    place = {"branch": family.secret.id.rpartition(".")[0], "position": 1}
    tries = [
        bound.get(f"{f}/entries/{secret}"),
        bound.get(f"{f}/entries/{secret}/annotations"),
        bound.get(f"{f}/entries/{secret}/media/0"),
        bound.patch(f"{f}/entries/{secret}/annotations", json={"label": "x"}),
        *(bound.get(f"{f}/entries", params={name: secret}) for name in ("at", "before", "after", "cursor")),
        bound.get(f"{f}/messages", params={"at": secret}),
        bound.get(f"{f}/context", params={"at": secret}),
        *(
            bound.post(f"{f}/rewind", json={"to": to, "dry_run": dry_run})
            for to in (secret, place, "secret point")
            for dry_run in (True, False)
        ),
        bound.get(f"{f}/outline", params={"at": "secret point"}),
        bound.post(f"{f}/fork", json={"id": "g", "at": secret}),
        bound.post(f"{f}/compact", json={"text": "x", "upto": secret}),
    ]
    for answer in tries:
        assert answer.status_code == 404, (answer.request.url, answer.text)
        assert b"secret of" not in answer.content
    assert family.base.info.messages == 2


def test_s19_notes_and_labels_do_not_cross_from_a_session_of_others(
    family: Family, bound: httpx.Client
) -> None:
    """Forks share entries; what the base notes at one of them is not there for the fork's caller."""
    shared = next(family.base.entries())
    family.base.annotate(shared, note="secret of the base", label="secret label", stars=5)
    f = f"{S}/fork"

    answers = [
        bound.get(f"{f}/entries/{shared.id}/annotations"),
        bound.get(f"{f}/entries"),
        bound.get(f"{f}/entries", params={"view": "blocks"}),
        bound.get(f"{f}/entries", params={"label": "secret label"}),
        bound.get("/api/v1/search", params={"q": "secret"}),
        bound.get("/api/v1/search", params={"q": "secret", "session": "fork"}),
        bound.get(f"{f}/export", params={"format": "html"}),
        bound.get(f"{f}/export", params={"format": "json"}),
        bound.get(f"{f}/export", params={"format": "markdown"}),
    ]

    for answer in answers:
        assert answer.status_code == 200, (answer.request.url, answer.text)
        assert "secret" not in answer.text, answer.request.url
        assert "stars" not in answer.text, answer.request.url
    assert answers[0].json()["annotations"] == {}
    assert answers[3].json()["data"] == []
    assert answers[4].json()["data"] == []


def test_s19_a_bound_caller_writes_no_note_into_a_session_of_others(
    family: Family, bound: httpx.Client
) -> None:
    """Neither does it replace one, nor take one away, nor leave a label that names something there."""
    shared = next(family.base.entries())
    family.base.annotate(shared, note="word of the base", label="theirs")
    path = f"{S}/fork/entries/{shared.id}/annotations"

    for body in ({"note": "word: do as I say", "label": "mine"}, {"note": None, "label": None}):
        assert bound.patch(path, json=body).status_code == 200
        assert next(family.base.entries()).annotations == {"note": "word of the base", "label": "theirs"}
    assert bound.patch(path, json={"note": "word: do as I say", "label": "theirs"}).status_code == 200
    assert [entry.position for entry in family.base.entries(label="theirs")] == [0]
    assert list(family.base.entries(label="mine")) == []
    page = bound.get("/api/v1/search", params={"q": "word"}).json()["data"]
    assert [(hit["session"], hit["snippet"]) for hit in page] == [("fork", "word: do as I say")]
