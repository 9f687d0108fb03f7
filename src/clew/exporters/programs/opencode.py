"""A session as `opencode export` writes it, for `opencode import`.

Of one that came from OpenCode and was not changed: the same rows under the same ids. All else is a new
session there, with new ids for all: a fork, a session at an earlier place, one that went on here, one of
another agent. OpenCode passes over messages whose ids it has, whichever session has them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.load.entries import recall
from clew.core.messages.dialects.base import filled, parts_of, type_of
from clew.errors import ClewError, InvalidError
from clew.exporters.blocks import Media
from clew.exporters.programs.resuming import Written, write_new
from clew.exporters.programs.turns import (
    Answer,
    History,
    Picture,
    Text,
    ToolCall,
    Turn,
    turns_of,
    without_setup,
)
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Entry, Event, Head, Json

if TYPE_CHECKING:
    from clew.core.conversation.points import Point
    from clew.session import Session
    from clew.store import Store

PROGRAM: Final = "opencode"
_PREFIX: Final = "opencode:"
_VERSION: Final = "1.18.33"
"""Of the OpenCode whose rows these are, for sessions that never were there."""
_AGENT: Final = "build"
_CUT_OFF: Final = "[the beginning of this conversation was left out]"
_BEGINS: Final = "[the conversation begins with an answer]"
_PATIENCE: Final = 120
"""Seconds that `opencode import` may take: its first run makes a database."""


def pieces(
    store: Store, id: str, *, at: Point | None = None, redact: bool | Redactor = False
) -> Iterator[bytes]:
    """The document. `at`: the path to this point instead of the one to the head."""
    redactor = redactor_of(redact)
    written = _Document(store, id, at).whole()
    yield _json(redactor.value(written, "session") if redactor else written)


def write_session(
    store: Store, id: str, *, at: Point | None = None, home: Path, workspace: str, new_id: str | None = None
) -> Written:
    """Let OpenCode import the session under a new id: its database is its own, and nothing else writes to it.

    The document lies in a file for as long as that takes. Where OpenCode is not installed, the file stays,
    and the command is the one that imports it.
    """
    document = _Document(store, id, at)
    now = _milliseconds(datetime.now(UTC))
    seed = os.urandom(16).hex()
    own = _given(new_id) or _Ids(seed).session(now)
    written = document.new(own, seed, workspace=workspace, now=now)
    file = write_new(_waiting(home) / f"{own}.json", [_json(written)])
    program = shutil.which(PROGRAM)
    if program is None:
        notes = [
            *document.notes,
            f"the program opencode was not found; import the file first, then run: opencode -s {own}",
        ]
        return Written(
            id=own, command=[PROGRAM, "import", str(file)], directory=workspace, paths=[file], notes=notes
        )
    _run_import(program, file, home, workspace)
    file.unlink()
    return Written(id=own, command=[PROGRAM, "-s", own], directory=workspace, notes=document.notes)


def _waiting(home: Path) -> Path:
    """Where a document waits for its import."""
    states = os.environ.get("XDG_STATE_HOME") if home == Path.home() else None
    return Path(states or home / ".local" / "state") / "clew" / "opencode"


def _run_import(program: str, file: Path, home: Path, workspace: str) -> None:
    environment = {**os.environ, "PWD": workspace}  # which it believes before the system
    if home != Path.home():
        environment = {name: value for name, value in environment.items() if not name.startswith("XDG_")}
        environment["HOME"] = str(home)
    try:
        done = subprocess.run(
            [program, "import", str(file)],
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClewError(f"opencode import did not run: {error}; the session waits in {file}") from error
    if done.returncode or "Imported session" not in done.stdout:
        said = (done.stderr or done.stdout).strip()[-400:]
        raise ClewError(f"opencode import failed: {said}; the session waits in {file}")


def _given(new_id: str | None) -> str | None:
    if new_id is not None and not new_id.startswith("ses_"):
        raise InvalidError(f"an id of OpenCode begins with ses_, and {new_id!r} does not")
    return new_id


def _json(document: Json) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


# ── Ids that sort by time ─────────────────────────────────────────────────────────────────────────

_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _Ids:
    """As OpenCode makes them: 48 bits of milliseconds and a counter, then 14 letters. Those of messages and
    parts ascend; those of sessions descend, so that the newest is the first. They begin anew every two years:
    OpenCode sorts messages by their times first."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._last = 0
        self._made = 0

    def session(self, time: int) -> str:
        return f"ses_{~(time * 0x1000 + 1) & 0xFFFF_FFFF_FFFF:012x}{self._letters()}"

    def next(self, prefix: str, time: int) -> str:
        self._last = max(time * 0x1000, self._last) + 1
        return f"{prefix}_{self._last & 0xFFFF_FFFF_FFFF:012x}{self._letters()}"

    def _letters(self) -> str:
        self._made += 1
        number = int.from_bytes(sha256(f"{self._seed}\0{self._made}".encode()).digest())
        found = []
        for _ in range(14):
            number, rest = divmod(number, 62)
            found.append(_LETTERS[rest])
        return "".join(found)


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────


