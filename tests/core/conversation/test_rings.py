"""S-52: branches that continue themselves, each other, or what is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

import clew
from clew.backends.contract import Backend
from clew.core.log.rows import BranchRow
from clew.store import Store
from tests.core.conversation.forged_branches import KINDS, Change, forged, forged_lines, make


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


class Planted:
    """A tree of three sessions (a, its fork b, its fork c), and a session z of its own."""

    def __init__(self, backend: Backend) -> None:
        with Store(backend) as store:
            a, z = store.session("a"), store.session("z")
            a.append(say("a0"), say("a1"), say("a2"))
            b = a.fork("b", at=1)
            b.append(say("b2"), say("b3"))
            c = b.fork("c")
            c.append(say("c4"), say("c5"))
            c.checkpoint("here")
            z.append(say("z0"), say("z1"))
            z.rewind(0)
            z.append(say("z1 again"))
            self.uids = {s.id: s.head.branch for s in (a, b, c, z)}
            with store._engine.read() as reader:
                found = {name: reader.find_branch(uid) for name, uid in self.uids.items()}
            self.rows: dict[str, BranchRow] = {name: row for name, row in found.items() if row is not None}

    def with_parent(self, **parents: str | int) -> Change:
        """Change what branches continue: `c="b"` the branch of c continues that of b."""
        wanted = {self.rows[name].uid: parent for name, parent in parents.items()}

        def change(row: BranchRow) -> BranchRow:
            parent = wanted.get(row.uid)
            if parent is None:
                return row
            number = self.rows[parent].branch if isinstance(parent, str) else parent
            return msgspec.structs.replace(row, parent=number)

        return change


ATTACKS: dict[str, Callable[[Planted], Change]] = {
    "its own parent": lambda planted: planted.with_parent(c="c"),
    "two continue each other": lambda planted: planted.with_parent(b="c", c="b"),
    "a parent in another tree": lambda planted: planted.with_parent(c="z"),
    "a parent that is missing": lambda planted: planted.with_parent(c=987_654_321),
}


@pytest.fixture(params=[(kind, attack) for kind in KINDS for attack in ATTACKS], ids="-".join)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind, attack = request.param
    backend = make(kind, tmp_path, request)
    planted = Planted(backend)
    if kind == "memory":
        backend._closed = False  # type: ignore[attr-defined]
    with Store(forged(backend, ATTACKS[attack](planted))) as store:
        yield store


READS: dict[str, Callable[[Store, clew.Session], object]] = {
    "messages": lambda store, s: s.messages(),
    "entries": lambda store, s: list(s.entries()),
    "context": lambda store, s: s.context(),
    "tree": lambda store, s: s.tree(),
    "checkpoints": lambda store, s: s.checkpoints(),
    "jsonl": lambda store, s: store.export(s.id, "jsonl"),
    "json": lambda store, s: store.export(s.id, "json", whole=True),
    "markdown": lambda store, s: store.export(s.id, "markdown", whole=True),
    "html": lambda store, s: store.export(s.id, "html", whole=True),
    "redacted": lambda store, s: store.export(s.id, "jsonl", redact=True),
    "rewind": lambda store, s: s.rewind(1),
    "undo": lambda store, s: s.undo(),
    "fork": lambda store, s: s.fork(),
    "append": lambda store, s: s.append(say("more")),
    "search": lambda store, s: store.search("c4"),
    "list": lambda store, s: store.list(),
}


def test_s52_each_call_ends_and_says_what_is_wrong(hostile: Store) -> None:
    """Of a session whose branches lead round: an answer or a CorruptError, never an endless search."""
    refused: list[str] = []
    for call in READS.values():
        try:
            call(hostile, hostile.get("c"))
        except clew.ClewError as error:
            refused += [str(error)] if isinstance(error, clew.CorruptError) else []
    assert len(refused) >= 5
    assert all("branch" in text for text in refused)


def test_s52_the_other_sessions_go_on(hostile: Store) -> None:
    """One that shares a tree with the damaged one, and one that does not (P6)."""
    for id, said in (("a", "a0"), ("z", "z0")):
        session = hostile.get(id)
        assert session.messages()[0]["content"] == said
        assert session.tree().heads[id] == session.head
        for format in ("json", "markdown", "html"):
            assert said in hostile.export(id, format, whole=True)
        session.rewind(0)
        session.append(say("on we go"))
        assert session.fork(f"{id}-fork").messages() == session.messages()
    assert {info.id for info in hostile.list()} == {"a", "b", "c", "z", "a-fork", "z-fork"}
    assert [hit.session for hit in hostile.search("z0")] == ["z"]


def test_s52_verify_names_what_is_wrong_a_copy_is_refused_and_repair_saves_the_rest(
    hostile: Store, tmp_path: Path
) -> None:
    found = hostile.verify(full=True)
    assert not found.ok
    assert any(problem.branch is not None and "continues" in problem.text for problem in found.details)
    assert {problem.session for problem in found.details if problem.session} <= {"a", "b", "c"}
    with clew.open(tmp_path / "copy.db") as copy, pytest.raises(clew.CorruptError, match="branch"):
        clew.copy(hostile, copy)
    assert hostile.repair(to=tmp_path / "new.db").lost
    with clew.open(tmp_path / "new.db") as new:
        assert [m["content"] for m in new.get("a").messages()] == ["a0", "a1", "a2"]
        assert [m["content"] for m in new.get("z").messages()] == ["z0", "z1 again"]
        assert new.verify(full=True).ok


def test_s52_a_sweep_and_a_limit_on_messages_end_and_what_is_damaged_can_be_removed(hostile: Store) -> None:
    hostile.set_retention(clew.Retention(message_age=timedelta(days=1), max_messages=2))
    hostile.sweep()
    assert hostile.get("z").messages()
    hostile.delete("c", purge=True)
    hostile.delete("b", purge=True)
    assert hostile.verify(full=True).ok
    assert hostile.get("a").tree().branches


@pytest.mark.parametrize("attack", ATTACKS)
def test_s52_an_exported_session_whose_branches_lead_round_is_refused(attack: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    file = folder / "c.clew.jsonl"
    with clew.open(tmp_path / "from.db") as store:
        s = store.session("c")
        s.append(say("0"), say("1"), say("2"))
        s.rewind(1)
        s.append(say("again"), say("and on"))
        s.rewind(2)
        s.append(say("and again"))
        store.export("c", "jsonl", path=file)
        store.session("good").append(say("good"))
        store.export("good", "jsonl", path=folder / "good.clew.jsonl")
    parents = {
        "its own parent": (2, 2),
        "two continue each other": (3, 2),
        "a parent in another tree": (9, 9),
    }
    second, third = parents.get(attack, (1, 7))

    def change(row: BranchRow) -> BranchRow:
        return msgspec.structs.replace(row, parent={2: second, 3: third}.get(row.branch, row.parent))

    file.write_bytes(forged_lines(file.read_bytes(), change))
    with clew.open(tmp_path / "to.db") as store:
        with pytest.raises(clew.InvalidError, match="branch"):
            store.import_path(file)
        report = store.import_path(folder)
        assert [problem.path for problem in report.problems if "branch" in problem.reason] == [str(file)]
        assert [info.id for info in store.list()] == ["good"]
        assert store.verify(full=True).ok
