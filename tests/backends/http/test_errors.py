"""An error that the server told of is raised in the client as it was: class, words and fields."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from clew import errors
from clew.backends.http.errors import error_of, problem_in, problem_of
from clew.backends.http.wire import Problem, encode
from clew.errors import BackendError, ClewError
from clew.server import problems
from tests.support.rows import each_row

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ERRORS: list[ClewError] = [
    errors.SessionNotFoundError("s"),
    errors.SessionExistsError("s", "alias"),
    errors.KeyReusedError("s", "k"),
    errors.OpenCallsError("s", ["a", "b"]),
    errors.LeaseHeldError("s", "w", WHEN),
    errors.LeaseLostError("s", 1, 2, "w"),
    errors.CorruptEntryError("b", 7, "its checksum does not match"),
    errors.UnreadableEntryError("b", 7, "the disk fails"),
    errors.CorruptSessionError("s", "its row is damaged"),
    errors.BranchMissingError(7),
    errors.SchemaTooNewError("/x", 9, 8),
    errors.StoreBusyError("others wrote"),
    errors.DiskFullError("no space"),
    errors.ReadOnlyError("it can be read only"),
    errors.OutcomeUnknownError("the connection was lost"),
    errors.InvalidEntryError("too deep", "$.a"),
]


def by_calls(error: ClewError) -> ClewError:
    """As an answer of the rows door tells it."""
    return error_of(msgspec.json.decode(encode(problem_of(error)), type=Problem))


def by_problem(error: ClewError) -> ClewError:
    """As application/problem+json tells it."""
    return error_of(problem_in(msgspec.json.decode(msgspec.json.encode(problems.problem_of(error).content))))


@each_row(("told", "error"), [(told, error) for told in (by_calls, by_problem) for error in ERRORS])
def test_an_error_comes_back(told: object, error: ClewError) -> None:
    found = told(error)  # type: ignore[operator]
    fields = {name: value for name, value in vars(found).items() if not name.startswith("_")}

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert fields == vars(error)


def test_an_error_that_is_not_known_here_is_one_of_storage() -> None:
    """A newer server may have more of them. What it tells harms nothing."""
    found = error_of(
        Problem(
            code="quite_new", detail="words", fields={"args": (1,), "__class__": "x", "_a": 1, "code": "y"}
        )
    )
    assert (type(found), str(found), found.args, found.code) == (BackendError, "words", ("words",), "backend")