class _Message:
    """A message while it is put together; ids are those that it had, if it was OpenCode's."""

    def __init__(self, info: dict[str, Json], position: int, id: str | None = None) -> None:
        self.id = id
        self.info = info
        self.position = position
        """Of its first entry."""
        self.parts: list[tuple[str | None, dict[str, Json]]] = []
        self.keeps_from: int | None = None
        """Of a request for a summary: the position from which on all stays in view."""

    @property
    def created(self) -> int:
        time = self.info.get("time")
        created = time.get("created") if isinstance(time, dict) else None
        return int(created) if isinstance(created, int | float) else 0

    @property
    def is_user(self) -> bool:
        return self.info.get("role") == "user"


class _Document:
    def __init__(self, store: Store, id: str, at: Point | None) -> None:
        self._session: Session = store.get(id)
        self._info = self._session.info
        self._entries = list(self._session.entries(at=at))
        with store._engine.read() as reader:
            memory = recall(reader, self._session._access.sid)
        is_there = memory is not None and memory.state.head == self._info.head
        self._is_as_it_came = at is None and is_there and self._info.forked_from is None
        self._foreign = {entry.id for entry in self._entries if _source(entry) is None and _counts(entry)}
        self._history: History = turns_of(self._entries)
        self._answers = {call.id: call.answer for turn in self._history.turns for call in turn.calls}
        self.notes = [*self._history.notes()]
        if any(turn.thoughts for turn in self._history.turns if self._is_foreign(turn)):
            self.notes.append("thoughts were left out: only the model that had them can go on with them")

    def whole(self) -> Json:
        """With its own ids if it is as it came, else with new ones: the same ones in every export."""
        if self._is_as_it_came and self._info.id.startswith(f"{_PREFIX}ses_"):
            messages = self._native_with_reverted()
            if all(message.id and all(name for name, _ in message.parts) for message in messages):
                return self._joined(self._own_info(), messages)
        seed = f"{self._info.id}\0{self._entries[-1].hash if self._entries else ''}"
        now = _milliseconds(self._info.updated_at)
        workspace = self._info.workspace_given or self._info.workspace or "/"
        return self.new(_Ids(seed).session(now), seed, workspace=workspace, now=now)

    # -- as it came

    def _native_with_reverted(self) -> list[_Message]:
        """A revert only hides messages: they are rows as the others."""
        entries = self._entries
        revert = self._info.metadata.get("revert")
        if isinstance(revert, dict):
            entries = _beyond(self._session, entries)
        return _in_order([*self._requests(entries), *self._native(entries)])

    def _own_info(self) -> dict[str, Json]:
        info, metadata = self._info, self._info.metadata
        told = _as_info(metadata)
        time = _object(metadata.get("time"))
        created, updated = _milliseconds(info.created_at), _milliseconds(info.updated_at)
        return {
            **told,
            "id": info.id.removeprefix(_PREFIX),
            "directory": info.workspace_given or info.workspace or "/",
            "title": info.title or "",
            "time": {"created": created, "updated": updated, **time, **_times(metadata)},
        }

    def _joined(self, info: dict[str, Json], messages: Sequence[_Message]) -> Json:
        session = info["id"]
        return {
            "info": info,
            "messages": [
                {
                    "info": {**message.info, "id": message.id, "sessionID": session},
                    "parts": [
                        {**part, "id": name, "sessionID": session, "messageID": message.id}
                        for name, part in sorted(message.parts, key=lambda part: part[0] or "")
                    ],
                }
                for message in messages
            ],
        }

    # -- as a new session

    def new(self, own: str, seed: str, *, workspace: str, now: int) -> Json:
        """With new ids, in which everything that names another message names it as before."""
        messages = self._all(workspace)
        ids = _Ids(seed + own)
        renamed: dict[str, str] = {}
        last = 0
        for message in messages:
            last = max(last, message.created)
            message.info = {**message.info, "time": {**message.info["time"], "created": last}}
            old, message.id = message.id, ids.next("msg", last)
            if old:
                renamed[old] = message.id
            if all(name for name, _ in message.parts):
                message.parts.sort(key=lambda part: part[0] or "")
            message.parts = [
                (ids.next("prt", last), _with_attachments(part, own, message.id, ids, last))
                for _, part in message.parts
            ]
        asked: str | None = None
        for message in messages:
            asked = self._link(message, messages, renamed, asked)
        told = self._new_info(own, workspace, messages[0].created if messages else now, now)
        return self._joined(told, messages)

    def _link(
        self, message: _Message, all_messages: Sequence[_Message], renamed: dict[str, str], asked: str | None
    ) -> str | None:
        """Give a message the names of those that it belongs to; the prompt that the next answer answers."""
        if not message.is_user:
            parent = renamed.get(str(message.info.get("parentID"))) or asked
            message.info = {**message.info, "parentID": parent}
            return asked
        kept = message.keeps_from
        for at, (name, part) in enumerate(message.parts):
            if part.get("type") != "compaction":
                continue
            start = renamed.get(str(part.get("tail_start_id")))
            if kept is not None:
                later = (m.id for m in all_messages if kept <= m.position < message.position)
                start = next(later, None)
            rest = {field: value for field, value in part.items() if field != "tail_start_id"}
            message.parts[at] = name, {**rest, "tail_start_id": start} if start else rest
        return message.id

    def _new_info(self, own: str, workspace: str, created: int, now: int) -> dict[str, Json]:
        info = self._info
        is_theirs = info.id.startswith(_PREFIX)
        told = _as_info(info.metadata) if is_theirs else {}
        for field in ("parentID", "share", "revert", "workspaceID"):
            told.pop(field, None)
        model, vendor = info.model or "unknown", info.vendor or "unknown"
        return {
            "slug": f"clew-{own[-8:].lower()}",
            "version": _VERSION,
            "agent": _AGENT,
            "model": {"id": model, "providerID": vendor},
            "projectID": "global",
            "path": "",
            **told,
            "id": own,
            "directory": workspace,
            "title": info.title or info.preview or "Untitled",
            "time": {"created": created, "updated": max(created, now)},
        }

    def _all(self, workspace: str) -> list[_Message]:
        """OpenCode's own messages, and the others mapped, in the order of the path."""
        own, mapped = self._native(self._entries), self._mapped(workspace)
        found = sorted([*own, *mapped], key=lambda message: message.position)
        for request in self._requests(self._entries):
            answers = (at for at, m in enumerate(found) if m.info.get("parentID") == request.id)
            if (at := next(answers, None)) is not None:
                found.insert(at, request)
        if found and not found[0].is_user:
            found.insert(0, self._prompt(found[0].position, found[0].created, _BEGINS, synthetic=True))
        return found

    # -- OpenCode's own

    def _requests(self, entries: Sequence[Entry]) -> list[_Message]:
        """The requests for summaries that are on the path: they lie beside it."""
        answered = {filled(source.get("parentID")) for entry in entries if (source := _source(entry))}
        return [_request(event) for event in _events(self._session) if event.id in answered]

    def _native(self, entries: Sequence[Entry]) -> list[_Message]:
        found: list[_Message] = []
        for entry in entries:
            if (source := _source(entry)) is None:
                continue
            if (key := filled(source.get("id"))) is not None:
                found.append(_Message(_data(source), entry.position, key))
            elif not found or found[-1].id != source.get("messageID"):
                continue  # the message that it goes on with is not on the path
            self._take(found[-1], entry, source)
        for message in found:
            self._answer_the_rest(message)
        return found

    def _take(self, message: _Message, entry: Entry, source: dict[str, Json]) -> None:
        kept: list[dict[str, Json]] = [part for part in source.get("parts") or [] if isinstance(part, dict)]
        rest: dict[str, dict[str, Json]] = {
            str(part.get("callID") or part.get("id")): part for part in kept if part.get("type") == "tool"
        }
        said = entry.message
        if entry.kind == "compaction":
            words = "\n".join(text for inner in said.get("messages", []) if (text := _text_in(inner)))
            for part in kept:
                is_text = part.get("type") == "text" and "text" not in part
                message.parts.append(_named({**part, "text": words} if is_text else part))
            return
        ids = iter(source.get("ids") or [])
        for block in parts_of(said):
            match type_of(block):
                case "tool_use":
                    message.parts.append(_call_part(block, rest.pop(str(block.get("id")), None)))
                case "tool_result":
                    _put_result(message, block, rest.pop(str(block.get("tool_use_id")), None))
                case "thinking":
                    inner = {name: value for name, value in block.items() if name != "thinking"}
                    thought = {**inner, "type": "reasoning", "text": block.get("thinking", "")}
                    message.parts.append((next(ids, None), thought))
                case _:
                    message.parts.append((next(ids, None), dict(block)))
        for key, part in rest.items():  # calls that were still running when others had results
            _put_result(message, {"tool_use_id": key}, part)
        message.parts += [_named(part) for part in kept if part.get("type") != "tool"]

    def _answer_the_rest(self, message: _Message) -> None:
        """Calls whose result came here, or whose result is behind the place where the path ends."""
        for at, (name, part) in enumerate(message.parts):
            if part.get("type") != "tool":
                continue
            answer = self._answers.get(str(part.get("callID")))
            state = part.get("state") or {}
            if state.get("status") in ("completed", "error") or answer is None:
                continue
            is_open = answer.is_made_up and state.get("status") in ("pending", "running")
            if not is_open:
                told = _state(state.get("input") or {}, answer, message.created)
                message.parts[at] = name, {**part, "state": told}

    # -- those of other agents, and what was appended here

    def _is_foreign(self, turn: Turn) -> bool:
        return not turn.entries or turn.entries[0].id in self._foreign

    def _mapped(self, workspace: str) -> list[_Message]:
        turns = self._history.turns
        if not any(_source(entry) for entry in self._entries):
            turns = without_setup(turns)
        found: list[_Message] = []
        for turn in turns:
            if self._is_foreign(turn):
                found += self._turn(turn, workspace)
        return found

    def _turn(self, turn: Turn, workspace: str) -> Iterator[_Message]:
        created = _milliseconds(turn.time)
        if turn.speaker == "assistant":
            yield self._answer(turn, workspace)
        elif turn.speaker == "user":
            asked = _Message(self._asked(created), turn.position)
            asked.parts = [(None, part) for part in _said(turn)]
            yield asked
        elif turn.speaker == "compaction":
            request = _Message(self._asked(created), turn.position)
            request.parts = [(None, {"type": "compaction", "auto": False})]
            request.keeps_from = turn.start
            yield request
            summary = _Message(self._answered(created, created, turn, workspace), turn.position)
            summary.info |= {"mode": "compaction", "agent": "compaction", "summary": True, "finish": "stop"}
            summary.parts = [(None, {"type": "text", "text": turn.text or _CUT_OFF})]
            yield summary
        # The system of an agent, and what it showed to its user, are not for another one.

    def _prompt(self, position: int, created: int, text: str, *, synthetic: bool) -> _Message:
        prompt = _Message(self._asked(created), position)
        prompt.parts = [(None, {"type": "text", "text": text, "synthetic": synthetic})]
        return prompt

    def _asked(self, created: int) -> dict[str, Json]:
        model = {"providerID": self._info.vendor or "unknown", "modelID": self._info.model or "unknown"}
        return {"role": "user", "time": {"created": created}, "agent": _AGENT, "model": model}

    def _answered(self, created: int, completed: int, turn: Turn, workspace: str) -> dict[str, Json]:
        return {
            "role": "assistant",
            "time": {"created": created, "completed": completed},
            "modelID": turn.model or self._info.model or "unknown",
            "providerID": turn.vendor or self._info.vendor or "unknown",
            "mode": _AGENT,
            "agent": _AGENT,
            "path": {"cwd": workspace, "root": workspace},
            "cost": 0,
            "tokens": _no_tokens(),
        }

    def _answer(self, turn: Turn, workspace: str) -> _Message:
        created = _milliseconds(turn.time)
        ends = [_milliseconds(call.answer.time) for call in turn.calls if call.answer.time]
        reason = "tool-calls" if turn.calls else "stop"
        made = _Message(
            {**self._answered(created, max([created, *ends]), turn, workspace), "finish": reason},
            turn.position,
        )
        made.parts.append((None, {"type": "step-start"}))
        made.parts += [(None, part) for part in _said(turn)]
        finish = {"type": "step-finish", "reason": reason, "cost": 0, "tokens": _no_tokens()}
        made.parts.append((None, finish))
        return made


