"""The log of simonw/llm: `logs.db`, with its older and its newer tables."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.importers.contract import OnBytes, OnProblem, Problem, SourceEntry, SourceSession, SourceUsage
from clew.importers.reading.sqlite import is_sqlite, opened, reporting, rows, tables, tables_in
from clew.importers.reading.values import (
    count,
    decode_or_none,
    flaw_of,
    items,
    mapping,
    plain_name,
    session_id,
    text,
    when,
    without,
)
from clew.model import Json

if TYPE_CHECKING:
    import apsw

NAME: Final = "llm"

_LEGACY: Final = frozenset({"responses", "conversations"})
_THREADS: Final = frozenset({"threads", "turns", "messages", "parts"})
_TOLD: Final = frozenset({"id", "name", "model", "tip_message_hash", "forked_from", "datetime_utc"})


def recognises(path: Path, beginning: bytes) -> bool:
    if not is_sqlite(beginning):
        return False
    found = tables(path)
    return found >= _LEGACY or found >= _THREADS


def known_places(home: Path) -> list[Path]:
    folders = [home / ".config", home / "Library" / "Application Support"]
    return [folder / "io.datasette.llm" / "logs.db" for folder in folders]


def files(path: Path) -> list[Path]:
    return sorted(path.glob("logs.db")) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    with reporting(path, on_problem), opened(path) as db:
        yield from _Log(db, path, on_problem).sessions()
    on_bytes(path.stat().st_size)


class _Log:
    def __init__(self, db: apsw.Connection, path: Path, on_problem: OnProblem) -> None:
        found = tables_in(db)
        self._path = path
        self._on_problem = on_problem
        self._legacy = Legacy(db, found) if "responses" in found else None
        self._threads = Threads(db, path, on_problem) if found >= _THREADS else None

    def sessions(self) -> Iterator[SourceSession]:
        threads = {str(thread["id"]): thread for thread in self._threads.all()} if self._threads else {}
        for name, responses in self._legacy.conversations() if self._legacy else ():
            yield self._session(name, responses, threads.pop(name, None))
        for name, thread in _origins_first(threads):
            yield self._session(name, [], thread)

    def _session(self, name: str, responses: list[str], thread: dict[str, Json] | None) -> SourceSession:
        about: dict[str, Json] = {}
        first: dict[str, Json] = {}
        if self._legacy and responses:
            about = self._legacy.about(name)
            first = self._legacy.response(responses[0])
        about |= without(thread or {}, ())
        origin = text(about.get("forked_from"))
        tip = text(thread.get("tip_message_hash")) if thread else None
        return SourceSession(
            id=session_id(NAME, name),
            aliases=(name,),
            entries=self._entries(responses, thread),
            head=lambda: tip,
            title=plain_name(about.get("name")),
            model=plain_name(about.get("model")) or text(first.get("model")) or self._last_model(thread),
            created_at=when(first.get("datetime_utc")) or when(about.get("datetime_utc")),
            metadata=without(about, _TOLD),
            parent=session_id(NAME, origin) if origin else None,
            is_copy=True,
        )

    def _last_model(self, thread: dict[str, Json] | None) -> str | None:
        """A thread does not name its model: its calls do."""
        turns = self._threads.turns(str(thread["id"])) if self._threads and thread else []
        return next(filter(None, (plain_name(turn.get("model")) for turn in reversed(turns))), None)

    def _entries(self, responses: list[str], thread: dict[str, Json] | None) -> Iterator[SourceEntry]:
        # What was brought over into the newer tables is told by them.
        moved = set()
        if self._threads and thread:
            moved = {turn["id"] for turn in self._threads.turns(str(thread["id"]))}
        old = [response for response in responses if response not in moved]
        with reporting(self._path, self._on_problem):
            yield from chain(
                self._legacy.entries(old) if self._legacy else (),
                self._threads.entries(thread) if self._threads and thread else (),
            )


def _origins_first(threads: dict[str, dict[str, Json]]) -> Iterator[tuple[str, dict[str, Json]]]:
    waiting = dict(threads)
    for name in threads:
        line: list[tuple[str, dict[str, Json]]] = []
        while name in waiting:
            line.append((name, waiting.pop(name)))
            name = text(line[-1][1].get("forked_from")) or ""
        yield from reversed(line)


# -- the older tables: a response for each prompt


_TOLD_OF_RESPONSE: Final = frozenset(
    {"prompt", "system", "response", "reasoning", "conversation_id", "datetime_utc"}
)
_FRAGMENTS: Final = {
    "prompt": "SELECT f.content FROM prompt_fragments l JOIN fragments f ON f.id = l.fragment_id"
    ' WHERE l.response_id = ? ORDER BY l."order"',
    "system": "SELECT f.content FROM system_fragments l JOIN fragments f ON f.id = l.fragment_id"
    ' WHERE l.response_id = ? ORDER BY l."order"',
}
_ATTACHMENTS: Final = (
    "SELECT a.type, a.path, a.url, a.content FROM prompt_attachments l"
    ' JOIN attachments a ON a.id = l.attachment_id WHERE l.response_id = ? ORDER BY l."order"'
)


class Legacy:
    """Reads rows one by one. Tables that an old database has not yet are empty."""

    def __init__(self, db: apsw.Connection, tables: frozenset[str]) -> None:
        self._db = db
        self._tables = tables

    def conversations(self) -> Iterator[tuple[str, list[str]]]:
        """Their names, each with the ids of its responses, in the order of time."""
        found: dict[str, list[str]] = {}
        wanted = "SELECT id, coalesce(conversation_id, id) AS of FROM responses ORDER BY id"
        for row in rows(self._db, wanted):
            found.setdefault(str(row["of"]), []).append(str(row["id"]))
        yield from found.items()

    def about(self, conversation: str) -> dict[str, Json]:
        wanted = "SELECT * FROM conversations WHERE id = ?"
        return next(rows(self._db, wanted, (conversation,)), {}) if "conversations" in self._tables else {}

    def response(self, key: str) -> dict[str, Json]:
        return next(rows(self._db, "SELECT * FROM responses WHERE id = ?", (key,)), {})

    def entries(self, responses: list[str]) -> Iterator[SourceEntry]:
        parent: str | None = None
        instructed: str | None = None
        for key in responses:
            row = self.response(key)
            at = when(row.get("datetime_utc"))
            system = self._joined(row, "system")
            said = (
                [("system", {"role": "system", "content": system})] if system and system != instructed else []
            )
            instructed = system or instructed
            said += [(f"result-{number}", result) for number, result in enumerate(self._results(key))]
            said += self._asked(row)
            for name, message in said:
                yield SourceEntry(uid=f"{key}/{name}", parent=parent, message=message, at=at)
                parent = f"{key}/{name}"
            uid = f"{key}/response"
            notes = {"source": without(row, _TOLD_OF_RESPONSE)}
            usage = _usage_of_response(row)
            yield SourceEntry(
                uid=uid, parent=parent, message=self._answer(row), at=at, usage=usage, notes=notes
            )
            parent = uid

    def _joined(self, row: dict[str, Json], field: str) -> str:
        parts: list[Json] = []
        if {f"{field}_fragments", "fragments"} <= self._tables:
            parts = [found["content"] for found in rows(self._db, _FRAGMENTS[field], (str(row["id"]),))]
        return "\n".join(filter(None, map(text, [*parts, row.get(field)])))

    def _asked(self, row: dict[str, Json]) -> list[tuple[str, dict[str, Json]]]:
        prompt = self._joined(row, "prompt")
        files = list(self._attachments(str(row["id"])))
        if files:
            words = [{"type": "text", "text": prompt}] if prompt else []
            return [("prompt", {"role": "user", "content": [*words, *files]})]
        return [("prompt", {"role": "user", "content": prompt})] if prompt else []

    def _attachments(self, key: str) -> Iterator[Json]:
        if not {"prompt_attachments", "attachments"} <= self._tables:
            return
        for kind, path, url, content in self._db.execute(_ATTACHMENTS, (key,)):
            data = base64.b64encode(content).decode() if isinstance(content, bytes) else None
            told: dict[str, Json] = {"mime_type": kind, "path": path, "url": url, "data": data}
            yield {"type": "file", **without(told, ())}

    def _answer(self, row: dict[str, Json]) -> dict[str, Json]:
        message: dict[str, Json] = {"role": "assistant", "content": text(row.get("response")) or ""}
        if thought := text(row.get("reasoning")):
            message["reasoning_content"] = thought
        if calls := list(self._calls(str(row.get("id")))):
            message["tool_calls"] = calls
        return message

    def _calls(self, key: str) -> Iterator[Json]:
        if "tool_calls" not in self._tables:
            return
        for call in rows(self._db, "SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id", (key,)):
            function = {"name": call.get("name"), "arguments": call.get("arguments")}
            yield {"id": call.get("tool_call_id"), "type": "function", "function": function}

    def _results(self, key: str) -> Iterator[dict[str, Json]]:
        if "tool_results" not in self._tables:
            return
        for result in rows(self._db, "SELECT * FROM tool_results WHERE response_id = ? ORDER BY id", (key,)):
            told = {"tool_call_id": result.get("tool_call_id"), "name": result.get("name")}
            yield {"role": "tool", **without(told, ()), "content": result.get("output") or ""}


def _usage_of_response(row: dict[str, Json]) -> SourceUsage | None:
    sent, received = count(row.get("input_tokens")), count(row.get("output_tokens"))
    if not (sent or received):
        return None
    details = mapping(decode_or_none(row.get("token_details")))
    # Anthropic leaves out of its input what came from a cache, or went there.
    read, write = (count(details.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    return SourceUsage(
        id=str(row["id"]),
        model=plain_name(row.get("resolved_model")) or text(row.get("model")),
        input_tokens=sent + read + write,
        output_tokens=received,
        cache_read_tokens=read or count(mapping(details.get("prompt_tokens_details")).get("cached_tokens")),
        cache_write_tokens=write,
        reasoning_tokens=count(mapping(details.get("completion_tokens_details")).get("reasoning_tokens")),
        at=when(row.get("datetime_utc")),
    )


# -- the newer tables: messages named by their content, and threads that point at them


class Threads:
    def __init__(self, db: apsw.Connection, path: Path, on_problem: OnProblem) -> None:
        self._db = db
        self._path = path
        self._on_problem = on_problem

    def all(self) -> Iterator[dict[str, Json]]:
        yield from list(rows(self._db, "SELECT * FROM threads ORDER BY id"))

    def turns(self, thread: str) -> list[dict[str, Json]]:
        """The calls of the model, oldest first."""
        return list(rows(self._db, "SELECT * FROM turns WHERE thread_id = ? ORDER BY id", (thread,)))

    def entries(self, thread: dict[str, Json]) -> Iterator[SourceEntry]:
        """What each call left behind, and what the thread points at: a call may have been left out of it."""
        seen: set[str] = set()
        for turn in self.turns(str(thread["id"])):
            yield from self._chain(text(turn.get("tip_message_hash")), seen, turn)
        yield from self._chain(text(thread.get("tip_message_hash")), seen, {})

    def _chain(self, tip: str | None, seen: set[str], turn: dict[str, Json]) -> Iterator[SourceEntry]:
        new: list[dict[str, Json]] = []
        at = tip
        while at is not None and at not in seen:
            row = next(rows(self._db, "SELECT * FROM messages WHERE hash = ?", (at,)), None)
            if row is None:
                break
            seen.add(at)
            new.append(row)
            at = text(row.get("parent_hash"))
        parent = at if at in seen else None
        for row in reversed(new):
            uid = str(row["hash"])
            rest = without(row, ("hash", "parent_hash", "role"))
            if uid == tip:
                rest |= {"turn": without(turn, ("thread_id", "parent_message_hash", "tip_message_hash"))}
            yield SourceEntry(
                uid=uid,
                parent=parent,
                message={
                    "role": row.get("role"),
                    "content": [self._block(part) for part in self._parts(uid)],
                },
                at=when(turn.get("datetime_utc")),
                usage=_usage_of_turn(turn) if uid == tip else None,
                notes={"source": rest} if rest else {},
            )
            parent = uid

    def _parts(self, message: str) -> Iterator[dict[str, Json]]:
        return rows(self._db, "SELECT * FROM parts WHERE message_hash = ? ORDER BY position", (message,))

    def _payload(self, part: dict[str, Json]) -> dict[str, Json]:
        raw = part.get("payload")
        value = decode_or_none(raw)
        if raw not in (None, "", "null") and not isinstance(value, dict):
            flaw = flaw_of(raw, "a JSON object")
            reason = f"the payload of a part of message {part.get('message_hash')} {flaw}"
            self._on_problem(Problem(path=str(self._path), line=None, reason=reason))
        return mapping(value)

    def _block(self, part: dict[str, Json]) -> Json:
        payload = self._payload(part)
        words = part.get("text")
        if words is None and "text_ref" in payload:
            words = self._resolved(payload["text_ref"])
        rest = without(payload, ("text_ref", "name", "arguments", "tool_call_id", "output"))
        match part.get("type"):
            case "reasoning":
                return {"type": "thinking", "thinking": words or "", **rest}
            case "tool_call":
                name = part.get("tool_name") or payload.get("name")
                call = {"id": payload.get("tool_call_id"), "name": name, "input": payload.get("arguments")}
                return {"type": "tool_use", **call, **rest}
            case "tool_result":
                output = payload.get("output", words)
                result = {"tool_use_id": payload.get("tool_call_id"), "content": output}
                return {"type": "tool_result", **result, **rest}
            case "text":
                return {"type": "text", "text": words or "", **rest}
            case "attachment":
                return {"type": "file", **payload}
            case kind:
                return {"type": str(kind), **({"text": words} if words is not None else {}), **payload}

    def _resolved(self, references: Json) -> str:
        """Text that was put together of fragments, each of which is stored once."""
        told = []
        for piece in map(mapping, items(references)):
            if "fragment" in piece:
                wanted = "SELECT content FROM fragments WHERE id = ?"
                found = next(rows(self._db, wanted, (plain_name(str(piece["fragment"])) or "",)), {})
                told.append(text(found.get("content")) or "")
            else:
                told.append(text(piece.get("literal")) or "")
        return "".join(told)


def _usage_of_turn(turn: dict[str, Json]) -> SourceUsage | None:
    sent, received = count(turn.get("input_tokens")), count(turn.get("output_tokens"))
    if not (sent or received):
        return None
    return SourceUsage(
        id=str(turn["id"]),
        model=plain_name(turn.get("resolved_model")) or text(turn.get("model")),
        input_tokens=sent,
        output_tokens=received,
        at=when(turn.get("datetime_utc")),
    )
