"""A session as Gemini CLI keeps it: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`.

Of one that came from Gemini CLI and was not changed: the same bytes. Of all others the messages of the path:
Gemini's own as the records that they were, the rest mapped. A compaction is what it is there: the messages up
to it, then a line that puts others in their place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from clew.core.messages.dialects.base import INTERRUPTED, filled, parts_of
from clew.errors import InvalidError
from clew.exporters.blocks import Media
from clew.exporters.programs.replay import Replay, cleaned, iso, line_of, own_id, own_uuid
from clew.exporters.programs.resuming import Written, write_new
from clew.exporters.programs.turns import (
    Answer,
    Picture,
    Text,
    ToolCall,
    Turn,
    without_setup,
)
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Entry, Json, SessionInfo

if TYPE_CHECKING:
    from clew.core.conversation.points import Point
    from clew.store import Store

NAME: Final = "gemini-cli"
_TYPES: Final = frozenset({"user", "gemini", "info", "error", "warning"})
_OWN_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,}")
_NO_SLUG: Final = re.compile("[^a-z0-9]+")
_SLUG: Final = re.compile("[a-z0-9-]+")
_NOT_PROMPTS: Final = ("/", "?", "<session_context>", "<hook_context>")
"""A record of the user that begins so is no prompt for Gemini CLI: it leaves it out of the conversation."""
_ACKNOWLEDGED: Final = "Got it. Thanks for the additional context!"
"""What Gemini CLI lets its model say to a summary."""
_ROOT: Final = ".project_root"
_SHOWN: Final = 4000
"""Letters of a result that the screen of Gemini CLI gets; the model gets all."""


def pieces(
    store: Store, id: str, *, at: Point | None = None, redact: bool | Redactor = False
) -> Iterator[bytes]:
    """The lines. `at`: the path to this point instead of the one to the head."""
    replay = Replay(store, id, NAME, at=at)
    info = replay.info
    root = info.workspace_given or info.workspace or "/"
    lines = _Chat(replay).lines(own_id(info, NAME), root, iso(info.created_at), iso(info.updated_at))
    return cleaned(map(line_of, lines) if replay.is_changed else replay.whole(), redactor_of(redact))


def write_session(
    store: Store, id: str, *, at: Point | None = None, home: Path, workspace: str, new_id: str | None = None
) -> Written:
    """Write the session to where `gemini --resume` looks for those of the workspace, under a new id.

    Gemini CLI finds the folder of a project by the file `.project_root` in it, and keeps its list of projects
    itself: that is left alone.
    """
    chat = _Chat(Replay(store, id, NAME, at=at, is_copy=True))
    own = new_id or str(uuid4())
    if not _OWN_ID.fullmatch(own):
        raise InvalidError(f"{own!r} cannot be an id of Gemini CLI: it takes letters, digits, - and _")
    root = os.path.realpath(workspace)
    project, paths = _project(_folder(home), root)
    # It deletes chats that are older than thirty days, and takes the one that began last for the latest.
    now = datetime.now(UTC)
    name = f"session-{now:%Y-%m-%dT%H-%M}-{own[:8]}.jsonl"
    lines = chat.lines(own, root, iso(now), iso(now))
    file = write_new(project / "chats" / name, map(line_of, lines))
    return Written(
        id=own,
        command=["gemini", "--resume", own],
        directory=workspace,
        paths=[file, *paths],
        notes=chat.notes,
    )


# ── The folder of a project ───────────────────────────────────────────────────────────────────────


def _folder(home: Path) -> Path:
    moved = os.environ.get("GEMINI_CLI_HOME") if home == Path.home() else None
    return Path(moved or home) / ".gemini"


def _project(gemini: Path, workspace: str) -> tuple[Path, list[Path]]:
    """The folder that Gemini CLI has for a workspace, or will take as such, and the file that says so, if it
    was written now. In the order in which it looks itself: its list, the folders, a new name."""
    folders = gemini / "tmp"
    listed = _listed(gemini / "projects.json").get(workspace)
    if listed is not None and _owner(folders / listed) in (None, workspace):
        return _claimed(folders / listed, workspace)
    found = sorted(folders.iterdir()) if folders.is_dir() else []
    for folder in found:
        if _owner(folder) == workspace:
            return folder, []
    taken = {*_listed(gemini / "projects.json").values(), *(folder.name for folder in found)}
    slug = _NO_SLUG.sub("-", Path(workspace).name.lower()).strip("-") or "project"
    name, number = slug, 0
    while name in taken or _owner(gemini / "history" / name) is not None:
        number += 1
        name = f"{slug}-{number}"
    return _claimed(folders / name, workspace)


def _claimed(folder: Path, workspace: str) -> tuple[Path, list[Path]]:
    if _owner(folder) is not None:
        return folder, []
    return folder, [write_new(folder / _ROOT, [os.fsencode(workspace)])]


def _owner(folder: Path) -> str | None:
    try:
        return os.fsdecode((folder / _ROOT).read_bytes()).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _listed(path: Path) -> dict[str, str]:
    try:
        listed = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, str]])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}
    names = listed.get("projects", {})
    return {place: name for place, name in names.items() if _SLUG.fullmatch(name)}


# ── The chat ──────────────────────────────────────────────────────────────────────────────────────


class _Chat:
    def __init__(self, replay: Replay) -> None:
        self._info: SessionInfo = replay.info
        self._entries = replay.entries
        self._own = {entry.id for entry in self._entries if _is_own(entry)}
        turns = replay.history.turns
        if not self._own:
            turns = without_setup(turns)
        self._turns = {turn.entries[0].id: turn for turn in turns if turn.entries}
        self._answers = {call.id: call.answer for turn in turns for call in turn.calls}
        self._marked = 0
        self._notes = replay.history.notes()
        if any(turn.thoughts for id, turn in self._turns.items() if id not in self._own):
            self._notes.append("thoughts were left out: only the model that had them can go on with them")

    @property
    def notes(self) -> list[str]:
        """What is different there; known when the lines were made."""
        if not self._marked:
            return self._notes
        count = f"{self._marked} prompt" if self._marked == 1 else f"{self._marked} prompts"
        return [
            *self._notes,
            f"{count} got a > in front: Gemini CLI takes what begins with / or ? for commands",
        ]

    # -- as lines

    def lines(self, own: str, root: str, started: str, updated: str) -> Iterator[dict[str, Json]]:
        yield {
            "sessionId": own,
            "projectHash": sha256(os.fsencode(root)).hexdigest(),
            "startTime": started,
            "lastUpdated": updated,
            "kind": "main",
        }
        said: list[tuple[int, dict[str, Json]]] = []
        for position, records in self._records():
            if isinstance(records, Turn):
                kept = [(place, record) for place, record in said if place >= records.start]
                summary = self._summary(records, kept[0][1] if kept else None)
                said = [*((-1, record) for record in summary), *kept]
                yield {"$set": {"messages": [record for _, record in said]}}
                continue
            for record in records:
                yield record
                said.append((position, record))
        if self._info.title and not self._info.title_is_auto:
            yield {"$set": {"summary": self._info.title}}
        yield {"$set": {"lastUpdated": updated}}

    def _records(self) -> Iterator[tuple[int, list[dict[str, Json]] | Turn]]:
        """For each entry that begins something: its records, or the compaction that it is."""
        words: Entry | None = None
        for at, entry in enumerate(self._entries):
            if entry.id in self._own:
                following = self._entries[at + 1] if at + 1 < len(self._entries) else None
                if self._goes_on(entry, following):
                    words = entry
                    continue
                if (record := self._as_record(entry, following, words)) is not None:
                    yield entry.position, [record]
                words = None
            elif (turn := self._turns.get(entry.id)) is not None:
                if turn.speaker == "compaction":
                    yield entry.position, turn
                else:
                    yield entry.position, self._mapped(turn)

    def _summary(self, mark: Turn, kept: dict[str, Json] | None) -> Iterator[dict[str, Json]]:
        """What stands for all before `kept`, the first message that is still in view."""
        made: list[dict[str, Json]] = []
        for number, turn in enumerate(mark.summary):
            made += self._mapped(turn, f"{mark.entries[0].id}/{number}")
        yield from made
        if made and made[-1]["type"] == "user" and (kept is None or kept["type"] == "user"):
            yield self._record(f"{mark.entries[0].id}/ok", mark.time, "gemini", _ACKNOWLEDGED)

    def _record(self, name: str, time: datetime, type: str, content: Json) -> dict[str, Json]:
        return {"id": own_uuid(name), "timestamp": iso(time), "type": type, "content": content}

    # -- Gemini's own records

    def _goes_on(self, entry: Entry, following: Entry | None) -> bool:
        """Whether these are the words of a record, and the next entry has its calls."""
        if following is None or following.id not in self._own:
            return False
        id = entry.annotations["source"].get("id")
        return id is not None and following.annotations["source"].get("id") == id

    def _as_record(
        self, entry: Entry, following: Entry | None, words: Entry | None
    ) -> dict[str, Json] | None:
        source = (words or entry).annotations["source"]
        if "id" not in source:
            return None  # the results: they stand in the record with the calls
        kind = source.get("type")
        parts = parts_of(entry.message, "parts")
        if words is not None:
            parts = [*parts_of(words.message, "parts"), *parts]
        head = {name: source[name] for name in ("id", "timestamp", "type") if name in source}
        rest = {name: value for name, value in source.items() if name not in head}
        if kind != "gemini":
            is_text = kind != "user" and len(parts) == 1 and parts[0].keys() == {"text"}
            return {**head, "content": parts[0]["text"] if is_text else parts, **rest}
        told = _results_of(following) if following is not None and following.id in self._own else {}
        if not told and self._are_answered_apart(parts):
            return {**head, "content": parts, **rest}
        return {**head, **self._answer_of(parts, told, source.get("timestamp")), **rest}

    def _are_answered_apart(self, parts: Sequence[Json]) -> bool:
        """Whether the results of these calls are records of their own, as in lists that replaced others."""
        calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
        answers = (self._answers.get(str(call.get("id"))) for call in calls)
        places = [answer.entry.id for answer in answers if answer is not None and answer.entry is not None]
        return bool(calls) and len(places) == len(calls) and self._own.issuperset(places)

    def _answer_of(
        self, parts: Sequence[Json], told: dict[str, dict[str, Json]], time: Json
    ) -> dict[str, Json]:
        """The content of an answer, its thoughts and its calls, from the parts that they became. `told`: what
        is known of the calls, by their ids."""
        thoughts = [part for part in parts if part.get("thought") is True and "text" in part]
        calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
        said = [part for part in parts if part not in thoughts and "functionCall" not in part]
        texts = [part["text"] for part in said if part.keys() == {"text"}]
        found: dict[str, Json] = {"content": "".join(texts) if len(texts) == len(said) else said}
        if thoughts:
            found["thoughts"] = [_thought(part["text"], time) for part in thoughts]
        if calls:
            found["toolCalls"] = [self._call_of(call, told.get(str(call.get("id"))), time) for call in calls]
        return found

    def _call_of(self, call: dict[str, Json], told: dict[str, Json] | None, time: Json) -> dict[str, Json]:
        asked = {"id": call.get("id"), "name": call.get("name"), "args": call.get("args") or {}}
        if told is not None:
            return {**asked, **{name: value for name, value in told.items() if name not in asked}}
        # Its result came here, or lies behind the place where the path ends.
        answer = self._answers.get(str(call.get("id"))) or Answer(text=INTERRUPTED, is_error=True)
        result = _result(str(call.get("id")), str(call.get("name")), answer)
        return {**asked, "result": result, "status": _status(answer), "timestamp": time}

    # -- those of other agents, and what was appended here

    def _mapped(self, turn: Turn, name: str | None = None) -> list[dict[str, Json]]:
        name = name or turn.entries[0].id
        if turn.speaker == "assistant":
            return [self._answer(turn, name)]
        if turn.speaker == "notice":
            return [self._record(name, turn.time, "info", turn.text)]
        if turn.speaker != "user":
            return []
        content = [part for each in turn.parts for part in _content(each)]
        first = next((part["text"] for part in content if "text" in part), "")
        if first.lstrip().startswith(_NOT_PROMPTS) and not turn.injected:
            self._marked += 1
        if first.lstrip().startswith(_NOT_PROMPTS):
            at = next(at for at, part in enumerate(content) if "text" in part)
            content[at] = {"text": f"> {first}"}
        return [self._record(name, turn.time, "user", content)]

    def _answer(self, turn: Turn, name: str) -> dict[str, Json]:
        record = self._record(name, turn.time, "gemini", turn.text)
        if turn.calls:
            record["toolCalls"] = [_call(call, turn.time) for call in turn.calls]
        if model := turn.model or self._info.model:
            record["model"] = model
        return record


def _is_own(entry: Entry) -> bool:
    """Whether Gemini's reader made it; results of tools have no id of their own."""
    source = entry.annotations.get("source")
    if entry.kind != "message" or not isinstance(source, dict) or "parts" not in entry.message:
        return False
    return (filled(source.get("type")) in _TYPES and filled(source.get("id")) is not None) or (
        source.keys() == {"toolCalls"}
    )


