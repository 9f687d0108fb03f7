"""`clew serve` as a process: where it listens, what it says and leaves behind, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import clew
from clew.server.access import peer, state, tokens
from tests.cli.processes import COMMAND
from tests.server.process.commands import Serving, environment, in_process, refused, serving, until
from tests.server.process.test_access_log import LINE
from tests.support.agents import ClaudeCode
from tests.support.rows import each_row


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


# -- one that is as users start it


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """With a port and a socket."""
    home = tmp_path_factory.mktemp("one")
    with serving(
        home, "--unix-socket", str(home / "c.sock"), "--log-file", str(home / "access.log")
    ) as found:
        yield found


def test_it_says_where_it_is_and_where_the_token_is_kept(one: Serving) -> None:
    assert one.said["pid"] == one.process.pid
    assert one.said["store"] == str(one.home / "agents.db")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", one.url)
    assert mode(one.said["token_file"]) == 0o600
    assert one.get("/api/v1/sessions").status_code == 200
    assert httpx.get(f"{one.url}/api/v1/sessions").status_code == 401
    assert one.token not in one.log + json.dumps(one.said)
    assert one.token not in Path(f"/proc/{one.process.pid}/cmdline").read_text()


def test_both_loopback_addresses_are_served_where_there_are_two(one: Serving) -> None:
    assert {httpx.get(f"{url}/health").text for url in one.said["urls"]} == {'{"status":"ok"}'}


def test_a_port_that_is_taken_is_named(one: Serving) -> None:
    port = one.url.rpartition(":")[2]
    code, said = refused(one.home, "--port", port)
    assert code == 1
    assert f"port {port} of 127.0.0.1 is taken" in said


def test_a_socket_is_the_users_alone_and_stays_that_of_its_server(one: Serving) -> None:
    path = one.said["unix_socket"]
    assert mode(path) == 0o600
    code, said = refused(one.home, "--unix-socket", path)
    assert code == 1
    assert "another server listens on" in said
    with httpx.Client(transport=httpx.HTTPTransport(uds=path)) as client:
        assert client.get("http://localhost/health").status_code == 200


def test_its_log_has_a_line_for_each_request(one: Serving) -> None:
    log = one.home / "access.log"
    assert one.get("/begin").status_code == 404

    def lines() -> list[str]:
        """Those behind what other tests asked for."""
        return log.read_text().partition("GET /begin")[2].splitlines()[1:]

    wrong = "clew_own_" + "a" * 43
    with one.client() as client:
        client.post("/api/v1/sessions", json={"id": "a\n b"})
        client.get(f"/api/v1/sessions/{quote('a' + chr(10) + ' b', safe='')}")
        client.get(f"/api/v1/nothing/{one.token}?token={one.token}")
        client.get("/api/v1/sessions", headers={"authorization": f"Bearer {wrong}"})
        client.get("/api/v1/sessions", headers={b"x-forwarded-for": b"1.2.3.4\xe9", b"referer": b"secret"})
    with socket.create_connection(one.address) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(1000)
    until(lambda: len(lines()) == 6)
    assert all(LINE.fullmatch(line) for line in lines()), lines()
    assert [line.split()[2:6] for line in lines()] == [
        ["owner", "POST", "/api/v1/sessions", "201"],
        ["owner", "GET", "/api/v1/sessions/a%0A%20b", "200"],
        ["-", "GET", "/api/v1/nothing/***", "404"],
        ["-", "GET", "/api/v1/sessions", "401"],
        ["owner", "GET", "/api/v1/sessions", "200"],
        ["-", "-", "-", "400"],
    ]
    assert {line.split()[1] for line in lines()} == {"127.0.0.1"}
    assert not [secret for secret in (one.token, wrong, "secret") if secret in log.read_text()]


# -- the start


def test_the_token_is_the_same_after_a_restart_until_a_new_one_is_wanted(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first = server.token
        server.end()
    with serving(tmp_path) as server:
        assert server.token == first
        server.end()
    with serving(tmp_path, "--new-token") as server:
        assert server.token != first
        with server.client(first) as client:
            assert client.get("/api/v1/sessions").status_code == 401


def test_two_servers_of_one_store_have_two_ports(tmp_path: Path) -> None:
    with serving(tmp_path, port=None) as first, serving(tmp_path, port=None) as second:
        assert first.url != second.url
        with first.client() as client:
            client.post("/api/v1/sessions", json={"id": "a"})
        assert second.get("/api/v1/sessions/a").status_code == 200


@each_row(
    ("options", "exits", "said"),
    [
        (("--host", "0.0.0.0"), 1, "0.0.0.0 is open to other machines"),
        (("--host", "0.0.0.0"), 1, "clew token add NAME --scope write makes one"),
        (("--workers", "2"), 1, "2 workers need a PostgreSQL store, and this one is sqlite"),
        (("--public-url", "example.org"), 2, "is not of the form https://host"),
        (("--root-path", "clew"), 2, "does not begin with a slash"),
        (("--read-only", "--sync"), 1, "no store at"),
        (("--open", "--sign-in"), 2, "--open signs in by itself"),
        (("--open", "--no-page"), 2, "--open needs a page at an address"),
        (("--open", "--unix-socket", "c.sock"), 2, "--open needs a page at an address"),
    ],
)
def test_options_that_cannot_be_are_refused(
    tmp_path: Path, options: tuple[str, ...], exits: int, said: str
) -> None:
    code, heard = refused(tmp_path, *options)
    assert code == exits, heard
    assert said in heard
    has_looked_for_tokens = "--host" in options
    assert (tmp_path / "agents.db").exists() == has_looked_for_tokens


def test_a_read_only_server_changes_nothing(tmp_path: Path) -> None:
    with clew.open(tmp_path / "agents.db") as store:
        store.session("a")
    with serving(tmp_path, "--read-only") as server, server.client() as client:
        assert client.get("/api/v1/sessions/a").status_code == 200
        assert client.post("/api/v1/sessions", json={"id": "b"}).status_code == 403


def _on_terminal(home: Path, *options: str, awaited: Path, **env: str) -> str:
    """What a terminal shows until Ctrl-C is pressed, once a file is there."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", *options],
        env={**environment(home), "TERM": "xterm", **env},
        cwd=home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while b"Ctrl-C" not in shown:
        shown += os.read(ours, 65536)
    until(awaited.exists)
    process.send_signal(signal.SIGINT)
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:
        pass
    assert process.wait() == 130
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


