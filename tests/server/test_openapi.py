"""The description of the API is valid, complete, and says what the code does."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx
from openapi_spec_validator import OpenAPIV31SpecValidator

from clew.core.log.lease import secret_of
from clew.server.openapi import SHAPES
from clew.server.process.settings import Settings
from clew.server.routes import all_routes
from clew.server.routing import Route, Router
from tests.server import reference
from tests.server.conftest import Running
from tests.support.rows import each_row

PUBLIC = [route for route in all_routes(Settings()) if not route.is_private]


@cache
def described() -> dict[str, Any]:
    return Router(all_routes(Settings())).description


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = described()["paths"][path][method.lower()]
    return found


def headers(method: str, path: str) -> set[str]:
    return {one["name"] for one in operation(method, path)["parameters"] if one["in"] == "header"}


def test_it_is_valid_and_every_server_shows_it_to_everyone(server: Running) -> None:
    answer = httpx.get(f"{server.url}/api/v1/openapi.json", trust_env=False)
    assert answer.status_code == 200
    OpenAPIV31SpecValidator(answer.json()).validate()
    assert answer.json() == described()


@each_row("route", PUBLIC, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_described_with_its_scope_and_its_errors(route: Route) -> None:
    told = operation(route.method, route.path.replace("*}", "}"))
    assert told["operationId"] == route.handler.__name__
    assert told["summary"]
    assert told["x-clew-scope"] == route.scope
    assert (told.get("security") == []) == (route.scope is None)
    assert str(route.status) in told["responses"]
    assert ("401" in told["responses"]) == (route.scope is not None)
    parameters = told.get("parameters", [])
    assert [one["name"] for one in parameters if one["in"] == "path"] == route.names
    assert [one["name"] for one in parameters if not one["description"]] == []


def test_operations_have_names_of_their_own() -> None:
    names = [
        operation["operationId"]
        for operations in described()["paths"].values()
        for operation in operations.values()
    ]
    assert len(names) == len(set(names)) == len(PUBLIC)


def test_headers_are_those_that_the_code_looks_at() -> None:
    items = "/v1/conversations/{conversation_id}/items"
    assert headers("POST", items) == {"Idempotency-Key", "If-Match", "Clew-Lease"}
    assert headers("GET", items) == set()
    assert headers("POST", "/v1/conversations") == {"Idempotency-Key"}
    assert headers("GET", "/api/v1/sessions/{id}") == {"If-None-Match"}
    assert headers("PUT", "/api/v1/sessions/{id}/runs/{epoch}") == {"Clew-Lease"}
    answer = operation("GET", "/api/v1/sessions")["responses"]["200"]
    assert set(answer["headers"]) == {"Link"}


def test_an_operation_that_may_end_well_in_two_ways_says_so() -> None:
    answers = operation("PUT", "/api/v1/sessions/{id}")["responses"]
    assert answers["200"] == answers["201"]


def test_fields_say_what_the_source_says_of_them() -> None:
    schemas = described()["components"]["schemas"]
    told = schemas["SessionInfo"]["properties"]["hash"]["description"]
    assert told == "Names the whole conversation: equal hashes, equal histories."
    items = operation("GET", "/v1/conversations/{conversation_id}/items")
    (after,) = (one for one in items["parameters"] if one["name"] == "after")
    assert after == {
        "name": "after",
        "in": "query",
        "required": False,
        "description": "Only those that come after the item of this id, in this order.",
        "schema": {"type": "string"},
    }


def test_errors_have_the_shape_of_their_api() -> None:
    for path, media_type, name in (
        ("/v1/conversations/{conversation_id}", "application/json", "ErrorDocument"),
        ("/api/v1/sessions/{id}", "application/problem+json", "ProblemDocument"),
    ):
        content = operation("GET", path)["responses"]["404"]["content"]
        assert content == {media_type: {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def test_the_reference_page_is_that_of_the_code() -> None:
    page = reference.PAGE.read_text("utf-8")
    between = page.split(reference.BEGIN)[1].split(reference.END)[0]
    assert between.strip() == reference.reference().strip(), "run python -m tests.server.reference"


@each_row("fence", [1, 0xF, 2**60 - 1, 2**60, 2**62 - 1])
def test_the_secret_of_every_lease_has_the_form_that_the_description_names(fence: int) -> None:
    assert re.search(SHAPES["clew-lease"], secret_of(7, fence))
