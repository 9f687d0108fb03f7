"""Agents that write sessions as the real ones do, line by line, and remember what they said.

Imports no pytest: processes that tests start import it too.
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import clew

SAID = re.compile(r"agent-\d+ in [\w-]+ says \d+")
CLAUDE, CODEX, PI, OPENCODE = (
    ".claude/projects",
    ".codex/sessions",
    ".pi/agent/sessions",
    ".local/share/opencode",
)


class Agent(ABC):
    """One that writes session after session. `said`: by session, what it said, in order; a text is there once
    it is written, with its end of line. `pause`: seconds between two pieces of a line."""

    place: ClassVar[str]

    def __init__(
        self, home: Path, number: int, seed: int = 0, *, longest: int = 40, pause: float = 0
    ) -> None:
        self.home = home
        self.number = number
        self.said: dict[str, list[str]] = {}
        self.path = home
        self._chance = random.Random(f"{seed} {number}")
        self._longest = longest
        self._left = 0
        self.session = ""
        self.between: Callable[[], None] = lambda: time.sleep(pause)
        """Called between the two pieces of a line."""

    def say(self) -> str:
        """One message more, in this session or a new one."""
        if not self._left:
            self._left = self._chance.randrange(1, self._longest)
            self.session = str(UUID(int=self._chance.getrandbits(128), version=4))
            self.said[self.session] = []
            self.begin()
        self._left -= 1
        said = self.said[self.session]
        text = f"agent-{self.number} in {self.session} says {len(said)}"
        self.write(text, "assistant" if len(said) % 2 else "user")
        said.append(text)
        return text

    @abstractmethod
    def begin(self) -> None:
        """A new session."""

    @abstractmethod
    def write(self, text: str, role: str) -> None:
        """One message of the session."""

    def uuid(self) -> str:
        return str(UUID(int=self._chance.getrandbits(128), version=4))

    def append(self, *records: dict[str, Any]) -> None:
        """Lines, now and then in two pieces: a reader may look in between."""
        data = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode()
        with self.path.open("ab", 0) as file:
            if self._chance.random() < 0.25:
                cut = self._chance.randrange(len(data))
                file.write(data[:cut])
                self.between()
                data = data[cut:]
            file.write(data)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class ClaudeCode(Agent):
    place = CLAUDE

    def begin(self) -> None:
        folder = self.home / CLAUDE / f"-work-{self._chance.randrange(50)}"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.session}.jsonl"
        self._parent: str | None = None
        self.cwd = "/work"

    def write(self, text: str, role: str) -> None:
        record: dict[str, Any] = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": "2.1.0",
            "type": role,
            "message": {"role": role, "content": text},
            "uuid": self.uuid(),
            "timestamp": now(),
        }
        if role == "assistant":
            record["message"] = {
                "id": f"msg_{self.uuid()}",
                "type": "message",
                "role": role,
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 5},
            }
        self.append(record)
        self._parent = str(record["uuid"])


class Codex(Agent):
    place = CODEX

    def begin(self) -> None:
        folder = self.home / CODEX / "2026" / "11" / f"{self._chance.randrange(1, 30):02}"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"rollout-2026-11-16T10-00-00-{self.session}.jsonl"
        meta = {"id": self.session, "timestamp": now(), "cwd": "/work", "originator": "codex_cli_rs"}
        self._write("session_meta", {**meta, "cli_version": "0.166.0", "source": "cli"})

    def write(self, text: str, role: str) -> None:
        kind = "input_text" if role == "user" else "output_text"
        content = [{"type": kind, "text": text}]
        self._write("response_item", {"type": "message", "role": role, "content": content})

    def _write(self, kind: str, payload: dict[str, Any]) -> None:
        self.append({"timestamp": now(), "type": kind, "payload": payload})


class Pi(Agent):
    place = PI

    def begin(self) -> None:
        folder = self.home / PI / f"--work-{self._chance.randrange(50)}--"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"2026-11-16T10-00-00-000Z_{self.session}.jsonl"
        self._parent: str | None = None
        self.append({"type": "session", "version": 3, "id": self.session, "timestamp": now(), "cwd": "/work"})

    def write(self, text: str, role: str) -> None:
        id = f"{self._chance.getrandbits(32):08x}"
        message: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": text}]}
        if role == "assistant":
            message |= {"provider": "anthropic", "model": "claude-sonnet-4-5", "stopReason": "stop"}
        message["timestamp"] = time.time_ns() // 1_000_000
        record = {
            "type": "message",
            "id": id,
            "parentId": self._parent,
            "timestamp": now(),
            "message": message,
        }
        self.append(record)
        self._parent = id


class OpenCode(Agent):
    """It writes to a database; its own ids count up. A prompt waits there for its answer: so both come at
    once."""

    place = OPENCODE
    schema: ClassVar[Path] = Path(__file__).parents[1] / "home" / "files" / OPENCODE / "opencode.db.sql"

    def say(self) -> str:
        super().say()
        return super().say()

    def begin(self) -> None:
        self._left += self._left % 2
        self.path = self.home / OPENCODE / f"opencode-{self.number}.db"
        is_new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        if is_new:
            script = self.schema.read_text()
            self._db.executescript(
                "".join(part for part in re.findall(r"CREATE TABLE .*?\n\s*\);\n", script, re.DOTALL))
            )
        self._number = 0
        moment = time.time_ns() // 1_000_000
        self._insert(
            "session",
            id=f"ses_{self.session.replace('-', '')}",
            project_id="global",
            slug="x",
            directory="/work",
            title="t",
            version="1.0.0",
            time_created=moment,
            time_updated=moment,
        )

    def write(self, text: str, role: str) -> None:
        self._number += 1
        moment = time.time_ns() // 1_000_000
        session, message = (
            f"ses_{self.session.replace('-', '')}",
            f"msg_{self.number:04}{self._number:012x}{self.session[:6]}",
        )
        said = {"role": role, "time": {"created": moment}}
        if role == "assistant":
            said |= {"modelID": "m", "providerID": "p", "time": {"created": moment, "completed": moment}}
        times = {"time_created": moment, "time_updated": moment}
        self._db.execute("BEGIN IMMEDIATE")
        self._insert("message", id=message, session_id=session, data=json.dumps(said), **times)
        part = json.dumps({"type": "text", "text": text})
        self._insert(
            "part", id=f"prt_{message[4:]}", message_id=message, session_id=session, data=part, **times
        )
        self._db.execute("UPDATE session SET time_updated = ? WHERE id = ?", (moment, session))
        self._db.execute("COMMIT")

    def _insert(self, table: str, **values: Any) -> None:
        known = {row[1]: row for row in self._db.execute(f"PRAGMA table_info({table})")}
        for name, row in known.items():
            if row[3] and row[4] is None and name not in values and not row[5]:  # it must have a value
                values[name] = 0 if "int" in row[2].lower() else ""
        names = [name for name in values if name in known]
        marks = ", ".join("?" * len(names))
        columns = ", ".join(f"`{name}`" for name in names)
        self._db.execute(
            f"INSERT INTO {table} ({columns}) VALUES ({marks})", [values[name] for name in names]
        )


KINDS: Sequence[type[Agent]] = (ClaudeCode, Codex, Pi)


def agents_in(home: Path, number: int, seed: int = 0, kinds: Sequence[type[Agent]] = KINDS) -> list[Agent]:
    """Agents for campaigns, in which another process may look between two pieces of a line."""
    return [kinds[each % len(kinds)](home, each, seed, pause=0.01) for each in range(number)]


# -- what came of it


def said_in(store: clew.Store) -> dict[str, list[str]]:
    """By session, what was said there, in the order of the path."""
    found: dict[str, list[str]] = {}
    for info in store.list(limit=100_000):
        texts = (SAID.findall(json.dumps(entry.message)) for entry in store.get(info.id).entries())
        said = [text for each in texts for text in each]
        if said:
            found.setdefault(said[0].split()[2], []).extend(said)
    return found


def differences(agents: Sequence[Agent], found: dict[str, list[str]], *, is_all: bool) -> list[str]:
    """What is not as it was written. `is_all`: everything must be there; else what is there must be the
    beginning of what was written."""
    wrong = []
    said = {session: texts for agent in agents for session, texts in agent.said.items()}
    for session, texts in said.items():
        there = found.get(session, [])
        if there == texts:
            continue
        if len(set(there)) != len(there):
            wrong.append(f"{session}: something is there twice: {len(there)} for {len(texts)}")
        elif there != texts[: len(there)]:
            wrong.append(f"{session}: not the beginning of what was said: {there[:50]}")
        elif is_all:
            wrong.append(f"{session}: {len(texts) - len(there)} of {len(texts)} messages are lost")
    wrong += [f"{session}: no agent said this" for session in found.keys() - said.keys()]
    return wrong


def home_of(home: Path) -> dict[str, str]:
    """Variables of the environment for a process that lives there."""
    return {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / ".local" / "state")}
