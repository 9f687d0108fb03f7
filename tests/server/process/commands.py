"""`clew serve` as a real process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from clew.cli import run
from tests.cli.processes import COMMAND
from tests.support import waiting

until = waiting.until


def environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "CLEW_STATE_DIR": str(home / "state"),
        "CLEW_STORE": str(home / "agents.db"),
        "CLEW_CONFIG": str(home / "config.toml"),
        "XDG_STATE_HOME": str(home / "xdg-state"),
        "XDG_RUNTIME_DIR": str(home),
        "LANG": "C.UTF-8",
    }


class Serving:
    """A server that runs, and what it said at its start."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self.process = process
        self.home = home
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (process.wait(), (home / "stderr").read_text())
        self.said: dict[str, Any] = json.loads(line)
        self.url: str = self.said["url"] or "http://localhost"

    @property
    def token(self) -> str:
        return Path(self.said["token_file"]).read_text()

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        if self.said["url"] is None:
            options["transport"] = httpx.HTTPTransport(uds=self.said["unix_socket"])
        headers = {"authorization": f"Bearer {token or self.token}"}
        # To read the certificates of the machine would take most of a request's time.
        options = {"timeout": None, "verify": False, **options}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        with self.client() as client:
            return client.get(path, **options)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.process.wait()

    @property
    def log(self) -> str:
        return (self.home / "stderr").read_text()


@contextmanager
def serving(
    home: Path, *options: str, port: str | None = "0", env: dict[str, str] | None = None
) -> Iterator[Serving]:
    """Run it; it is killed at the end of the block if it still runs."""
    home.mkdir(exist_ok=True)
    words = [*COMMAND, "serve", "--json", *(["--port", port] if port is not None else []), *options]
    with (
        (home / "stderr").open("w") as errors,
        subprocess.Popen(
            words,
            env={**environment(home), **(env or {})},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield Serving(process, home)
        finally:
            if process.poll() is None:
                process.kill()


def refused(home: Path, *options: str) -> tuple[int, str]:
    """A server that does not start: its exit code, and what it said."""
    return in_process(home, "serve", *options)


def in_process(home: Path, *words: str) -> tuple[int, str]:
    """A command in this process: its exit code, and what it said of what went wrong."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(home).items():
            patch.setenv(name, value)
        patch.chdir(home)
        patch.setattr(sys, "stderr", said)
        code = run(words)
    return code, said.getvalue()
