"""Tokens, cookies and one-time codes, as clients use them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.disk import read_private
from clew.errors import ConflictError, InvalidError, NotFoundError
from clew.server.access import browser, peer
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token, has_token, list_tokens, remove_token
from tests.server.access.requests import Caller, bodies, name_of, path_of, routes, send
from tests.server.conftest import TOKEN, Running
from tests.server.routes.asking import refusal

Serve = Callable[..., Running]
BRIEF = timedelta(seconds=3)


def status(server: Running, token: str | None, path: str = "/api/v1/me") -> int:
    with server.client(token) as client:
        return client.get(path).status_code


# -- tokens


def test_every_route_but_the_few_that_are_named_needs_a_token(server: Running) -> None:
    """A new route that needs none has to be added here, with a reason."""
    free = {
        "GET /health", "GET /ready", "GET /api/v1/openapi.json", "POST /api/v1/login", "POST /api/v1/logout",
        # the page before anybody is signed in: it is the same for all, and holds nothing of a store
        "GET /", "GET /s/{id}", "GET /compare", "GET /usage", "GET /app.js", "GET /app.css",
        "GET /later.js", "GET /licences.txt", "GET /icon.svg", "GET /manifest.webmanifest",
    }  # fmt: skip
    found = set()
    with server.client(None) as client:
        for route in routes():
            told = send(client, route, path_of(route, {"id": "x"}), body={} if route.body else None)
            if told.status != 401:
                found.add(name_of(route))
    assert found <= free


WRONG = (
    "", "Bearer", "Basic b3duOng=", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
    f"Token {TOKEN}", "Bearer " + "é" * 30, f"bearer {TOKEN} {TOKEN}", f"Bearer clew_own_{'a' * 43}",
    f"Bearer clew_tabcdefghi_{'a' * 43}",
)  # fmt: skip


def test_a_wrong_token_is_refused(server: Running) -> None:
    with server.client(None) as client:
        for header in WRONG:
            answer = client.get("/api/v1/me", headers={b"authorization": header.encode()})
            assert answer.status_code == 401, header
            assert answer.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in answer.text


def test_a_wrong_token_is_not_made_up_for_by_a_cookie(server: Running) -> None:
    with server.client(None) as client:
        client.post("/api/v1/login", json={"token": TOKEN})
        assert client.get("/api/v1/me").status_code == 200
        assert client.get("/api/v1/me", headers={"authorization": "Bearer x"}).status_code == 401


CHANGES = [
    route for route in routes() if route.method != "GET" and route.scope in ("write", "admin", "files")
]
SCOPES = {
    "read": {"read"}, "write": {"read", "write"}, "files": {"files"}, "admin": {"read", "write", "admin"},
}  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_reaches_the_routes_of_its_scopes_and_no_others(server: Running, scope: str) -> None:
    _, token = add_token(server.store, scope, scopes=[scope])
    client = Caller(server, token)
    wrong = []
    for route in routes():
        if route.scope is None:
            continue
        if route.path == "/mcp" and scope != "files":
            continue  # to load its SDK takes seconds; its own tests use it with such tokens
        told = send(client, route, path_of(route, {"id": "x"}), body={} if route.body else None)
        is_refused = told.status == 403 and b"clew token add" in told.body
        if is_refused != (route.scope not in SCOPES[scope]):
            wrong.append((name_of(route), told.status))
    assert wrong == []


def test_whatever_changes_a_session_needs_a_scope_for_it() -> None:
    free = [name_of(route) for route in routes() if route.method != "GET" and route not in CHANGES]
    assert [name for name in free if "/sessions" in name] == []


def test_a_server_that_only_reads_refuses_every_route_that_changes_something(serve: Serve) -> None:
    wrong = []
    server = serve(read_only=True)
    server.store.create("a")
    with server.client() as client:
        for route in CHANGES:
            values = {"id": "a"}
            told = send(client, route, path_of(route, values), body=next(bodies(route, values)))
            if not route.is_private and (told.status != 403 or b'"read_only"' not in told.body):
                wrong.append((name_of(route), told.status))
        assert client.get("/api/v1/sessions/a").status_code == 200
        assert client.post("/api/v1/login", json={"token": TOKEN}).status_code == 200
    assert wrong == []


def test_a_token_that_is_over_is_refused_and_its_holder_is_told(timed: Running) -> None:
    _, token = add_token(timed.store, "brief", lasts=BRIEF)
    with timed.client(token) as client:
        timed.wait(2.9)
        assert client.get("/api/v1/me").status_code == 200
        timed.wait(0.1)
        answer = client.get("/api/v1/me")
    assert answer.status_code == 401
    assert "has expired" in answer.json()["detail"]
    with timed.client(token[:-1] + ("a" if token[-1] != "a" else "b")) as client:
        assert "has expired" not in client.get("/api/v1/me").json()["detail"], "only who has it is told"


def test_s36_a_removed_token_is_refused_after_a_second(timed: Running) -> None:
    _, token = add_token(timed.store, "ci")
    with timed.client(token) as client:
        assert client.get("/api/v1/me").status_code == 200
        with clew.open(timed.store.location) as elsewhere:  # as another process would
            remove_token(elsewhere, "ci")
        timed.wait(1)
        assert refusal(client.get("/api/v1/me")) == (401, "unauthorized")


def test_s36_sighup_forgets_at_once(server: Running) -> None:
    _, token = add_token(server.store, "ci")
    with server.client(token) as client:
        assert client.get("/api/v1/me").status_code == 200
        remove_token(server.store, "ci")
        server.app.sign_in.forget()
        assert client.get("/api/v1/me").status_code == 401


def test_s36_a_cookie_ends_with_the_token_that_it_was_made_from(timed: Running) -> None:
    _, token = add_token(timed.store, "ci")
    with timed.client(None) as client:
        cookie = client.post("/api/v1/login", json={"token": token}).headers["set-cookie"]
    with with_cookie(timed, cookie.partition(";")[0]) as client:
        assert client.get("/api/v1/me").json()["name"] == "ci"
        remove_token(timed.store, "ci")
        timed.wait(1)
        assert client.get("/api/v1/me").status_code == 401


def test_the_store_keeps_a_hash_and_no_secret(server: Running, tmp_path: Path) -> None:
    token, text = add_token(server.store, "ci")
    session = server.store.create("a")
    _, share = add_share(server.store, session, at=None)
    server.store.flush()
    with server.store._engine.read() as reader:
        value = reader.get_record(STORE_WIDE, "token", token.id)
    assert value is not None
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(value in content for content in files), "this test looks where it should"
    for secret in (text, share):
        assert not any(secret.rpartition("_")[2].encode() in content for content in files)


def test_names_are_unique_and_can_be_printed(server: Running) -> None:
    add_token(server.store, "ci")
    with pytest.raises(ConflictError, match="there is a token 'ci' already"):
        add_token(server.store, "ci")
    for name in ("", "a\nb", "\x1b[31mred", " ci", "x" * 101):
        with pytest.raises(InvalidError, match="cannot name a token"):
            add_token(server.store, name)
    with pytest.raises(InvalidError, match="a scope is one of"):
        add_token(server.store, "x", scopes=["root"])
    with pytest.raises(NotFoundError, match="there is no token 'nope'"):
        remove_token(server.store, "nope")
    assert [one.name for one in list_tokens(server.store)] == ["ci"]


def test_a_token_that_is_over_does_not_open_the_server_to_others(timed: Running) -> None:
    assert not has_token(timed.store)
    add_token(timed.store, "brief", lasts=BRIEF)
    assert has_token(timed.store)
    timed.wait(3)
    assert not has_token(timed.store)
    add_token(timed.store, "ci")
    assert has_token(timed.store)


def test_a_damaged_record_lets_nobody_in(server: Running) -> None:
    token, text = add_token(server.store, "ci")
    server.store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "token", token.id, b'{"name": "ci"}'))
    assert status(server, text) == 401


# -- one-time codes and cookies


def new_code(server: Running) -> str:
    with server.client() as client:
        answer = client.post("/api/v1/login/codes")
    assert answer.status_code == 201
    assert answer.json()["path"] == f"/#once={answer.json()['once']}"
    return str(answer.json()["once"])


def test_a_code_works_once(server: Running) -> None:
    code = new_code(server)
    with server.client(None) as client:
        assert client.post("/api/v1/login", json={"once": code}).status_code == 200
        assert client.get("/api/v1/me").json()["kind"] == "owner"
    with server.client(None) as client:
        assert client.post("/api/v1/login", json={"once": code}).status_code == 401
        assert client.get("/api/v1/me").status_code == 401


def test_of_many_who_use_a_code_at_once_one_gets_in(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(sign_ins=100)
    code = new_code(server)
    have_read = threading.Barrier(8)

    def read_together(path: str, most: int) -> bytes:
        found = read_private(path, most)
        have_read.wait()
        return found

    monkeypatch.setattr(browser, "read_private", read_together)

    def use(_: int) -> int:
        with server.client(None) as client:
            return client.post("/api/v1/login", json={"once": code}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(use, range(8))) == [200] + [401] * 7


def test_a_code_is_over_after_two_minutes(timed: Running) -> None:
    for waits, expected in ((119, 200), (121, 401)):
        code = new_code(timed)
        timed.wait(waits)
        with timed.client(None) as client:
            assert client.post("/api/v1/login", json={"once": code}).status_code == expected


def test_there_are_few_codes(server: Running) -> None:
    location = server.store.location
    codes = [browser.new_code(location, 5000.0) for _ in range(browser.MOST_CODES + 3)]
    good = [code for code in codes if browser.take_code(location, code, 5000.0)]
    assert good == codes[-browser.MOST_CODES :]


def test_a_code_that_is_none_is_refused(server: Running) -> None:
    with server.client(None) as client:
        for code in ("", "x", "a" * 22, "../../../../../etc/x", "é" * 22, "a" * 3000):
            assert client.post("/api/v1/login", json={"once": code}).status_code == 401, code


def test_guesses_are_limited_and_the_right_token_always_gets_in(serve_timed: Serve) -> None:
    server = serve_timed(sign_ins=5)
    with server.client(None) as client:
        seen = [client.post("/api/v1/login", json={"once": "a" * 22}) for _ in range(7)]
        assert [one.status_code for one in seen] == [401] * 5 + [429] * 2
        assert seen[-1].headers["retry-after"] == "2"
        assert seen[-1].json()["retryable"] is True
        assert client.post("/api/v1/login", json={"token": "wrong"}).status_code == 429
        assert client.post("/api/v1/login", json={"token": TOKEN}).status_code == 200
        assert client.post("/api/v1/login", json={"once": new_code(server)}).status_code == 200
    assert status(server, "wrong") == 429
    assert status(server, TOKEN) == 200
    server.wait(2)
    assert [status(server, "wrong") for _ in range(2)] == [401, 429]


def test_wrong_codes_of_another_user_of_this_machine_do_not_lock_the_owner_out(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sign_in(code: str) -> int:
        with server.client(None) as client:
            return client.post("/api/v1/login", json={"once": code}).status_code

    with monkeypatch.context() as other:
        other.setattr(peer, "user_of", lambda *_: os.getuid() + 1)
        assert [sign_in("a" * 22) for _ in range(25)][-1] == 429
    assert sign_in("b" * 22) == 401, "a mistake of the owner is told as what it is"
    assert sign_in(new_code(server)) == 200
    own = browser.new_code(server.store.location, time.time(), own=True)
    assert sign_in(own) == 200


def test_only_the_owner_makes_codes(server: Running) -> None:
    _, admin = add_token(server.store, "boss", scopes=["admin"])
    with server.client(admin) as client:
        assert client.post("/api/v1/login/codes").status_code == 403


def cookie_of(server: Running, *, short: bool = True) -> str:
    """The cookie of a browser that signed in; not `short`: the whole header."""
    with server.client(None) as client:
        answer = client.post("/api/v1/login", json={"token": TOKEN})
        return answer.headers["set-cookie"].partition(";")[0] if short else answer.headers["set-cookie"]


def test_the_cookie_is_for_this_server_alone_and_not_for_scripts(server: Running) -> None:
    found = cookie_of(server, short=False)
    name, _, rest = found.partition("=")
    assert name == f"clew-{server.url.rpartition(':')[2]}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(rest.split("; "))
    assert "Domain" not in found
    assert TOKEN not in found


def test_the_cookie_is_secure_behind_https(serve: Serve) -> None:
    server = serve(public_url="https://clew.example/team", root_path="/team")
    with server.client(None) as client:
        told = {"host": "clew.example", "origin": "https://clew.example"}
        answer = client.post("/team/api/v1/login", json={"token": TOKEN}, headers=told)
    assert "; Secure" in answer.headers["set-cookie"]
    assert "Path=/team;" in answer.headers["set-cookie"]


def with_cookie(server: Running, cookie: str) -> httpx.Client:
    client = server.client(None)
    client.headers["cookie"] = cookie
    return client


def test_a_cookie_lasts_over_a_restart_and_ends_with_the_own_token(serve: Serve, tmp_path: Path) -> None:
    with clew.open(tmp_path / "kept.db") as store:
        first = serve(store)
        cookie = cookie_of(first)
        for token, expected in ((TOKEN, 200), ("another-own-token", 401)):
            again = serve(store, token=token)
            renamed = cookie.replace(first.url.rpartition(":")[2], again.url.rpartition(":")[2])
            with with_cookie(again, renamed) as client:
                assert client.get("/api/v1/me").status_code == expected


def test_a_forged_cookie_is_refused(server: Running) -> None:
    name, _, value = cookie_of(server).partition("=")
    version, id, until, nonce, signature = value.split(".")
    forged = [
        f"{version}.{id}.{int(until) + 9999}.{nonce}.{signature}",
        f"{version}.tabcdefghi.{until}.{nonce}.{signature}",
        f"{version}.{id}.{until}.{nonce[::-1]}.{signature}",
        f"{version}.{id}.{until}.{nonce}.{'A' * 43}",
        f"{version}.{id}.{until}.{nonce}.",
        "", "x", value + "x", "é",
    ]  # fmt: skip
    for text in forged:
        with with_cookie(server, f"{name}={text}") as client:
            assert client.get("/api/v1/me").status_code == 401, text
    with with_cookie(server, f"{name}=x; {name}={value}") as client:
        assert client.get("/api/v1/me").status_code == 200, "a page of another port cannot push it aside"
    with with_cookie(server, f"clew-1={value}") as client:
        assert client.get("/api/v1/me").status_code == 401


def test_a_cookie_that_is_over_is_refused(timed: Running) -> None:
    with with_cookie(timed, cookie_of(timed)) as client:
        timed.wait(browser.COOKIE_LASTS - 1)
        assert client.get("/api/v1/me").status_code == 200
        timed.wait(1)
        assert client.get("/api/v1/me").status_code == 401


def test_who_signs_out_is_out_also_with_a_copy_of_the_cookie(server: Running) -> None:
    cookie = cookie_of(server)
    with with_cookie(server, cookie) as client:
        assert client.get("/api/v1/me").status_code == 200
        told = client.post("/api/v1/logout", headers={"origin": server.url})
        assert told.status_code == 204
        assert "Max-Age=0" in told.headers["set-cookie"]
        assert client.get("/api/v1/me").status_code == 401


def test_s15_a_cookie_alone_changes_nothing(server: Running) -> None:
    """What a page of another site can make a browser send, and what only our own page can."""
    good = {"origin": server.url, "content-type": "application/json", "sec-fetch-site": "same-origin"}
    bad: list[dict[str, str]] = [
        {"content-type": "application/json"},
        {**good, "content-type": "text/plain"},
        {**good, "content-type": "application/x-www-form-urlencoded"},
        {**good, "content-type": "multipart/form-data; boundary=x"},
        {**good, "content-type": ""},
        {**good, "sec-fetch-site": "cross-site"},
        {**good, "sec-fetch-site": "same-site"},
        {**good, "origin": "null"},
        {**good, "origin": "http://127.0.0.1:1"},
    ]
    with with_cookie(server, cookie_of(server)) as client:
        for number, headers in enumerate(bad):
            answer = client.post("/api/v1/sessions", content=b'{"id": "n%d"}' % number, headers=headers)
            assert answer.status_code == 403, headers
        assert len(server.store.list()) == 0
        assert client.post("/api/v1/sessions", content=b'{"id": "good"}', headers=good).status_code == 201
        for site in ("cross-site", "same-site"):
            assert client.get("/api/v1/sessions", headers={"sec-fetch-site": site}).status_code == 403
        assert client.get("/api/v1/sessions", headers={"sec-fetch-site": "none"}).status_code == 200


def test_s15_every_route_that_changes_something_refuses_a_cookie_alone(server: Running) -> None:
    wrong = []
    with with_cookie(server, cookie_of(server)) as client:
        for route in routes():
            if route.method != "GET" and route.scope is not None:
                told = send(client, route, path_of(route, {"id": "x"}), body={} if route.body else None)
                if told.status != 403:
                    wrong.append((name_of(route), told.status))
    assert wrong == []


def test_s15_a_login_from_another_page_is_refused(server: Running) -> None:
    """Else an attacker could sign a browser in under a name of their own."""
    with server.client(None) as client:
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"content-type": "text/plain"},
            {"content-type": "application/x-www-form-urlencoded"},
        ):
            sent = {"content-type": "application/json", **headers}
            answer = client.post("/api/v1/login", content=b'{"token": "%s"}' % TOKEN.encode(), headers=sent)
            assert answer.status_code in (403, 415)
            assert "set-cookie" not in answer.headers


def test_a_sign_in_takes_no_large_body(server: Running) -> None:
    with server.client(None) as client:
        assert client.post("/api/v1/login", json={"token": "x" * 5000}).status_code == 413