def _source(entry: Entry) -> dict[str, Json] | None:
    """What OpenCode's reader kept beside an entry; None: it is of another agent, or was appended here."""
    source = entry.annotations.get("source")
    if not isinstance(source, dict):
        return None
    is_theirs = str(source.get("id", "")).startswith("msg_") or "messageID" in source
    return source if is_theirs else None


def _counts(entry: Entry) -> bool:
    return entry.kind in ("message", "compaction", "truncation")


def _in_order(messages: list[_Message]) -> list[_Message]:
    return sorted(messages, key=lambda message: (message.created, message.id or ""))


def _beyond(session: Session, entries: list[Entry]) -> list[Entry]:
    """The path with what follows it on the same branch: what a revert hides."""
    head = session.head
    branch = next((b for b in session.tree().branches if b.id == head.branch), None)
    if branch is None or branch.last <= head.position:
        return entries
    return list(session.entries(at=Head(branch.id, branch.last)))


def _events(session: Session) -> Iterator[Event]:
    cursor: Event | None = None
    while page := session.events(after=cursor, stream=""):
        yield from (event for event in page if event.type == "compaction")
        cursor = page[-1]


def _request(event: Event) -> _Message:
    data: dict[str, Json] = event.data if isinstance(event.data, dict) else {}
    message = _Message({k: v for k, v in data.items() if k != "parts"}, -1, event.id)
    message.parts = [_named(part) for part in data.get("parts") or [] if isinstance(part, dict)]
    return message