# -- the browser


def _browser(home: Path) -> Path:
    """A browser that writes down where it was sent."""
    home.mkdir(exist_ok=True)
    path = home / "browser"
    path.write_text('#!/bin/sh\nprintf "%s" "$1" > opened.part && mv opened.part opened\n')
    path.chmod(0o700)
    return path


def test_the_browser_is_opened_at_an_address_that_signs_in_once(tmp_path: Path) -> None:
    env = {"BROWSER": str(_browser(tmp_path))}
    with serving(tmp_path, "--open", env=env) as server:
        opened = tmp_path / "opened"
        until(opened.exists)
        address, _, code = opened.read_text().partition("/#once=")
        assert address == server.url
        assert code not in server.log + json.dumps(server.said)
        with httpx.Client(base_url=server.url, trust_env=False) as browser:
            login = {"json": {"once": code}, "headers": {"origin": server.url}}
            assert browser.post("/api/v1/login", **login).status_code == 200  # type: ignore[arg-type]
            assert browser.get("/api/v1/me").json()["kind"] == "owner"
            assert browser.post("/api/v1/login", **login).status_code == 401  # type: ignore[arg-type]


def _signs_in(server: Serving, address: str) -> bool:
    where, _, code = address.partition("/#once=")
    assert where == server.url
    with httpx.Client(base_url=server.url, trust_env=False) as browser:
        answer = browser.post("/api/v1/login", json={"once": code}, headers={"origin": server.url})
        return answer.status_code == 200 and browser.get("/api/v1/me").json()["kind"] == "owner"


