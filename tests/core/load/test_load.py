"""Loading sessions of other programs: once, what is new, in their own places and times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.load import load
from clew.importers.contract import SourceCheckpoint, SourceEntry, SourceEvent, SourceSession, SourceUsage

BEGAN = datetime(2024, 3, 1, 12, tzinfo=UTC)


def said(uid: str, parent: str | None, text: str | None = None, **more: Any) -> SourceEntry:
    number = int("".join(c for c in uid if c.isdigit()) or 0)
    role = more.pop("role", "user")
    return SourceEntry(
        uid=uid,
        parent=parent,
        message={"role": role, "content": text or f"text of {uid}"},
        at=BEGAN + timedelta(minutes=number),
        **more,
    )


def line(*uids: str) -> list[SourceEntry]:
    """Entries, one behind the other."""
    return [said(uid, before) for before, uid in zip((None, *uids), uids, strict=False)]


def session(entries: list[SourceEntry], **more: Any) -> SourceSession:
    return SourceSession(id="other:1", entries=iter(entries), **more)


def texts(found: clew.Session) -> list[str]:
    return [message["content"] for message in found.messages()]


@pytest.fixture(params=["memory", "sqlite", "jsonl"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    addresses = {"memory": "memory:", "sqlite": str(tmp_path / "s.db"), "jsonl": f"jsonl:///{tmp_path / 's'}"}
    with clew.open(addresses[request.param]) as opened:
        yield opened


def test_entries_come_in_their_order_with_their_own_times(store: clew.Store) -> None:
    loaded = store.load(session(line("e1", "e2", "e3"), created_at=BEGAN, title="T", model="m"))
    found = store.get("other:1")
    assert (loaded.state, loaded.entries, loaded.messages) == ("new", 3, 3)
    assert texts(found) == ["text of e1", "text of e2", "text of e3"]
    assert [entry.time for entry in found.entries()] == [BEGAN + timedelta(minutes=n) for n in (1, 2, 3)]
    assert found.info.created_at == BEGAN
    assert found.info.updated_at == BEGAN + timedelta(minutes=3)
    assert (found.info.title, found.info.model, found.info.user_turns) == ("T", "m", 3)


def test_a_session_without_a_title_is_called_by_its_first_words(store: clew.Store) -> None:
    store.load(session([said("e1", None, "injected", human=False), said("e2", "e1", "fix the door")]))
    assert store.get("other:1").info.title == "fix the door"
    assert store.get("other:1").info.preview == "fix the door"


def test_a_title_that_is_cleared_is_that_of_the_source_again(store: clew.Store) -> None:
    def source(title: str | None, *names: str) -> SourceSession:
        return session(line(*names), title=title)

    store.load(source("first", "e1"))
    found = store.get("other:1")
    found.update(title="mine")
    store.load(source("second", "e1", "e2"))
    assert found.info.title == "mine", "the user's title stays"
    found.update(title=None)
    assert (found.info.title, found.info.title_is_auto) == ("second", False)
    assert store.load(source("second", "e1", "e2")).state == "unchanged"
    store.load(source("third", "e1", "e2"))
    assert found.info.title == "third", "and follows the source again"
    store.load(SourceSession(id="other:2", entries=iter(line("e1"))))
    other = store.get("other:2")
    other.update(title="mine")
    other.update(title=None)
    assert (other.info.title, other.info.title_is_auto) == ("text of e1", True)


def test_the_same_again_changes_nothing(store: clew.Store) -> None:
    def source() -> SourceSession:
        call = SourceUsage(id="c1", input_tokens=5)
        return session(
            [said("e1", None, usage=call), said("e2", "e1")],
            title="T",
            tags=("t",),
            metadata={"a": 1},
            aliases=("alias",),
            checkpoints=lambda: [SourceCheckpoint(name="cp", entry="e1", state={"n": 1})],
            events=lambda: [SourceEvent(id="v1", type="thing", data={"x": 1}, at=BEGAN)],
            vars=lambda: {"k": [1]},
        )

    store.load(source())
    before = store.get("other:1").info, [entry.id for entry in store.get("other:1").entries()]
    again = store.load(source())
    assert (again.state, again.entries) == ("unchanged", 0)
    assert (store.get("other:1").info, [entry.id for entry in store.get("other:1").entries()]) == before
    assert store.get("alias").id == "other:1"
    assert store.usage().calls == 1
    assert store.get("other:1").get_var("k") == [1]
    assert [event.at for event in store.get("other:1").events()] == [BEGAN]


def test_a_source_that_grew_adds_only_what_is_new(store: clew.Store) -> None:
    store.load(session(line("e1", "e2")))
    first = [entry.id for entry in store.get("other:1").entries()]
    grown = store.load(session(line("e1", "e2", "e3")))
    assert (grown.state, grown.entries, grown.messages) == ("grown", 1, 3)
    assert [entry.id for entry in store.get("other:1").entries()][:2] == first


def test_what_was_abandoned_is_a_branch_and_the_head_is_where_the_source_says(store: clew.Store) -> None:
    entries = [*line("e1", "e2", "e3"), said("e4", "e1"), said("e5", "e4")]
    store.load(session(entries, head=lambda: "e3"))
    found = store.get("other:1")
    assert texts(found) == ["text of e1", "text of e2", "text of e3"]
    assert found.info.entries == 3
    assert len(found.tree().branches) == 2
    grown = store.load(session([*entries, said("e6", "e5")], head=lambda: "e6"))
    assert grown.entries == 1
    assert texts(found) == ["text of e1", "text of e4", "text of e5", "text of e6"]


def test_a_second_beginning_is_a_branch_of_its_own(store: clew.Store) -> None:
    store.load(session([*line("e1", "e2"), said("e3", None)]))
    assert texts(store.get("other:1")) == ["text of e3"]


def test_there_is_nothing_to_undo(store: clew.Store) -> None:
    store.load(session([*line("e1", "e2"), said("e3", "e1")]))
    with pytest.raises(clew.errors.NothingToUndoError):
        store.get("other:1").undo()


def test_what_the_user_said_here_stays_and_what_is_new_goes_beside_it(store: clew.Store) -> None:
    store.load(session(line("e1", "e2")))
    found = store.get("other:1")
    found.append({"role": "user", "content": "mine"})
    grown = store.load(session(line("e1", "e2", "e3")))
    assert grown.entries == 1
    assert texts(found) == ["text of e1", "text of e2", "mine"]
    found.append({"role": "user", "content": "more of mine"})
    assert texts(found)[-1] == "more of mine"
    tips = [branch.last for branch in found.tree().branches]
    assert sorted(tips)[-2:] == [2, 3]


def test_a_head_that_the_user_put_on_another_branch_stays_and_can_grow(store: clew.Store) -> None:
    entries = [*line("e1", "e2"), said("e3", "e1")]
    store.load(session(entries))
    found = store.get("other:1")
    on_e2 = next(
        branch for branch in found.tree().branches if branch.last == 1 and branch.id != found.head.branch
    )
    found.rewind(clew.Head(on_e2.id, 1))
    store.load(session([*entries, said("e4", "e2")]))  # goes where the head stands
    assert texts(found) == ["text of e1", "text of e2"]
    found.append({"role": "user", "content": "mine"})
    assert texts(found) == ["text of e1", "text of e2", "mine"]
    assert store.verify().ok


def test_settings_that_the_user_changed_stay_and_others_follow_the_source(store: clew.Store) -> None:
    store.load(session(line("e1"), title="one", model="m1", metadata={"a": 1, "b": 1}))
    found = store.get("other:1")
    found.update(title="mine", metadata={**found.info.metadata, "a": "mine"})
    store.load(session(line("e1"), title="two", model="m2", metadata={"a": 2, "b": 2}))
    assert (found.info.title, found.info.model) == ("mine", "m2")
    assert found.info.metadata == {"a": "mine", "b": 2}


def test_what_only_the_end_told_is_set_too(store: clew.Store) -> None:
    store.load(session(line("e1"), title="early", updates=lambda: {"title": "late", "tags": ["x"]}))
    assert (store.get("other:1").info.title, store.get("other:1").info.tags) == ("late", ("x",))


def test_batches_do_not_change_what_comes_out(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        *line("e1", "e2", "e3"),
        said("e4", "e2"),
        said("e5", "e1"),
        said("e6", "e4"),
        said("e7", "e3"),
    ]
    store.load(session(entries))
    monkeypatch.setattr(load, "AT_ONCE", 1)
    with clew.open("memory:") as other:
        other.load(session(entries))
        assert other.get("other:1").info.hash == store.get("other:1").info.hash
        assert shape(other.get("other:1")) == shape(store.get("other:1"))


def shape(found: clew.Session) -> list[tuple[int, int]]:
    return sorted((branch.first, branch.last) for branch in found.tree().branches)


@pytest.mark.parametrize("cut", range(1, 7))
def test_cut_off_anywhere_and_then_again_is_as_once(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    entries = [*line("e1", "e2", "e3"), said("e4", "e2"), said("e5", "e4"), said("e6", "e3")]
    monkeypatch.setattr(load, "AT_ONCE", 2)

    def until_cut() -> Iterator[SourceEntry]:
        yield from entries[:cut]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.load(SourceSession(id="other:1", entries=until_cut(), head=lambda: "e6"))
    store.load(session(entries, head=lambda: "e6"))
    with clew.open("memory:") as whole:
        whole.load(session(entries, head=lambda: "e6"))
        assert whole.get("other:1").info.hash == store.get("other:1").info.hash
        assert shape(whole.get("other:1")) == shape(store.get("other:1"))
    assert store.verify().ok


def test_a_call_told_of_again_and_again_counts_once_with_its_largest_sum(store: clew.Store) -> None:
    tellings = [SourceUsage(id="c", output_tokens=n) for n in (1, 40, 12)]
    entries = [said("e1", None, usage=tellings[0]), said("e2", "e1", usage=tellings[1])]
    store.load(session([*entries, said("e3", "e2", usage=tellings[2])]))
    totals = store.get("other:1").usage()
    assert (totals.calls, totals.output_tokens) == (1, 40)


def test_a_call_that_was_still_going_on_is_made_up_for(store: clew.Store) -> None:
    part, whole = (SourceUsage(id="c", output_tokens=n) for n in (1, 40))
    store.load(session([said("e1", None, usage=part)]))
    store.load(session([said("e1", None, usage=part), said("e2", "e1", usage=whole)]))
    store.load(session([said("e1", None, usage=part), said("e2", "e1", usage=whole)]))
    assert store.get("other:1").usage().output_tokens == 40


def test_a_sum_that_grows_with_its_session_is_counted_up_to_its_end(store: clew.Store) -> None:
    """Some programs only tell how much all calls of a session took together."""
    told = [(10, "0.5"), (30, "0.75"), (30, "0.75"), (70, "2"), (70, "2.25"), (50, "1"), (90, "2.25")]
    for tokens, cost in told:
        total = SourceUsage(id="all", input_tokens=tokens, cost=cost)
        for _ in range(2):
            store.load(session([said("e1", None)], usage=lambda total=total: [total]))
    totals = store.get("other:1").usage()
    assert (totals.input_tokens, totals.cost, totals.unpriced) == (90, Decimal("2.25"), 0)
    assert [(u.input_tokens, u.cost) for u in store.get("other:1").usage_records()] == [
        (10, Decimal("0.5")), (20, Decimal("0.25")), (40, Decimal("1.25")), (0, Decimal("0.25")), (20, 0)
    ]  # fmt: skip


def test_calls_that_the_parent_counted_are_not_counted_again(store: clew.Store) -> None:
    call = SourceUsage(id="c", output_tokens=7)
    store.load(session([said("e1", None, usage=call)]))
    own = SourceUsage(id="d", output_tokens=1)
    copy = [said("f1", None, usage=call), said("f2", "f1", usage=own)]
    store.load(SourceSession(id="other:2", entries=copy, parent="other:1"))
    assert store.usage().output_tokens == 8


def test_a_child_is_linked_with_its_parent(store: clew.Store) -> None:
    store.load(session(line("e1")))
    for _ in range(2):
        store.load(SourceSession(id="other:1/a", entries=line("e1"), parent="other:1"))
    assert [info.id for info in store.list(where={"parent": "other:1"})] == ["other:1/a"]
    assert [event.data for event in store.get("other:1").events()] == [{"session": "other:1/a"}]


def test_marks_are_marks_and_what_a_compaction_kept_is_in_view(store: clew.Store) -> None:
    mark = SourceEntry(uid="c", parent="e3", kind="compaction", message={"text": "short", "from": "e3"})
    summary = SourceEntry(uid="s", parent="c", kind="summary", message={"text": "all of it"})
    store.load(session([*line("e1", "e2", "e3"), mark, summary, said("e4", "s")]))
    found = store.get("other:1")
    assert [entry.kind for entry in found.entries()] == ["message"] * 3 + ["compaction", "summary", "message"]
    assert found.summary == "all of it"
    context = [message["content"] for message in found.context()]
    assert context == ["short", "text of e3", "text of e4"]


def test_checkpoints_name_the_entries_that_the_source_says(store: clew.Store) -> None:
    points = [SourceCheckpoint(name="cp", entry="e1", at=BEGAN, state={"n": 1})]
    store.load(session(line("e1", "e2"), checkpoints=lambda: points))
    found = store.get("other:1")
    assert (found.get_checkpoint("cp").state, found.get_checkpoint("cp").created_at) == ({"n": 1}, BEGAN)
    found.rewind("cp")
    assert texts(found) == ["text of e1"]


def test_notes_stand_beside_the_message_and_a_label_of_the_source_is_a_note(store: clew.Store) -> None:
    store.load(session([said("e1", None, notes={"cwd": "/w", "label": "L"})]))
    (entry,) = store.get("other:1").entries()
    assert entry.annotations == {"cwd": "/w", "source_label": "L"}
    assert entry.message == {"role": "user", "content": "text of e1"}
    assert store.verify().ok


def test_what_no_person_said_is_told_apart(store: clew.Store) -> None:
    store.load(session([said("e1", None, human=False), said("e2", "e1")]))
    first, second = store.get("other:1").entries()
    assert (first.injected, second.injected) == (True, False)
    assert first.annotations == {}
    assert store.get("other:1").info.title == "text of e2"
    assert store.verify().problems == ()


def test_an_entry_that_can_not_be_kept_costs_itself(store: clew.Store) -> None:
    bad = SourceEntry(uid="e2", parent="e1", message={"role": "user", "content": float("nan")})
    refused: list[str] = []
    entries = [said("e1", None), said("e4", "e1"), bad, said("e3", "e2")]
    store.load(session(entries), on_refused=lambda uid, error: refused.append(uid))
    assert refused == ["e2"]
    assert texts(store.get("other:1")) == ["text of e1", "text of e3"]


def test_a_parent_that_is_not_there_is_the_entry_before(store: clew.Store) -> None:
    store.load(session([said("e1", None), said("e2", "lost"), said("e3", "e2")]))
    assert texts(store.get("other:1")) == ["text of e1", "text of e2", "text of e3"]


def test_another_session_of_that_id_is_refused_or_gets_company(store: clew.Store) -> None:
    store.session("other:1").append({"role": "user", "content": "mine"})
    with pytest.raises(clew.ConflictError):
        store.load(session(line("e1")))
    assert store.load(session(line("e1")), rename=True).id == "other:1~2"
    assert store.load(session(line("e1")), rename=True).state == "unchanged"
    assert texts(store.get("other:1")) == ["mine"]


def test_what_was_deleted_here_does_not_come_back(store: clew.Store) -> None:
    store.load(session(line("e1")))
    store.delete("other:1")
    assert store.load(session(line("e1", "e2"))).state == "trashed"
    assert store.find("other:1") is None
    store.restore_deleted("other:1")
    assert store.load(session(line("e1", "e2"))).entries == 1


def test_a_dry_run_counts_and_writes_nothing(store: clew.Store) -> None:
    assert store.load(session(line("e1", "e2")), dry_run=True).entries == 2
    assert store.find("other:1") is None
    store.load(session(line("e1")))
    assert store.load(session(line("e1", "e2")), dry_run=True).state == "grown"
    assert texts(store.get("other:1")) == ["text of e1"]


def test_a_session_that_somebody_works_on_is_left_alone(store: clew.Store) -> None:
    store.load(session(line("e1")))
    with store.get("other:1").run(), pytest.raises(clew.LeaseHeldError):
        store.load(session(line("e1", "e2")))
    assert store.load(session(line("e1", "e2"))).entries == 1


def test_a_loaded_session_is_copied_with_its_memory(store: clew.Store, tmp_path: Path) -> None:
    store.load(session(line("e1", "e2")))
    with clew.open(tmp_path / "copy.db") as other:
        clew.copy(store, other)
        assert other.load(session(line("e1", "e2", "e3"))).entries == 1
        assert texts(other.get("other:1")) == ["text of e1", "text of e2", "text of e3"]