def _data(source: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in source.items() if name not in ("id", "ids", "parts")}


def _named(part: dict[str, Json]) -> tuple[str | None, dict[str, Json]]:
    return filled(part.get("id")), {name: value for name, value in part.items() if name != "id"}


def _text_in(message: Json) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


def _call_part(block: Json, kept: dict[str, Json] | None) -> tuple[str | None, dict[str, Json]]:
    """A call of OpenCode's own, without its result."""
    part = kept or {"type": "tool", "callID": block.get("id"), "tool": block.get("name"), "state": {}}
    state = dict(part.get("state") or {})
    if block.get("input") is not None:
        state["input"] = block["input"]
    return _named({**part, "state": state})


def _put_result(message: _Message, block: Json, kept: dict[str, Json] | None) -> None:
    for at, (_, part) in enumerate(message.parts):
        is_it = part.get("type") == "tool" and part.get("callID", "") == block.get("tool_use_id")
        if kept is None or not (is_it or _is_call_of(part, kept)):
            continue
        state = {**kept.get("state", {}), **part.get("state", {})}
        if state.get("status") == "completed" and block.get("content") is not None:
            state["output"] = block["content"]
        message.parts[at] = _named({**kept, "state": state})
        return


def _is_call_of(part: dict[str, Json], kept: dict[str, Json]) -> bool:
    """A call without an id of its own was read with that of its part."""
    return part.get("type") == "tool" and "callID" not in kept and part.get("callID") == kept.get("id")


