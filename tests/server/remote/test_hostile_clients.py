"""A client that lies: rows that do not fit, requests that are too large, transactions that never end."""

from __future__ import annotations

import secrets
import threading
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import pytest

import clew
from clew.backends.http import remote as remote_calls
from clew.backends.http import wire
from clew.backends.http.backend import HttpBackend
from clew.backends.http.calls import Step
from clew.backends.http.calls.beside import AddEvents, AddUsage, PutRecord
from clew.backends.http.calls.log import AddBranch, AddEntries
from clew.backends.http.calls.sessions import AddSession, SetDetails, SetHead, SetSession
from clew.backends.http.remote import RowsChanged
from clew.core.log.rows import EMPTY, Details, Draft, HeadRow, UsageRow
from clew.core.log.tree import chain
from clew.errors import ClewError, InvalidError, OutcomeUnknownError
from clew.server.access.tokens import add_token
from clew.server.routing import Router
from clew.server.rows import held
from tests.server.conftest import TOKEN, Running
from tests.server.routes.asking import user
from tests.support.rows import each_row, named


class Facts(msgspec.Struct):
    """What a client knows of a session."""

    row: Any
    branch: int
    fork: Any


@pytest.fixture
def facts(server: Running) -> Facts:
    s = server.store.session("s")
    s.append(user("a"), user("b"))
    s.fork("f")
    with server.store._engine.read() as reader:
        row, fork = reader.find_session("s"), reader.find_session("f")
    assert row is not None
    return Facts(row, row.head.branch, fork)


def next_entry(facts: Facts, **changes: Any) -> wire.Entry:
    (row,), _ = chain(facts.row.head, facts.branch, [Draft(0, b'{"role":"user","content":"c"}', 0, True)], 5)
    return wire.entry_out(msgspec.structs.replace(row, **changes))


def usage(**changes: Any) -> AddUsage:
    numbers = dict.fromkeys((name for name in UsageRow.__struct_fields__ if name.startswith("all_")), 0)
    row = UsageRow(
        1, 5, None, None, None, None, None, 0, -1, 0, 0, 0, 0, 0, 0, None, **{**numbers, **changes}
    )  # fmt: skip
    return AddUsage.by(1, row)


FORGERIES: dict[str, Any] = {
    "entry of another digest": lambda f: AddEntries(f.branch, [next_entry(f, digest=b"\1" * 32)]),
    "entry of another body": lambda f: AddEntries(f.branch, [next_entry(f, body=b'{"x":1}')]),
    "entry in the middle": lambda f: AddEntries(f.branch, [next_entry(f, position=1)]),
    "entry behind a gap": lambda f: AddEntries(f.branch, [next_entry(f, position=9)]),
    "entry with wrong counters": lambda f: AddEntries(f.branch, [next_entry(f, messages=99)]),
    "entry that is no JSON": lambda f: AddEntries(f.branch, [next_entry(f, body=b"{")]),
    "entry of no kind": lambda f: AddEntries(f.branch, [next_entry(f, kind=77)]),
    "removed entry with a body": lambda f: AddEntries(f.branch, [next_entry(f, kind=5)]),
    "entry on no branch": lambda f: AddEntries(4711, [next_entry(f)]),
    "head that leads nowhere": lambda f: SetHead(1, HeadRow(f.branch, 77), 5, None, ""),
    "head with wrong counters": lambda f: SetHead(
        1, msgspec.structs.replace(f.row.head, messages=99), 5, None, ""
    ),
    "head in the middle that grows": lambda f: SetSession(msgspec.structs.replace(f.fork, grows=True)),
    "head on no branch with counters": lambda f: SetSession(
        msgspec.structs.replace(f.row, head=msgspec.structs.replace(EMPTY, messages=5))
    ),
    "another tree": lambda f: SetSession(msgspec.structs.replace(f.row, tree=f.row.tree + 99)),
    "an older epoch": lambda f: SetSession(msgspec.structs.replace(f.row, epoch=-1)),
    "an id that is taken": lambda f: SetSession(msgspec.structs.replace(f.row, id="f")),
    "an id that is none": lambda f: SetSession(msgspec.structs.replace(f.row, id="a\0b")),
    "a title of great length": lambda f: SetHead(1, f.row.head, 5, "x" * 501, ""),
    "no such session": lambda f: SetSession(msgspec.structs.replace(f.row, sid=4711)),
    "a new session of a taken id": lambda f: AddSession(f.row, Details()),
    "a new session in no tree": lambda f: AddSession(
        msgspec.structs.replace(f.row, id="n", tree=4711, head=EMPTY, grows=False), Details()
    ),
    "a branch in another tree": lambda f: AddBranch("u", 4711, f.row.sid, 0, -1),
    "a branch behind its parent": lambda f: AddBranch("u", f.row.tree, f.row.sid, f.branch, -1),
    "a branch of nothing": lambda f: AddBranch("u", f.row.tree, f.row.sid, 4711, 3),
    "tags that are none": lambda f: SetDetails(1, Details(tags=("",))),
    "events that do not follow": lambda f: AddEvents(
        1, [wire.Event(1, 5, "", "t", None, "1"), wire.Event(5, 5, "", "t", None, "1")]
    ),
    "an event that is no JSON": lambda f: AddEvents(1, [wire.Event(1, 5, "", "t", None, "{")]),
    "a call with wrong sums": lambda f: usage(all_input=99),
    "a record of no session": lambda f: PutRecord(4711, "var", "n", "1"),
}


