"""What every answer carries, and how content that others wrote is served."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import httpx
import pytest

from clew.server.access.guard import as_file, attachment
from clew.server.access.tokens import add_token, remove_token
from clew.server.call import Answer
from clew.server.routing import encoded
from tests.server.access.requests import answer_with, name_of, path_of, routes, send
from tests.server.conftest import Running
from tests.support.rows import each_row

Serve = Callable[..., Running]
SHOWN = ("application/json", "application/problem+json", "text/event-stream", "text/plain", "")
HOSTILE = (
    'a"; filename="evil.html', "a\r\nSet-Cookie: x=1", "../../etc/passwd", "a\nb", "é☃.html", "a\x00b",
    "a;b=c", "a" * 5000, "", "<script>alert(1)</script>.svg", "a\\b", "\u202egnp.exe", "\ud800",
)  # fmt: skip


def check_safe(name: str, headers: httpx.Headers) -> list[str]:
    expected = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "x-frame-options": "DENY",
    }
    wrong = [f"{name}: {key}" for key, value in expected.items() if headers.get(key) != value]
    policy = headers.get("content-security-policy", "")
    if "default-src 'none'" not in policy or "frame-ancestors 'none'" not in policy or "unsafe" in policy:
        wrong.append(f"{name}: {policy}")
    if "server" in headers or "x-powered-by" in headers:
        wrong.append(f"{name}: it says which server it is")
    return wrong


def test_s32_every_answer_says_how_it_may_be_used(server: Running) -> None:
    session = server.store.create("login")
    session.append({"role": "user", "content": "hello"})
    session.set_document("doc", b"<script>alert(1)</script>")
    entry = next(session.entries()).id
    values = {"id": "login", "entry": entry, "name": "doc", "other": entry, "conversation_id": "login"}
    wrong: list[str] = []
    for token in ("owner", None):
        with server.client() if token else server.client(None) as client:
            for route in routes():
                told = send(client, route, path_of(route, values), body={} if route.body else None)
                lines = (line.partition(": ") for line in told.headers.split("\n"))
                headers = httpx.Headers([(name, value) for name, _, value in lines])
                wrong += check_safe(name_of(route), headers)
                is_own = route.handler.__module__ == "clew.server.page"
                cached = headers["cache-control"]
                if cached != ("private, no-cache" if is_own and told.status == 200 else "no-store"):
                    wrong.append(f"{name_of(route)}: {cached}")
                kind = headers.get("content-type", "").partition(";")[0]
                is_saved = "attachment" in headers.get("content-disposition", "")
                if kind not in SHOWN and not is_own and not is_saved:
                    wrong.append(f"{name_of(route)}: {kind} is shown")
            for path in ("/nope", "/api/v1/nope", "/%00", "/..%2f", "/static/", "/docs", "/redoc", "/debug"):
                answer = client.get(path)
                wrong += check_safe(path, answer.headers)
                assert answer.status_code in (400, 404), path
    assert wrong == []


@each_row("kind", ["text/html; charset=utf-8", "image/svg+xml", "application/xml", ""])
def test_s32_what_no_route_thought_of_is_saved_too(kind: str) -> None:
    headers: dict[str, str] = {}
    as_file(headers, kind)
    assert headers == {"content-disposition": "attachment"}
    shown: dict[str, str] = {}
    as_file(shown, "application/json")
    assert shown == {}


def test_s32_a_route_that_forgets_is_covered(server: Running) -> None:
    def page(**_: object) -> Answer:
        return Answer(value=b"<script>alert(1)</script>", media_type="text/html")

    answer_with(server, "GET /api/v1/stats", page)
    with server.client() as client:
        answer = client.get("/api/v1/stats")
    assert answer.headers["content-disposition"] == "attachment"
    assert "sandbox" in answer.headers["content-security-policy"]


@each_row("name", HOSTILE)
def test_s18_a_name_of_a_file_forges_no_header(name: str) -> None:
    headers = attachment(name)
    told = headers["content-disposition"]
    assert told.isascii()
    assert told.isprintable()
    assert told.count('"') == 2
    assert told.startswith('attachment; filename="')
    assert "; filename*=UTF-8''" in told
    assert len(told) < 1200
    plain = told.split('"')[1]
    assert "/" not in plain
    assert ";" not in plain


def test_s18_a_purge_and_a_sign_in_leave_a_line_that_no_id_can_forge(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    id = "a\nINFO clew.audit purged by=owner"
    server.store.create(id, title="x\r\ny")
    with server.client() as client, caplog.at_level(logging.DEBUG):
        client.post("/api/v1/login", json={"token": client.headers["authorization"].split()[1]})
        client.headers["origin"] = server.url
        assert client.delete(f"/api/v1/sessions/{encoded(id)}?purge=true").status_code == 204
    told = [record.getMessage() for record in caplog.records if record.name == "clew.audit"]
    assert [line.split(" by=")[0] for line in told] == ["signed in", "purged"]
    assert json.dumps(id) in told[1]
    assert not [record for record in caplog.records if "\n" in record.getMessage()]


def test_the_first_use_of_a_token_and_its_end_leave_a_line(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    token, text = add_token(server.store, 'ci"x')
    with server.client(text) as client, caplog.at_level(logging.INFO, "clew.audit"):
        for _ in range(3):
            client.get("/api/v1/me")
        remove_token(server.store, token.id)
        server.app.sign_in.forget()
        client.get("/api/v1/me")
        client.get("/api/v1/me")
    told = [record.getMessage() for record in caplog.records if record.name == "clew.audit"]
    assert [line.split(" by=")[0] for line in told] == ["first use", "token removed", "removed"]
    assert token.id in told[0]
    assert json.dumps('ci"x') in told[0]
    assert text.rpartition("_")[2] not in caplog.text
