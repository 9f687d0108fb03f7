"""What tests of several subjects ask of a store."""

from __future__ import annotations

from clew.model import RunInfo, SweepReport
from clew.session import Session
from clew.store import Store


def run_of(session: Session) -> RunInfo:
    """The latest run of a session that has had one."""
    run = session.info.run
    assert run is not None
    return run


def status_of(session: Session) -> tuple[str, str | None]:
    """The status, and the error of the run."""
    info = session.info
    return info.status, info.run.error if info.run else None


def done(report: SweepReport) -> list[tuple[str, str]]:
    """What a sweep did, in order."""
    return [(action.verb, action.session) for action in report.actions]


def due(store: Store, id: str) -> int:
    """When a sweep looks at a session next."""
    with store._engine.read() as reader:
        row = reader.find_session(id) or reader.find_session(id, deleted=True)
    assert row is not None
    return row.due
