"""What a token may do with the rows of a store: each call of the contract, one by one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.backends.http import calls
from clew.backends.http.calls.base import Write
from clew.backends.http.calls.beside import DropEvents, DropRecord, PutRecord
from clew.backends.http.calls.log import AdoptBranch, DisownBranch, DropBranch, DropEntries, EraseEntries
from clew.backends.http.calls.objects import AddPack, AddTexts, DropObjects, DropPack, SetSearched
from clew.backends.http.calls.sessions import DropSession, SetDue
from clew.core.log.lease import decode_lease
from clew.errors import AccessDeniedError, ClewError, InvalidError, ReadOnlyError
from clew.model import Retention
from tests.server.conftest import Running
from tests.server.routes.asking import user
from tests.support.rows import named

Open = Callable[..., clew.Store]


@pytest.fixture
def s(server: Running) -> clew.Session:
    """A session on the server, with something of everything."""
    session = server.store.session("s")
    session.append(user("a"), user("b"), key="k")
    session.add_event("t", {"n": 1}, id="e")
    session.add_usage(model="none", input_tokens=1)
    session.checkpoint("c")
    session.set_document("d", b"1")
    return session


def state(server: Running) -> Any:
    """All that a store holds."""
    with server.store._engine.read() as reader:
        (row,) = reader.tree_sessions(1)
        return [
            row,
            reader.tree_branches(1),
            reader.read_entries(row.head.branch, 0, row.head.position),
            reader.read_events(1, 0, 10),
            reader.read_usage(1, 0, 10),
            [reader.scan_records(1, kind) for kind in ("key", "checkpoint", "document", "move", "status")],
        ]


REMOVALS: dict[str, Write] = {
    "session": DropSession(1),
    "branch": DropBranch(2),
    "owner": DisownBranch(2),
    "new owner": AdoptBranch(2, 1),
    "entries": DropEntries(2, -1),
    "bodies": EraseEntries(2, [0, 1]),
    "events": DropEvents(1, 1),
    "objects": DropObjects([b"x"]),
    "pack": DropPack(1),
    "all dues": SetDue(None, 0),
    "a due": SetDue(1, 2**60),
    "index": AddTexts([], [(2, 5)]),
    "searched": SetSearched([]),
    **{
        f"record {kind}": DropRecord(1, kind, "k")
        for kind in ("key", "move", "run", "snapshot", "status", "removal", "retention", "redaction")
    },
    **{
        f"put {kind}": PutRecord(STORE_WIDE, kind, "x", "{}")
        for kind in ("token", "share", "retention", "removal", "unscrubbed", "redaction")
    },
}


class TestWrite:
    """A token that may write adds to a store, and takes nothing away for good."""

    def test_no_call_removes_content(self, server: Running, opened: Open, s: clew.Session) -> None:
        """Neither as a transaction of its own, nor inside of one that is held open."""
        before = state(server)
        backend = opened("write", "files")._engine.backend
        remote = backend.remote  # type: ignore[attr-defined]
        for name, call in REMOVALS.items():
            with named(name):
                with pytest.raises((AccessDeniedError, InvalidError)):
                    remote.commit(calls.Step(calls=[call], end="commit", commit=secrets.token_hex(16)))
                held = remote.step(calls.Step(calls=[]))
                with pytest.raises((AccessDeniedError, InvalidError)):
                    remote.step(calls.Step(transaction=held.transaction, calls=[call]))
                remote.undo(held.transaction)
                assert state(server) == before

    def test_the_calls_above_are_all_that_remove(self) -> None:
        """A call that is added to the contract is looked at here."""
        removing = {
            name for name in (kind.__name__ for kind in calls.WRITES) if name.startswith(("Drop", "Er"))
        }
        assert removing <= {type(call).__name__ for call in REMOVALS.values()}

    def test_everything_that_sessions_do_is_allowed(
        self, server: Running, opened: Open, s: clew.Session
    ) -> None:
        """Appends, moves, forks, marks, runs, events, deletions into the trash."""
        store = opened("write")
        session = store.get("s")
        session.append(user("c"))
        session.rewind(0)
        session.undo()
        session.fork("f")
        session.compact("short")
        session.replace([user("other")])
        session.set_var("v", 1)
        session.delete_var("v")
        session.delete_document("d")
        session.delete_checkpoint("c")
        session.add_alias("x")
        session.annotate(0, label="l", note="n")
        with session.run(task="t") as run:
            run.append(user("in a run"))
            run.checkpoint(iteration=1)
        store.delete("f")
        store.restore_deleted("f")
        session.update(tags=["t"], metadata={"a": 1})

        assert server.store.verify().problems == ()

    def test_purges_and_rules_need_admin(self, opened: Open, s: clew.Session) -> None:
        """And say so."""
        store = opened("write")
        for work in (
            lambda: store.delete("s", purge=True),
            lambda: store.set_retention(Retention(max_events=2)),
            lambda: store.set_redaction("off"),
        ):
            with pytest.raises(AccessDeniedError, match="scope admin"):
                work()
        opened("admin").delete("s", purge=True)
        assert store.find("s") is None

    def test_events_go_as_the_rules_say(self, server: Running, opened: Open, s: clew.Session) -> None:
        """A cap on events is kept by whoever writes one."""
        server.store.set_retention(Retention(max_events=2))
        session = opened("write").get("s")
        for number in range(4):
            session.add_event("t", number)
        assert [event.data for event in session.events()] == [2, 3]

    def test_files_need_their_scope(self, opened: Open, s: clew.Session) -> None:
        backend = opened("write")._engine.backend
        with pytest.raises(AccessDeniedError, match="scope files"), backend.write() as tx:
            tx.add_pack(0, b"x", 1, [])
        with pytest.raises(AccessDeniedError, match="scope files"), backend.read() as reader:
            reader.list_packs(0, 1)

    def test_an_object_is_what_its_name_says(self, opened: Open) -> None:
        """Else one who writes could give others what they never stored."""
        remote = opened("write", "files")._engine.backend.remote  # type: ignore[attr-defined]
        call = AddPack(0, b"content", 7, [(b"\0" * 32, 0, 7)])
        with pytest.raises(InvalidError, match="not what its name says"):
            remote.commit(calls.Step(calls=[call], end="commit", commit="0" * 32))


class TestRead:
    """A token that may read."""

    def test_the_store_can_be_read_only(self, opened: Open, s: clew.Session) -> None:
        store = opened("read")
        assert [message["content"] for message in store.get("s").messages()] == ["a", "b"]
        with pytest.raises(ReadOnlyError, match="no scope to write"):
            store.get("s").append(user("c"))
        remote = store._engine.backend.remote  # type: ignore[attr-defined]
        with pytest.raises(ClewError):
            remote.commit(calls.Step(calls=[DropSession(1)], end="commit", commit="0" * 32))
        with pytest.raises(AccessDeniedError):
            remote.step(calls.Step(calls=[]))
        assert store.read(lambda now: now.get("s").info.messages) == 2

    def test_search_is_allowed(self, opened: Open, s: clew.Session) -> None:
        """The server writes the index, not the caller."""
        assert len(opened("read").search("a")) == 1

    def test_secrets_of_leases_are_not_shown(self, server: Running, opened: Open, s: clew.Session) -> None:
        """Who reads a fence could write in the name of its holder."""
        run = s.run(owner="w")
        with server.store._engine.read() as reader:
            row = reader.find_session("s")
        assert row is not None
        with opened("read")._engine.backend.read() as reader:
            shown = [reader.find_session("s"), reader.get_session(row.sid), *reader.tree_sessions(row.tree)]
            record = reader.get_record(row.sid, "lease", "")
            assert record is not None
            assert {one.fence for one in shown if one is not None} == {1}
            assert decode_lease(record).fence == 1
            assert opened("write").get("s").lease is not None
        run.complete()

    def test_tokens_are_not_shown(self, opened: Open) -> None:
        """For one who is no administrator there are none."""
        with opened("admin")._engine.backend.read() as reader:
            found = [name for name, _ in reader.scan_records(STORE_WIDE, "token")]
            assert len(found) == 1
        with opened("write")._engine.backend.read() as reader:
            assert reader.scan_records(STORE_WIDE, "token") == reader.scan_records(STORE_WIDE, "share") == []
            assert reader.get_record(STORE_WIDE, "token", found[0]) is None

    def test_the_key_of_redaction_is_not_shown(self, server: Running, opened: Open) -> None:
        server.store.set_redaction("all")
        with opened("read")._engine.backend.read() as reader:
            assert reader.get_record(STORE_WIDE, "redaction", "key") is None
            assert [name for name, _ in reader.scan_records(STORE_WIDE, "redaction")] == ["policy"]


class TestRefused:
    """Who does not get in at all."""

    def test_a_bound_token(self, opened: Open) -> None:
        with pytest.raises(AccessDeniedError, match="bound"):
            opened("admin", workspace="/w")
        with pytest.raises(AccessDeniedError, match="bound"):
            opened("write", tags=["t"])

    def test_a_wrong_token(self, server: Running) -> None:
        with pytest.raises(AccessDeniedError, match="does not accept the token: pass token=") as refused:
            clew.open(server.url, token="clew_secret_that_is_wrong")
        assert "wrong" not in str(refused.value)

    def test_no_token(self, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CLEW_TOKEN", raising=False)
        with pytest.raises(AccessDeniedError, match="set CLEW_TOKEN"):
            clew.open(server.url)
