"""Errors as problems of RFC 9457: what a client is told besides status and fields."""

from __future__ import annotations

import inspect
import re

from clew import errors
from clew.errors import ClewError
from clew.server.problems import NEXT, Problem, problem_of
from tests.server.routes.test_errors import an
from tests.support.rows import each_row

ERRORS = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, ClewError)]
RESERVED = {"type", "title", "status", "detail", "code", "retryable", "next"}


@each_row("kind", ERRORS, ids=lambda kind: kind.code)
def test_no_field_of_an_error_hides_one_of_a_problem(kind: type[ClewError]) -> None:
    error = an(kind)
    assert RESERVED.isdisjoint(name for name in vars(error) if not name.startswith("_"))


@each_row("kind", ERRORS, ids=lambda kind: kind.code)
def test_the_next_step_is_one_of_this_api(kind: type[ClewError]) -> None:
    """Not a call of the library, which a client in another language does not have."""
    told = problem_of(an(kind)).content
    assert not re.search(r"`?(?:s|store|clew|run)\.\w+\(", f"{told['title']} {told.get('next', '')}")
    assert "\n" not in told["title"]
    assert len(told["title"]) < 200


def test_steps_are_for_errors_that_there_are() -> None:
    assert set(NEXT) <= set(ERRORS)


def test_a_problem_of_http_alone_says_what_it_says() -> None:
    problem = Problem(418, "teapot", "It is one", "short and stout", next="pour", fields={"spout": 1})
    assert problem.content == {
        "type": "urn:clew:error:teapot", "title": "It is one", "status": 418, "detail": "short and stout",
        "code": "teapot", "retryable": False, "next": "pour", "spout": 1,
    }  # fmt: skip
