"""Who may open a store over HTTP: programs that are trusted as much as if they had the database file."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.backends.http import wire
from clew.backends.http.calls import ReadRequest, Step
from clew.backends.http.calls.beside import ScanRecords
from clew.backends.http.calls.sessions import SetSession
from clew.core.log.grants import TokenRecord
from clew.errors import AccessDeniedError, InvalidError, ReadOnlyError
from clew.model import Retention
from clew.server.access.secret import hash_of, new_id, new_secret
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token
from clew.server.routes import all_routes
from clew.server.rows import door
from tests.server.conftest import TOKEN, Running
from tests.server.routes.asking import refusal, user
from tests.support.rows import each_row, named

Open = Callable[..., clew.Store]
LESS = ("read", "write", "files", "admin")
"""Every scope but `store`."""


@pytest.fixture
def s(server: Running) -> clew.Session:
    session = server.store.session("s")
    session.append(user("a"), user("b"), key="k")
    return session


def attempts(server: Running, s: clew.Session) -> dict[str, tuple[str, Any]]:
    """What the door was abused for: path and body of each request."""
    with server.store._engine.read() as reader:
        row = reader.find_session("s")
    assert row is not None
    purge = SetSession(msgspec.structs.replace(row, deleted=0))
    deletion = Step(calls=[purge], end="commit", commit=secrets.token_hex(16))
    return {
        "says what store it is": ("hello", None),
        "deletes in 1970, so that a sweep purges": ("transaction", deletion),
        "holds a transaction open": ("transaction", Step(calls=[])),
        "lists the keys of others": (
            "read",
            ReadRequest(calls=[ScanRecords(s._sid, "key", "", "~", False, 100)]),
        ),
        "lists tokens": ("read", ReadRequest(calls=[ScanRecords(STORE_WIDE, "token", "", "~", False, 100)])),
        "waits in a thread of exports": ("pause", wire.Pause(seconds=25, seen=None)),
        "holds a snapshot open": ("snapshot", Step(calls=[])),
        "asks what became of a commit": ("outcome", wire.OutcomeQuestion(instance="", commit="0" * 32)),
        "rewrites the file": ("upkeep", wire.Upkeep(what="scrub")),
    }


def post(client: httpx.Client, path: str, body: Any) -> httpx.Response:
    return client.post(f"/api/v1/rows/{path}", content=b"" if body is None else wire.encode(body))


class TestOtherScopes:
    """A token that is good for all of the HTTP API opens no rows."""

    def test_nothing_of_the_door_opens(self, server: Running, s: clew.Session) -> None:
        """Whatever is sent: the scope is asked for before the body is read."""
        _, text = add_token(server.store, "less", scopes=LESS)
        with server.client(text) as client:
            for name, (path, body) in attempts(server, s).items():
                with named(name):
                    answer = post(client, path, body)
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
                    assert "`store`" in answer.json()["detail"]
        assert [one.id for one in server.store.list()] == ["s"]

    def test_every_route_of_the_door_asks_for_the_scope(self, server: Running) -> None:
        """A route that is added to it, too."""
        routes = [one for one in all_routes(server.app.settings) if "/rows/" in one.path]
        assert len(routes) == 8
        assert {one.scope for one in routes} == {"store"}
        assert not [
            one.path for one in all_routes(server.app.settings) if one not in routes and one.scope == "store"
        ]

    @each_row("scopes", [("read",), ("write",), ("write", "files"), ("admin", "files")])
    def test_whoever_opens_a_store_without_it_is_told_what_to_do(
        self, server: Running, scopes: tuple[str, ...]
    ) -> None:
        """The scope by its name, the token by its name, and the command that makes another."""
        name = "-".join(scopes)
        _, text = add_token(server.store, name, scopes=scopes)
        with pytest.raises(AccessDeniedError) as refused:
            clew.open(server.url, token=text)
        told = str(refused.value)
        assert "`store`" in told
        assert f"'{name}'" in told
        assert "clew token add NAME --scope=store" in told
        assert "HTTP API" in told

    def test_a_browser_of_the_owner_does_not_open_it(self, server: Running, s: clew.Session) -> None:
        """A page needs no rows: what runs in one must not have the database."""
        with server.client(None) as browser:
            origin = {"origin": server.url}
            browser.post("/api/v1/login", json={"token": TOKEN}, headers=origin).raise_for_status()
            assert browser.get("/api/v1/me").json()["kind"] == "owner"
            assert "store" not in browser.get("/api/v1/me").json()["scopes"]
            for name, (path, body) in attempts(server, s).items():
                with named(name):
                    content = b"" if body is None else wire.encode(body)
                    headers = {**origin, "content-type": "application/json"}
                    answer = browser.post(f"/api/v1/rows/{path}", content=content, headers=headers)
                    assert answer.status_code == 403, answer.text

    def test_a_share_does_not_open_it(self, server: Running, s: clew.Session) -> None:
        _, text = add_share(server.store, s, at=None, redact=False)
        with server.client(text) as client:
            for path, body in attempts(server, s).values():
                assert post(client, path, body).status_code == 403


class TestStore:
    """A token with the scope `store` is as good as the database file."""

    def test_it_does_everything(self, server: Running, opened: Open, s: clew.Session) -> None:
        """Appends, rules, purges; and all of the HTTP API."""
        store = opened("store")
        store.get("s").append(user("c"))
        store.set_retention(Retention(max_events=2))
        store.set_redaction("all")
        assert store.get("s").info.messages == 3
        store.delete("s", purge=True)
        assert server.store.find("s") is None
        assert server.store.verify().problems == ()

    def test_it_includes_every_other_scope(self, server: Running) -> None:
        """It could make itself a token that has them."""
        _, text = add_token(server.store, "all", scopes=["store"])
        with server.client(text) as client:
            assert client.get("/api/v1/me").json()["scopes"] == ["read", "write", "files", "admin", "store"]
            assert client.post("/api/v1/sweep", json={}).status_code == 200

    def test_it_is_bound_to_nothing(self, server: Running) -> None:
        """Rows know nothing of workspaces and tags."""
        for bound in ({"workspace": "/w"}, {"tags": ["t"]}):
            with pytest.raises(InvalidError, match="the whole store: leave out"):
                add_token(server.store, "bound", scopes=["store"], **bound)

    def test_a_bound_one_that_was_forged_opens_nothing(self, server: Running, s: clew.Session) -> None:
        """No `clew token add` makes it, but a record may say anything."""
        id = new_id("t")
        text = new_secret(id)
        record = TokenRecord(name="forged", hash=hash_of(text), scopes=("store",), tags=("t",), created=0)
        value = msgspec.json.encode(record)
        server.store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "token", id, value))
        with server.client(text) as client:
            for path, body in attempts(server, s).values():
                assert post(client, path, body).status_code == 403

    def test_a_server_that_only_reads_lets_it_read(self, serve: Callable[..., Running]) -> None:
        """And nothing more."""
        server = serve(read_only=True)
        with clew.open(server.url, token=TOKEN) as store:
            assert list(store.list()) == []
            with pytest.raises(ReadOnlyError, match="for reading only"):
                store.create("s")
            remote = store._engine.backend.remote  # type: ignore[attr-defined]
            with pytest.raises(ReadOnlyError):
                remote.scrub()
            with pytest.raises(ReadOnlyError):
                remote.step(Step(calls=[]))

    def test_a_caller_holds_one_transaction_open(
        self, server: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second is refused if the first takes too long."""
        monkeypatch.setattr(door, "PATIENCE", 0.0)
        _, one = add_token(server.store, "one", scopes=["store"])
        with server.client(one) as client:
            first = post(client, "transaction", Step(calls=[])).json()["transaction"]
            assert refusal(post(client, "transaction", Step(calls=[]))) == (503, "store_busy")
            snapshot = post(client, "snapshot", Step(calls=[]))
            assert snapshot.status_code == 200, "a snapshot keeps no writer waiting"
            post(client, "transaction", Step(transaction=first, end="undo")).raise_for_status()
            second = post(client, "transaction", Step(calls=[]))
            assert second.status_code == 200
            post(client, "transaction", Step(transaction=second.json()["transaction"], end="undo"))

    def test_others_with_the_same_token_wait_for_their_turn(
        self, server: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Eight processes that share a token, each with a transaction of several steps."""
        monkeypatch.setattr(door, "PATIENCE", 60.0)
        _, text = add_token(server.store, "shared", scopes=["store"])

        def work(_: int) -> list[int]:
            with server.client(text) as client:
                begun = post(client, "transaction", Step(calls=[]))
                ended = post(client, "transaction", Step(transaction=begun.json()["transaction"], end="undo"))
                return [begun.status_code, ended.status_code]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(24))) == [[200, 200]] * 24


class TestRefused:
    """Who does not get in at all."""

    def test_a_wrong_token(self, server: Running) -> None:
        with pytest.raises(AccessDeniedError, match="does not accept the token: pass token=") as refused:
            clew.open(server.url, token="clew_secret_that_is_wrong")
        assert "wrong" not in str(refused.value)

    def test_no_token(self, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CLEW_TOKEN", raising=False)
        with pytest.raises(AccessDeniedError, match="set CLEW_TOKEN"):
            clew.open(server.url)
