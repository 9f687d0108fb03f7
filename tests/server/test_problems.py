"""Errors as problems of RFC 9457: what a client is told besides status and fields."""

from __future__ import annotations

import inspect
import re

from clew import errors
from clew.errors import ClewError
from clew.server.problems import MEDIA_TYPE, NEXT, Problem, problem_of
from tests.server.conftest import Running
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


def test_a_person_with_a_wrong_token_reads_a_sentence_and_a_program_gets_a_problem(server: Running) -> None:
    """A browser asks for HTML where it is sent to an address, and only there."""
    page = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    wrong = "clew_own_" + "a" * 43
    sentences = {
        wrong: f"The token is not valid here; open {server.url}/ to sign in.\n",
        None: f"The request has no token; open {server.url}/ to sign in.\n",
    }
    for token, sentence in sentences.items():
        with server.client(token) as client:
            shown = client.get("/api/v1/sessions", headers=page)
            told = client.get("/api/v1/sessions")
            sent = client.post("/api/v1/sessions", json={}, headers=page)
        assert (shown.status_code, told.status_code, sent.status_code) == (401, 401, 401)
        assert (shown.headers["content-type"], shown.text) == ("text/plain; charset=utf-8", sentence)
        assert "content-disposition" not in shown.headers
        assert [one.headers["content-type"] for one in (told, sent)] == [MEDIA_TYPE] * 2
        assert told.json()["code"] == "unauthorized"
    with server.client() as client:
        missing = client.get("/api/v1/sessions/nope/entries", headers=page)
    assert (missing.status_code, missing.text) == (404, "No session 'nope'.\n")
