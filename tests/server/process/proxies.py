"""Proxies of other people in front of `clew serve`, set up as docs/how-to/run-a-server.md says."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.docs.pages import DOCS
from tests.server.process.commands import Serving, serving, until
from tests.support.needs import need

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
    need(make.__name__)
    port = free_port()
    public = f"http://127.0.0.1:{port}/clew"
    with serving(tmp_path, "--public-url", public, "--proxy") as server:
        own = server.said["urls"][0].split("/")[2]
        command = make(tmp_path, port, block(language).replace("127.0.0.1:8731", own))
        environment = {"HOME": str(tmp_path), "PATH": PROGRAMS}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as proxy:
            try:
                until(lambda: is_open(port) or proxy.poll() is not None)
                assert proxy.poll() is None, "the proxy did not start"
                headers = {"authorization": f"Bearer {server.token}"}
                with httpx.Client(base_url=public, headers=headers, trust_env=False, timeout=None) as client:
                    yield server, client
            finally:
                proxy.terminate()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True