# ── Info of a session ─────────────────────────────────────────────────────────────────────────────

_PLAIN: Final = (
    "slug", "projectID", "workspaceID", "path", "parentID", "version", "cost", "share", "revert",
    "permission", "model", "summary", "tokens",
)  # fmt: skip


def _as_info(metadata: dict[str, Json]) -> dict[str, Json]:
    """What an import kept of a session, whichever form of it was read, in the names of OpenCode's exports."""
    told = {name: metadata[name] for name in _PLAIN if metadata.get(name) is not None}
    if "mode" in metadata:
        told["agent"] = metadata["mode"]
    if "workspace_id" in metadata:
        told["workspaceID"] = metadata["workspace_id"]
    if "share_url" in metadata:
        told["share"] = {"url": metadata["share_url"]}
    counts = {name: metadata.get(f"summary_{name}") for name in ("additions", "deletions", "files")}
    if any(count is not None for count in counts.values()):
        told["summary"] = {name: count or 0 for name, count in counts.items()}
        if (diffs := _decoded(metadata.get("summary_diffs"))) is not None:
            told["summary"]["diffs"] = diffs
    if "tokens_input" in metadata:
        plain = {name: metadata.get(f"tokens_{name}") or 0 for name in ("input", "output", "reasoning")}
        cache = {name: metadata.get(f"tokens_cache_{name}") or 0 for name in ("read", "write")}
        told["tokens"] = {**plain, "cache": cache}
    if (own := _decoded(metadata.get("metadata"))) is not None:
        told["metadata"] = own
    return told


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _times(metadata: dict[str, Json]) -> dict[str, Json]:
    names = ("compacting", "archived")
    return {name: value for name in names if (value := metadata.get(f"time_{name}")) is not None}


