"""No secret in a log, an error, a listing of processes, or anything else that a server writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

import clew
from clew.server.access.principal import OWNER
from clew.server.access.secret import Parsed, parsed
from clew.server.access.shares import add_share
from clew.server.access.sign_in import Credential
from clew.server.access.tokens import add_token
from clew.server.process.settings import Settings
from tests.cli.inside import in_pipe
from tests.server.access.requests import bodies, path_of, routes, send
from tests.server.conftest import TOKEN, Running
from tests.server.process.commands import Serving, environment, serving


def commands_of_all_processes() -> bytes:
    """What `ps` shows of the processes of this machine, with their environments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "comm"):
            try:
                found.append((process / name).read_bytes())
            except OSError:
                continue
    return b"\n".join(found)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user, whose commands are run in this process."""
    for name, value in environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_s16_and_s25_no_secret_is_in_anything_that_a_server_writes(tmp_path: Path, home: Path) -> None:
    """A process of its own, and five hundred requests: that takes a second."""
    secrets: dict[str, str] = {}
    written: list[bytes] = []
    with serving(home, "--log-file", str(tmp_path / "access.log")) as server:
        secrets["own"] = server.token
        secrets["token"] = token_in(in_pipe("token", "add", "ci", "--scope", "admin"))
        secrets["bound"] = token_in(in_pipe("token", "add", "bound", "--tag", "x"))
        with server.client() as client:
            client.post("/api/v1/sessions", json={"id": "login"})
            secrets["code"] = client.post("/api/v1/login/codes").json()["once"]
        made = in_pipe("share", "login", "--json")
        assert f"{server.url}/#share=clew_s" in made, "the server is found, and the link is whole"
        secrets["share"] = made.partition('"token":"')[2].partition('"')[0]
        with httpx.Client(base_url=server.url, trust_env=False) as nobody:
            cookie = nobody.post("/api/v1/login", json={"once": secrets["code"]})
            assert cookie.status_code == 200
            secrets["cookie"] = cookie.headers["set-cookie"].partition(";")[0].partition("=")[2]
            written.append(whole(nobody.get("/api/v1/me")))
        secrets["wrong"] = "clew_tzzzzzzzzz_" + "Zz9" * 14 + "A"
        tokens = [value for name, value in secrets.items() if name not in ("code", "cookie")]
        with ThreadPoolExecutor(len(tokens)) as callers:
            for heard in callers.map(partial(all_that_is_answered, server), tokens):
                written += heard
        processes = commands_of_all_processes()
        assert server.end() == 0
        written += [server.log.encode(), (tmp_path / "access.log").read_bytes(), *map(_said, [server.said])]
    assert len(written) > 100
    assert b"/api/v1/me" in (tmp_path / "access.log").read_bytes(), "this test looks at the log"
    leaks = []
    for name, secret in secrets.items():
        plain = secret.rpartition("_")[2].encode() if name not in ("cookie", "code") else secret.encode()
        leaks += [(name, text[max(0, text.find(plain) - 100) :][:200]) for text in written if plain in text]
        assert plain not in processes, f"{name} is in the list of processes"
    assert leaks == []


def all_that_is_answered(server: Serving, token: str) -> list[bytes]:
    """To a caller who shows a token where it belongs, on every route, and in many wrong places."""
    heard = []
    with server.client(token) as client:
        for route in routes():
            values = {"id": "login", "other": "x", "text": "x"}
            body = next(iter(bodies(route, values)))
            told = send(client, route, path_of(route, values), body=body, until=b"event: ")
            if not route.path.endswith("/login/codes"):
                heard.append(told.whole)
        json_type = {"content-type": "application/json"}
        paths = ("/api/v1/sessions?token=", "/api/v1/sessions?cursor=", "/?token=", "/health?access_token=")
        answers = [client.get(f"{path}{token}") for path in paths]
        answers += [
            client.post("/api/v1/login", json={"once": token}),
            client.post("/api/v1/login", json={"token": token[:-2]}),
            client.post("/api/v1/login", content=f'{{"token": {token}}}', headers=json_type),
            client.post("/api/v1/sessions", json={"title": 7, "metadata": token}),
            client.get("/api/v1/me", headers={"cookie": f"clew={token}"}),
            client.get("/api/v1/me", headers={"authorization": f"Basic {token}"}),
            client.get("/api/v1/me", headers={"clew-lease": token}),
            client.get("/api/v1/me", headers={"if-match": token}),
        ]
    return heard + [whole(answer) for answer in answers]


def whole(answer: httpx.Response) -> bytes:
    return answer.content + str(answer.headers).encode()


def token_in(said: str) -> str:
    return next(line for line in said.splitlines() if line.startswith("clew_"))


def _said(value: object) -> bytes:
    """What it told at its start: the address with the code stands there for the browser, and only there."""
    return str({name: one for name, one in dict(value).items() if name != "sign_in"}).encode()  # type: ignore[call-overload]


def test_s16_a_token_in_the_address_does_not_sign_in(server: Running) -> None:
    with server.client(None) as client:
        for name in ("token", "access_token", "api_key", "once"):
            assert client.get(f"/api/v1/sessions?{name}={TOKEN}").status_code == 401
        assert client.get("/api/v1/me", headers={"cookie": f"token={TOKEN}; clew={TOKEN}"}).status_code == 401
        for name in ("x-api-key", "x-auth-token", "proxy-authorization"):
            assert client.get("/api/v1/me", headers={name: f"Bearer {TOKEN}"}).status_code == 401


def test_s25_nothing_that_is_printed_shows_a_secret(server: Running) -> None:
    session = server.store.create("login")
    token, text = add_token(server.store, "ci")
    share, link = add_share(server.store, session, at=None)
    found = parsed(text)
    assert isinstance(found, Parsed)
    shown = [
        repr(found), str(found), repr(token), repr(share), repr(Credential(token.id, text)), repr(OWNER),
        repr(server.app.sign_in), repr(server.app.sign_in.find(Credential(token.id, text))),
        repr(server.app), repr(vars(server.app)), f"{Credential(token.id, text)}",
    ]  # fmt: skip
    for secret in (text, link, TOKEN):
        assert not [one for one in shown if secret.rpartition("_")[2] in one]


def test_s25_the_token_of_the_owner_is_not_in_the_settings_as_they_are_printed() -> None:
    made = Settings(token="clew_own_" + "Q" * 43)
    assert "Q" * 43 not in repr(made)
    assert "Q" * 43 not in str(made)
    assert "rate=" in repr(made)


def test_a_listing_shows_no_secret(home: Path) -> None:
    with clew.open(home / "agents.db") as store:
        session = store.create("login")
        texts = [add_token(store, "ci")[1], add_share(store, session, at=None)[1]]
    for words in (["token", "ls"], ["token", "ls", "--json"], ["share", "ls"], ["share", "ls", "--json"]):
        told = in_pipe(*words)
        assert ("ci" if words[0] == "token" else "login") in told
        assert not [text for text in texts if text.rpartition("_")[2] in told]
