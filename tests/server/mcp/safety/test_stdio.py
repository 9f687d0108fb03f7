"""`clew mcp` as a process: JSON-RPC and nothing else on standard output, whatever comes in or is printed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cli.processes import COMMAND
from tests.server.process.commands import environment

PATIENCE = 60
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
    """One client's server."""

    def __init__(self, home: Path, *options: str, command: Sequence[str] = COMMAND) -> None:
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

    def end(self) -> tuple[int, bytes]:
        """Close standard input: how it ends, and what it still said."""
        rest, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, rest


def request(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def fill(home: Path) -> None:
    with clew.open(home / "agents.db") as store:
        store.create("s", workspace=home / "work").append({"role": "user", "content": "a needle"})


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*options: str, command: Sequence[str] = COMMAND) -> Process:
        started.append(Process(home, *options, command=command))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        for pipe in filter(None, (one.process.stdin, one.process.stdout)):
            pipe.close()


def test_s45_what_is_printed_logged_or_warned_does_not_go_to_standard_output(
    home: Path, start: Callable[..., Process]
) -> None:
    fill(home)
    server = start(command=[sys.executable, "-c", PLANTED])
    server.begin()
    assert "a needle" in str(server.search(1)["result"])
    assert server.end() == (0, b"")
    said = server.stderr.read_text()
    for how in ("print", "write", "child", "log", "warning"):
        assert f"planted {how}" in said


def test_s45_garbage_on_standard_input_does_no_harm(home: Path, start: Callable[..., Process]) -> None:
    fill(home)
    server = start()
    garbage = [
        b"\n",
        b"garbage\n",
        b"{\n",
        b"\xff\xfe\x00\x01\n",
        b"\xed\xa0\x80\n",
        b"null\n",
        b"[]\n",
        b'"text"\n',
        b"1e999\n",
        b"NaN\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b'{"a":' * 50_000 + b"\n",
        b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": 7, "result": {}}\n',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}\n',
        b'{"jsonrpc": "2.0", "id": 8, "method": "no/such/thing"}\n',
        b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "\\ud800"}}\n',
        b"[" + request(11, "ping").strip() + b"," + request(12, "ping").strip() + b"]\n",
        b'{"jsonrpc": "2.0", "id": 13, "method": "ping", "params": {"x": "' + b"x" * 10_000_000 + b'"}}\n',
    ]
    server.begin()
    for number, line in enumerate(garbage):
        server.send(line)
        assert "a needle" in str(server.search(100 + number)["result"]), line[:80]
    half = request(200, "ping")
    server.send(half[:20])
    server.send(half[20:])
    assert server.answer(200)["result"] == {}
    server.send(request(201, "ping")[:-10])  # it never ends
    code, rest = server.end()
    assert code == 0
    for line in rest.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"


def test_errors_are_typed_and_a_store_that_is_not_there_is_made(
    home: Path, start: Callable[..., Process]
) -> None:
    server = start()
    server.begin()
    server.ask(1, "tools/call", name="delete_session", arguments={})
    assert server.answer(1)["error"]["code"] == -32602
    server.ask(2, "tools/call", name="remember", arguments={"note": "not allowed"})
    assert server.answer(2)["error"]["code"] == -32602
    server.ask(3, "tools/call", name="read_session", arguments={"place": 5})
    wrong = server.answer(3)["result"]
    assert wrong["isError"]
    assert wrong["content"][0]["text"].startswith("InvalidError: read_session")
    server.ask(4, "nothing")
    assert server.answer(4)["error"]["code"] == -32601
    assert server.search(5)["result"]["structuredContent"]["hits"] == []
    assert server.end() == (0, b"")


def test_a_client_that_dies_while_it_is_answered_is_no_accident(
    home: Path, start: Callable[..., Process]
) -> None:
    server = start()
    server.begin()
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.send(*(request(number, "tools/list") for number in range(1, 4)))
    server.process.stdin.close()
    assert server.process.wait(timeout=PATIENCE) == 0
    assert server.stderr.read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_the_store_is_sound(
    number: signal.Signals, home: Path, start: Callable[..., Process]
) -> None:
    fill(home)
    server = start("--allow", "write")
    server.begin()
    server.ask(1, "tools/call", name="remember", arguments={"note": "kept", "place": "s"})
    assert not server.answer(1)["result"].get("isError")
    server.process.send_signal(number)
    assert server.process.wait(timeout=PATIENCE) in (-number, 128 + number)
    assert server.process.stdout is not None
    assert server.process.stdout.read() == b""
    with clew.open(home / "agents.db") as store:
        assert store.verify().ok
        assert [entry.annotations["note"] for entry in store.get("s").entries()] == ["kept"]


@pytest.mark.parametrize(
    "content", [b"no database", b"SQLite format 3\0" + bytes(5000)], ids=["text", "zeros"]
)
def test_a_damaged_store_is_an_error_on_standard_error(
    content: bytes, home: Path, start: Callable[..., Process]
) -> None:
    (home / "agents.db").write_bytes(content)
    server = start()
    code, said = server.end()
    assert code not in (0, None)
    assert said == b""
    complaint = server.stderr.read_text()
    assert "agents.db" in complaint
    assert "Traceback" not in complaint
    assert (home / "agents.db").read_bytes() == content
