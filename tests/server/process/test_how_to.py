"""What docs/how-to/run-a-server.md tells people to write, tried with the programs that read it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.docs.pages import DOCS
from tests.server.process.commands import Serving, serving, until

PROGRAMS = "/usr/bin:/bin:/usr/sbin"
PAGE = (DOCS / "how-to" / "run-a-server.md").read_text()


def block(language: str) -> str:
    return PAGE.split(f"```{language}\n")[1].split("```")[0]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def nginx(home: Path, port: int, location: str) -> list[str]:
    paths = "".join(
        f"{name}_temp_path {home}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (home / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {home}/pid; error_log {home}/errors;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}server {{\nlisten 127.0.0.1:{port};\n{location}}}\n}}\n"
    )
    return ["nginx", "-c", str(home / "nginx.conf"), "-p", str(home)]


def caddy(home: Path, port: int, location: str) -> list[str]:
    site = f"{{\nadmin off\nauto_https off\n}}\nhttp://127.0.0.1:{port} {{\n{location}}}\n"
    (home / "Caddyfile").write_text(site)
    return ["caddy", "run", "--config", str(home / "Caddyfile"), "--adapter", "caddyfile"]


@contextmanager
def proxied(
    tmp_path: Path, make: Callable[[Path, int, str], list[str]], language: str
) -> Iterator[tuple[Serving, httpx.Client]]:
    """A server, and a client that reaches it by the proxy."""
    name = make.__name__
    if shutil.which(name, path=PROGRAMS) is None:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(f"{name} is needed here, and not installed")
        pytest.skip(f"{name} is not installed")
    port = free_port()
    public = f"http://127.0.0.1:{port}/clew"
    with serving(tmp_path, "--public-url", public, "--proxy") as server:
        own = server.said["urls"][0].split("/")[2]
        command = make(tmp_path, port, block(language).replace("127.0.0.1:8731", own))
        environment = {"HOME": str(tmp_path), "PATH": PROGRAMS}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as proxy:
            try:
                until(lambda: is_open(port))
                headers = {"authorization": f"Bearer {server.token}"}
                with httpx.Client(base_url=public, headers=headers, trust_env=False) as client:
                    yield server, client
            finally:
                proxy.terminate()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(("make", "language"), [(nginx, "nginx"), (caddy, "caddyfile")])
def test_behind_a_proxy_under_a_path(
    tmp_path: Path, make: Callable[[Path, int, str], list[str]], language: str
) -> None:
    with proxied(tmp_path, make, language) as (server, client):
        assert server.said["url"] == str(client.base_url).rstrip("/")
        assert client.get("/ready").json() == {"status": "ready"}
        for id in ("a/b", "ü#1 @x", "a%2Fb"):
            assert client.post("/api/v1/sessions", json={"id": id}).status_code == 201
            assert client.get(f"/api/v1/sessions/{quote(id, safe='')}").json()["id"] == id
        client.get("/api/v1/sessions", headers={"x-forwarded-for": "10.9.8.7"})
        until(lambda: "GET /clew/api/v1/sessions 200" in server.log)
        assert "10.9.8.7" not in server.log


@pytest.mark.parametrize(("make", "language"), [(nginx, "nginx"), (caddy, "caddyfile")])
def test_streams_are_not_held_back_by_a_proxy(
    tmp_path: Path, make: Callable[[Path, int, str], list[str]], language: str
) -> None:
    with proxied(tmp_path, make, language) as (server, client):
        client.post("/api/v1/sessions", json={"id": "a"})
        with client.stream("GET", "/api/v1/sessions/a/live") as stream:
            lines = stream.iter_lines()
            next(lines)
            with server.client(follow_redirects=False) as direct:
                direct.base_url = httpx.URL(server.said["urls"][0])
                body = {"messages": [{"role": "user", "content": "hello"}]}
                assert direct.post("/api/v1/sessions/a/entries", json=body).status_code == 201
            assert next(line for line in lines if line == "event: entry")


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "clew.service"
    true = shutil.which("true") or "/bin/true"
    unit.write_text(block("ini").replace("/opt/clew/bin/clew", true).replace("User=clew", "User=daemon"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert not [line for line in done.stderr.splitlines() if "clew.service" in line], done.stderr
    assert done.returncode == 0, done.stderr


def test_what_the_page_names_are_options_of_the_command() -> None:
    from clew.cli.commands.serving.serve import serve_command

    known = {name for parameter in serve_command.params for name in parameter.opts}
    lines = [line for line in PAGE.splitlines() if "clew serve" in line or "`--" in line]
    named = {
        word.strip("`,;.") for line in lines for word in line.split() if word.strip("`").startswith("--")
    }
    assert named - known <= {"--scope", "--no-cache-dir", "--rm"}
