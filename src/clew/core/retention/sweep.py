"""One sweep: look at the sessions that are due, do what the rules say, say when to look again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Protocol, TypeVar

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.leftovers import remove_leftovers
from clew.core.conversation.points import path_to
from clew.core.engine.engine import EngineLike
from clew.core.engine.host import Host
from clew.core.engine.notices import notice
from clew.core.log import checks
from clew.core.log.lease import Lease
from clew.core.log.rows import (
    EXPIRED,
    MESSAGE,
    NOT_HUMAN,
    REMOVED,
    RUNNING,
    Details,
    HeadRow,
    SessionQuery,
    SessionRow,
)
from clew.core.log.tree import Segment
from clew.core.retention import erase
from clew.core.retention.old_messages import is_over_limit, limits_messages, removes_messages
from clew.core.retention.purge import purge
from clew.core.retention.records import last_swept, note_removals, renew_sweep
from clew.core.retention.rules import (
    DAY,
    TOLERANCE,
    Step,
    Verdict,
    is_kept,
    may_be_silent,
    may_be_speech,
    purge_time,
    verdict_on,
)
from clew.core.runs.access import end_lease, is_held
from clew.core.runs.status import change, decode_change
from clew.errors import CorruptError
from clew.model import Retention, SweepAction

# ── Whether a human ever wrote in a session, its own entries and those that it continues ──────────

CHUNK: Final = 256
"""Entries in memory at once, however long the session is."""


class _Doubt(Exception):
    """An entry cannot be read: it may have been a human's."""


def no_human_spoke(read: Callable[[], AbstractContextManager[Reader]], row: SessionRow) -> bool:
    """True only if every entry was read, and none of them can have been a human's.

    A view of the newest messages would not do: sessions of hundreds of messages were lost to that.
    """
    try:
        with read() as reader:
            ranges = list(_reach(reader, row))
        for each in ranges:
            for first in range(each.first, each.last + 1, CHUNK):
                with read() as reader:
                    if _speaks(reader, each.branch, first, min(each.last, first + CHUNK - 1)):
                        return False
    except (_Doubt, CorruptError, KeyError):
        return False
    return True


def _reach(reader: Reader, row: SessionRow) -> Iterator[Segment]:
    """The path, the branches of this session that were left behind, and what led to those."""
    ends = [(row.head.branch, row.head.position)]
    own = [branch.branch for branch in reader.tree_branches(row.tree) if branch.owner == row.sid]
    ends += [(branch, reader.last_position(branch)) for branch in own]
    longest: dict[int, Segment] = {}
    for end in ends:
        for part in path_to(reader, *end):
            known = longest.get(part.branch)
            if known is None or part.last > known.last:
                longest[part.branch] = part
    return iter(longest.values())


def _speaks(reader: Reader, branch: int, first: int, last: int) -> bool:
    for entry in reader.read_entries(branch, first, last):
        if entry.kind == REMOVED:
            raise _Doubt
        if entry.kind != MESSAGE or entry.flags & NOT_HUMAN:
            continue
        if may_be_speech(checks.message(str(branch), entry.position, entry.body)):
            return True
    return False


# ── A look at one session: all that a verdict on it needs, read outside of any transaction ────────


class Found(msgspec.Struct, frozen=True):
    """A session as it was found, and what is to be done with it."""

    row: SessionRow
    details: Details | None
    """None: they cannot be read, or were not looked at."""
    verdict: Verdict

    @property
    def is_purge(self) -> bool:
        return any(step.verb == "purge" for step in self.verdict.steps)

    def has_details(self, reader: Reader) -> bool:
        """Whether the details are still those that were found."""
        return self.details is None or reader.get_details(self.row.sid) == self.details


def look(
    read: Callable[[], AbstractContextManager[Reader]],
    row: SessionRow,
    rules: Retention,
    now: int,
    host: Host,
) -> Found:
    with read() as reader:
        details = reader.get_details(row.sid)
        held = bool(row.fence) and is_held(reader, row, host)
        expired_at = _expired_at(reader, row)
    silent = None
    if may_be_silent(row, details, rules, now):
        silent = no_human_spoke(read, row)
    verdict = verdict_on(row, details, rules, now, held=held, expired_at=expired_at, silent=silent)
    return Found(row, details, verdict)


def _expired_at(reader: Reader, row: SessionRow) -> int | None:
    if row.status != EXPIRED:
        return None
    newest = reader.scan_records(row.sid, "status", reverse=True, limit=1)
    return decode_change(newest[0][1]).time if newest else None


