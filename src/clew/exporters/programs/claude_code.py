"""A session as a transcript of Claude Code: one JSON record a line, a chain by `parentUuid`.

One that came from there and was not changed here is the same file again. Else the file holds the path alone:
the records that are known as they were, and new ones behind them.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from clew.errors import InvalidError
from clew.exporters.blocks import RASTER, Media
from clew.exporters.programs.replay import Replay, checked_uuid, cleaned, iso, line_of, own_id, own_uuid
from clew.exporters.programs.resuming import Written, write_new
from clew.exporters.programs.turns import Picture, Text, Thought, ToolCall, Turn, TurnPart
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Json

if TYPE_CHECKING:
    from clew.core.conversation.points import Point
    from clew.store import Store

NAME: Final = "claude-code"
VERSION: Final = "2.1.197"
"""Of the agent whose records these are like, where the session does not tell another one."""
_ENVELOPE: Final = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch")
"""What each record repeats, in this order."""
_OF_SESSION: Final = ("teamName", "agentName", "agentId", "slug", "sourceToolAssistantUUID")
"""What ties a record to the session that it was written in."""
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9]")
_LONGEST_NAME: Final = 200
_NO_TOKENS: Final = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


def pieces(
    store: Store, id: str, *, at: Point | None = None, redact: bool | Redactor = False
) -> Iterator[bytes]:
    """The lines of the transcript.

    Args:
        store: Where the session is.
        id: Its id or alias.
        at: Only up to this point.
        redact: Without secrets.
    """
    replay = Replay(store, id, NAME, at=at)
    made = _Transcript(replay, own_id(replay.info, NAME))
    return cleaned(made.lines() if replay.is_changed else replay.whole(), redactor_of(redact))


def write_session(
    store: Store, id: str, *, at: Point | None = None, home: Path, workspace: str, new_id: str | None = None
) -> Written:
    """Write a copy with an id of its own to where Claude Code looks for the sessions of a directory."""
    replay = Replay(store, id, NAME, at=at, is_copy=True)
    own = str(uuid4()) if new_id is None else checked_uuid(new_id)
    made = _Transcript(replay, own, cwd=workspace, is_copy=True)
    lines = list(made.lines())
    if not any(b'"message"' in line for line in lines):
        raise InvalidError(f"session {id!r} has no message that Claude Code could go on from")
    path = write_new(projects(home) / folder_of(workspace) / f"{own}.jsonl", lines)
    command = ["claude", "--resume", own]
    return Written(id=own, command=command, directory=workspace, paths=[path], notes=replay.notes())


def projects(home: Path) -> Path:
    moved = os.environ.get("CLAUDE_CONFIG_DIR") if home == Path.home() else None
    return (Path(moved) if moved else home / ".claude") / "projects"


def folder_of(workspace: str) -> str:
    """What Claude Code calls the folder with the sessions of a directory."""
    real = unicodedata.normalize("NFC", os.path.realpath(workspace))
    name = _NOT_IN_NAMES.sub("-", real)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{_short_hash(real)}"


def _short_hash(text: str) -> str:
    """As Claude Code makes it: a hash of 32 bits, in digits and letters."""
    number = 0
    for letter in text:
        number = (number * 31 + ord(letter)) & 0xFFFFFFFF
    if number >= 0x80000000:
        number -= 0x100000000
    number, digits = abs(number), ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


class _Transcript:
    """Records, each behind the one before it."""

    def __init__(self, replay: Replay, id: str, *, cwd: str | None = None, is_copy: bool = False) -> None:
        self._replay = replay
        self._id = id
        self._is_copy = is_copy
        info = replay.info
        self._envelope: dict[str, Json] = {
            "userType": "external",
            "entrypoint": "cli",
            "cwd": cwd or info.workspace_given or info.workspace or "/",
            "sessionId": id,
            "version": VERSION,
        }
        self._cwd = cwd
        self._written: dict[str, str] = {}
        """Ids of records as they were, and as they are."""
        self._last: str | None = None
        self._at: dict[int, str] = {}
        """The id of the record of each position."""
        self._links = {
            uuid: record
            for record in replay.others
            if isinstance(uuid := record.get("uuid"), str) and "parentUuid" in record
        }

    def lines(self) -> Iterator[bytes]:
        for record in self._records():
            yield line_of(record)

    def _records(self) -> Iterator[dict[str, Json]]:
        for entry, record in self._replay.records():
            for link in self._links_before(record):
                yield self._again(link)
            yield self._again(record)
            assert self._last is not None
            self._at[entry.position] = self._last
        for call in self._replay.open_calls():
            yield self._result(call, call.answer.time or self._replay.info.updated_at)
        for turn in self._replay.rest():
            for record in self._turn(turn):
                yield record
                self._at.setdefault(turn.position, str(record["uuid"]))
        title = self._replay.info.title
        if title and not self._replay.info.title_is_auto:
            yield {"type": "custom-title", "customTitle": title, "sessionId": self._id}

    # -- records as they were

    def _links_before(self, record: dict[str, Json]) -> list[dict[str, Json]]:
        """Records without a message between one and the one before it: attachments, notes of a compaction.
        What was only shown while a tool ran is not one of them."""
        found: list[dict[str, Json]] = []
        above = record.get("parentUuid")
        while isinstance(above, str) and above in self._links and above not in self._written:
            link = self._links[above]
            if any(link is one for one in found):
                break  # they lead round and round
            if link.get("type") != "progress":
                found.append(link)
            else:
                self._written[above] = ""
            above = link.get("parentUuid")
        return found[::-1]

    def _again(self, record: dict[str, Json]) -> dict[str, Json]:
        old = str(record["uuid"])
        uuid = own_uuid(self._id, old) if self._is_copy else old
        above = record.get("parentUuid")
        # Behind the one before it, whatever it hung off: results of parallel calls are leaves of their own,
        # and Claude Code goes on from the newest leaf.
        is_known = isinstance(above, str) and above in self._written
        is_cut = record.get("subtype") == "compact_boundary" and not is_known
        parent = None if is_cut else self._last
        self._written[old] = uuid
        self._last = uuid
        changed: dict[str, Json] = {"parentUuid": parent, "uuid": uuid, "sessionId": self._id}
        if isinstance(logical := record.get("logicalParentUuid"), str):
            changed["logicalParentUuid"] = self._written.get(logical)
        if self._is_copy:
            changed["isSidechain"] = False
            if isinstance(about := record.get("compactMetadata"), dict):
                changed["compactMetadata"] = self._named_anew(about)
            if self._cwd is not None and "cwd" in record:
                changed["cwd"] = self._cwd
        made = {key: changed.get(key, value) for key, value in record.items()}
        if self._is_copy:
            for key in _OF_SESSION:
                made.pop(key, None)
            made["forkedFrom"] = {"sessionId": record.get("sessionId"), "messageUuid": old}
        known = {key: made[key] for key in _ENVELOPE if isinstance(made.get(key), str)}
        self._envelope |= known
        return made

    def _named_anew(self, value: Json) -> Json:
        """Ids of messages that a compaction kept."""
        if isinstance(value, str):
            return self._written.get(value) or (own_uuid(self._id, value) if _is_uuid(value) else value)
        if isinstance(value, list):
            return [self._named_anew(item) for item in value]
        if isinstance(value, dict):
            return {key: self._named_anew(item) for key, item in value.items()}
        return value

    # -- new records

    def _new(self, kind: str, time: datetime, *key: str, **fields: Json) -> dict[str, Json]:
        uuid = own_uuid(self._id, *key)
        parent, self._last = self._last, uuid
        chain: dict[str, Json] = {"parentUuid": parent, "isSidechain": False}
        named = {"type": kind, **fields, "uuid": uuid, "timestamp": iso(time)}
        return {**chain, **named, **{key: self._envelope[key] for key in _ENVELOPE if key in self._envelope}}

    def _turn(self, turn: Turn) -> Iterator[dict[str, Json]]:
        if turn.speaker == "user":
            meta = {} if self._replay.is_prompt(turn) else {"isMeta": True}
            message: Json = {"role": "user", "content": _content(turn.parts)}
            yield self._new("user", turn.time, f"{turn.position}", message=message, **meta)
        elif turn.speaker == "assistant":
            yield from self._answer(turn)
        elif turn.speaker == "compaction":
            yield from self._compaction(turn)

    def _answer(self, turn: Turn) -> Iterator[dict[str, Json]]:
        """A record for each block, as the agent streams them, and then the results."""
        blocks = [block for part in turn.parts if (block := _block(part)) is not None]
        id = f"msg_{own_uuid(self._id, str(turn.position)).replace('-', '')[:24]}"
        reason = "tool_use" if turn.calls else "end_turn"
        for number, block in enumerate(blocks):
            message: Json = {
                "id": id,
                "type": "message",
                "role": "assistant",
                "model": turn.model or self._replay.info.model or "unknown",
                "content": [block],
                "stop_reason": reason,
                "stop_sequence": None,
                "usage": _NO_TOKENS,
            }
            yield self._new("assistant", turn.time, f"{turn.position}", f"{number}", message=message)
        for call in turn.calls:
            yield self._result(call, call.answer.time or turn.time)

    def _result(self, call: ToolCall, time: datetime) -> dict[str, Json]:
        answer = call.answer
        content: Json = answer.text
        if answer.media:
            shown = [_media_block(media) for media in answer.media]
            content = [*([{"type": "text", "text": answer.text}] if answer.text else []), *shown]
        block: dict[str, Json] = {"tool_use_id": _call_id(call.id), "type": "tool_result", "content": content}
        if answer.is_error:
            block["is_error"] = True
        message: Json = {"role": "user", "content": [block]}
        return self._new("user", time, "result", call.id, message=message, toolUseResult=answer.text)

    def _compaction(self, turn: Turn) -> Iterator[dict[str, Json]]:
        """The mark, and the summary. Messages that stayed in view are named: the agent puts them behind
        it."""
        key = f"{turn.position}"
        before, summary = self._last, own_uuid(self._id, key, "summary")
        kept = [uuid for position, uuid in self._at.items() if turn.start <= position < turn.position]
        about: dict[str, Json] = {"trigger": "manual", "preTokens": _tokens(turn)}
        if kept:
            about["preservedSegment"] = {
                "headUuid": kept[0],
                "anchorUuid": summary,
                "tailUuid": kept[-1],
            }
        mark = self._new(
            "system",
            turn.time,
            key,
            logicalParentUuid=before,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata=about,
        )
        yield {**mark, "parentUuid": None}
        message: Json = {"role": "user", "content": turn.text}
        flags = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        yield self._new("user", turn.time, key, "summary", message=message, **flags)


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and text.count("-") == 4


def _tokens(turn: Turn) -> int:
    told = turn.entries[0].message.get("tokens") if turn.entries else None
    return told if isinstance(told, int) else 0


def _call_id(id: str) -> str:
    """An id that Anthropic's API takes."""
    return _NOT_IN_IDS.sub("_", id)[:128] or "call"


def _content(parts: Sequence[TurnPart]) -> Json:
    blocks = [block for part in parts if (block := _block(part)) is not None]
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].get("type") == "text":
        return blocks[0]["text"]
    return blocks


def _block(part: TurnPart) -> Json:
    """A block of a message; None: this model cannot be given it again."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Picture(media):
            return _media_block(media)
        case Thought(_, vendor, value):
            is_signed = vendor == "anthropic" and isinstance(value, dict)
            return value if is_signed and value.get("type") in ("thinking", "redacted_thinking") else None
        case ToolCall(id=id, name=name, arguments=arguments):
            known = _NOT_IN_IDS.sub("_", name)[:128] or "tool"
            return {"type": "tool_use", "id": _call_id(id), "name": known, "input": arguments}


def _media_block(media: Media) -> Json:
    if media.data is not None and media.type in RASTER:
        source = {"type": "base64", "media_type": media.type, "data": media.data}
        return {"type": "image", "source": source}
    if media.data is not None and media.type == "application/pdf":
        return {
            "type": "document",
            "source": {"type": "base64", "media_type": media.type, "data": media.data},
        }
    return {"type": "text", "text": f"[{media.name or media.type or 'a file'}: {media.url or 'not kept'}]"}
