"""The messages that every contender stores: what a coding agent says in a day, the same in every run.

The text is real (the Python reference for prose, the standard library for code and tool output), so that
it compresses as real conversations do. It is chosen by a seed: same Python, same messages.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

Message: TypeAlias = dict[str, Any]

TURN_BYTES = (1024, 2048, 8192, 1024)
"""User, assistant with a tool call, tool result, answer: the JSON text of each message is this long."""

MODULES = ["argparse", "ast", "asyncio/base_events", "csv", "dataclasses", "difflib", "email/message"]
MODULES += ["http/client", "inspect", "json/decoder", "logging/__init__", "pathlib", "pickle", "shutil"]
MODULES += ["subprocess", "tarfile", "threading", "typing", "unittest/case", "zipfile"]


@cache
def prose() -> str:
    """The language reference of this Python: half a megabyte of English."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


@cache
def code() -> tuple[tuple[str, str], ...]:
    """File name and text of some modules of the standard library."""
    library = Path(sysconfig.get_path("stdlib"))
    files = (library / f"{name}.py" for name in MODULES)
    return tuple((f.relative_to(library).as_posix(), f.read_text("utf-8")) for f in files if f.exists())


def encode(message: Message) -> bytes:
    """The JSON text of a message, as it stands in a line of a JSONL file."""
    return msgspec.json.encode(message)


def fit(message: Message, path: tuple[str | int, ...], text: str, size: int) -> Message:
    """The message with as much of `text` at `path` as makes its JSON text `size` bytes long."""
    place: Any = message
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = ""
    room = size - len(encode(message))
    place[path[-1]] = text[:room]
    while (excess := len(encode(message)) - size) > 0:
        place[path[-1]] = place[path[-1]][: -max(1, excess // 2)]
    if excess < 0:
        place[path[-1]] += "." * -excess
    return message


class Conversation:
    """An endless coding session. Two with the same seed are equal."""

    def __init__(self, seed: int | str = 1) -> None:
        self._random = random.Random(f"clew-{seed}")
        self._calls = 0

    def turn(self) -> list[Message]:
        """The next four messages: 1 + 2 + 8 + 1 KB of JSON."""
        self._calls += 1
        name, text = self._random.choice(code())
        start = self._random.randrange(max(1, len(text) - 9000))
        call_id = f"call_{self._random.getrandbits(96):024x}"
        arguments = msgspec.json.encode(
            {"path": f"src/{name}", "start": start, "pattern": text[start : start + 40]}
        )
        call = {
            "id": call_id,
            "type": "function",
            "function": {
                "name": self._random.choice(("read_file", "grep", "run")),
                "arguments": arguments.decode(),
            },
        }
        user = {"role": "user", "content": ""}
        assistant = {"role": "assistant", "content": "", "tool_calls": [call]}
        tool = {"role": "tool", "tool_call_id": call_id, "content": ""}
        answer = {"role": "assistant", "content": ""}
        sizes = iter(TURN_BYTES)
        return [
            fit(user, ("content",), self._prose(2000), next(sizes)),
            fit(
                assistant,
                ("content",),
                self._prose(900) + "\n```python\n" + text[start : start + 3000],
                next(sizes),
            ),
            fit(tool, ("content",), self._tool_output(name, text, start), next(sizes)),
            fit(answer, ("content",), self._prose(2000), next(sizes)),
        ]

    def turns(self, count: int) -> Iterator[list[Message]]:
        for _ in range(count):
            yield self.turn()

    def messages(self, count: int) -> Iterator[Message]:
        """A flat run of messages; `count` is a multiple of 4."""
        for _ in range(count // len(TURN_BYTES)):
            yield from self.turn()

    def small(self) -> Message:
        """One message of 1 KB."""
        return fit({"role": "user", "content": ""}, ("content",), self._prose(2000), 1024)

    def _prose(self, length: int) -> str:
        text = prose()
        start = self._random.randrange(len(text) - length)
        return text[start : start + length]

    def _tool_output(self, name: str, text: str, start: int) -> str:
        """A file with line numbers, the hits of a search as JSON, or a test log, in turn."""
        lines = text[start : start + 12000].splitlines()
        if self._calls % 3 == 0:
            hits = [
                {"file": name, "line": n, "column": 1 + n % 40, "text": line} for n, line in enumerate(lines)
            ]
            return msgspec.json.encode({"ok": True, "hits": hits}).decode()
        if self._calls % 3 == 1:
            return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, start // 40))
        seconds = self._random.random
        log = (
            f"tests/{name}::test_{n} {'PASSED' if n % 7 else 'FAILED'} [{seconds():.3f}s]" for n in range(40)
        )
        return "\n".join(log) + "\n" + "\n".join(lines)
