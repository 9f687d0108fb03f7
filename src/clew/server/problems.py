"""Every error as a problem of RFC 9457, one-to-one from the errors of the library."""

from __future__ import annotations

import math
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
    errors.DiskFullError: 507,
    errors.QuotaExceededError: 507,
    errors.ReadOnlyError: 403,
    errors.OutcomeUnknownError: 500,
    errors.UnsupportedError: 501,
    errors.StoreClosedError: 503,
    errors.BackendError: 500,
    errors.ClewError: 500,
}
"""The status of each error, by the nearest of its classes."""


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


def problem_of(error: ClewError) -> Problem:
    """An error of the library as a problem, with the error's own fields."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    title, _, rest = (type(error).__doc__ or "").strip().partition(". ")
    headers, fields = {}, fields_of(error)
    if isinstance(error, errors.HeadMovedError):
        fields["head"] = fields["actual"]
    if status in (423, 503):
        headers["retry-after"] = str(_seconds_until(getattr(error, "expires_at", None)))
    return Problem(
        status,
        error.code,
        " ".join(title.split()).rstrip("."),
        str(error),
        next=" ".join(rest.split()) or None,
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


def _seconds_until(moment: datetime | None) -> int:
    if moment is None:
        return 1
    return max(1, min(60, math.ceil((moment - datetime.now(UTC)).total_seconds())))
