"""Expiry and retention of a store: the rules, the sweep, its background thread, the log of removals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from clew.backends.contract import Transaction
from clew.core.engine.engine import Engine, EngineLike
from clew.core.log.lease import Lease
from clew.core.messages.characters import for_a_log
from clew.errors import ClewError, InvalidError, InvalidQueryError
from clew.model import Removal, Retention, SweepReport, utc

if TYPE_CHECKING:
    from clew.core.retention.maintenance import Maintenance
    from clew.core.retention.sweep import Sweep

T = TypeVar("T")

MOST_REMOVALS = 2**31


class Upkeep:
    """What `Store` can do about old sessions. Nothing is ever removed unless a rule says so."""

    _scope: EngineLike
    _maintenances: tuple[Maintenance, ...] = ()

    @property
    def retention(self) -> Retention:
        """The rules of this store, for every process that uses it."""
        from clew.core.retention import records

        with self._scope.read() as reader:
            return records.rules_of(reader)

    def set_retention(self, rules: Retention) -> None:
        """Let these rules hold from the next sweep on, instead of those before.

        They are kept in the store, for all who use it. `Retention()` switches everything off.
        """
        from clew.core.retention import records
        from clew.core.retention.rules import checked

        rules = checked(rules)
        moment = self._scope.here.moment()
        self._scope.run(lambda tx: records.set_rules(tx, rules, moment))

    def sweep(
        self, *, rules: Retention | None = None, dry_run: bool = False, scrub: bool = False
    ) -> SweepReport:
        """Do what the rules say, now: expire, trash, purge, remove messages.

        Args:
            rules: Go by these, this once, instead of those of the store. They are not kept; every session
                is looked at. `max_events` can not be one of them: it is applied as events are added.
            dry_run: Only say what would be done. Writes nothing at all.
            scrub: Rewrite the store's file at the end, so that no byte of what was purged or removed
                is left in it. That takes as long as copying it; without it the bytes stay in free
                space until it is used again.

        LeaseHeldError if another sweep of this store is under way.
        """
        if rules is not None:
            rules = _checked_once(rules)
        if dry_run:
            return _looked(self._scope, rules)
        engine = self._scope.outside("Store.sweep()")
        report = _swept(engine, rules)
        if scrub:
            scrub_traces(engine)
        return report

    def maintain(self, *, every: float = 300.0) -> Maintenance:
        """Sweep now and every so many seconds, in a thread of its own, until it is stopped.

        Any number of processes may do this: whoever finds another one sweeping waits for its next turn.
        Closing the store stops it.
        """
        from clew.core.retention.maintenance import Maintenance

        self._scope.outside("Store.maintain()")
        if isinstance(every, bool) or not isinstance(every, (int, float)) or not 0 < every <= 1e9:
            raise InvalidError(f"every must be a number of seconds above 0 and up to 1e9, not {every!r}")
        started = Maintenance(self.sweep, float(every))
        self._maintenances = (*(one for one in self._maintenances if one.is_running), started)
        return started

    def removals(self, *, limit: int = 100) -> list[Removal]:
        """What sweeps have put in the trash, purged and removed; newest first."""
        from clew.core.retention import records

        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidQueryError(f"limit must be a number from 1 on, not {limit!r}")
        with self._scope.read() as reader:
            return records.removals(reader, min(limit, MOST_REMOVALS))

    def _stop_maintenance(self) -> None:
        running, self._maintenances = self._maintenances, ()
        for one in running:
            one.stop()


def scrub_traces(engine: Engine, *, drops_pending: bool = False) -> bool:
    """Leave no byte of what was purged or removed, be it by this process or by a killed one; False: nothing
    was. `drops_pending`: nor of restores that were cut off in sessions that are gone."""
    from clew.core.retention import purge as purge_

    with engine.read() as reader:
        purge = purge_.unscrubbed(reader)
        has_files = purge_.may_have_files(reader)
    if purge is None:
        return False
    failure: ClewError | None = None
    if has_files:
        from clew.files.upkeep.erase import erase_files_of_purged  # only those who keep files pay for it

        try:
            erase_files_of_purged(engine, drops_pending=drops_pending)
        except ClewError as exc:  # what else was purged goes all the same
            exc.add_note("the session is removed; what only its files held may be in the store still")
            failure = exc
    engine.backend.scrub()
    if failure is not None:
        raise failure
    engine.run(lambda tx: purge_.scrubbed(tx, purge))
    return True


def purge_and_scrub(engine: Engine, purge: Callable[[Transaction], T], *, force: bool) -> T:
    """Purge sessions, and leave no byte of what only they held."""

    from clew.core.retention import purge as purge_

    def checked(tx: Transaction) -> T:
        if force or not purge_.may_have_files(tx):
            return purge(tx)
        from clew.files.upkeep.erase import unless_cut_off

        return unless_cut_off(tx, purge)

    result = engine.run(checked)
    scrub_traces(engine, drops_pending=force)
    return result


def _checked_once(rules: Retention) -> Retention:
    from clew.core.retention.rules import checked

    rules = checked(rules)
    if rules.max_events is not None:
        raise InvalidError(
            f"max_events={rules.max_events} cannot be a rule of one sweep:"
            " it is applied as events are added; use set_retention"
        )
    return rules


def _looked(engine: EngineLike, once: Retention | None) -> SweepReport:
    from clew.core.retention import records
    from clew.core.retention import sweep as sweep_

    moment = engine.here.moment()
    with engine.read() as reader:
        rules = records.rules_of(reader) if once is None else once
        now = records.time_of(reader, moment)
    sweep = sweep_.Sweep(engine, rules, now, None, _log, once=once is not None)
    sweep.run()
    return _report(sweep, now, moment.wall, dry_run=True)


def _swept(engine: Engine, once: Retention | None) -> SweepReport:
    from clew.core.retention import records
    from clew.core.retention import sweep as sweep_

    here = engine.here
    moment = here.moment()
    lease, rules, now = engine.run(
        lambda tx: (
            records.take_sweep(tx, here),
            records.rules_of(tx) if once is None else once,
            records.anchor(tx, moment) if once is None else records.time_of(tx, moment),
        )
    )
    is_done = False
    try:
        sweep = sweep_.Sweep(engine, rules, now, lease, _log, once=once is not None)
        sweep.run()
        is_done = True
    finally:
        _give_back(engine, lease, now if is_done and once is None else None, is_done)
    return _report(sweep, now, moment.wall, dry_run=False)


def _give_back(engine: Engine, lease: Lease, swept: int | None, is_done: bool) -> None:
    from clew.core.retention import records

    try:
        engine.run(lambda tx: records.end_sweep(tx, lease, swept))
    except ClewError:
        if is_done:
            raise
        # The sweep failed, and this hides not why: the lease ends by itself.


def _report(sweep: Sweep, now: int, wall: int, *, dry_run: bool) -> SweepReport:
    return SweepReport(
        dry_run=dry_run,
        at=utc(now),
        clock_off_by=timedelta(microseconds=wall - now),
        examined=sweep.examined,
        actions=tuple(sweep.actions),
    )


def _log(level: str, message: str, *args: object) -> None:
    import logging  # costs `import clew` more than all of this module

    logging.getLogger("clew.retention").log(getattr(logging, level.upper()), message, *map(for_a_log, args))