def _results_of(entry: Entry) -> dict[str, dict[str, Json]]:
    """What the entry behind an answer tells of its calls: their results, and what stands beside them."""
    source = entry.annotations["source"]
    found: dict[str, dict[str, Json]] = {}
    for call in source.get("toolCalls") or []:
        if "id" not in source and isinstance(call, dict):
            found[str(call.get("id"))] = call
    current = ""
    for part in parts_of(entry.message, "parts") if found else []:
        answered = part.get("functionResponse")
        if isinstance(answered, dict):
            current = str(answered.get("id"))
        if current in found:
            found[current] = {**found[current], "result": [*found[current].get("result", []), part]}
    return found


def _status(answer: Answer) -> str:
    return "error" if answer.is_error else "success"


def _thought(text: str, time: Json) -> dict[str, Json]:
    subject, _, description = text.partition("\n")
    if not description:
        subject, description = "", subject
    return {"subject": subject, "description": description, "timestamp": time}


def _content(part: object) -> Iterator[dict[str, Json]]:
    match part:
        case Text(text):
            yield {"text": text}
        case Picture(media):
            yield _media(media)


def _media(media: Media) -> dict[str, Json]:
    kind = media.type or "image/png"
    if media.data is not None:
        return {"inlineData": {"mimeType": kind, "data": media.data}}
    if media.url and media.url.startswith(("http:", "https:", "gs:")):
        return {"fileData": {"mimeType": kind, "fileUri": media.url}}
    return {"text": f"[{media.name or 'image'}]"}


def _call(call: ToolCall, time: datetime) -> dict[str, Json]:
    answer = call.answer
    return {
        "id": call.id,
        "name": call.name,
        "args": call.arguments,
        "result": _result(call.id, call.name, answer),
        "status": _status(answer),
        "timestamp": iso(answer.time or time),
        "resultDisplay": answer.text[:_SHOWN],
        "displayName": call.name,
        "description": "",
    }


def _result(id: str, name: str, answer: Answer) -> list[Json]:
    """The parts of a result. What came from Gemini is an object there, and stays one."""
    told: Json = {"error" if answer.is_error else "output": answer.text}
    if isinstance(answer.value, dict):
        told = answer.value
    response = {"functionResponse": {"id": id, "name": name, "response": told}}
    return [response, *(_media(media) for media in answer.media)]
