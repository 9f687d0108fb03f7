"""`clew mcp` as a client finds it: how long it takes to start, what it holds, how soon it answers.

The peer is a bare server of the same SDK with one tool that says nothing: what is above it is ours. Both are
processes that are spoken to on pipes, without a client library, in turns.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

import clew
from benchmarks.harness.build import kept
from benchmarks.harness.measure import Samples, shuffled, take_turns_sync
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.serving import searchable
from benchmarks.sessions import search

START: Final = 0.5
SEARCH: Final = 0.050
MEMORY: Final = 80_000_000
DEFINITIONS: Final = 1500
"""Targets: seconds, bytes, tokens."""

BARE: Final = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def list_tools(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="list_sessions", input_schema={"type": "object"})])
async def call_tool(context, params):
    return types.CallToolResult(content=[])
async def run():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
anyio.run(run)
"""
OLD: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
NEW: Final = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


class Spoken:
    """A server on pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._numbers = count(1)

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request."""
        self._send({"id": next(self._numbers), "method": method, "params": params})
        answer = msgspec.json.decode(self._out.readline())
        if "error" in answer or answer["result"].get("isError"):
            raise ValueError(f"{method}: {answer}")
        return answer["result"]

    def begin(self) -> None:
        """The handshake of clients until 2025-11-25."""
        self.ask("initialize", OLD)
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def memory(self) -> dict[str, int]:
        """Bytes: all that it has in memory, and its share of what it has together with others."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return {
            name: int(kb) * 1024 for name, kb in re.findall(r"^(Rss|Pss):\s+(\d+) kB", text, re.MULTILINE)
        }

    def processor(self) -> float:
        """Seconds that it computed so far: what others do on the machine is not in it."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _send(self, message: dict[str, Any]) -> None:
        self._in.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
        self._in.flush()


@contextmanager
def spoken(words: Sequence[str], store: Path) -> Iterator[Spoken]:
    """Run a server; it ends when its input does."""
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CLEW_STORE": str(store)},
    ) as process:
        yield Spoken(process)


SERVERS: Final = {
    "clew mcp": [sys.executable, "-m", "clew", "mcp", "--all"],
    "bare SDK": [sys.executable, "-c", BARE],
}


async def run(lab: Lab) -> Result:
    details: dict[str, Any] = {"quick": lab.quick}
    rows = [*starts(lab, details), *memory(lab, details), *searches(lab, details), *definitions(lab, details)]
    return Result(rows, details)


def starts(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """From the start of the process to its answers: to the greeting of both revisions, to the first call."""
    rounds = lab.pick(12, 5)
    lab.say(f"starts, {rounds} of each")
    store = small_store(lab)
    times = Samples()
    for number in range(-1, rounds):
        for name in shuffled(SERVERS, number):
            began = time.perf_counter()
            with spoken(SERVERS[name], store) as server:
                server.begin()
                greeted, processor = time.perf_counter(), server.processor()
                server.call("list_sessions")
                called = time.perf_counter()
            again = time.perf_counter()
            with spoken(SERVERS[name], store) as server:
                server.ask("server/discover", NEW)
                discovered = time.perf_counter()
            if number >= 0:
                times.add(f"{name}: initialize", greeted - began)
                times.add(f"{name}: initialize, processor", processor)
                times.add(f"{name}: first call", called - began)
                times.add(f"{name}: server/discover", discovered - again)
    details["start, ms"] = {name: round(times.median(name) * 1e3) for name in times}
    for until in ("initialize", "server/discover", "first call"):
        took, bare = times.median(f"clew mcp: {until}"), times.median(f"bare SDK: {until}")
        yield Row(f"start to {until}", ms(took), f"limit {ms(START)}", took / START, 1.0)
        yield Row(f"start to {until}", ms(took), f"bare SDK {ms(bare)}", took / bare)


def memory(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """After one call, with nothing to do."""
    store = small_store(lab)
    found = {}
    for name, words in SERVERS.items():
        with spoken(words, store) as server:
            server.begin()
            server.call("list_sessions")
            found[name] = server.memory()
    details["memory, MB"] = {
        name: {kind: round(bytes / 1e6, 1) for kind, bytes in kinds.items()} for name, kinds in found.items()
    }
    ours, bare = found["clew mcp"]["Rss"], found["bare SDK"]["Rss"]
    share = found["clew mcp"]["Pss"]
    yield Row("idle memory", size(ours), f"limit {size(MEMORY)}; bare SDK {size(bare)}", ours / MEMORY, 1.0)
    yield Row("idle memory, its share", size(share), f"limit {size(MEMORY)}", share / MEMORY, 1.0)


def searches(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    messages = lab.pick(1_000_000, 50_000)
    lab.say(f"search in {messages:,} messages (made once, and kept)")
    path = kept(f"messages-{messages}", lambda path: searchable(path, messages))
    with clew.open(str(path)) as store, spoken(SERVERS["clew mcp"], path) as server:
        server.begin()
        for word, name in ((search.RARE, "a rare word"), (search.COMMON, "a common word")):
            asked = {"query": word, "workspace": "all"}
            assert server.call("search_sessions", **asked)["structuredContent"]["hits"]
            times = take_turns_sync(
                {
                    "tool": lambda asked=asked: server.call("search_sessions", **asked),  # type: ignore[misc]
                    "library": lambda word=word: store.search(word, order="best", limit=8),  # type: ignore[misc]
                    "nothing": lambda: server.ask("ping", {}),
                },
                lab.pick(100, 30),
            )
            details[f"search for {name}, µs"] = {each: round(times.median(each) * 1e6) for each in times}
            took, library = times.median("tool"), times.median("library")
            floor = f"limit {ms(SEARCH)}; library {ms(library)}, round trip {ms(times.median('nothing'))}"
            yield Row(f"search for {name} in {messages:,}", ms(took), floor, took / SEARCH, 1.0)


def definitions(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """What a client puts into the context of its model, with all tools that there are."""
    with spoken([*SERVERS["clew mcp"], "--allow", "write"], small_store(lab)) as server:
        server.begin()
        tools = server.ask("tools/list", {})["tools"]
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    whole, part = len(msgspec.json.encode(tools)), len(msgspec.json.encode(shown))
    details["definitions, bytes"] = {"all": whole, "names, descriptions, input schemas": part}
    for work, length in (
        ("definitions, what a model sees", part),
        ("definitions, with output schemas", whole),
    ):
        tokens = length / 4
        limit = DEFINITIONS if length == part else None
        against = f"limit {DEFINITIONS:,}" if limit else f"of it a model sees {part / whole:.0%}"
        yield Row(work, f"{tokens:,.0f} tokens", against, tokens / DEFINITIONS, 1.0 if limit else None)


def small_store(lab: Lab) -> Path:
    path = lab.directory / "small.db"
    if not path.exists():
        with clew.open(str(path)) as store:
            store.session("talk").append({"role": "user", "content": "hello"})
    return path


if __name__ == "__main__":
    main(run, __doc__)