def test_a_server_that_runs_gives_a_fresh_address_that_signs_in_once(
    one: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = in_process(one.home, "serve", "--sign-in")
    address = capsys.readouterr().out.strip()
    assert (code, said) == (0, "")
    assert _signs_in(one, address)
    assert not _signs_in(one, address)
    assert one.token not in address


def test_a_second_open_opens_the_server_that_runs(one: Serving, tmp_path: Path) -> None:
    """It takes a second: the browser is named by the environment of a process."""
    env = {**environment(one.home), "BROWSER": str(_browser(tmp_path))}
    command = [*COMMAND, "serve", "--open", "--json", "--port", "0"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    until((tmp_path / "opened").exists)
    assert _signs_in(one, (tmp_path / "opened").read_text())
    told = json.loads(done.stdout)
    assert (told["url"], told["pid"], told["is_running"], told["is_open"]) == (
        one.url,
        one.process.pid,
        True,
        True,
    )
    assert "the running server keeps its settings; ignored: --port" in done.stderr


def test_what_is_no_server_of_this_user_is_neither_opened_nor_signed_in_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file says where a server was; another program listens there, or none."""
    monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "state"))
    with clew.open(tmp_path / "agents.db") as store:
        location = store.location
    refusal = (1, "clew: no server of this store runs here; start one: clew serve\n")
    assert in_process(tmp_path, "serve", "--sign-in") == refusal
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        state.set_running(location, url, local=url)
        answers = threading.Thread(target=_answer_nonsense, args=(other,))
        answers.start()
        assert in_process(tmp_path, "serve", "--sign-in") == refusal
        answers.join()
    assert in_process(tmp_path, "serve", "--sign-in") == refusal
    assert not list((tmp_path / "state" / "servers").glob("*.once")), "no code was made for it"


def test_s16_a_server_of_another_user_is_neither_opened_nor_signed_in_to(
    one: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page could read the code in the address."""
    monkeypatch.setattr(peer, "user_of", lambda client, server: 4711)
    code, said = in_process(one.home, "serve", "--sign-in")
    assert code == 1
    assert "no server of this store runs here" in said


def _answer_nonsense(other: socket.socket) -> None:
    connection, _ = other.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"220 mail.example ESMTP\r\n")


def test_a_server_for_other_machines_says_addresses_that_can_be_opened(tmp_path: Path) -> None:
    with clew.open(tmp_path / "agents.db") as store:
        store.create("a").append({"role": "user", "content": "hello"})
        tokens.add_token(store, "laptop")
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        urls = server.said["urls"]
        assert server.url == urls[0]
        assert urls[-1].startswith("http://127.0.0.1:")
        assert not [url for url in urls if "0.0.0.0" in url]
        with httpx.Client(trust_env=False) as client:
            assert {client.get(f"{url}/health").status_code for url in urls} == {200}
        with server.client() as client:
            made = client.post(f"{urls[-1]}/api/v1/shares", json={"session": "a"}).json()
        assert made["url"].startswith(f"{urls[0]}/#share="), "a link leads other machines there too"


@pytest.mark.needs("root")
def test_s16_the_address_of_the_browser_is_worth_nothing_to_other_users_of_the_machine(
    tmp_path: Path,
) -> None:
    """They see it among the arguments of the browser."""
    env = {"BROWSER": str(_browser(tmp_path))}
    with serving(tmp_path, "--open", env=env) as server:
        until((tmp_path / "opened").exists)
        code = (tmp_path / "opened").read_text().partition("/#once=")[2]
        port = server.address[1]
        body = json.dumps({"once": code})
        head = f"POST /api/v1/login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        assert _answered(port, request, user=65534) == "401"
        assert _answered(port, request, user=0) == "200"


def _answered(port: int, request: str, *, user: int) -> str:
    """The status of the answer to what another user sends, by a shell that needs no files of ours."""
    script = f'exec 3<>/dev/tcp/127.0.0.1/{port}; printf %s "$1" >&3; head -n 1 <&3'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", request],
        user=user,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[1]


def test_the_screen_shows_an_address_for_another_browser_and_no_token(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    shown = _on_terminal(tmp_path, "--open", awaited=opened, BROWSER=str(_browser(tmp_path)))
    assert re.search(r"Address  http://127\.0\.0\.1:\d+\n", shown)
    found = re.search(r"Browser  (http://127\.0\.0\.1:\d+/#once=[\w-]{22})\n", shown)
    assert found
    assert opened.read_text().partition("/#once=")[2] not in ("", found[1].partition("/#once=")[2])
    assert "Ctrl-C stops it." in shown
    token_file = next((tmp_path / "state" / "servers").glob("*.token"))
    assert token_file.read_text() not in shown


def test_without_a_browser_the_server_says_so_and_serves(tmp_path: Path) -> None:
    with serving(tmp_path, "--open") as server:
        until(lambda: "no browser was found" in server.log)
        assert server.get("/api/v1/sessions").status_code == 200
    with serving(tmp_path, "--open", env={"BROWSER": str(tmp_path / "missing")}) as server:
        until(lambda: "no browser was found" in server.log)
        assert server.get("/api/v1/sessions").status_code == 200


# -- sockets of the file system


def test_a_file_in_the_place_of_the_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    path.write_text("mine")
    code, said = refused(tmp_path, "--unix-socket", str(path))
    assert code == 1
    assert "is not a socket" in said
    assert path.read_text() == "mine"


# -- the end


@contextmanager
def half_a_request(server: Serving, body: bytes = b'{"id": "late"}') -> Iterator[socket.socket]:
    """A connection on which the rest of a body is still to come; the server is at work on it."""
    head = (
        f"POST /api/v1/sessions HTTP/1.1\r\nHost: {server.url.removeprefix('http://')}\r\n"
        f"Authorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(server.address) as one:
        one.sendall(head.encode() + body[:5])
        until(lambda: 'clew_requests_in_flight{worker="0"} 2' in server.get("/metrics").text)
        yield one


def is_listening(server: Serving) -> bool:
    try:
        socket.create_connection(server.address).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_stop_answers_what_is_under_way_tells_streams_to_come_back_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c.sock"
    with serving(tmp_path, "--unix-socket", str(path), "--grace", "1000") as server:
        running = next((tmp_path / "state" / "servers").glob("*.json"))
        assert json.loads(running.read_text())["url"] == server.url
        with half_a_request(server) as one, server.client() as client:
            client.post("/api/v1/sessions", json={"id": "a"})
            with client.stream("GET", "/api/v1/sessions/a/live") as stream:
                lines = stream.iter_lines()
                next(lines)
                server.send(signal.SIGTERM)
                assert "event: bye" in list(lines)
            until(lambda: not is_listening(server))
            one.sendall(b'{"id": "late"}'[5:])
            found = b"".join(iter(lambda: one.recv(65536), b""))
        assert found.startswith(b"HTTP/1.1 201")
        assert b"connection: close" in found.lower()
        assert server.process.wait() == 0
    assert not running.exists()
    assert not path.exists()
    assert "Traceback" not in server.log
    with clew.open(tmp_path / "agents.db") as store:
        assert store.find("late")
        assert store.verify().ok


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.end(signal.SIGINT) == 130


def test_a_request_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "0.5") as server, half_a_request(server):
        assert server.end() == 0
    assert "1 requests did not end in 0.5 s and were cut off" in server.log


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    patient = ("--unix-socket", str(path), "--grace", "1000")
    with serving(tmp_path, *patient) as server, half_a_request(server):
        server.send(signal.SIGINT)
        until(lambda: not is_listening(server))
        assert server.end(signal.SIGINT) == 130
    assert not path.exists()
    assert not list((tmp_path / "state" / "servers").glob("*.json"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_acknowledged_and_leased_outlives_the_server(tmp_path: Path, number: int) -> None:
    """Two processes, one after the other: that takes a second. The second takes the socket that the first
    left when it was killed."""
    options = ("--unix-socket", str(tmp_path / "c.sock"))
    body: Any = {"messages": [{"role": "user", "content": "hello"}]}
    entries = "/api/v1/sessions/a/entries"
    with serving(tmp_path, *options, port=None) as server, server.client() as client:
        assert server.said["url"] is None
        client.post("/api/v1/sessions", json={"id": "a"})
        for _ in range(20):
            assert client.post(entries, json=body).status_code == 201
        run = client.post("/api/v1/sessions/a/runs", json={"lease": 1000}).json()
        server.end(number)
    assert (tmp_path / "c.sock").exists() == (number == signal.SIGKILL)
    lease = {"clew-lease": run["secret"]}
    with serving(tmp_path, *options, port=None) as server, server.client() as client:
        assert len(client.get(f"{entries}?last=50").json()["data"]) == 20
        again = client.post("/api/v1/sessions/a/runs", json={})
        assert again.status_code == 423
        renewed = client.put(f"/api/v1/sessions/a/runs/{run['epoch']}", headers=lease)
        assert renewed.status_code == 200, renewed.text
        assert client.post(entries, json=body, headers=lease).status_code == 201


# -- SIGHUP and service managers


def test_a_hangup_opens_the_log_anew_reads_the_tokens_again_and_a_service_manager_is_told(
    tmp_path: Path, manager: socket.socket
) -> None:
    log = tmp_path / "access.log"
    told = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1"}
    with serving(tmp_path, "--log-file", str(log), env=told) as server:
        assert manager.recv(1000) == b"READY=1"
        assert manager.recv(1000) == b"WATCHDOG=1"
        server.get("/api/v1/sessions")
        until(lambda: "GET /api/v1/sessions 200" in log.read_text())
        assert mode(log) == 0o600
        log.rename(tmp_path / "access.log.1")
        old = server.token
        new = old[:-4] + ("aaaa" if not old.endswith("aaaa") else "bbbb")
        Path(server.said["token_file"]).write_text(new)
        server.send(signal.SIGHUP)
        until(lambda: log.exists() and "reloaded" in log.read_text())
        assert server.get("/api/v1/sessions").status_code == 200
        with server.client(old) as client:
            assert client.get("/api/v1/sessions").status_code == 401
        until(lambda: " 401 " in log.read_text())
        heard(manager, b"RELOADING=1\nMONOTONIC_USEC=")
        heard(manager, b"READY=1")
        assert server.end() == 0
        heard(manager, b"STOPPING=1")
    assert server.log == ""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        yield found


def heard(manager: socket.socket, begins: bytes) -> None:
    """Wait for what a service manager is told."""
    while not manager.recv(1000).startswith(begins):
        pass


# -- sync


def test_agents_are_followed_by_the_same_process(tmp_path: Path) -> None:
    agent = ClaudeCode(tmp_path, 1, longest=100)
    agent.say()
    with serving(tmp_path, "--sync") as server:
        until(lambda: server.get("/api/v1/sessions").json()["data"])
        agent.say()
        agent.say()
        id = server.get("/api/v1/sessions").json()["data"][0]["id"]
        with server.client() as client:
            until(lambda: client.get(f"/api/v1/sessions/{id}").json()["messages"] == 3)
        _, said = in_process(tmp_path, "watch")
        assert f"process {server.process.pid} follows the agents already" in said
        assert server.end() == 0


def test_a_server_waits_while_another_process_follows(tmp_path: Path) -> None:
    agent = ClaudeCode(tmp_path, 1, longest=100)
    agent.say()
    with serving(tmp_path, "--sync") as first:
        until(lambda: first.get("/api/v1/sessions").json()["data"])
        with serving(tmp_path / "second", "--sync", env=environment(tmp_path)) as second:
            until(lambda: f"process {first.process.pid} follows the agents" in second.log)
            assert second.get("/health").status_code == 200
            assert second.end() == 0