def _decoded(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# ── Parts of other agents' turns ──────────────────────────────────────────────────────────────────


def _no_tokens() -> dict[str, Json]:
    return {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def _said(turn: Turn) -> Iterator[dict[str, Json]]:
    """Texts, files and calls. Thoughts are left out: no other agent can give them to their model again."""
    for part in turn.parts:
        match part:
            case Text(text):
                yield {"type": "text", "text": text, **({"synthetic": True} if turn.injected else {})}
            case Picture(media):
                yield _file(media) or {"type": "text", "text": f"[{media.name or 'image'}]"}
            case ToolCall():
                yield _tool(part, _milliseconds(turn.time))
            case _:
                pass


def _file(media: Media) -> dict[str, Json] | None:
    url = f"data:{media.type};base64,{media.data}" if media.data is not None else media.url
    if not url or not (url.startswith(("data:", "http:", "https:"))):
        return None
    named = {"filename": media.name} if media.name else {}
    return {"type": "file", "mime": media.type or "image/png", **named, "url": url}


def _tool(call: ToolCall, created: int) -> dict[str, Json]:
    state = _state(call.arguments, call.answer, created)
    return {"type": "tool", "callID": call.id, "tool": call.name, "state": state}


def _state(given: Json, answer: Answer, created: int) -> dict[str, Json]:
    end = max(created, _milliseconds(answer.time) if answer.time else created)
    times = {"start": created, "end": end}
    if answer.is_error:
        return {"status": "error", "input": given, "error": answer.text, "time": times}
    told = {"status": "completed", "input": given, "output": answer.text, "title": "", "metadata": {}}
    files = [file for media in answer.media if (file := _file(media)) is not None]
    return {**told, "time": times, **({"attachments": files} if files else {})}


def _with_attachments(
    part: dict[str, Json], session: str, message: str, ids: _Ids, time: int
) -> dict[str, Json]:
    """A call with the files in its result under new ids: they are parts, too."""
    state = _object(part.get("state"))
    files = state.get("attachments")
    if not isinstance(files, list):
        return part
    own = {"sessionID": session, "messageID": message}
    renamed = [{**file, "id": ids.next("prt", time), **own} for file in files if isinstance(file, dict)]
    return {**part, "state": {**state, "attachments": renamed}}