def everything(server: Running) -> Any:
    with server.store._engine.read() as reader:
        rows = [reader.find_session(id) for id in ("s", "f", "n")]
        branches = reader.tree_branches(1)
        return rows, branches, [reader.last_position(branch.branch) for branch in branches]


class TestForgeries:
    """Rows that each could be one, and that do not fit what is there."""

    def test_nothing_of_it_is_written(self, server: Running, store: clew.Store, facts: Facts) -> None:
        """Not even with the token of the owner."""
        before = everything(server)
        remote = store._engine.backend.remote  # type: ignore[attr-defined]
        for name, forge in FORGERIES.items():
            with named(name):
                with pytest.raises(InvalidError):
                    remote.commit(Step(calls=[forge(facts)], end="commit", commit=secrets.token_hex(16)))
                assert everything(server) == before
                assert server.store.verify().problems == ()
        server.store.get("s").append(user("goes on"))
        assert server.store.verify().problems == ()

    def test_the_right_entry_is_written(self, server: Running, store: clew.Store, facts: Facts) -> None:
        """The forgeries above differ from it in one thing each."""
        remote = store._engine.backend.remote  # type: ignore[attr-defined]
        entry = next_entry(facts)
        head = wire.entry_in(entry).tip(facts.branch)
        calls = [AddEntries(facts.branch, [entry]), SetHead(1, head, 5, None, "c")]
        remote.commit(Step(calls=calls, end="commit", commit="0" * 32))

        assert server.store.get("s").info.messages == 3
        assert server.store.verify().problems == ()


