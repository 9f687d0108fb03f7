"""A session as a file of pi: a header, and a tree of entries by `parentId`.

One that came from there and was not changed here is the same file again. Else the file holds the path alone:
the entries that are known as they were, and new ones behind them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from uuid_utils import uuid7

from clew.errors import InvalidError
from clew.exporters.blocks import RASTER, Media
from clew.exporters.programs.replay import Replay, cleaned, iso, line_of, own_id, own_uuid
from clew.exporters.programs.resuming import Written, write_new
from clew.exporters.programs.turns import Picture, Text, Thought, ToolCall, Turn, TurnPart
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Json

if TYPE_CHECKING:
    from clew.core.conversation.points import Point
    from clew.store import Store

NAME: Final = "pi"
VERSION: Final = 3
_APIS: Final = {
    "anthropic": "anthropic-messages",
    "google": "google-generative-ai",
    "openai": "openai-responses",
}
"""How pi speaks to a provider; it drops what only another one could read."""
_NO_COST: Final[dict[str, Json]] = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}
_TIME_MARKS: Final = re.compile("[:.]")
_FIRST_SLASH: Final = re.compile(r"^[/\\]")
_SLASHES: Final = re.compile(r"[/\\:]")


def pieces(
    store: Store, id: str, *, at: Point | None = None, redact: bool | Redactor = False
) -> Iterator[bytes]:
    """The lines of the file.

    Args:
        store: Where the session is.
        id: Its id or alias.
        at: Only up to this point.
        redact: Without secrets.
    """
    replay = Replay(store, id, NAME, at=at)
    made = _Tree(replay, own_id(replay.info, NAME), replay.info.created_at)
    return cleaned(made.lines() if replay.is_changed else replay.whole(), redactor_of(redact))


def write_session(
    store: Store, id: str, *, at: Point | None = None, home: Path, workspace: str, new_id: str | None = None
) -> Written:
    """Write a copy with an id of its own to where pi looks for the sessions of a directory."""
    replay = Replay(store, id, NAME, at=at, is_copy=True)
    own, now = new_id or str(uuid7()), datetime.now(UTC)
    if not own.replace("-", "").isalnum():
        raise InvalidError(f"{own!r} cannot be the id of a session of pi; take letters, digits and hyphens")
    lines = list(_Tree(replay, own, now, cwd=workspace).lines())
    if not any(b'"message"' in line for line in lines):
        raise InvalidError(f"session {id!r} has no message that pi could go on from")
    name = f"{_TIME_MARKS.sub('-', iso(now))}_{own}.jsonl"
    path = write_new(sessions(home, workspace) / name, lines)
    command = ["pi", "--session", own]
    return Written(id=own, command=command, directory=workspace, paths=[path], notes=replay.notes())


def sessions(home: Path, workspace: str) -> Path:
    """The directory with the sessions of a workspace."""
    is_mine = home == Path.home()
    if is_mine and (place := os.environ.get("PI_CODING_AGENT_SESSION_DIR")):
        return Path(place).expanduser()
    moved = os.environ.get("PI_CODING_AGENT_DIR") if is_mine else None
    agent = Path(moved).expanduser() if moved else home / ".pi" / "agent"
    name = _SLASHES.sub("-", _FIRST_SLASH.sub("", os.path.realpath(workspace)))
    return agent / "sessions" / f"--{name}--"


class _Tree:
    """Entries, each behind the one before it."""

    def __init__(self, replay: Replay, id: str, born: datetime, *, cwd: str | None = None) -> None:
        self._replay = replay
        self._id = id
        self._born = born
        info = replay.info
        self._cwd = cwd or info.workspace_given or info.workspace or "/"
        self._last: str | None = None
        self._ids: set[str] = set()
        self._at: dict[int, str] = {}
        """The id of the entry of each position."""
        self._links = {
            name: record
            for record in replay.others
            if isinstance(name := record.get("id"), str) and "parentId" in record
        }

    def lines(self) -> Iterator[bytes]:
        yield line_of(self._header())
        for record in self._entries():
            yield line_of(record)

    def _header(self) -> dict[str, Json]:
        kept = next((one for one in self._replay.others if one.get("type") == "session"), {})
        header: dict[str, Json] = {"type": "session", "version": VERSION, "id": self._id}
        header |= {"timestamp": iso(self._born), "cwd": self._cwd}
        return header if "parentSession" not in kept else {**header, "parentSession": kept["parentSession"]}

    def _entries(self) -> Iterator[dict[str, Json]]:
        for entry, record in self._replay.records():
            for link in self._links_before(record):
                yield self._again(link)
            again = self._again(record)
            first = again.get("firstKeptEntryId")
            if entry.kind == "compaction" and not (isinstance(first, str) and first in self._ids):
                start = entry.message.get("start")
                again["firstKeptEntryId"] = self._first_kept(start if isinstance(start, int) else 0, again)
            yield again
            self._at[entry.position] = str(again["id"])
        for call in self._replay.open_calls():
            yield self._result(call, call.answer.time or self._replay.info.updated_at)
        for turn in self._replay.rest():
            for record in self._turn(turn):
                yield record
                self._at.setdefault(turn.position, str(record["id"]))
        for label in self._replay.others:
            target = label.get("targetId")
            if label.get("type") == "label" and isinstance(target, str) and target in self._ids:
                yield self._again(label)
        title = self._replay.info.title
        if title and not self._replay.info.title_is_auto:
            yield self._new("session_info", self._replay.info.updated_at, "name", name=title)

    def _links_before(self, record: dict[str, Json]) -> list[dict[str, Json]]:
        """What stands between an entry and the one before it: changes of the model, state of extensions."""
        found: list[dict[str, Json]] = []
        above = record.get("parentId")
        while isinstance(above, str) and above in self._links and above not in self._ids:
            link = self._links[above]
            if any(link is one for one in found):
                break  # they lead round and round
            if link.get("type") not in ("label", "session_info"):
                found.append(link)
            above = link.get("parentId")
        return found[::-1]

    def _again(self, record: dict[str, Json]) -> dict[str, Json]:
        """An entry as it was, behind the one before it: pi goes on from the last line, whatever hangs where.
        Entries of the first version have no ids."""
        id = record.get("id")
        own = id if isinstance(id, str) and id not in self._ids else self._new_id(str(len(self._ids)))
        parent, self._last = self._last, own
        self._ids.add(own)
        made: dict[str, Json] = {"type": record.get("type"), "id": own, "parentId": parent}
        made |= {key: value for key, value in record.items() if key not in made}
        made.pop("firstKeptEntryIndex", None)
        message = made.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            made["message"] = {**message, "role": "custom"}
        return made

    def _first_kept(self, start: int, mark: dict[str, Json]) -> str:
        """The first entry that stays in view; of a compaction that keeps none: itself."""
        return next((id for position, id in self._at.items() if position >= start), str(mark["id"]))

    # -- new entries

    def _new_id(self, *key: str) -> str:
        number = 0
        while (id := own_uuid(self._id, *key, str(number))[:8]) in self._ids:
            number += 1
        return id

    def _new(self, kind: str, time: datetime, *key: str, **fields: Json) -> dict[str, Json]:
        id = self._new_id(*key)
        parent, self._last = self._last, id
        self._ids.add(id)
        return {"type": kind, "id": id, "parentId": parent, "timestamp": iso(time), **fields}

    def _message(self, time: datetime, *key: str, **fields: Json) -> dict[str, Json]:
        stamped: Json = {**fields, "timestamp": int(time.timestamp() * 1000)}
        return self._new("message", time, *key, message=stamped)

    def _turn(self, turn: Turn) -> Iterator[dict[str, Json]]:
        key = str(turn.position)
        if turn.speaker == "user" and not self._replay.is_prompt(turn):
            content: Json = _contents(turn.parts)
            fields: dict[str, Json] = {"customType": "clew", "content": content, "display": False}
            yield self._new("custom_message", turn.time, key, **fields)
        elif turn.speaker == "user":
            yield self._message(turn.time, key, role="user", content=_contents(turn.parts))
        elif turn.speaker == "assistant":
            yield from self._answer(turn, key)
        elif turn.speaker == "compaction":
            tokens = turn.entries[0].message.get("tokens") if turn.entries else None
            mark = self._new("compaction", turn.time, key, summary=turn.text)
            first = self._first_kept(turn.start, mark)
            yield {
                **mark,
                "firstKeptEntryId": first,
                "tokensBefore": tokens if isinstance(tokens, int) else 0,
            }

    def _answer(self, turn: Turn, key: str) -> Iterator[dict[str, Json]]:
        info = self._replay.info
        provider = turn.vendor or info.vendor or "unknown"
        blocks = [block for part in turn.parts if (block := _block(part, turn.vendor)) is not None]
        if blocks:
            yield self._message(
                turn.time,
                key,
                role="assistant",
                content=blocks,
                api=_APIS.get(provider, "openai-completions"),
                provider=provider,
                model=turn.model or info.model or "unknown",
                usage=_NO_COST,
                stopReason="toolUse" if turn.calls else "stop",
            )
        for call in turn.calls:
            yield self._result(call, call.answer.time or turn.time)

    def _result(self, call: ToolCall, time: datetime) -> dict[str, Json]:
        answer = call.answer
        shown = [_media(media) for media in answer.media]
        said = [{"type": "text", "text": answer.text}] if answer.text or not shown else []
        return self._message(
            time,
            "result",
            call.id,
            role="toolResult",
            toolCallId=call.id,
            toolName=call.name,
            content=[*said, *shown],
            isError=answer.is_error,
        )


def _contents(parts: Sequence[TurnPart]) -> Json:
    return [block for part in parts if (block := _block(part, None)) is not None]


def _block(part: TurnPart, vendor: str | None) -> Json:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Picture(media):
            return _media(media)
        case Thought(_, signed, dict() as value) if signed is not None and signed == vendor:
            return value if value.get("type") == "thinking" and "thinkingSignature" in value else None
        case ToolCall():
            return {"type": "toolCall", "id": part.id, "name": part.name, "arguments": part.arguments}
    return None


def _media(media: Media) -> Json:
    if media.data is not None and media.type in RASTER:
        return {"type": "image", "data": media.data, "mimeType": media.type}
    return {"type": "text", "text": f"[{media.name or media.type or 'a file'}: {media.url or 'not kept'}]"}
