"""Errors as OpenAI's API answers them, so that its clients raise the errors that their users know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clew.server.call import Answer
from clew.server.problems import Problem

PREFIX: Final = ("v1", "conversations")

STATUS: Final = {410: 404, 412: 409, 422: 400, 423: 409}
"""Where OpenAI has another status for the same thing."""
CODES: Final = {"unauthorized": "invalid_api_key", "rate_limited": "rate_limit_exceeded"}
NOT_FOUND: Final = ("session_not_found", "session_deleted")


class ErrorDetails(msgspec.Struct, frozen=True):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    """The field of the request that it is about."""
    code: str | None
    """A stable name of the error."""


class ErrorDocument(msgspec.Struct, frozen=True):
    """An answer that is no success, as OpenAI writes it."""

    error: ErrorDetails


def is_face(parts: Sequence[str]) -> bool:
    """Whether a path belongs to this API."""
    return tuple(parts[:2]) == PREFIX


def error_of(problem: Problem, *, repeatable: bool) -> Answer:
    """A problem in OpenAI's shape. `repeatable`: a repeat of the request cannot happen twice.

    OpenAI's clients repeat a request by themselves; `x-should-retry` tells them when not to.
    """
    told = problem.content
    status = STATUS.get(problem.status, problem.status)
    headers = dict(problem.headers)
    if status >= 409:
        is_safe = repeatable or told["code"] != "outcome_unknown"
        headers["x-should-retry"] = "true" if told["retryable"] and is_safe else "false"
    details = ErrorDetails(
        _message(told), _type(status), told.get("param"), CODES.get(told["code"], told["code"])
    )
    return Answer(value=ErrorDocument(details), status=status, headers=headers, media_type="application/json")


def _message(told: dict[str, Any]) -> str:
    if told["code"] in NOT_FOUND:
        return f"Conversation with id '{told['session']}' not found."
    return f"{told['detail']} ({told['next']})" if "next" in told else str(told["detail"])


def _type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    if status == 403:
        return "permission_error"
    return "server_error" if status >= 500 else "invalid_request_error"