class TestRequests:
    """What is no request of a client of ours."""

    @each_row(
        "body",
        [
            b"", b"{", b"[]", b"null", b'{"calls":[["nothing",1]]}', b'{"calls":[["get_session"]]}',
            b'{"calls":[["get_session",1,2]]}', b'{"calls":[["get_session","1"]]}', b'{"calls":[[1]]}',
            b'{"calls":[["get_session",-1]]}', b'{"calls":[["get_session",1e400]]}', b'{"calls":7}',
            b'{"calls":[["__class__"]]}', b'{"calls":[],"more":1}', b"\xff\xfe", b"[" * 100_000,
            b'{"calls":[["get_record",0,"secret","x"]]}', b'{"calls":[["drop_session",1]]}',
            b'{"calls":[["list_sessions",99999999,false,null,[],[],null,false,false,null,null,null,false]]}',
        ],
    )  # fmt: skip
    def test_it_is_refused(self, client: httpx.Client, body: bytes) -> None:
        answer = client.post("/api/v1/rows/read", content=body)
        assert answer.status_code in (400, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"

    def test_no_request_is_too_long(self, client: httpx.Client) -> None:
        calls = ",".join(['["get_session",1]'] * 20_001)
        answer = client.post("/api/v1/rows/read", content=f'{{"calls":[{calls}]}}')
        assert answer.status_code == 422

    @each_row("encoding", wire.ENCODINGS)
    @each_row("path", ["transaction", "read"])
    def test_a_bomb_does_not_go_off(
        self, server: Running, client: httpx.Client, encoding: str, path: str
    ) -> None:
        """What is small on the wire, and larger behind it than its route takes, is not unpacked."""
        every = server.app.router
        (route,) = (one for one in every.routes if one.path.endswith(f"/rows/{path}"))
        assert route.max_body == {"transaction": wire.MOST_SENT, "read": wire.MOST_ASKED}[path]
        server.app.router = Router([replace(route, max_body=1 << 20)])
        try:
            bomb = wire.compress(encoding, b" " * (1 << 21))
            answer = client.post(f"/api/v1/rows/{path}", content=bomb, headers={"content-encoding": encoding})
        finally:
            server.app.router = every
        assert len(bomb) < 1 << 20
        assert answer.status_code == 413

    def test_the_door_is_not_in_the_description_of_the_api(self, client: httpx.Client) -> None:
        assert "/rows" not in client.get("/api/v1/openapi.json").text

    def test_a_transaction_belongs_to_its_caller(self, server: Running, store: clew.Store) -> None:
        _, other = add_token(server.store, "t", scopes=["store"])
        remote = store._engine.backend.remote  # type: ignore[attr-defined]
        mine = remote.step(Step(calls=[])).transaction
        with server.client(other) as stranger:
            answer = stranger.post(
                "/api/v1/rows/transaction", content=wire.encode(Step(transaction=mine, end="undo"))
            )
        assert answer.json()["code"] == "rows_changed"
        remote.undo(mine)


class TestHeldTransactions:
    """One that is held open keeps other writers waiting: not for long."""

    def test_one_that_is_forgotten_is_undone(
        self, server: Running, store: clew.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(held, "IDLE", 0.1)
        s = server.store.session("s")
        remote = store._engine.backend.remote  # type: ignore[attr-defined]
        remote.step(Step(calls=[PutRecord(1, "var", "n", "1")]))
        s.append(user("waits"))  # until then

        assert s.get_var("n") is None

    def test_one_that_goes_on_for_ever_is_undone(self, timed: Running) -> None:
        with clew.open(timed.url, token=TOKEN) as store:
            remote = store._engine.backend.remote  # type: ignore[attr-defined]
            step = Step(transaction=remote.step(Step(calls=[])).transaction)
            timed.wait(held.WHOLE - 1)
            for _ in range(5):
                remote.step(step)
            timed.wait(1)

            def go_on() -> None:
                for _ in range(2):  # the first may have been waited for already
                    remote.step(step)

            with pytest.raises(RowsChanged):
                go_on()

    def test_there_are_only_so_many(self, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(held, "MOST_OF_ONE", 1)
        monkeypatch.setattr(remote_calls, "FIRST_PAUSE", 1e6)  # longer than a client waits
        with (
            clew.open(server.url, token=TOKEN) as one,
            clew.open(server.url, token=TOKEN) as two,
        ):
            remote = one._engine.backend.remote  # type: ignore[attr-defined]
            mine = remote.step(Step(calls=[])).transaction
            with pytest.raises(clew.errors.StoreBusyError, match="too many transactions"):
                two._engine.backend.remote.step(Step(calls=[]))  # type: ignore[attr-defined]
            remote.undo(mine)
            two.session("s").append(user("now"))

    def test_the_end_of_the_server_undoes_it(self, server: Running, store: clew.Store) -> None:
        remote = store._engine.backend.remote  # type: ignore[attr-defined]
        remote.step(Step(calls=[PutRecord(0, "var", "n", "1")]))
        server.app.rows.close()
        with server.store._engine.read() as reader:
            assert reader.get_record(0, "var", "n") is None
        server.store.session("s").append(user("free"))

    def test_a_crowd_and_held_transactions_do_not_lock_each_other(self, server: Running) -> None:
        """More writers than the server has threads, some of whom need an open transaction."""
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                with clew.open(server.url, token=TOKEN) as store:
                    for round in range(3):
                        session = store.session(f"s{number}-{round}")
                        session.append(user("a"))
                        session.append(user("b"))
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(server.store.list(limit=200)) == 72


def test_an_error_of_the_storage_is_not_told(server: Running, store: clew.Store) -> None:
    """A driver's own words may name what is nobody's business."""
    backend = store._engine.backend
    assert isinstance(backend, HttpBackend)
    rows = server.app.rows

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("the secret words of a driver")

    rows._engine = Broken()
    with pytest.raises(ClewError) as told:
        store.list()
    assert "secret words" not in str(told.value)
    assert not isinstance(told.value, OutcomeUnknownError)
