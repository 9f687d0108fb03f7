"""Errors over the wire: told on one side, raised on the other as the same class with the same fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from clew import errors
from clew.backends.http.wire import Problem
from clew.errors import BackendError, ClewError

TOLD: Final = "_told_code"
"""The attribute with the code that was told: of a class that is not known here, too."""
_OF_PROBLEMS = frozenset({"type", "title", "status", "detail", "code", "retryable", "next", "instance"})


def _classes(base: type[ClewError]) -> Iterator[tuple[str, type[ClewError]]]:
    yield base.code, base
    for each in base.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _classes(each)


_BY_CODE = dict(_classes(ClewError))


def problem_of(error: ClewError) -> Problem:
    """What is told of an error: its code, its words, and its own fields."""
    fields = {name: value for name, value in vars(error).items() if _is_plain(value)}
    return Problem(code=error.code, detail=str(error), fields=fields)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool | datetime)


def is_known(problem: Problem) -> bool:
    """Whether an error of this class can be raised here."""
    return problem.code in _BY_CODE


def error_of(problem: Problem) -> ClewError:
    """The error that was told of. One of a class that is not known here is a BackendError."""
    kind = _BY_CODE.get(problem.code, BackendError)
    error = kind.__new__(kind)
    Exception.__init__(error, problem.detail)
    error.__dict__[TOLD] = problem.code
    for name, value in problem.fields.items():
        if name.isidentifier() and not name.startswith("_") and not hasattr(kind, name):
            setattr(error, name, _value(name, value))
    return error


def _value(name: str, value: Any) -> Any:
    if name.endswith("_at") and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return value
    return tuple(value) if isinstance(value, list) else value


def problem_in(told: Mapping[str, Any]) -> Problem:
    """The same from an answer of type application/problem+json."""
    fields = {name: value for name, value in told.items() if name not in _OF_PROBLEMS}
    return Problem(code=str(told.get("code", "")), detail=str(told.get("detail", "")), fields=fields)