# ── One sweep: look at the sessions that are due, do what the rules say, say when to look again ───
# Small transactions: each leaves every session as it was or as it should be, so that a sweep may be
# killed anywhere and the next one goes on. What was decided from a look outside the transaction is done
# only if the session is still as it was then; else it is left for the next sweep.

BATCH: Final = 200
AT_ONCE: Final = 50
"""Sessions of a batch that are changed in one transaction: others write in between."""
FEW: Final = 20
"""Sessions of a tree that is looked at again for each batch in which one of them is."""
BY: Final = "clew sweep"

T = TypeVar("T")


class Sweep:
    """One sweep by one set of rules, at one time."""

    def __init__(
        self,
        engine: EngineLike,
        rules: Retention,
        now: int,
        lease: Lease | None,
        log: Log,
        *,
        once: bool = False,
    ) -> None:
        """`lease` None: a dry run, which writes nothing. `once`: these are not the rules of the store; every
        session is looked at, and when those rules look again at what was changed is not put off."""
        self._engine = engine
        self._host = engine.host
        self._rules = rules
        self._now = now
        self._lease = lease
        self._log = log
        self._once = once
        self._gone: set[int] = set()
        """Of a dry run: what would be in the trash by now, or purged."""
        self._planned: set[int] = set()
        """Of a dry run: trees whose messages were counted."""
        self._looked_at = Recent()
        self.examined = 0
        self.actions: list[SweepAction] = []

    def run(self) -> None:
        with self._engine.read() as reader:
            swept = last_swept(reader)
        if self._lease is not None:
            remove_leftovers(self._engine, self._renew)  # of a purge that was cut off
        for rows in self._all() if self._once else self._due():
            self.examined += len(rows)
            found = [self._look(row) for row in rows]
            self._settle(found)
            if removes_messages(self._rules):
                self._remove_messages(found)
        self._make_room()
        if limits_messages(self._rules) and not self._once:
            for rows in self._active_since(swept - TOLERANCE):
                for tree, members in _by_tree(row for row in rows if is_over_limit(row, self._rules)).items():
                    self._remove_from(tree, members)

    # -- looking

    def _due(self) -> Iterator[list[SessionRow]]:
        after = (-1, 0)
        while True:
            with self._engine.read() as reader:
                rows = reader.due_sessions(self._now, BATCH, after=after)
            if not rows:
                return
            yield rows
            after = (rows[-1].due, rows[-1].sid)

    def _all(self) -> Iterator[list[SessionRow]]:
        """The trash first: what goes there now does not have to be looked at again."""
        after: tuple[int, str] | None = None
        while True:
            query = SessionQuery(limit=BATCH, deleted=True, after=after)
            with self._engine.read() as reader:
                rows = [one.row for one in reader.list_sessions(query)]
            if not rows:
                break
            yield rows
            after = (rows[-1].deleted or 0, rows[-1].id)
        after = None
        while True:
            with self._engine.read() as reader:
                query = SessionQuery(limit=BATCH, oldest=True, after=after)
                rows = [one.row for one in reader.list_sessions(query)]
            if not rows:
                return
            yield rows
            after = (rows[-1].updated, rows[-1].id)

    def _active_since(self, moment: int) -> Iterator[list[SessionRow]]:
        """Appends do not make a session due: a session that may have too many messages now was active."""
        after: tuple[int, str] | None = None
        while True:
            with self._engine.read() as reader:
                listed = reader.list_sessions(SessionQuery(limit=BATCH, after=after))
            rows = [one.row for one in listed if one.row.updated >= moment]
            yield rows
            if len(rows) < BATCH:
                return
            after = (rows[-1].updated, rows[-1].id)

    def _look(self, row: SessionRow) -> Found:
        try:
            return look(self._engine.read, row, self._rules, self._now, self._host)
        except CorruptError as error:
            return Found(row, None, self._leave_alone(row, error))

    def _leave_alone(self, row: SessionRow, error: CorruptError) -> Verdict:
        """What cannot be read is kept, and must not stop the sweep of others."""
        self._log("warning", "session %r is left alone: %s", row.id, error)
        return Verdict(due=self._now + DAY)

    # -- sessions

    def _settle(self, found: Sequence[Found]) -> None:
        """Do what was decided: a few sessions in each transaction, and each purge in one of its own."""
        for one in found:
            if one.verdict.steps:
                self._looked_at.forget(one.row.tree)
        purges = [one for one in found if one.is_purge]
        others = [one for one in found if not one.is_purge]
        if self._lease is None:
            for one in (*others, *purges):
                self._pretend(one)
            return
        for first in range(0, len(others), AT_ONCE):
            self._settle_together(others[first : first + AT_ONCE])
        for one in purges:
            self._settle_together([one])
        if purges:
            remove_leftovers(self._engine, self._renew)

    def _settle_together(self, found: Sequence[Found]) -> None:
        if not found:
            return
        try:
            actions = self._engine.run_in_turn(partial(self._apply_all, found=found))
        except CorruptError as error:
            if len(found) == 1:
                postponed = msgspec.structs.replace(found[0], verdict=self._leave_alone(found[0].row, error))
                actions = self._engine.run_in_turn(partial(self._apply_all, found=[postponed]))
            else:
                for one in found:
                    self._settle_together([one])
                return
        self._note(actions)

    def _pretend(self, one: Found) -> None:
        self.actions += _actions(one.row, one.verdict.steps)
        if {step.verb for step in one.verdict.steps} & {"trash", "purge"}:
            self._gone.add(one.row.sid)

    def _apply_all(self, tx: Transaction, found: Sequence[Found]) -> list[SweepAction]:
        self._renew(tx)
        done = [action for one in found for action in self._apply(tx, one)]
        note_removals(tx, done, self._now)
        return done

    def _apply(self, tx: Transaction, one: Found) -> list[SweepAction]:
        """Where there are rules for messages, those are looked at next: only then is `due` known."""
        row = tx.get_session(one.row.sid)
        if row is None or not self._is_as_found(tx, row, one):
            return []
        verdict = one.verdict
        for step in verdict.steps:
            match step.verb:
                case "purge":
                    purge(tx, row)
                    return _actions(row, verdict.steps)
                case "interrupt":
                    end_lease(tx, row, self._host, by=BY)
                    return _actions(row, verdict.steps)
                case "expire":
                    row = change(tx, row, EXPIRED, self._now, by=BY)
                    notice(tx, row.sid, self._host.now())
                case "trash":
                    row = msgspec.structs.replace(row, deleted=max(self._now, row.updated))
        if verdict.steps:
            tx.set_session(msgspec.structs.replace(row, due=0 if self._once else verdict.due))
        elif row.due != verdict.due and not removes_messages(self._rules) and not self._once:
            tx.set_due(row.sid, verdict.due)
        return _actions(row, verdict.steps)

    def _is_as_found(self, tx: Transaction, row: SessionRow, one: Found) -> bool:
        if row != one.row or not one.has_details(tx):
            return False
        return not row.fence or not one.verdict.steps or not is_held(tx, row, self._host)

    # -- too many sessions

    def _make_room(self) -> None:
        """Trash the sessions without activity for the longest time until what is left is within bounds."""
        rules = self._rules
        if rules.max_sessions is None and rules.max_bytes is None:
            return
        count, size = self._kept()
        batch: list[Found] = []
        for row in self._idle():
            too_many = rules.max_sessions is not None and count > rules.max_sessions
            too_large = rules.max_bytes is not None and size > rules.max_bytes
            if not too_many and not too_large:
                break
            limit = f"{rules.max_sessions} sessions" if too_many else f"{rules.max_bytes} bytes"
            found = self._spare(row, f"more than {limit}")
            if found is not None:
                batch.append(found)
                count, size = count - 1, size - row.head.size
            if len(batch) == BATCH:
                self._settle(batch)
                batch = []
        self._settle(batch)

    def _kept(self) -> tuple[int, int]:
        """How many sessions are not in the trash, and their size."""
        if self._lease is not None:
            with self._engine.read() as reader:
                totals = reader.totals(self._now, log=False)
                return totals.sessions, totals.kept_size
        sizes = [row.head.size for row in self._idle()]
        return len(sizes), sum(sizes)

    def _idle(self) -> Iterator[SessionRow]:
        after: tuple[int, str] | None = None
        while True:
            with self._engine.read() as reader:
                query = SessionQuery(limit=BATCH, oldest=True, after=after)
                rows = [one.row for one in reader.list_sessions(query)]
            yield from (row for row in rows if row.sid not in self._gone)
            if not rows:
                return
            after = (rows[-1].updated, rows[-1].id)

    def _spare(self, row: SessionRow, reason: str) -> Found | None:
        """The session, to be put in the trash; None: it must stay."""
        with self._engine.read() as reader:
            details = reader.get_details(row.sid)
        if row.status == RUNNING or row.fence or is_kept(details, self._rules):
            return None
        due = purge_time(max(self._now, row.updated), self._rules)
        return Found(row, details, Verdict((Step("trash", reason),), due))

    # -- messages

    def _remove_messages(self, found: Sequence[Found]) -> None:
        """Remove messages from the trees of these sessions, and say when each is due again."""
        found = [one for one in found if not one.is_purge]
        trees = _by_tree(one.row for one in found)
        dues = {tree: self._remove_from(tree, members) for tree, members in trees.items()}
        if self._lease is not None and found and not self._once:
            self._engine.run_in_turn(partial(self._set_dues, found=found, dues=dues))

    def _remove_from(self, tree: int, members: Sequence[SessionRow]) -> int:
        """Remove what may go of a tree, unless that was done since these sessions of it are as they are; when
        it is due again."""
        known = self._looked_at.due(tree, members)
        if known is not None:
            return known
        try:
            with self._engine.read() as reader:
                plan = erase.plan(reader, self._host, tree, self._rules, self._now, self._gone)
            if plan.messages and self._lease is None and tree not in self._planned:
                self._planned.add(tree)
                self.actions.append(_removal(plan, plan.messages))
            elif plan.messages and self._lease is not None and not self._erase(tree, plan):
                return 0
        except CorruptError as error:
            with self._engine.read() as reader:
                names = ", ".join(repr(row.id) for row in reader.tree_sessions(tree))
            self._log("warning", "the messages of %s are left alone: %s", names, error)
            return self._now + DAY
        self._looked_at.note(tree, plan)
        return plan.due

    def _erase(self, tree: int, plan: erase.Plan) -> bool:
        """False: another writer changed the tree meanwhile."""

        def some(tx: Transaction) -> int | None:
            self._renew(tx)
            count = erase.erase(tx, self._host, tree, self._rules, plan)
            if count:
                note_removals(tx, [_removal(plan, count)], self._now)
            return count

        total, count = 0, self._engine.run_in_turn(some)
        while count:
            total += count
            if count < erase.AT_ONCE:
                break
            count = self._engine.run_in_turn(some)
        if total:
            self._note([_removal(plan, total)])
        return count is not None

    def _set_dues(self, tx: Transaction, *, found: Sequence[Found], dues: Mapping[int, int]) -> None:
        self._renew(tx)
        for one in found:
            due, row = dues[one.row.tree], tx.get_session(one.row.sid)
            if row is None:
                continue
            known = msgspec.structs.replace(one.row, preview=row.preview)
            if one.verdict.steps:
                # It was changed by this sweep, which has set its due: only messages may come sooner.
                if due < row.due and row.due == one.verdict.due and row.updated == one.row.updated:
                    tx.set_due(row.sid, due)
            elif row == known and one.has_details(tx):
                tx.set_due(row.sid, min(due, one.verdict.due))

    # -- what was done

    def _renew(self, tx: Transaction) -> None:
        if self._lease is not None:
            renew_sweep(tx, self._lease, self._host)

    def _note(self, actions: Sequence[SweepAction]) -> None:
        self.actions += actions
        for action in actions:
            self._log("info", "%s %r: %s", action.verb, action.session, action.reason)


