"""`clew mcp` as a process: JSON-RPC and nothing else on standard output, whatever comes in or is printed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cli.processes import COMMAND, Clew
from tests.server.process.commands import environment

PLANTED = """
import logging, os, sys, warnings
from clew.cli import main
from clew.server.mcp.tools import search
find = search.find
def noisy(*args):
    print("planted print", flush=True)
    os.write(1, b"planted write\\n")
    os.system("echo planted child")
    logging.getLogger("planted").error("planted log")
    warnings.warn("planted warning")
    return find(*args)
search.find = noisy
main()
"""


class Process:
    """One client's server, and a session in its store."""

    def __init__(self, home: Path, *options: str, command: Sequence[str] = COMMAND) -> None:
        (home / "work").mkdir()
        with clew.open(home / "agents.db") as store:
            store.create("s", workspace=home / "work").append({"role": "user", "content": "a needle"})
        self.stderr = home / "stderr"
        with self.stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, "mcp", *options],
                cwd=home / "work",
                env=environment(home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(lines))
        self.process.stdin.flush()

    def ask(self, id: int, method: str, **params: Any) -> None:
        self.send(request(id, method, **params))

    def answer(self, id: int) -> dict[str, Any]:
        """The answer to a request. All that comes before it is JSON-RPC too."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == id:
                return message
        raise AssertionError(self.stderr.read_text())

    def begin(self) -> None:
        client = {"name": "test", "version": "1"}
        self.ask(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        assert self.answer(0)["result"]["serverInfo"]["name"] == "clew"
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n")

    def search(self, id: int) -> dict[str, Any]:
        arguments = {"query": "needle", "include_current": True}
        self.ask(id, "tools/call", name="search_sessions", arguments=arguments)
        return self.answer(id)


def request(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


@contextmanager
def started(home: Path, *options: str, command: Sequence[str] = COMMAND) -> Iterator[Process]:
    """Killed at the end of the block if it still runs."""
    server = Process(home, *options, command=command)
    with server.process:
        try:
            server.begin()
            yield server
        finally:
            if server.process.poll() is None:
                server.process.kill()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One that prints with every search. At the end its client leaves in the middle of a line."""
    with started(tmp_path_factory.mktemp("noisy"), command=[sys.executable, "-c", PLANTED]) as server:
        yield server
        server.send(request(201, "ping")[:-10])
        rest, _ = server.process.communicate()
        assert server.process.returncode == 0
        for line in rest.splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"


def test_s45_what_is_printed_logged_or_warned_does_not_go_to_standard_output(noisy: Process) -> None:
    assert "a needle" in str(noisy.search(1)["result"])
    said = noisy.stderr.read_text()
    for how in ("print", "write", "child", "log", "warning"):
        assert f"planted {how}" in said


def test_s45_garbage_on_standard_input_does_no_harm(noisy: Process) -> None:
    garbage = [
        b"\n", b"garbage\n", b"{\n", b"\xff\xfe\x00\x01\n", b"\xed\xa0\x80\n", b"null\n", b"[]\n",
        b'"text"\n', b"1e999\n", b"NaN\n", b"{}\n", b"[" * 100_000 + b"\n", b'{"a":' * 50_000 + b"\n",
        b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n', b'{"jsonrpc": "2.0", "id": 7, "result": {}}\n',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}\n',
        b'{"jsonrpc": "2.0", "id": 8, "method": "no/such/thing"}\n',
        b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "\\ud800"}}\n',
        b"[" + request(11, "ping").strip() + b"," + request(12, "ping").strip() + b"]\n",
        b'{"jsonrpc": "2.0", "id": 13, "method": "ping", "params": {"x": "' + b"x" * 10_000_000 + b'"}}\n',
    ]  # fmt: skip
    for number, line in enumerate(garbage):
        noisy.send(line)
        assert "a needle" in str(noisy.search(100 + number)["result"]), line[:80]
    half = request(200, "ping")
    noisy.send(half[:20])
    noisy.send(half[20:])
    assert noisy.answer(200)["result"] == {}


def test_errors_are_typed(noisy: Process) -> None:
    noisy.ask(1, "tools/call", name="delete_session", arguments={})
    assert noisy.answer(1)["error"]["code"] == -32602
    noisy.ask(2, "tools/call", name="remember", arguments={"note": "not allowed"})
    assert noisy.answer(2)["error"]["code"] == -32602
    noisy.ask(3, "tools/call", name="read_session", arguments={"place": 5})
    wrong = noisy.answer(3)["result"]
    assert wrong["isError"]
    assert wrong["content"][0]["text"].startswith("InvalidError: read_session")
    noisy.ask(4, "nothing")
    assert noisy.answer(4)["error"]["code"] == -32601


def test_a_client_that_dies_while_it_is_answered_is_no_accident(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.send(*(request(number, "tools/list") for number in range(1, 4)))
        server.process.stdin.close()
        assert server.process.wait() == 0
    assert server.stderr.read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_at_once_and_the_store_is_sound(number: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path, "--allow", "write") as server:
        server.ask(1, "tools/call", name="remember", arguments={"note": "kept", "place": "s"})
        assert not server.answer(1)["result"].get("isError")
        server.process.send_signal(number)
        assert server.process.wait() in (-number, 128 + number)
        assert server.process.stdout is not None
        assert server.process.stdout.read() == b""
    with clew.open(tmp_path / "agents.db") as store:
        assert store.verify().ok
        assert [entry.annotations["note"] for entry in store.get("s").entries()] == ["kept"]


def test_a_damaged_store_is_an_error_on_standard_error(tmp_path: Path) -> None:
    cli = Clew(tmp_path)
    for content in (b"no database", b"SQLite format 3\0" + bytes(5000)):
        cli.store.write_bytes(content)
        done = cli("mcp", code=1)
        assert done.out == ""
        assert "agents.db" in done.err
        assert "Traceback" not in done.err
        assert cli.store.read_bytes() == content


def test_with_all_it_searches_every_directory(tmp_path: Path) -> None:
    with started(tmp_path, "--all") as server:
        with clew.open(tmp_path / "agents.db") as store:
            store.create("away", workspace=tmp_path / "away").append({"role": "user", "content": "a needle"})
        assert {"s@", "away@"} <= set(re.findall(r"\b(?:s|away)@", str(server.search(1)["result"])))
