"""Tools for tests of leases: processes that can be spoken to, diaries that outlive them, planted bugs.

Imports no pytest: the processes that the tests start import it too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import msgspec

import clew
from clew.core.conversation import append, checkpoints, moves, points
from clew.core.conversation.checkpoints import list_checkpoints
from clew.core.engine import host
from clew.core.engine.host import Host
from clew.core.log.lease import Lease, Now
from clew.core.runs import lease
from clew.core.runs.access import lease_of, live, refuse_if_held
from clew.run import Run
from tests.faults.history.checker import History, Kind, Operation, Outcome
from tests.support.children import Child, ProcessFailed
from tests.support.waiting import until as wait_until

Tell = Callable[[Any], None]
Listen = Callable[[], None]

DEADLINE = 300.0
OFTEN = 1200
"""Renewals of a lease while it lasts: of one of a minute, one every 50 ms."""


def at_moment(steady: int) -> Any:
    """The time by which leases are measured stands still in this process."""
    return mock.patch.object(Host, "moment", lambda self: Now(self.now(), steady, self.domain))


class Worker(Child):
    """A fork that can be spoken to: its function gets `tell`, and `listen` to wait for a word."""

    def __init__(self, function: Callable[..., None], *args: Any) -> None:
        self.diary: list[Any] = []
        ear, self._mouth = os.pipe()
        super().__init__(_with_ear, ear, self._mouth, function, *args)
        os.close(ear)

    def say_go(self) -> None:
        os.write(self._mouth, b".")

    def hear_word(self) -> Any:
        """The next thing it says; what it notes in its diary is put aside."""
        while True:
            told = self.hear()
            if not (isinstance(told, list) and told[0] in ("asked", "ended")):
                return told
            self.diary.append(told)

    def freeze(self, path: str) -> None:
        """Stop it, yet not in the middle of a transaction: nobody else could write then."""
        while True:
            self.kill(signal.SIGSTOP)
            wait_until(lambda: state_of(self.pid) == "T")
            if not _is_being_written(path):
                return
            self.kill(signal.SIGCONT)

    def end(self) -> None:
        """Kill and collect it."""
        if self.status is None:
            self.kill()
        self.wait()


def _with_ear(tell: Tell, ear: int, mouth: int, function: Callable[..., None], *args: Any) -> None:
    os.close(mouth)

    def listen() -> None:
        if not os.read(ear, 1):
            os._exit(3)  # whoever started this worker is gone

    function(tell, listen, *args)


def state_of(pid: int) -> str:
    """What the kernel says of a process: T when it is stopped, Z when it waits to be collected."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _is_being_written(path: str) -> bool:
    connection = apsw.Connection(path)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return True
    finally:
        connection.close()
    return False


class Diary(History):
    """A history that outlives its writer: each line is told before the next step is made."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    def invoke(
        self, client: str, session: str, values: Sequence[str] = (), kind: Kind = "append", *, epoch: int = 0
    ) -> Operation:
        operation = super().invoke(client, session, values, kind, epoch=epoch)
        self._tell(["asked", operation])
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        super().end(operation, outcome)
        self._tell(["ended", operation.ended, outcome])

    def write(self, run: Run, *messages: dict[str, Any], key: str | None = None) -> None:
        """Append under the lease of a run, and note it."""
        values = [str(each["content"]) for each in messages]
        with self.append(run.owner, run.id, values, epoch=run.epoch):
            run.append(*messages, key=key)


def operations_in(diary: Sequence[Any]) -> list[Operation]:
    """What a worker noted, up to where it was killed."""
    operations: list[Operation] = []
    for line in diary:
        if line[0] == "asked":
            operations.append(msgspec.convert(line[1], Operation))
        elif line[0] == "ended":
            operations[-1].ended, operations[-1].outcome = line[1], line[2]
    return operations


def lease_record(session: clew.Session) -> Lease | None:
    """The lease as it is kept, over or not."""
    with session._engine.read() as reader:
        return lease_of(reader, live(reader, session._sid, session.id))


def until(session: clew.Session) -> int:
    """When the lease that is kept is over, by the machine's clock."""
    lease = lease_record(session)
    if lease is None:
        raise ProcessFailed(f"nobody holds the lease of {session.id!r}")
    return lease.until


def statuses(session: clew.Session) -> list[list[str]]:
    return [[change.status, change.by] for change in session.status_changes()]


def _bugs() -> dict[str, list[tuple[Any, str, Any]]]:
    """What to replace for each bug: in what, which name, by what."""
    return {
        "": [],
        "the fence is not compared": [
            (append, "require_write", lambda tx, access: live(tx, access.sid, access.id))
        ],
        "held leases are seen only before the transaction": [
            (lease, "refuse_early", lambda tx, a: refuse_if_held(tx, live(tx, a.sid, a.id), a.host)),
            (lease, "refuse_if_held", lambda tx, row, host: None),
        ],
        "nobody is ever gone": [(Host, "is_gone", lambda self, holder, domain: False)],
        "numbers of any namespace are believed": [(host, "_namespace", lambda *kind: "everywhere")],
        "leases are told by the wall clock": [(host, "machine_clock", host.wall_clock)],
        "a rewind does not last": [
            (
                moves,
                "rewind",
                lambda tx, access, to, now: points.head_of(tx, live(tx, access.sid, access.id).head),
            )
        ],
        "resumes from the oldest checkpoint": [
            (checkpoints, "_newest", lambda reader, row: next(iter(list_checkpoints(reader, row)), None))
        ],
    }


def plant(bug: str) -> None:
    """Put a bug into this process, for good, to see that it is found."""
    for target, name, value in _bugs()[bug]:
        mock.patch.object(target, name, value).start()
