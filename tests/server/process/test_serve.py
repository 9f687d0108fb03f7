"""`clew serve` as a process: where it listens, what it says and leaves behind, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import clew
from tests.cli.processes import COMMAND
from tests.server.process.commands import Serving, environment, refused, serving, until
from tests.support.agents import ClaudeCode


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


# -- the start


def test_it_says_where_it_is_and_where_the_token_is_kept(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.said["pid"] == server.process.pid
        assert server.said["store"] == str(tmp_path / "agents.db")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url)
        assert mode(server.said["token_file"]) == 0o600
        assert server.get("/api/v1/sessions").json() == {"data": [], "cursor": None}
        assert httpx.get(f"{server.url}/api/v1/sessions").status_code == 401
        assert server.token not in server.log + json.dumps(server.said)
        assert server.token not in Path(f"/proc/{server.process.pid}/cmdline").read_text()


def test_both_loopback_addresses_are_served_where_there_are_two(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert {httpx.get(f"{url}/health").text for url in server.said["urls"]} == {'{"status":"ok"}'}


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


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        port = server.url.rpartition(":")[2]
        code, said = refused(tmp_path, "--port", port)
        assert code == 1
        assert f"port {port} of 127.0.0.1 is taken" in said


def test_other_machines_are_refused_without_a_token_for_them(tmp_path: Path) -> None:
    code, said = refused(tmp_path, "--host", "0.0.0.0")
    assert code == 1
    assert "0.0.0.0 is open to other machines" in said
    assert "clew token add NAME --scope write makes one" in said


def test_several_workers_need_postgresql(tmp_path: Path) -> None:
    code, said = refused(tmp_path, "--workers", "2")
    assert code == 1
    assert "2 workers need a PostgreSQL store, and this one is sqlite" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--public-url", "example.org"), "is not of the form https://host"),
        (("--root-path", "clew"), "does not begin with a slash"),
        (("--read-only", "--sync"), "no store at"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    code, heard = refused(tmp_path, *options)
    assert code in (1, 2)
    assert said in heard
    assert not (tmp_path / "agents.db").exists()


def test_a_read_only_server_changes_nothing(tmp_path: Path) -> None:
    with clew.open(tmp_path / "agents.db") as store:
        store.session("a")
    with serving(tmp_path, "--read-only") as server, server.client() as client:
        assert client.get("/api/v1/sessions/a").status_code == 200
        assert client.post("/api/v1/sessions", json={"id": "b"}).status_code == 403


def test_the_screen_shows_an_address_for_the_browser_and_no_token(tmp_path: Path) -> None:
    shown = _on_terminal(tmp_path)
    assert re.search(r"Address  http://127\.0\.0\.1:\d+\n", shown)
    assert re.search(r"Browser  http://127\.0\.0\.1:\d+/#once=[\w-]{22}\n", shown)
    assert "Ctrl-C stops it." in shown
    token_file = next((tmp_path / "state" / "servers").glob("*.token"))
    assert token_file.read_text() not in shown


def _on_terminal(home: Path, *options: str, awaited: Path | None = None, **env: str) -> str:
    """What a terminal shows until Ctrl-C is pressed; that is when a file is there, if one is named."""
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
    if awaited is not None:
        until(awaited.exists)
    process.send_signal(signal.SIGINT)
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:
        pass
    assert process.wait(20) == 130
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_s16_the_address_of_the_browser_is_worth_nothing_to_other_users_of_the_machine(
    tmp_path: Path,
) -> None:
    """They see it among the arguments of the browser."""
    env = {"BROWSER": str(_browser(tmp_path))}
    with serving(tmp_path, "--open", env=env) as server:
        until((tmp_path / "opened").exists)
        code = (tmp_path / "opened").read_text().partition("/#once=")[2]
        port = int(server.url.rpartition(":")[2])
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
        timeout=30,
        check=True,
    )
    return done.stdout.split()[1]


def test_the_screen_shows_the_address_all_the_same(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    shown = _on_terminal(tmp_path, "--open", awaited=opened, BROWSER=str(_browser(tmp_path)))
    found = re.search(r"Browser  (http://127\.0\.0\.1:\d+/#once=[\w-]{22})\n", shown)
    assert found
    assert opened.read_text() != found[1]


def test_without_a_browser_the_server_says_so_and_serves(tmp_path: Path) -> None:
    with serving(tmp_path, "--open") as server:
        until(lambda: "no browser was found" in server.log)
        assert server.get("/api/v1/sessions").status_code == 200
    with serving(tmp_path, "--open", env={"BROWSER": str(tmp_path / "missing")}) as server:
        until(lambda: "no browser was found" in server.log)
        assert server.get("/api/v1/sessions").status_code == 200


@pytest.mark.parametrize("options", [("--no-page",), ("--unix-socket", "c.sock")])
def test_there_must_be_a_page_to_open(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, said = refused(tmp_path, "--open", *options)
    assert code == 2
    assert "--open needs a page at an address" in said


# -- sockets of the file system


def test_a_socket_is_the_users_alone_and_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with serving(tmp_path, "--unix-socket", str(path), port=None) as server:
        assert server.said["url"] is None
        assert mode(path) == 0o600
        assert server.get("/api/v1/sessions").status_code == 200
        code, said = refused(tmp_path, "--unix-socket", str(path))
        assert code == 1
        assert "another server listens on" in said
        assert server.get("/health").status_code == 200
        assert server.end() == 0
    assert not path.exists()


def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with serving(tmp_path, "--unix-socket", str(path), port=None) as server:
        server.end(signal.SIGKILL)
    assert path.exists()
    with serving(tmp_path, "--unix-socket", str(path), port=None) as server:
        assert server.get("/health").status_code == 200


def test_a_file_in_the_place_of_the_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    path.write_text("mine")
    code, said = refused(tmp_path, "--unix-socket", str(path))
    assert code == 1
    assert "is not a socket" in said
    assert path.read_text() == "mine"


def test_a_socket_and_a_port_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with serving(tmp_path, "--unix-socket", str(path)) as server:
        assert server.get("/health").status_code == 200
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
            assert client.get("http://localhost/health").status_code == 200


# -- the end


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_nothing_is_left(tmp_path: Path, number: int, code: int) -> None:
    with serving(tmp_path) as server:
        running = next((tmp_path / "state" / "servers").glob("*.json"))
        assert json.loads(running.read_text())["url"] == server.url
        assert server.end(number) == code
    assert not running.exists()
    assert "Traceback" not in server.log
    with clew.open(tmp_path / "agents.db") as store:
        assert store.verify().ok


@contextmanager
def half_a_request(server: Serving, body: bytes = b'{"id": "late"}') -> Iterator[socket.socket]:
    """A connection on which the rest of a body is still to come; the server is at work on it."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    head = (
        f"POST /api/v1/sessions HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as one:
        one.sendall(head.encode() + body[:5])
        until(lambda: 'clew_requests_in_flight{worker="0"} 2' in server.get("/metrics").text)
        yield one


