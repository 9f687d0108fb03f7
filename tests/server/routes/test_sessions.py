"""Sessions over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from tests.server.conftest import Running


def test_a_session_is_made_found_and_listed(client: httpx.Client) -> None:
    made = client.post("/api/v1/sessions", json={"id": "a", "title": "First"})
    assert made.status_code == 201
    found = client.get(made.headers["location"])
    assert found.json()["title"] == "First"
    assert [one["id"] for one in client.get("/api/v1/sessions").json()["data"]] == ["a"]


@pytest.mark.parametrize("id", ["a/b", "a:b#c@d", "100%", "%2F", "..", "ü", "a b", "a;b=c", "~x", "?q=1"])
def test_s37_an_id_of_any_characters_leads_to_exactly_that_session(server: Running, id: str) -> None:
    server.store.create(id)
    server.store.create("b")
    path = "%2E%2E" if id == ".." else quote(id, safe="").replace("~", "%7E")
    with server.client() as client:
        found = client.get(
            httpx.URL(server.url + "/").copy_with(raw_path=f"/api/v1/sessions/{path}".encode())
        )
    assert found.json()["id"] == id


def test_an_unknown_parameter_is_refused_with_those_that_there_are(client: httpx.Client) -> None:
    answer = client.get("/api/v1/sessions", params={"sttus": "running"})
    assert answer.status_code == 422
    assert "'sttus'" in answer.json()["detail"]
    assert "status" in answer.json()["detail"]


def test_what_is_not_there_is_a_problem_with_the_code_of_the_error(client: httpx.Client) -> None:
    answer = client.get("/api/v1/sessions/none")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "session_not_found"
    assert answer.json()["session"] == "none"


def test_a_call_without_a_token_is_refused(server: Running) -> None:
    with server.client(token=None) as client:
        answer = client.get("/api/v1/sessions")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_client_that_knows_the_session_gets_304(client: httpx.Client) -> None:
    tag = client.post("/api/v1/sessions", json={"id": "a"}).headers["etag"]
    assert client.get("/api/v1/sessions/a", headers={"if-none-match": tag}).status_code == 304
