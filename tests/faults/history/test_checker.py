"""A checker that has never failed proves nothing: one planted bug for each of its rules."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import clew
from clew.core.conversation import append as appending
from tests.faults.crash.common import message, texts
from tests.faults.history.checker import History, Operation, Outcome, Record, check, log_of, outcome_of


def log(*values: str) -> list[Record]:
    """A log without a fault."""
    return [Record(value, n, f"id{n}", f"id{n - 1}" if n else None) for n, value in enumerate(values)]


def write(at: int, *values: str, until: int | None = None, outcome: Outcome = "ok") -> Operation:
    ended = at + 1 if until is None else until
    return Operation("writer", "append", "s", list(values), at, ended, outcome)


def read(at: int, *values: str, client: str = "reader") -> Operation:
    return Operation(client, "read", "s", list(values), at, at + 1, "ok")


def rules(operations: Sequence[Operation], found: Sequence[Record]) -> set[str]:
    return {violation.rule for violation in check(operations, {"s": found})}


GOOD = [write(0, "a"), write(2, "b", "c"), write(4, "d", outcome="fail"), write(6, "e", outcome="unknown")]


@pytest.mark.parametrize("found", [log("a", "b", "c"), log("a", "b", "c", "e")])
def test_a_history_that_keeps_every_promise_has_no_violation(found: list[Record]) -> None:
    reads = [read(1), read(2, "a"), read(5, "a", "b", "c"), read(3, "a", client="other")]

    assert check([*GOOD, *reads], {"s": found}) == []


def test_j1_finds_an_acknowledged_entry_that_is_lost() -> None:
    assert rules(GOOD, log("b", "c")) == {"J1"}


def test_j1_finds_an_acknowledged_entry_that_is_there_twice() -> None:
    assert rules(GOOD, log("a", "b", "c", "a")) >= {"J1"}


def test_j1_finds_a_session_that_is_lost_as_a_whole() -> None:
    assert {violation.rule for violation in check(GOOD, {})} == {"J1"}


def test_j2_finds_a_refused_entry_in_the_log() -> None:
    assert rules(GOOD, log("a", "b", "c", "d")) == {"J2"}


def test_j2_finds_an_entry_of_unknown_outcome_that_is_there_twice() -> None:
    assert rules(GOOD, log("a", "b", "c", "e", "e")) == {"J2"}


def test_j3_finds_an_entry_that_nobody_wrote() -> None:
    assert rules(GOOD, log("a", "b", "c", "ghost")) == {"J3"}


def test_j3_finds_an_entry_of_another_session() -> None:
    violations = check([write(0, "a")], {"s": log("a"), "other": log("a")})

    assert [(violation.rule, violation.session) for violation in violations] == [("J3", "other")]


@pytest.mark.parametrize("positions", [(0, 1, 3), (1, 2, 3), (0, 1, 1)])
def test_j4_finds_gaps_and_repeated_positions(positions: tuple[int, ...]) -> None:
    found = [
        msgspec.structs.replace(record, position=position)
        for record, position in zip(log("a", "b", "c"), positions, strict=True)
    ]

    assert rules(GOOD, found) == {"J4"}


@pytest.mark.parametrize(("place", "parent"), [(2, "nowhere"), (2, None), (1, "id2"), (1, "id1")], ids=repr)
def test_j5_finds_parents_that_are_missing_later_or_circular(place: int, parent: str | None) -> None:
    found = log("a", "b", "c")
    found[place] = msgspec.structs.replace(found[place], parent=parent)

    assert rules(GOOD, found) == {"J5"}


def test_j5_finds_two_entries_with_one_id() -> None:
    found = log("a", "b", "c")
    found[2] = msgspec.structs.replace(found[2], id="id1")

    assert rules(GOOD, found) == {"J5"}


def test_j6_finds_an_entry_before_one_that_was_acknowledged_earlier() -> None:
    assert rules([write(0, "a"), write(2, "b")], log("b", "a")) == {"J6"}


def test_j6_allows_any_order_of_appends_that_ran_at_the_same_time() -> None:
    assert rules([write(0, "a", until=5), write(2, "b", until=9)], log("b", "a")) == set()


def test_j6_looks_beyond_the_next_neighbour() -> None:
    operations = [write(0, "a"), write(1, "x", until=9), write(5, "b", until=9)]

    assert rules(operations, log("b", "x", "a")) == {"J6"}


def test_j7_finds_a_read_that_is_no_prefix() -> None:
    assert rules([*GOOD, read(1, "b")], log("a", "b", "c")) == {"J7"}


def test_j7_finds_a_client_that_sees_less_than_before() -> None:
    overlapping = [write(0, "a"), write(2, "b", until=20)]

    assert rules([*overlapping, read(5, "a", "b"), read(7, "a")], log("a", "b")) == {"J7"}


def test_j7_finds_a_read_that_misses_what_was_acknowledged_before_it_began() -> None:
    assert rules([write(0, "a"), write(2, "b"), read(9, "a")], log("a", "b")) == {"J7"}


def leased(client: str, epoch: int, *values: str) -> Operation:
    return Operation(client, "append", "s", list(values), 0, 99, "ok", epoch)


def log_under(**epochs: int) -> list[Record]:
    """A log of these values, each under its epoch."""
    return [
        msgspec.structs.replace(record, epoch=epoch)
        for record, epoch in zip(log(*epochs), epochs.values(), strict=True)
    ]


def test_j8_allows_epochs_that_grow_and_entries_without_one_between_them() -> None:
    operations = [leased("one", 1, "a", "b"), leased("two", 3, "d"), leased("outside", 0, "c")]

    assert rules(operations, log_under(a=1, b=1, c=0, d=3)) == set()


def test_j8_finds_an_epoch_that_is_smaller_than_one_before_it() -> None:
    """Even with an entry without one in between."""
    operations = [leased("one", 1, "a"), leased("two", 2, "b"), leased("x", 0, "c"), leased("one", 1, "d")]

    assert rules(operations, log_under(a=1, b=2, c=0, d=1)) == {"J8"}


def test_j8_finds_two_owners_of_one_epoch() -> None:
    operations = [leased("one", 1, "a"), leased("two", 1, "b")]

    assert rules(operations, log_under(a=1, b=1)) == {"J8"}


@pytest.mark.parametrize(("asked", "found"), [(1, 0), (1, 2), (0, 1)])
def test_j8_finds_an_entry_whose_epoch_is_not_that_of_its_writer(asked: int, found: int) -> None:
    assert rules([leased("one", asked, "a")], log_under(a=found)) == {"J8"}


def talk(*parts: str) -> list[Record]:
    """A log of calls ("?x") and results ("!x")."""
    return [
        msgspec.structs.replace(
            record,
            calls=[part[1:]] if part[0] == "?" else [],
            results=[part[1:]] if part[0] == "!" else [],
        )
        for record, part in zip(log(*map(str, range(len(parts)))), parts, strict=True)
    ]


@pytest.mark.parametrize(
    "parts", [("?x", "!x"), ("?x", "?y", "!y", "!x"), ("?x",), ("?x", "!x", "?x", "!x")], ids=" ".join
)
def test_j9_allows_results_behind_their_calls_and_calls_that_still_wait(parts: tuple[str, ...]) -> None:
    assert rules([write(0, *map(str, range(len(parts))))], talk(*parts)) == set()


@pytest.mark.parametrize("parts", [("!x", "?x"), ("?y", "!x"), ("?x", "!x", "!x")], ids=" ".join)
def test_j9_finds_a_result_before_without_or_twice_behind_its_call(parts: tuple[str, ...]) -> None:
    assert rules([write(0, *map(str, range(len(parts))))], talk(*parts)) == {"J9"}


def test_the_log_of_a_session_tells_epochs_calls_and_results() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    with clew.open("memory:") as store:
        session = store.session("s")
        session.append(message("without"))
        with session.run() as run:
            run.append({"role": "assistant", "content": "asks", "tool_calls": [call]})
            run.append({"role": "tool", "content": "answers", "tool_call_id": "c1"})

        found = log_of(session)

    assert [record.epoch for record in found] == [0, 1, 1]
    assert [len(record.calls) for record in found] == [0, 1, 0]
    assert found[2].results == found[1].calls


def test_p2_finds_half_a_batch() -> None:
    assert rules([write(0, "a"), write(2, "b", "c", outcome="unknown")], log("a", "b")) == {"P2"}


def test_p2_finds_a_batch_with_something_in_between() -> None:
    operations = [write(0, "a", "b", until=9), write(1, "x", until=9)]

    assert rules(operations, log("a", "x", "b")) == {"P2"}


def test_the_outcome_of_an_error_is_known_only_if_the_store_says_so() -> None:
    assert outcome_of(clew.HeadMovedError("a", "b")) == "fail"
    assert outcome_of(clew.OutcomeUnknownError("?")) == "unknown"
    assert outcome_of(KeyboardInterrupt()) == "unknown"


def test_a_history_notes_what_a_client_is_told() -> None:
    ticks = itertools.count()
    history = History(clock=lambda: next(ticks))

    def refuse() -> None:
        raise clew.StoreBusyError("busy")

    with history.append("me", "s", ["a"]):
        pass
    with pytest.raises(clew.StoreBusyError), history.append("me", "s", ["b"]):
        refuse()
    history.invoke("me", "s", ["c"])
    history.read("me", "s", lambda: ["a"])

    noted = [(o.kind, o.values, o.invoked, o.ended, o.outcome) for o in history.operations]
    assert noted[0] == ("append", ["a"], 0, 1, "ok")
    assert noted[1] == ("append", ["b"], 2, 3, "fail")
    assert noted[2][4] == "unknown"
    assert noted[3] == ("read", ["a"], 5, 6, "ok")


# Bugs planted in the store itself


def storm(store: clew.Store) -> set[str]:
    """The rules that are broken when four clients append and read at once."""
    session = store.session("s")
    history = History()

    def client(name: str) -> None:
        for number in range(15):
            values = [f"{name}.{number}.{part}" for part in range(1 + number % 2)]
            with history.append(name, "s", values):
                session.append(*map(message, values))
            history.read(name, "s", lambda: texts(session))

    threads = [threading.Thread(target=client, args=(f"c{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {violation.rule for violation in check(history.operations, {"s": log_of(session)})}


def test_a_storm_on_a_sound_store_breaks_no_rule() -> None:
    with clew.open("memory:") as store:
        assert storm(store) == set()


@pytest.mark.parametrize(
    ("bug", "expected"),
    [("drops", "J1"), ("repeats", "J1"), ("reorders", "P2"), ("invents", "J3")],
)
def test_a_storm_finds_a_bug_planted_in_append(
    bug: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = appending.place
    count = itertools.count()

    def place(tx: Any, row: Any, drafts: Sequence[Any], now: int, epoch: int) -> Any:
        drafts = list(drafts)
        if next(count) % 2:
            match bug:
                case "drops":  # the rest of a batch
                    drafts = drafts[:1]
                case "repeats":
                    drafts = [*drafts, drafts[0]]
                case "reorders":
                    drafts = drafts[::-1]
                case "invents":
                    drafts = [*drafts, msgspec.structs.replace(drafts[0], body=b'{"content":"ghost"}')]
        return sound(tx, row, drafts, now, epoch)

    monkeypatch.setattr(appending, "place", place)

    with clew.open("memory:") as store:
        assert expected in storm(store)


def test_a_storm_finds_reads_of_a_past_that_was_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: reads come from a head that was remembered, not from the one that is stored."""
    with clew.open("memory:") as store:
        seen: list[list[str]] = []

        def stale(session: clew.Session) -> list[str]:
            seen.append([str(found["content"]) for found in session.messages()])
            return seen[len(seen) // 2]

        monkeypatch.setitem(globals(), "texts", stale)

        assert "J7" in storm(store)