def is_listening(server: Serving) -> bool:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_request_that_is_under_way_gets_its_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with half_a_request(server) as one:
            server.send(signal.SIGTERM)
            until(lambda: not is_listening(server))
            one.sendall(b'{"id": "late"}'[5:])
            found = b"".join(iter(lambda: one.recv(65536), b""))
        assert found.startswith(b"HTTP/1.1 201")
        assert b"connection: close" in found.lower()
        assert server.process.wait(20) == 0
    with clew.open(tmp_path / "agents.db") as store:
        assert store.find("late")


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


def test_streams_are_told_to_come_back(tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "1000") as server, server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
        with client.stream("GET", "/api/v1/sessions/a/live") as stream:
            lines = stream.iter_lines()
            next(lines)
            server.send(signal.SIGTERM)
            rest = list(lines)
        assert "event: bye" in rest
        assert server.process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_lease_outlives_the_server(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as server, server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
        run = client.post("/api/v1/sessions/a/runs", json={"lease": 60}).json()
        server.end(number)
    lease = {"clew-lease": run["secret"]}
    with serving(tmp_path) as server, server.client() as client:
        again = client.post("/api/v1/sessions/a/runs", json={})
        assert again.status_code == 423
        renewed = client.put(f"/api/v1/sessions/a/runs/{run['epoch']}", headers=lease)
        assert renewed.status_code == 200, renewed.text
        body = {"messages": [{"role": "user", "content": "still mine"}]}
        assert client.post("/api/v1/sessions/a/entries", json=body, headers=lease).status_code == 201


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    port = _free_port()
    with serving(tmp_path, port=port) as server, server.client() as client:
        client.post("/api/v1/sessions", json={"id": "a"})
        for number in range(20):
            body = {"messages": [{"role": "user", "content": str(number)}]}
            assert client.post("/api/v1/sessions/a/entries", json=body).status_code == 201
        server.end(signal.SIGKILL)
    with serving(tmp_path, port=port) as server:
        found = server.get("/api/v1/sessions/a/entries?last=50").json()["data"]
        assert [entry["message"]["content"] for entry in found] == [str(number) for number in range(20)]


def _free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


# -- SIGHUP and service managers


def test_a_hangup_opens_the_log_anew_and_reads_the_tokens_again(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(tmp_path, "--log-file", str(log)) as server:
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
    assert server.log == ""


def test_a_service_manager_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        told = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "1500000"}
        with serving(tmp_path, env=told) as server:
            assert manager.recv(1000) == b"READY=1"
            assert manager.recv(1000) == b"WATCHDOG=1"
            server.send(signal.SIGHUP)
            heard = [manager.recv(1000) for _ in range(2)]
            assert any(one.startswith(b"RELOADING=1\nMONOTONIC_USEC=") for one in heard)
            server.send(signal.SIGTERM)
            while manager.recv(1000) != b"STOPPING=1":
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
        done = subprocess.run(
            [*COMMAND, "watch"], env=environment(tmp_path), capture_output=True, text=True, check=False
        )
        assert f"process {server.process.pid} follows the agents already" in done.stderr
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