class Recent:
    """The trees that this sweep has looked at: one with many sessions must not be looked at for each batch of
    them. Small ones are not kept in mind, so that a large store takes no more memory."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[int, dict[int, tuple[HeadRow, int, bool]]]] = {}

    def note(self, tree: int, plan: erase.Plan) -> None:
        if len(plan.members) > FEW:
            rows = {sid: (head, updated, is_live) for sid, head, updated, is_live, _ in plan.members}
            self._plans[tree] = plan.due, rows

    def forget(self, tree: int) -> None:
        """One of its sessions is changed by this sweep."""
        self._plans.pop(tree, None)

    def due(self, tree: int, members: Sequence[SessionRow]) -> int | None:
        """None: it was not looked at, or one of these sessions is not as it was then."""
        due, rows = self._plans.get(tree, (0, {}))
        is_same = all(rows.get(row.sid) == (row.head, row.updated, row.deleted is None) for row in members)
        return due if rows and is_same else None


def _by_tree(rows: Iterable[SessionRow]) -> dict[int, list[SessionRow]]:
    trees: dict[int, list[SessionRow]] = {}
    for row in rows:
        trees.setdefault(row.tree, []).append(row)
    return trees


class Log(Protocol):
    def __call__(self, level: str, message: str, *args: object) -> None: ...


def _actions(row: SessionRow, steps: Sequence[Step]) -> list[SweepAction]:
    return [SweepAction(verb=step.verb, session=row.id, reason=step.reason) for step in steps]


def _removal(plan: erase.Plan, count: int) -> SweepAction:
    return SweepAction(verb="remove_messages", session=plan.session, reason=plan.reason, messages=count)
