"""What docs/how-to/run-a-server.md tells people to write, tried with the programs that read it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.server.process.commands import until
from tests.server.process.proxies import PAGE, block, caddy, nginx, proxied


@pytest.mark.parametrize(("make", "language"), [(nginx, "nginx"), (caddy, "caddyfile")])
def test_behind_a_proxy_under_a_path(
    tmp_path: Path, make: Callable[[Path, int, str], list[str]], language: str
) -> None:
    """Ids come through it as they are, clients cannot lie about their addresses, and it holds back no stream.
    Two processes: that takes a second."""
    with proxied(tmp_path, make, language) as (server, client):
        assert server.said["url"] == str(client.base_url).rstrip("/")
        assert client.get("/ready").json() == {"status": "ready"}
        for id in ("a/b", "ü#1 @x", "a%2Fb"):
            assert client.post("/api/v1/sessions", json={"id": id}).status_code == 201
            assert client.get(f"/api/v1/sessions/{quote(id, safe='')}").json()["id"] == id
        client.get("/api/v1/sessions", headers={"x-forwarded-for": "10.9.8.7"})
        until(lambda: "GET /clew/api/v1/sessions 200" in server.log)
        assert "10.9.8.7" not in server.log
        client.post("/api/v1/sessions", json={"id": "a"})
        with client.stream("GET", "/api/v1/sessions/a/live") as stream:
            lines = stream.iter_lines()
            assert "event: head" in lines  # what is written from now on is told
            with server.client(follow_redirects=False) as direct:
                direct.base_url = httpx.URL(server.said["urls"][0])
                body = {"messages": [{"role": "user", "content": "hello"}]}
                assert direct.post("/api/v1/sessions/a/entries", json=body).status_code == 201
            assert next(line for line in lines if line == "event: entry")


@pytest.mark.needs("systemd-analyze")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
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
