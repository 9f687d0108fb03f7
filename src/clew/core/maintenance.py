"""Upkeep of a store: sweep now, or say what a sweep would do; the background thread; purge, scrub, vacuum."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TypeVar

from clew.backends.contract import Transaction
from clew.core.conversation.leftovers import remove_leftovers
from clew.core.engine.engine import Engine, EngineLike
from clew.core.log.lease import Lease
from clew.core.messages.text import for_a_log
from clew.core.retention import purge, records
from clew.core.retention.rules import checked
from clew.core.retention.sweep import Sweep
from clew.errors import ClewError, InvalidError, LeaseHeldError, StoreBusyError, StoreClosedError
from clew.model import Retention, SweepReport, utc

T = TypeVar("T")


# -- sweeping


def check_rules(rules: Retention) -> Retention:
    """Rules for one sweep, which are not kept."""
    rules = checked(rules)
    if rules.max_events is not None:
        raise InvalidError(
            f"max_events={rules.max_events} cannot be a rule of one sweep:"
            " it is applied as events are added; use set_retention"
        )
    return rules


def preview_sweep(engine: EngineLike, once: Retention | None) -> SweepReport:
    """What a sweep would do. Writes nothing."""
    moment = engine.host.moment()
    with engine.read() as reader:
        rules = records.rules_of(reader) if once is None else once
        now = records.time_of(reader, moment)
    sweep = Sweep(engine, rules, now, None, _log, once=once is not None)
    sweep.run()
    return _report(sweep, now, moment.wall, dry_run=True)


def sweep_now(engine: Engine, once: Retention | None, *, scrub: bool) -> SweepReport:
    """Sweep by the rules of the store, or by these. LeaseHeldError: another sweep is under way."""
    report = _sweep(engine, once)
    if scrub:
        scrub_traces(engine)
    return report


def _sweep(engine: Engine, once: Retention | None) -> SweepReport:
    host = engine.host
    moment = host.moment()
    lease, rules, now = engine.run(
        lambda tx: (
            records.take_sweep(tx, host),
            records.rules_of(tx) if once is None else once,
            records.anchor(tx, moment) if once is None else records.time_of(tx, moment),
        )
    )
    is_done = False
    try:
        sweep = Sweep(engine, rules, now, lease, _log, once=once is not None)
        sweep.run()
        is_done = True
    finally:
        _give_back(engine, lease, now if is_done and once is None else None, is_done)
    return _report(sweep, now, moment.wall, dry_run=False)


def _give_back(engine: Engine, lease: Lease, swept: int | None, is_done: bool) -> None:
    try:
        engine.run(lambda tx: records.end_sweep(tx, lease, swept))
    except ClewError:
        if is_done:
            raise
        # The sweep failed, and this must not hide why: the lease ends by itself.


def _report(sweep: Sweep, now: int, wall: int, *, dry_run: bool) -> SweepReport:
    return SweepReport(
        dry_run=dry_run,
        at=utc(now),
        clock_off_by=timedelta(microseconds=wall - now),
        examined=sweep.examined,
        actions=tuple(sweep.actions),
    )


def _log(level: str, message: str, *args: object) -> None:
    import logging  # slow to import

    logging.getLogger("clew.retention").log(getattr(logging, level.upper()), message, *map(for_a_log, args))


class Maintenance:
    """Sweeps a store from time to time. Stop it, use it as a context manager, or close the store."""

    def __init__(self, sweep: Callable[[], SweepReport], every: float) -> None:
        self._sweep = sweep
        self._every = every
        self._stopping = threading.Event()
        self._process = os.getpid()
        self.last_report: SweepReport | None = None
        """Of the last sweep that this thread finished."""
        self.last_error: Exception | None = None
        """Why the last one failed; None: it did not. That another process was sweeping is no failure."""
        self._thread = threading.Thread(target=self._run, name="clew-maintenance", daemon=True)
        self._thread.start()

    def __enter__(self) -> Maintenance:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Maintenance every {self._every:g} s, {'running' if self.is_running else 'stopped'}>"

    @property
    def is_running(self) -> bool:
        return self._process == os.getpid() and self._thread.is_alive() and not self._stopping.is_set()

    def stop(self) -> None:
        """Sweep no more; wait for the sweep under way. Idempotent."""
        if self._process != os.getpid():
            return  # a forked child has no such thread
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.last_report = self._sweep()
                self.last_error = None
            except LeaseHeldError:
                pass  # the process that sweeps does it for us too
            except StoreClosedError:
                return
            except Exception as error:  # noqa: BLE001 (kept and logged; the next sweep may go well)
                self.last_error = error
                self._tell(error)
            self._stopping.wait(self._every)

    @staticmethod
    def _tell(error: Exception) -> None:
        import logging

        logging.getLogger("clew.retention").warning("a sweep failed: %s", for_a_log(error))


# -- leaving no byte


def purge_and_scrub(engine: Engine, work: Callable[[Transaction], T], *, force: bool) -> T:
    """Purge sessions, and leave no byte that only they held."""

    def unless_restoring(tx: Transaction) -> T:
        if force or not purge.may_have_files(tx):
            return work(tx)
        from clew.files.upkeep.erase import unless_cut_off  # only stores with files pay for it

        return unless_cut_off(tx, work)

    result = engine.run(unless_restoring)
    scrub_traces(engine, drops_pending=force)
    return result


def scrub_traces(engine: Engine, *, drops_pending: bool = False) -> bool:
    """Leave no byte of what was purged or removed, by this process or by one that was killed; False: nothing
    was. `drops_pending`: nor of restores that were cut off in sessions that are gone."""
    with engine.read() as reader:
        purged = purge.unscrubbed(reader)
    remove_leftovers(engine)
    with engine.read() as reader:
        has_files = purge.may_have_files(reader)
    if purged is None:
        return False
    failure: ClewError | None = None
    if has_files:
        from clew.files.upkeep.erase import erase_files_of_purged  # only stores with files pay for it

        try:
            erase_files_of_purged(engine, drops_pending=drops_pending)
        except ClewError as exc:  # what else was purged goes all the same
            exc.add_note("the session is removed; what only its files held may be in the store still")
            failure = exc
    engine.backend.scrub()
    if failure is not None:
        raise failure
    engine.run(lambda tx: purge.scrubbed(tx, purged))
    return True


def vacuum(engine: Engine) -> int:
    """Rewrite the store without its free space; how many bytes that gave back."""
    before = engine.backend.bytes_on_disk()
    try:
        if not scrub_traces(engine):
            engine.backend.scrub()
    except StoreBusyError as exc:
        message = f"others use {engine.location}: not all space was given back; try again"
        raise StoreBusyError(message) from exc
    return max(0, before - engine.backend.bytes_on_disk())
