"""A session as a rollout of Codex: response items, and the same story told again for the screen.

One that came from there and was not changed here is the same file again. Else the file holds the path alone,
in the mode of history that every version reads: what a rollback took away, and the rollback, are not in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from uuid_utils import uuid7

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

NAME: Final = "codex"
VERSION: Final = "0.166.0"
"""Of the agent whose records these are like, where the session does not tell another one."""
_OF_THREAD: Final = frozenset(
    {
        "id", "session_id", "timestamp", "cwd", "runtime_workspace_roots", "history_mode", "history_base",
        "context_window", "forked_from_id", "parent_thread_id", "thread_source", "source", "agent_nickname",
        "agent_role",
    }
)  # fmt: skip
"""What the header says of one thread alone."""

_json = msgspec.json.Encoder().encode


def pieces(
    store: Store, id: str, *, at: Point | None = None, redact: bool | Redactor = False
) -> Iterator[bytes]:
    """The lines of the rollout.

    Args:
        store: Where the session is.
        id: Its id or alias.
        at: Only up to this point.
        redact: Without secrets.
    """
    replay = Replay(store, id, NAME, at=at)
    made = _Rollout(replay, own_id(replay.info, NAME), replay.info.created_at)
    return cleaned(made.lines() if replay.is_changed else replay.whole(), redactor_of(redact))


def write_session(
    store: Store, id: str, *, at: Point | None = None, home: Path, workspace: str, new_id: str | None = None
) -> Written:
    """Write a copy with an id of its own to where Codex looks for threads."""
    replay = Replay(store, id, NAME, at=at, is_copy=True)
    own = str(uuid7()) if new_id is None else checked_uuid(new_id)
    now = datetime.now(UTC)
    lines = list(_Rollout(replay, own, now, cwd=workspace, is_copy=True).lines())
    if not any(b'"user_message"' in line for line in lines):
        raise InvalidError(f"session {id!r} has no message of a user: Codex lists no thread without one")
    local = now.astimezone()
    name = f"rollout-{local:%Y-%m-%dT%H-%M-%S}-{own}.jsonl"
    path = write_new(home_of(home) / "sessions" / f"{local:%Y}" / f"{local:%m}" / f"{local:%d}" / name, lines)
    command = ["codex", "resume", own]
    return Written(id=own, command=command, directory=workspace, paths=[path], notes=replay.notes())


def home_of(home: Path) -> Path:
    moved = os.environ.get("CODEX_HOME") if home == Path.home() else None
    return Path(moved) if moved else home / ".codex"


class _Rollout:
    """Lines one behind the other: a header, and turn by turn."""

    def __init__(
        self, replay: Replay, id: str, born: datetime, *, cwd: str | None = None, is_copy: bool = False
    ) -> None:
        self._replay = replay
        self._id = id
        self._born = born
        self._is_copy = is_copy
        info = replay.info
        self._cwd = cwd or info.workspace_given or info.workspace or "/"
        self._turn: str | None = None
        """The id of the turn of the user that is open."""
        self._said: str | None = None
        """What the agent said last in it."""
        self._time = born

    def lines(self) -> Iterator[bytes]:
        for kind, time, payload in self._records():
            yield line_of({"timestamp": iso(time), "type": kind, "payload": payload})

    def _records(self) -> Iterator[tuple[str, datetime, dict[str, Json]]]:
        yield "session_meta", self._born, self._header()
        for entry, record in self._replay.records():
            payload = record.get("payload", record)
            if not isinstance(payload, dict):
                continue
            kind = str(record.get("type")) if "payload" in record else "response_item"
            key = str(entry.position) if self._replay.is_prompt(entry) else None
            yield from self._shown(kind, entry.time, payload, key)
        for call in self._replay.open_calls():
            yield "response_item", self._time, _output(call)
        for turn in self._replay.rest():
            yield from self._made(turn)
        yield from self._end_turn()
        title = self._replay.info.title
        if title and not self._replay.info.title_is_auto:
            named: dict[str, Json] = {"type": "thread_name_updated", "thread_id": self._id}
            yield "event_msg", self._time, {**named, "thread_name": title}

    def _header(self) -> dict[str, Json]:
        first = next((one for one in self._replay.others if one.get("type") == "session_meta"), {})
        told = first.get("payload")
        known: dict[str, Json] = told if isinstance(told, dict) else {}
        header: dict[str, Json] = {"id": self._id, "session_id": self._id}
        if self._is_copy and isinstance(base := known.get("id"), str):
            header["forked_from_id"] = base
        header |= {"timestamp": iso(self._born), "cwd": self._cwd}
        # Of another agent's session no provider is named: Codex refuses to go on with one that is not set up.
        usual = {"originator": "codex_cli_rs", "cli_version": VERSION, "source": "cli"}
        kept = {key: value for key, value in known.items() if key not in _OF_THREAD}
        return {**header, **usual, **kept}

    def _shown(
        self, kind: str, time: datetime, payload: dict[str, Json], key: str | None
    ) -> Iterator[tuple[str, datetime, dict[str, Json]]]:
        """A record of the model's history, and what the screen is told of it. `key`: of a turn that a prompt
        begins; None: no person wrote it."""
        role, what = payload.get("role"), payload.get("type")
        is_prompt = key is not None and what == "message" and role == "user"
        if is_prompt and key is not None:
            yield from self._end_turn()
            yield from self._begin_turn(time, key)
        self._time = time
        yield kind, time, payload
        if kind != "response_item" or what != "message":
            return
        text = "\n".join(_texts_in(payload.get("content")))
        if is_prompt:
            yield "event_msg", time, _prompt(text, _images_in(payload.get("content")))
        elif role == "assistant" and text:
            self._said = text
            yield "event_msg", time, {"type": "agent_message", "message": text}

    def _begin_turn(self, time: datetime, key: str) -> Iterator[tuple[str, datetime, dict[str, Json]]]:
        self._turn, self._said = own_uuid(self._id, key), None
        started: dict[str, Json] = {"type": "task_started", "turn_id": self._turn}
        yield "event_msg", time, {**started, "model_context_window": None}

    def _end_turn(self) -> Iterator[tuple[str, datetime, dict[str, Json]]]:
        if self._turn is not None:
            ended: dict[str, Json] = {"type": "task_complete", "turn_id": self._turn}
            yield "event_msg", self._time, {**ended, "last_agent_message": self._said}
        self._turn = None

    # -- what is made anew

    def _made(self, turn: Turn) -> Iterator[tuple[str, datetime, dict[str, Json]]]:
        if turn.speaker == "compaction":
            self._time = turn.time
            yield "compacted", turn.time, self._compacted(turn)
            yield "event_msg", turn.time, {"type": "context_compacted"}
            return
        for number, item in enumerate(_items([turn])):
            key = f"{turn.position}/{number}" if self._replay.is_prompt(turn) else None
            yield from self._shown("response_item", turn.time, item, key)
        for call in turn.calls:
            yield "event_msg", call.answer.time or turn.time, self._told(call)

    def _told(self, call: ToolCall) -> dict[str, Json]:
        """A call and its result for the screen, where calls of foreign tools have a place. The server's name
        is that of the agent whose tool it was."""
        server = self._replay.info.agent or "clew"
        content = [{"type": "text", "text": call.answer.text}]
        return {
            "type": "mcp_tool_call_end",
            "call_id": call.id,
            "invocation": {"server": server, "tool": call.name, "arguments": call.arguments},
            "duration": {"secs": 0, "nanos": 0},
            "result": {"Ok": {"content": content, "isError": call.answer.is_error}},
        }

    def _compacted(self, turn: Turn) -> dict[str, Json]:
        """The summary, and the whole history with which the agent goes on."""
        kept = [
            other
            for other in self._replay.history.turns
            if other.speaker != "compaction" and turn.start <= other.position < turn.position
        ]
        history = [*_items(turn.summary), *_items(kept)]
        return {"message": turn.text, "replacement_history": history}


def _items(turns: Iterable[Turn]) -> Iterator[dict[str, Json]]:
    """Response items: what the model is given."""
    for turn in turns:
        if turn.speaker == "user":
            content = [_content(part) for part in turn.parts if isinstance(part, Text | Picture)]
            yield {"type": "message", "role": "user", "content": content}
        elif turn.speaker == "assistant":
            yield from _answer(turn.parts)


def _answer(parts: Sequence[TurnPart]) -> Iterator[dict[str, Json]]:
    for part in parts:
        match part:
            case Text(text):
                said = [{"type": "output_text", "text": text}]
                yield {"type": "message", "role": "assistant", "content": said}
            case Thought(_, "openai", dict() as value) if value.get("type") == "reasoning":
                yield value
            case ToolCall():
                yield {
                    "type": "function_call",
                    "name": part.name,
                    "arguments": _json(part.arguments).decode(),
                    "call_id": part.id,
                }
            case _:
                pass  # thoughts of others, which its model cannot be given
    for part in parts:
        if isinstance(part, ToolCall):
            yield _output(part)


def _output(call: ToolCall) -> dict[str, Json]:
    answer = call.answer
    output: Json = answer.text
    if any(_url(media) for media in answer.media):
        said = [{"type": "input_text", "text": answer.text}] if answer.text else []
        output = [*said, *(_picture(media) for media in answer.media)]
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _content(part: Text | Picture) -> dict[str, Json]:
    return {"type": "input_text", "text": part.text} if isinstance(part, Text) else _picture(part.media)


def _picture(media: Media) -> dict[str, Json]:
    url = _url(media)
    if url is None:
        return {"type": "input_text", "text": f"[{media.name or media.type or 'a file'}: not kept]"}
    return {"type": "input_image", "image_url": url}


def _url(media: Media) -> str | None:
    if media.data is not None:
        return f"data:{media.type};base64,{media.data}" if media.type in RASTER else None
    return media.url if media.url and media.url.startswith(("https:", "http:")) else None


def _prompt(text: str, images: list[str]) -> dict[str, Json]:
    told: dict[str, Json] = {"type": "user_message", "message": text, "images": images}
    return {**told, "local_images": [], "text_elements": []}


def _texts_in(content: Json) -> Iterator[str]:
    for part in content if isinstance(content, list) else [{"text": content}]:
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            yield text


def _images_in(content: Json) -> list[str]:
    parts = content if isinstance(content, list) else []
    return [url for part in parts if isinstance(part, dict) and isinstance(url := part.get("image_url"), str)]
