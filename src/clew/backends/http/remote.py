"""What a backend asks of its server: reads, steps of transactions, what became of a commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from clew.backends.http.calls import ReadRequest, Step
from clew.backends.http.calls.base import Call
from clew.backends.http.calls.log import AddEntries, GetTip
from clew.backends.http.calls.sessions import GetSession, SetHead, SetSession
from clew.backends.http.connection import Connection, LostError
from clew.backends.http.errors import TOLD, error_of
from clew.backends.http.wire import (
    LONGEST_PAUSE,
    PROTOCOL,
    Answers,
    Hello,
    Outcome,
    OutcomeQuestion,
    Pause,
    Paused,
    Problem,
    Upkeep,
    encode,
    entry_in,
)
from clew.core.messages.search_text import PageQuery
from clew.errors import (
    BackendError,
    BackendUnavailableError,
    ClewError,
    OutcomeUnknownError,
    StoreBusyError,
    VersionError,
)
from clew.model.search import SearchPage

FIRST_PAUSE: Final = 0.02
LONGEST_GAP: Final = 0.5
UNDO_TIME: Final = 2.0
SLOW: Final = 600.0
"""Seconds that upkeep may take."""
T = TypeVar("T")


class RowsChanged(Exception):
    """What a transaction relied upon has changed, or the server gave it up. Nothing was written."""


_decode_answers = msgspec.json.Decoder(Answers).decode
_decode_hello = msgspec.json.Decoder(Hello).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode
_decode_sentences = msgspec.json.Decoder(list[str]).decode
_decode_number = msgspec.json.Decoder(int).decode
_decode_paused = msgspec.json.Decoder(Paused).decode
_decode_page = msgspec.json.Decoder(SearchPage).decode


class Remote:
    """One server. From any number of threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.hello = self._greet()
        connection.accept(self.hello.encodings)

    def _greet(self) -> Hello:
        found: Hello = self._ask("hello", b"", _decode_hello)
        if found.protocol != PROTOCOL:
            older = "server" if found.protocol < PROTOCOL else "client"
            raise VersionError(
                f"{self._connection.location} speaks protocol {found.protocol}, this Clew {PROTOCOL}:"
                f" upgrade the {older}"
            )
        return found

    # -- reading

    def read(self, call: Call[Any]) -> msgspec.Raw | ClewError:
        """The answer to a call outside of any transaction, or the error that it is answered with."""
        return self.read_all([call])[0]

    def read_all(self, calls: Sequence[Call[Any]]) -> list[msgspec.Raw | ClewError]:
        """The same of several, in one request. The first error is the last answer."""
        found: Answers = self._ask("read", encode(ReadRequest(calls=list(calls))), _decode_answers)
        if len(found.answers) + (found.problem is not None) not in range(1, len(calls) + 1):
            raise BackendError(f"{self._connection.location} did not answer what it was asked")
        return [*found.answers, *([] if found.problem is None else [error_of(found.problem)])]

    def _ask(self, what: str, body: bytes, decode: Any, timeout: float | None = None) -> Any:
        """A request that changes nothing, or that does no harm if it is sent twice."""
        try:
            answer = self._connection.post(what, body, timeout=timeout)
        except LostError:
            try:
                answer = self._connection.post(what, body, timeout=timeout)
            except LostError as lost:
                raise BackendUnavailableError(str(lost)) from lost
        return self._decoded(answer, decode)

    def _decoded(self, answer: bytes, decode: Any) -> Any:
        try:
            return decode(answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BackendError(
                f"{self._connection.location} answered with something else than Clew does: {error}"
            ) from error

    @staticmethod
    def error(problem: Problem) -> ClewError:
        return error_of(problem)

    def search(self, query: PageQuery) -> SearchPage:
        found: SearchPage = self._ask("search", encode(query), _decode_page)
        return found

    # -- transactions

    def step(self, step: Step, what: str = "transaction") -> Answers:
        """Part of a transaction, or of a snapshot, that stays open. RowsChanged: it is not there any more."""
        deadline = time.monotonic() + self._connection.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                answer = self._connection.post(what, encode(step))
            except LostError as lost:
                raise RowsChanged from lost  # it will not be committed: that was not asked for yet
            except ClewError as error:
                if _is_changed(error):
                    raise RowsChanged from error
                if not isinstance(error, StoreBusyError) or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_GAP)
                continue
            found: Answers = self._decoded(answer, _decode_answers)
            return found

    def undo(self, transaction: str, what: str = "transaction") -> None:
        """Have the server forget a transaction at once, if it can be told; by itself it does so soon."""
        step = Step(transaction=transaction, end="undo")
        try:
            self._connection.post(what, encode(step), timeout=UNDO_TIME)
        except (LostError, ClewError):
            pass

    def commit(self, step: Step) -> None:
        """The end of a transaction, or all of it. RowsChanged: nothing was written."""
        try:
            found = self._decoded(self._connection.post("transaction", encode(step)), _decode_answers)
        except LostError as lost:
            self._settle(step, lost)
            return
        except ClewError as error:
            if _is_changed(error):
                raise RowsChanged from error
            raise
        if found.problem is not None:
            raise error_of(found.problem)

    def _settle(self, step: Step, lost: LostError) -> None:
        """The answer to a commit was lost: find out what became of it. OutcomeUnknownError: that cannot be
        found out."""
        deadline = time.monotonic() + self._connection.timeout
        outcome = self._outcome(step, deadline)
        if outcome == "done":
            return
        if outcome == "undone":
            raise RowsChanged from lost
        if outcome == "unknown" and step.transaction is None and _changes_what_it_expects(step):
            # The server was started anew. If nothing was done, all is as it was: then it is done now. Else
            # the rows are others by now, and the entries say whose work that was.
            try:
                again = msgspec.structs.replace(step, commit=None)
                self._decoded(self._connection.post("transaction", encode(again)), _decode_answers)
                return
            except (LostError, ClewError) as error:
                if isinstance(error, ClewError) and _is_changed(error) and self._has_entries_of(step):
                    return
        raise OutcomeUnknownError(f"{lost}; it is not known whether the last write was carried out") from lost

    def _outcome(self, step: Step, deadline: float) -> str:
        """What the server knows of a commit; "" if it cannot be reached."""
        assert step.commit is not None
        question = encode(OutcomeQuestion(instance=self.hello.instance, commit=step.commit))
        pause = FIRST_PAUSE
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                answer = self._connection.post("outcome", question, timeout=left)
                found: Outcome = self._decoded(answer, _decode_outcome)
            except (LostError, BackendUnavailableError):
                if time.monotonic() + pause > deadline:
                    return ""
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_GAP)
                continue
            except ClewError:
                return ""
            if found.outcome == "unknown":
                self._renew_hello()
            return found.outcome

    def _renew_hello(self) -> None:
        try:
            self.hello = self._greet()
        except ClewError:
            pass

    def _has_entries_of(self, step: Step) -> bool:
        """Whether the entries that a transaction adds are there: their digests name them."""
        added = [call for call in step.calls if isinstance(call, AddEntries) and call.rows]
        if not added:
            return False
        for call in added:
            last = entry_in(call.rows[-1])
            found = self.read(GetTip(call.branch, last.position))
            if isinstance(found, ClewError) or bytes(found) != encode(last.tip(call.branch)):
                return False
        return True

    # -- waiting and upkeep

    def pause(self, seen: int | None, seconds: float) -> int:
        """Wait until something may have been written behind this count, or for this time, or LONGEST_PAUSE;
        the count then."""
        seconds = min(max(seconds, 0), LONGEST_PAUSE)
        body = encode(Pause(seconds=seconds, seen=seen))
        found: Paused = self._ask("pause", body, _decode_paused, seconds + self._connection.timeout)
        return found.count

    def scrub(self) -> None:
        self._ask("upkeep", encode(Upkeep(what="scrub")), lambda _: None, SLOW)

    def bytes_on_disk(self) -> int:
        found: int = self._ask("upkeep", encode(Upkeep(what="bytes_on_disk")), _decode_number)
        return found

    def damage(self, *, full: bool) -> list[str]:
        found: list[str] = self._ask(
            "upkeep", encode(Upkeep(what="damage", full=full, seconds=SLOW / 2)), _decode_sentences, SLOW
        )
        return found


def _is_changed(error: ClewError) -> bool:
    return error.__dict__.get(TOLD) == "rows_changed"


def _changes_what_it_expects(step: Step) -> bool:
    """Whether this transaction cannot be carried out twice: it changes a row that it expects."""
    expected = {one.call.sid for one in step.expect if isinstance(one.call, GetSession)}
    written = {call.sid for call in step.calls if isinstance(call, SetHead)}
    written |= {call.row.sid for call in step.calls if isinstance(call, SetSession)}
    return bool(expected & written) and any(isinstance(call, AddEntries) for call in step.calls)
