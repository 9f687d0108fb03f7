"""The decisions of a sweep, without a store: time, verdicts, speech, what a tree can spare."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clew.core.log.lease import Now
from clew.core.log.rows import (
    CLOSED,
    EMPTY,
    EXPIRED,
    NEVER,
    NOT_DUE,
    PENDING,
    RUNNING,
    BranchRow,
    Details,
    SessionRow,
)
from clew.core.log.tree import Paths, Segment, path
from clew.core.retention.old_messages import View, merged, removable, those_that_spare
from clew.core.retention.rules import (
    LOOK_AGAIN,
    TOLERANCE,
    Anchor,
    expiry,
    may_be_silent,
    may_be_speech,
    trusted_time,
    verdict_on,
)
from clew.model import Retention
from tests.support.rows import each_row

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = 1000 * DAY
ONE_DAY = timedelta(days=1)
EVERYTHING = Retention(
    idle_timeout=ONE_DAY, lifetime=ONE_DAY, trash_expired=True, max_idle=ONE_DAY, silent_after=ONE_DAY,
    purge_after=ONE_DAY, message_age=ONE_DAY, max_sessions=1, max_bytes=1, max_messages=1,
    keep_tags=("keep",),
)  # fmt: skip


def session(age: int = 0, idle: int = 0, **changes: Any) -> SessionRow:
    row = SessionRow(1, "s", 1, NOW - age, NOW - idle, None, EMPTY, False, None, False, "", None)
    return msgspec.structs.replace(row, **changes)


def old(idle: int = 9 * DAY, **changes: Any) -> SessionRow:
    return session(9 * DAY, idle, **changes)


def verdict(
    row: SessionRow, rules: Retention, details: Details | None = None, **facts: Any
) -> tuple[list[str], int]:
    """What is to be done with a session, and when it is due again."""
    found = verdict_on(row, details or Details(), rules, NOW, **facts)
    return [step.verb for step in found.steps], found.due


# ── Time ──────────────────────────────────────────────────────────────────────────────────────────

ANCHOR = Anchor(NOW, 7 * HOUR, "boot")


@each_row("wrong", [-400 * DAY, -DAY, -TOLERANCE - 1, TOLERANCE + 1, DAY, 400 * DAY])
def test_f25_a_clock_that_jumped_is_not_believed(wrong: int) -> None:
    """The time that passed is that of the clock which nobody can set."""
    assert trusted_time(Now(NOW + HOUR + wrong, 8 * HOUR, "boot"), ANCHOR) == NOW + HOUR


@each_row("drift", [-TOLERANCE, -1, 0, 1, TOLERANCE])
def test_slow_drift_corrects_itself(drift: int) -> None:
    assert trusted_time(Now(NOW + HOUR + drift, 8 * HOUR, "boot"), ANCHOR) == NOW + HOUR + drift


def test_f25_after_a_restart_time_never_goes_back() -> None:
    assert trusted_time(Now(NOW - DAY, 5, "another boot"), ANCHOR) == NOW
    assert trusted_time(Now(NOW + DAY, 5, "another boot"), ANCHOR) == NOW + DAY


def test_without_a_boot_id_two_steady_clocks_are_not_compared() -> None:
    anchor = Anchor(NOW, 7 * HOUR, "")
    assert trusted_time(Now(NOW + DAY, 0, ""), anchor) == NOW + DAY
    assert trusted_time(Now(NOW - DAY, 0, ""), anchor) == NOW


def test_without_an_anchor_the_clock_is_believed() -> None:
    assert trusted_time(Now(5, 7, "boot"), None) == 5


# ── Verdicts ──────────────────────────────────────────────────────────────────────────────────────


def test_p22_without_rules_nothing_is_ever_due() -> None:
    for status in range(7):
        for deleted in (None, NOW - 300 * DAY):
            row = old(400 * DAY, status=status, deleted=deleted)
            assert verdict(row, Retention()) == ([], NOT_DUE)


@each_row("details", [Details(), Details(tags=("keep",)), Details(expires=1, idle=1)])
def test_what_is_held_is_left_alone_and_looked_at_again_soon(details: Details) -> None:
    row = old(status=RUNNING, fence=5)
    assert verdict(row, EVERYTHING, details, held=True, silent=True) == ([], NOW + LOOK_AGAIN)


@each_row("row", [old(), old(deleted=NOW - 9 * DAY)])
def test_a_tag_exempts_from_every_rule(row: SessionRow) -> None:
    assert verdict(row, EVERYTHING, Details(tags=("x", "keep")), silent=True) == ([], NOT_DUE)
    assert verdict(row, EVERYTHING, Details(tags=("x",)), silent=True)[0] != []


@each_row(
    ("details", "expected"),
    [
        (Details(), NOW + HOUR),  # lifetime: created 23 hours ago
        (Details(expires=NOW + 5), NOW + 5),
        (Details(expires=NOW + 9 * DAY), NOW + 2 * DAY),  # the idle timeout of the store
        (Details(expires=NOW + 9 * DAY, idle=9 * DAY), NOW + 9 * DAY),
        (Details(idle=5), NOW + 5),
        (Details(expires=NEVER, idle=5), NOT_DUE),
    ],
)
def test_the_earlier_end_wins_and_its_own_come_first(details: Details, expected: int) -> None:
    rules = Retention(lifetime=ONE_DAY, idle_timeout=timedelta(days=2))
    assert expiry(session(age=23 * HOUR), details, rules)[0] == expected


def test_a_run_is_left_alone_until_it_ends_or_is_deserted() -> None:
    assert verdict(old(status=RUNNING), EVERYTHING, Details(expires=1)) == ([], NOT_DUE)
    assert verdict(old(status=RUNNING, fence=5), EVERYTHING) == (["interrupt"], 0)


def test_the_moment_itself_is_late_enough_and_the_one_before_is_not() -> None:
    """Of a pending session: the status that a session starts with is one that may expire."""
    rules = Retention(idle_timeout=ONE_DAY)
    assert verdict(old(DAY, status=PENDING), rules) == (["expire"], NOT_DUE)
    assert verdict(old(DAY - 1, status=PENDING), rules) == ([], NOW + 1)


def test_closed_sessions_do_not_expire_but_are_not_kept_for_ever() -> None:
    rules = Retention(idle_timeout=ONE_DAY, lifetime=ONE_DAY, trash_expired=True)
    assert verdict(old(status=CLOSED), rules) == ([], NOT_DUE)
    assert verdict(old(status=CLOSED), Retention(max_idle=ONE_DAY)) == (["trash"], NOT_DUE)


def test_an_expired_session_stays_if_it_was_active_since() -> None:
    """Or got a later end; its lifetime begins anew with what was done in it."""
    idle = Retention(idle_timeout=ONE_DAY, trash_expired=True)
    life = Retention(lifetime=ONE_DAY, trash_expired=True)
    day, hour = NOW - DAY, NOW - HOUR
    trash, later, never = Retention(trash_expired=True), Details(expires=NOW + 5), Details(expires=NEVER)
    assert verdict(old(HOUR, status=EXPIRED), idle, expired_at=day) == ([], hour + DAY)
    assert verdict(old(HOUR, status=EXPIRED), life, expired_at=day) == ([], hour + DAY)
    assert verdict(old(2 * DAY, status=EXPIRED), idle, expired_at=hour) == (["trash"], NOT_DUE)
    assert verdict(old(status=EXPIRED), trash, later, expired_at=day) == ([], NOW + 5)
    assert verdict(old(status=EXPIRED), trash, never, expired_at=day) == ([], NOT_DUE)


def test_the_trash_is_purged_after_its_time_and_not_before() -> None:
    rules = Retention(purge_after=ONE_DAY)
    assert verdict(session(deleted=NOW - DAY), rules) == (["purge"], NOT_DUE)
    assert verdict(session(deleted=NOW - HOUR), rules) == ([], NOW + 23 * HOUR)
    assert verdict(session(idle=9 * DAY), EVERYTHING) == (["expire", "trash"], NOW + DAY)


def test_a_session_stamped_in_the_future_is_not_trashed() -> None:
    """Written by a process whose clock was a day ahead: it may have been active after it expired."""
    rules = Retention(lifetime=ONE_DAY, trash_expired=True)
    assert verdict(old(-DAY), rules) == (["expire"], NOW + DAY)


def test_silence_is_looked_into_only_where_it_matters() -> None:
    rules = Retention(silent_after=ONE_DAY, keep_tags=("keep",))
    quiet = old(2 * DAY)
    spoken = msgspec.structs.replace(quiet, head=msgspec.structs.replace(EMPTY, turns=1))
    assert may_be_silent(quiet, Details(), rules, NOW)
    assert not may_be_silent(session(idle=HOUR), Details(), rules, NOW)
    assert not may_be_silent(spoken, Details(), rules, NOW)
    assert not may_be_silent(quiet, Details(tags=("keep",)), rules, NOW)
    assert not may_be_silent(msgspec.structs.replace(quiet, deleted=5), Details(), rules, NOW)
    assert not may_be_silent(quiet, Details(), Retention(), NOW)
    assert verdict(quiet, rules, silent=False) == ([], NOT_DUE)
    assert verdict(quiet, rules, silent=True) == (["trash"], NOT_DUE)


# ── Speech ────────────────────────────────────────────────────────────────────────────────────────


RESULT = {"type": "tool_result", "tool_use_id": "1", "content": "words"}


@each_row(
    "message",
    [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "image", "source": {"data": "x"}}]},
        {"role": "user", "content": "", "images": ["x"]},
        {"role": "user", "parts": [{"inlineData": {"data": "x"}}]},
        {"role": "user", "parts": [{"unheard": "of"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "go"}]},
        {"role": "user", "content": [{"type": "hologram"}]},
        {"role": "user", "content": {"odd": 1}},
        {"author": "somebody"},
        {"role": "human", "content": "hi"},
        {},
    ],
)  # fmt: skip
def test_what_may_be_a_human_is_one(message: dict[str, Any]) -> None:
    assert may_be_speech(message)


@each_row(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": " \n"},
        {"role": "user", "content": []},
        {"role": "user"},
        {"role": "user", "content": [{"type": "text", "text": " "}]},
        {"role": "user", "content": [RESULT]},
        {"role": "assistant", "content": "hi"},
        {"role": "system", "content": "hi"},
        {"role": "tool", "tool_call_id": "1", "content": "hi"},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
        {"role": "user", "parts": [{"text": " "}]},
    ],
)
def test_what_surely_is_no_human_is_none(message: dict[str, Any]) -> None:
    assert not may_be_speech(message)


# ── What a tree can spare ─────────────────────────────────────────────────────────────────────────


Drawn = tuple[list[BranchRow], list[View]]


@st.composite
def trees(draw: st.DrawFn) -> list[BranchRow]:
    """Branches that leave others, or begin at the root."""
    made = [BranchRow(1, "1", 1, 1, 0, -1)]
    for branch in range(2, 2 + draw(st.integers(0, 12))):
        parent = draw(st.sampled_from([None, *made[-4:]]))
        fork = -1 if parent is None else parent.fork + draw(st.integers(1, 4))
        made.append(BranchRow(branch, str(branch), 1, 1, parent.branch if parent else 0, fork))
    return made


@st.composite
def views(draw: st.DrawFn) -> Drawn:
    made = draw(trees())
    found = []
    for _ in range(draw(st.integers(1, 8))):
        branch = draw(st.sampled_from(made))
        last = draw(st.integers(-1, branch.fork + 5))
        start = draw(st.integers(0, last + 1))
        found.append(View(branch.branch, draw(st.integers(0, start)), start, last))
    return made, found


def places(made: list[BranchRow], view: View) -> list[tuple[int, int]]:
    """The branch of each position of a path."""
    rows = {row.branch: row for row in made}
    segments = path(view.branch, view.last, rows.__getitem__)
    return [(part.branch, position) for part in segments for position in range(part.first, part.last + 1)]


@given(views())
def test_what_goes_is_what_some_view_can_spare_and_none_needs(drawn: Drawn) -> None:
    made, paths = drawn
    spared: set[tuple[int, int]] = set()
    needed: set[tuple[int, int]] = set()
    for view in paths:
        for branch, position in places(made, view):
            is_spared = view.first <= position < view.start
            (spared if is_spared else needed).add((branch, position))
    ranges = removable(Paths(made), paths)
    found = [(each.branch, position) for each in ranges for position in range(each.first, each.last + 1)]
    assert sorted(spared - needed) == found
    assert merged([*ranges, *reversed(ranges)]) == ranges


@given(views(), st.data())
def test_a_view_is_found_to_spare_of_ranges_what_lies_on_its_path(drawn: Drawn, data: st.DataObject) -> None:
    made, paths = drawn
    ranges = [Segment(row.branch, row.fork + 2, row.fork + 3) for row in made if data.draw(st.booleans())]
    inside = {(each.branch, position) for each in ranges for position in range(each.first, each.last + 1)}
    expected = {
        view
        for view in paths
        if any(place in inside for place in places(made, view)[view.first : view.start])
    }
    assert those_that_spare(Paths(made), paths, ranges) == expected


@given(views())
def test_a_place_is_found_on_a_path_as_if_it_was_listed(drawn: Drawn) -> None:
    made, paths = drawn
    for view in paths:
        listed = places(made, view)
        found = Paths(made)
        assert [found.locate(view.branch, position) for _, position in listed] == [b for b, _ in listed]
        assert found.locate(view.branch, -1) == 0
        parts = found.between(view.branch, view.first, view.start - 1)
        assert [
            (part.branch, position) for part in parts for position in range(part.first, part.last + 1)
        ] == [place for place in listed if view.first <= place[1] < view.start]


def test_s52_a_place_on_a_deep_path_is_found_in_few_steps() -> None:
    depth = 100_000
    paths = Paths(BranchRow(n, str(n), 1, 1, n - 1, n - 2) for n in range(1, depth))
    looked_at: list[int] = []

    def is_beyond(row: BranchRow) -> bool:
        looked_at.append(row.branch)
        return row.fork >= wanted

    for wanted in range(0, depth - 2, 9_999):
        looked_at.clear()
        assert paths.rise(depth - 1, is_beyond) == (wanted + 1, wanted + 2)
        assert len(looked_at) < 150


def test_s52_what_many_need_of_a_deep_path_is_added_up_in_few_steps() -> None:
    """Each of these paths lists all branches above it: together they would be thousands of millions."""
    depth = 100_000
    paths = Paths(BranchRow(n, str(n), 1, 1, n - 1, n - 2) for n in range(1, depth))
    spared = removable(paths, [View(n, 0, n - 5, n - 1) for n in range(depth // 2, depth)])
    assert spared == [Segment(n, n - 1, n - 1) for n in range(1, depth // 2 - 4)]
