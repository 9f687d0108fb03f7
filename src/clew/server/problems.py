"""Every error as a problem of RFC 9457, one-to-one from the errors of the library."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from clew import errors
from clew.errors import ClewError
from clew.model import Head

MEDIA_TYPE: Final = "application/problem+json"
TYPE: Final = "urn:clew:error:"

STATUS: Final[dict[type[ClewError], int]] = {
    errors.SessionDeletedError: 410,
    errors.NotFoundError: 404,
    errors.HeadMovedError: 412,
    errors.KeyReusedError: 422,
    errors.LeaseHeldError: 423,
    errors.ConflictError: 409,
    errors.NothingToUndoError: 409,
    errors.RootRefusedError: 403,
    errors.InvalidError: 422,
    errors.CorruptError: 500,
    errors.VersionError: 500,
    errors.StoreBusyError: 503,
    errors.BackendUnavailableError: 503,
    errors.DiskFullError: 503,
    errors.QuotaExceededError: 507,
    errors.ReadOnlyError: 403,
    errors.OutcomeUnknownError: 500,
    errors.UnsupportedError: 501,
    errors.StoreClosedError: 503,
    errors.BackendError: 500,
    errors.ClewError: 500,
}
"""The status of each error, by the nearest of its classes."""

NEXT: Final[dict[type[ClewError], str]] = {
    errors.SessionNotFoundError: "GET /api/v1/sessions lists them; PUT /api/v1/sessions/{id} makes one",
    errors.SessionDeletedError: "POST …/restore brings it back from the trash; a purged session is gone",
    errors.EntryNotFoundError: "GET …/entries lists the entries of the path",
    errors.CheckpointNotFoundError: "GET …/checkpoints lists the names",
    errors.SnapshotNotFoundError: "GET …/snapshots lists those of a session",
    errors.ObjectMissingError: "GET /api/v1/doctor says what else is missing",
    errors.SessionExistsError: "use the session that is there, or another id",
    errors.SessionTakenError: "give the conversation another id",
    errors.AliasExistsError: "choose another alias, or move it with `move=true`",
    errors.HeadMovedError: "read the entries behind the head that you know, then decide; or fork there",
    errors.KeyReusedError: "choose a key, or an id, that names this alone",
    errors.InvalidTransitionError: "POST …/reopen makes the session pending again",
    errors.OpenCallsError: "append the results of the calls first, or set `force`",
    errors.LeaseHeldError: "try again later, fork, write with `Clew-Lease: *`, or start a run with `steal`",
    errors.LeaseLostError: "nothing was written: fork and append there, or take a lease with POST …/runs",
    errors.RestoreConflictError: "`keep` leaves these files, `overwrite` keeps their content in a snapshot",
    errors.ConflictError: "read again, then decide",
    errors.RootNotNamedError: "name the directory in the request",
    errors.RootRefusedError: "name another directory",
    errors.NothingToUndoError: "GET …/moves lists what was done",
    errors.CorruptEntryError: "`damaged=skip` reads the other entries",
    errors.CorruptError: "GET /api/v1/doctor says what else is damaged; clew repair saves what can be read",
    errors.SchemaTooOldError: "export it with the Clew that wrote it, then import it here",
    errors.VersionError: "upgrade Clew on the server",
    errors.OutcomeUnknownError: "repeat it with the same Idempotency-Key: it happens once",
    errors.StoreBusyError: "try again",
    errors.BackendUnavailableError: "try again later",
    errors.DiskFullError: "free some space on the server, then try again",
    errors.QuotaExceededError: "exclude something, or free space with POST /api/v1/gc",
    errors.SnapshotFailedError: "leave these files out with `exclude`",
    errors.RestoreFailedError: "GET /api/v1/restores lists those that stopped half-way: finish or undo them",
    errors.StoreClosedError: "the server stops: try again when it is back",
    errors.InvalidEntryError: "change the value at `path`",
}
"""What to do, in terms of this API; of the nearest class that is here."""
_SENTENCE: Final = re.compile(r"(?<=[^.])\.\s")


class Problem(Exception):
    """An answer that is no success, for what only HTTP knows of: a path, a header, a limit."""

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str,
        *,
        next: str | None = None,
        retryable: bool = False,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.headers = dict(headers or {})
        self.content: dict[str, Any] = {
            "type": TYPE + code,
            "title": title,
            "status": status,
            "detail": detail,
            "code": code,
            "retryable": retryable,
            **({} if next is None else {"next": next}),
            **(fields or {}),
        }


def sentence_of(problem: Problem, home: str | None) -> str:
    """A problem for a person who opened an address of the API in a browser. `home`: where one signs in."""
    text = str(problem.content["detail"])
    if problem.status == 401 and home is not None:
        text += f"; open {home} to sign in"
    return f"{text[:1].upper()}{text[1:]}.\n"


def problem_of(error: ClewError, now: datetime | None = None) -> Problem:
    """An error of the library as a problem, with the error's own fields. `now`: by the clock of the store."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    title = _SENTENCE.split((type(error).__doc__ or "").strip(), maxsplit=1)[0]
    headers, fields = {}, fields_of(error)
    if isinstance(error, errors.HeadMovedError):
        fields["head"] = fields["actual"]
    if status in (423, 503):
        headers["retry-after"] = str(_seconds_until(getattr(error, "expires_at", None), now))
    return Problem(
        status,
        error.code,
        " ".join(title.split()).rstrip("."),
        str(error),
        next=next((NEXT[kind] for kind in type(error).__mro__ if kind in NEXT), None),
        retryable=error.retryable,
        headers=headers,
        fields=fields,
    )


def fields_of(error: ClewError) -> dict[str, Any]:
    """What the error knows, fit for JSON."""
    return {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}


def _plain(value: Any) -> Any:
    if isinstance(value, Head):
        return {"branch": value.branch, "position": value.position}
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return str(value)


def _seconds_until(moment: datetime | None, now: datetime | None) -> int:
    if moment is None:
        return 1
    return max(1, min(60, math.ceil((moment - (now or datetime.now(UTC))).total_seconds())))
