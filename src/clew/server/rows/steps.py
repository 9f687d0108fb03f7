"""A list of calls carried out over a backend: the same for reads, whole transactions and those held open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clew.backends.contract import Reader, Stale, Transaction
from clew.backends.http.calls import Step
from clew.backends.http.calls.base import Call, Write
from clew.backends.http.calls.beside import DropRecord, PutRecord
from clew.backends.http.calls.sessions import DropSession
from clew.backends.http.errors import problem_of
from clew.backends.http.wire import Answers, digest_of, encode
from clew.core.log.grants import GRANTS
from clew.errors import BackendError, ClewError, ConflictError
from clew.server.access import audit
from clew.server.access.principal import Principal
from clew.server.rows.soundness import Soundness

BROKEN: Final = "the storage of the server failed; its log says how"


class RowsChangedError(ConflictError):
    """What the client relied upon is not so any more; nothing was written. The client runs it again."""

    code = "rows_changed"

    def __init__(self) -> None:
        super().__init__("what this transaction relied upon has changed; nothing was written")


class Caller(msgspec.Struct, frozen=True):
    """Who makes the calls, and whether they are checked."""

    principal: Principal
    is_checked: bool = True
    """Writes must fit what is there. Only tests of the contract alone, which write rows that Clew would not,
    go without."""


def note(principal: Principal, calls: Sequence[Call[Any]]) -> None:
    """Leave a line in the log for what cannot be taken back, and for whom is let in."""
    for call in calls:
        if isinstance(call, DropSession):
            audit.note("removes a session", by=principal.name, number=str(call.sid))
        elif isinstance(call, PutRecord | DropRecord) and call.kind in GRANTS:
            done = "makes" if isinstance(call, PutRecord) else "removes"
            audit.note(f"{done} a {call.kind}", by=principal.name, id=call.name)


def read(reader: Reader, calls: Sequence[Call[Any]]) -> Answers:
    """Calls that only read. The first error ends it, and is told of."""
    answers: list[msgspec.Raw] = []
    for call in calls:
        try:
            answers.append(_answer(reader, call))
        except ClewError as error:
            return Answers(answers=answers, problem=problem_of(error))
    return Answers(answers=answers)


class Stepper:
    """Carries out the steps of one transaction."""

    def __init__(self, tx: Transaction, caller: Caller) -> None:
        self._tx = tx
        self._soundness = Soundness(tx) if caller.is_checked else None

    def run(self, step: Step) -> Answers:
        """RowsChangedError: what it expects is not so. A read that fails is told of, and harms nothing; a
        write that fails raises, and nothing of the transaction may be committed."""
        for expected in step.expect:
            try:
                answer = _answer(self._tx, expected.call)
            except ClewError as error:
                raise RowsChangedError from error
            if digest_of(answer) != expected.digest:
                raise RowsChangedError
        answers: list[msgspec.Raw] = []
        for call in step.calls:
            if isinstance(call, Write):
                if self._soundness is not None:
                    self._soundness.check(call)
                answers.append(_answer(self._tx, call))
                continue
            try:
                answers.append(_answer(self._tx, call))
            except ClewError as error:
                return Answers(answers=answers, problem=problem_of(error))
        return Answers(answers=answers)


def _answer(on: Any, call: Call[Any]) -> msgspec.Raw:
    return msgspec.Raw(encode(call.of(on)))


def translated(error: BaseException) -> ClewError:
    """An error as a client may see it."""
    if isinstance(error, ClewError):
        return error
    if isinstance(error, Stale):
        return RowsChangedError()
    return BackendError(BROKEN)
