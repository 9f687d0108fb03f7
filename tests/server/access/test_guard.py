"""Who may ask at all: names of hosts, origins of pages, CORS, proxies."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from clew.errors import InvalidError
from clew.server.access.guard import Asked, Guard
from clew.server.process.settings import Settings
from tests.server.access.requests import name_of, path_of, routes, send
from tests.server.conftest import TOKEN, Running
from tests.support.rows import each_row

Serve = Callable[..., Running]
EVIL = "http://evil.example"


def port_of(server: Running) -> str:
    return server.url.rpartition(":")[2]


# -- the name of the host


@each_row(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "0.0.0.0:{port}",
     "127.0.0.1:{port}.evil.example", "127.0.0.1.evil.example:{port}", "localhost.:{port}",
     "2130706433:{port}", "evil.example@127.0.0.1:{port}", "127.1:{port}", ""],
)  # fmt: skip
def test_s14_a_name_that_an_attacker_points_here_is_not_served(server: Running, host: str) -> None:
    with server.client() as client:
        answer = client.get("/api/v1/sessions", headers={"host": host.format(port=port_of(server))})
    assert answer.status_code == 421, answer.text
    problem = answer.json()
    assert problem["code"] == "wrong_host"
    assert "--public-url" in problem["next"]


def test_s14_every_route_refuses_a_forged_host(server: Running) -> None:
    wrong = []
    values = {"id": "x"}
    with server.client() as client:
        for route in routes():
            told = send(client, route, path_of(route, values), headers={"host": "evil.example"})
            if told.status != 421:
                wrong.append((name_of(route), told.status))
        assert client.get("/not-there", headers={"host": "evil.example"}).status_code == 421
    assert wrong == []


def test_the_names_of_this_machine_are_served(server: Running) -> None:
    port = port_of(server)
    with server.client() as client:
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
            assert client.get("/api/v1/me", headers={"host": host}).status_code == 200


def test_a_public_url_and_more_hosts_are_served(serve: Serve) -> None:
    server = serve(public_url="https://clew.example/team", hosts=("inner:80",), root_path="/team")
    with server.client() as client:
        for host, status in {"clew.example": 200, "inner:80": 200, "clew.example:80": 421}.items():
            assert client.get("/team/api/v1/me", headers={"host": host}).status_code == status


@each_row("header", ["Host: evil.example", "Origin: http://evil.example", "Authorization: Bearer x"])
def test_a_header_that_is_there_twice_is_refused(server: Running, header: str) -> None:
    host = server.url.removeprefix("http://")
    name, port = host.split(":")
    own = {"Host": host, "Origin": server.url, "Authorization": f"Bearer {TOKEN}"}
    for first in (True, False):
        lines = [f"{key}: {value}" for key, value in own.items()]
        lines.insert(0 if first else len(lines), header)
        with socket.create_connection((name, int(port))) as connection:
            request = "GET /api/v1/me HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 400"), answer[:200]


# -- the page that sends


@each_row(
    "origin",
    [
        EVIL,
        "null",
        "http://127.0.0.1:1",
        "https://127.0.0.1:{port}",
        "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
def test_s15_a_page_of_another_origin_is_refused_even_with_a_token(server: Running, origin: str) -> None:
    origin = origin.format(port=port_of(server))
    with server.client() as client:
        client.headers["origin"] = origin
        for method, path in (
            ("POST", "/api/v1/sessions"),
            ("GET", "/api/v1/sessions"),
            ("GET", "/api/v1/live"),
        ):
            answer = client.request(method, path, json={"id": "planted"} if method == "POST" else None)
            assert answer.status_code == 403, (method, path)
            assert answer.json()["code"] == "foreign_origin"
            assert not [name for name in answer.headers if name.startswith("access-control")]
    assert server.store.find("planted") is None


def test_s15_every_route_refuses_a_page_of_another_origin(server: Running) -> None:
    wrong = []
    with server.client() as client:
        for route in routes():
            told = send(client, route, path_of(route, {"id": "x"}), headers={"origin": EVIL})
            if told.status != 403 or "access-control" in told.headers:
                wrong.append((name_of(route), told.status))
    assert wrong == []


def test_s15_a_get_has_no_effect(server: Running) -> None:
    """All that a page of another site can do without a question is to GET: so no GET may change anything."""
    session = server.store.create("login")
    session.append({"role": "user", "content": "hello"})
    before = server.store.export("login", "jsonl")
    listed = server.store.list().sessions
    with server.client() as client:
        for route in routes():
            if route.method == "GET":
                send(client, route, path_of(route, {"id": "login", "text": "x"}))
    assert server.store.export("login", "jsonl") == before
    assert server.store.list().sessions == listed


def test_the_own_page_may_call(server: Running) -> None:
    with server.client() as client:
        client.headers["origin"] = server.url
        assert client.post("/api/v1/sessions", json={"id": "a"}).status_code == 201


# -- CORS


def test_there_is_no_cors_unless_it_is_asked_for(server: Running) -> None:
    asks = {"origin": EVIL, "access-control-request-method": "GET"}
    with server.client() as client:
        answer = client.options("/api/v1/sessions", headers=asks)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
        plain = client.get("/api/v1/sessions")
        assert not [name for name in plain.headers if name.startswith("access-control")]


def test_one_origin_that_is_named_may_call_with_a_token_and_never_with_a_cookie(serve: Serve) -> None:
    friend = "https://app.example"
    server = serve(cors=(friend,))
    with server.client() as client:
        client.headers["origin"] = friend
        asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        allowed = client.options("/api/v1/sessions", headers=asks)
        assert allowed.status_code == 204
        assert allowed.headers["access-control-allow-origin"] == friend
        assert "authorization" in allowed.headers["access-control-allow-headers"]
        answer = client.post("/api/v1/sessions", json={"id": "a"})
        assert answer.status_code == 201
        assert answer.headers["access-control-allow-origin"] == friend
        assert "origin" in answer.headers["vary"]
        for told in (allowed, answer):
            assert "access-control-allow-credentials" not in told.headers
            assert "*" not in told.headers["access-control-allow-origin"]
        for other in (EVIL, f"{friend}.evil.example", "http://app.example", "null"):
            told = client.get("/api/v1/sessions", headers={"origin": other})
            assert (told.status_code, told.headers.get("access-control-allow-origin")) == (403, None)
        cookie = client.post("/api/v1/login", json={"token": TOKEN}, headers={"origin": server.url})
        assert cookie.status_code == 200
    with server.client(None, cookies=dict(cookie.cookies)) as browser:
        told = browser.get("/api/v1/sessions", headers={"origin": friend})
        assert told.status_code == 403
        assert (
            browser.post("/api/v1/login", json={"token": TOKEN}, headers={"origin": friend}).status_code
            == 403
        )


@each_row("origin", ["*", "null", "app.example", "https://app.example/", "https://"])
def test_an_origin_that_is_none_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(InvalidError, match="an origin is of the form"):
        Guard(Settings(cors=(origin,)))


@each_row("url", ["clew.example", "ftp://clew.example", "https://u:p@clew.example", "https://h/?q"])
def test_a_public_url_that_is_none_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(InvalidError, match="a public URL is of the form"):
        Guard(Settings(public_url=url))


# -- proxies


FORGED = {
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-host": "127.0.0.1:{port}",
    "x-forwarded-proto": "https",
    "x-forwarded-port": "443",
    "x-real-ip": "127.0.0.1",
    "forwarded": "for=127.0.0.1;host=127.0.0.1;proto=https",
}


def asked(
    settings: Settings,
    client: tuple[str, int] | None,
    headers: dict[str, str],
    server: tuple[str, int | None] | None = ("127.0.0.1", 8731),
) -> Asked:
    scope = {
        "server": server,
        "client": client,
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    return Guard(settings).check(scope, headers)


HOST = {"host": "127.0.0.1:8731"}


def test_s41_forged_headers_of_proxies_make_nothing_local() -> None:
    far, near = ("203.0.113.7", 1), ("127.0.0.1", 1)
    for name, value in FORGED.items():
        found = asked(Settings(), far, {**HOST, name: value.format(port=8731)})
        assert (found.client, found.is_local, found.is_https) == ("203.0.113.7", False, False)
        if name != "x-forwarded-port":
            assert asked(Settings(), near, {**HOST, name: value}).is_local is False
    assert asked(Settings(), near, HOST).is_local is True
    assert asked(Settings(proxy=True), near, HOST).is_local is False


def test_a_caller_without_an_address_is_local_only_on_a_socket_of_this_machine() -> None:
    """Of a connection that was reset at once, the system does not tell the address either."""
    assert asked(Settings(), None, HOST).is_local is False
    assert asked(Settings(), None, {"host": "localhost"}, None).is_local is False
    assert asked(Settings(), None, {"host": "localhost"}, ("/run/c.sock", None)).is_local is True


def test_s41_a_proxy_is_believed_only_if_that_was_said_and_only_its_own_word() -> None:
    told = {**HOST, "x-forwarded-for": "127.0.0.1, 198.51.100.2"}
    assert asked(Settings(), ("203.0.113.7", 1), told).client == "203.0.113.7"
    behind = asked(Settings(proxy=True), ("127.0.0.1", 1), told)
    assert (behind.client, behind.is_local) == ("198.51.100.2", False)


def test_s41_a_forged_host_of_a_proxy_does_not_get_in(server: Running) -> None:
    with server.client() as client:
        told = {name: value.format(port=port_of(server)) for name, value in FORGED.items()}
        assert client.get("/api/v1/me", headers={**told, "host": "evil.example"}).status_code == 421
        assert client.get("/api/v1/me", headers={**told, "origin": EVIL}).status_code == 403


def test_s41_failed_sign_ins_count_for_the_real_address(serve_timed: Serve) -> None:
    server = serve_timed(sign_ins=3)
    with server.client("wrong") as client:
        seen = [
            client.get("/api/v1/me", headers={"x-forwarded-for": f"198.51.100.{number}"}).status_code
            for number in range(5)
        ]
    assert seen == [401, 401, 401, 429, 429]


def test_websockets_are_closed(server: Running) -> None:
    with server.client(None) as client:
        asks = {
            "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        assert client.get("/api/v1/live", headers=asks).status_code in (401, 403)


def test_a_store_can_be_served_below_a_path(serve: Serve) -> None:
    server = serve(root_path="/clew")
    with server.client() as client:
        assert client.get("/clew/api/v1/me").status_code == 200
        assert b'href="/clew/app.css"' in client.get("/clew/").content
