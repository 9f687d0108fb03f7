"""OpenCode: sessions from its database or its folder of JSON files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    Problem,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading.files import content_of, has_keys
from clew.importers.reading.seen import note_folder
from clew.importers.reading.sqlite import is_sqlite, opened, reporting, rows, tables
from clew.importers.reading.values import (
    count,
    decode,
    decode_or_none,
    digest,
    document,
    items,
    kind,
    mapping,
    money,
    plain_name,
    session_id,
    text,
    version,
    when,
    without,
)
from clew.model import Json

if TYPE_CHECKING:
    import apsw

# ── Messages and their parts as entries ───────────────────────────────────────────────────────────
# A message of OpenCode and its parts, as the messages that a model was sent: words, calls, then results.

_SPOKEN: Final = frozenset({"text", "reasoning"})


class StoredMessage(NamedTuple):
    """A message without its ids, whichever of the three forms it was read from."""

    id: str
    data: dict[str, Json]
    parts: list[tuple[str, dict[str, Json]]]


class Said(NamedTuple):
    suffix: str
    """Of the uid: the first message has none."""
    message: dict[str, Json]
    kept: dict[str, Json]
    """What an export needs to write the rows again. `ids` are those of the texts, thoughts and files. An
    entry that goes on with a message has its `messageID`, the first one all that the message itself says."""
    human: bool | None = None


def is_compaction(stored: StoredMessage) -> bool:
    """The answer to a request for a summary, if it came to one."""
    answered = stored.data.get("role") == "assistant" and stored.data.get("summary") is True
    return answered and bool(summary_text(stored))


def summary_text(stored: StoredMessage) -> str:
    told = [text(part.get("text")) for _, part in stored.parts if part.get("type") == "text"]
    return "\n".join(filter(None, told))


def asks_for_summary(stored: StoredMessage) -> bool:
    """A request without words: the program made it, not the user."""
    kinds = {kind(part.get("type")) for _, part in stored.parts}
    return stored.data.get("role") == "user" and "compaction" in kinds and not kinds & {"text", "file"}


def said(stored: StoredMessage) -> Iterator[Said]:
    if stored.data.get("role") == "assistant":
        yield from _answered(stored)
    else:
        yield from _asked(stored)


def usage_of(stored: StoredMessage) -> SourceUsage | None:
    data = stored.data
    tokens = mapping(data.get("tokens"))
    cache = mapping(tokens.get("cache"))
    read, write = count(cache.get("read")), count(cache.get("write"))
    fresh, spoken, thought = (count(tokens.get(name)) for name in ("input", "output", "reasoning"))
    if not (read or write or fresh or spoken or thought):
        return None
    # Reasoning stands beside the output, unless the sum says otherwise.
    inside = count(tokens.get("total")) == fresh + spoken + read + write
    return SourceUsage(
        id=stored.id,
        model=plain_name(data.get("modelID")),
        vendor=plain_name(data.get("providerID")),
        input_tokens=fresh + read + write,
        output_tokens=spoken if inside else spoken + thought,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=thought,
        cost=money(data.get("cost")),
        at=when(mapping(data.get("time")).get("created")),
    )


def _asked(stored: StoredMessage) -> Iterator[Said]:
    """What the human wrote; then, as messages of their own, what the program wrote in his name."""
    typed: list[tuple[str, Json]] = []
    injected: list[tuple[str, Json]] = []
    beside: list[Json] = []
    for name, part in stored.parts:
        if part.get("type") not in ("text", "file"):
            beside.append({"id": name, **part})
        elif part.get("synthetic") or part.get("ignored"):
            injected.append((name, part))
        else:
            typed.append((name, part))
    kept = {**stored.data, "id": stored.id, **({"parts": beside} if beside else {})}
    if typed:
        content = [part for _, part in typed]
        yield Said("", {"role": "user", "content": content}, {**kept, "ids": _names(typed)})
        kept = {"messageID": stored.id}
    if injected or not typed:
        suffix = "/synthetic" if typed else ""
        content = [part for _, part in injected]
        kept = {**kept, "ids": _names(injected)}
        yield Said(suffix, {"role": "user", "content": content}, kept, human=False)


def _answered(stored: StoredMessage) -> Iterator[Said]:
    kept = {**stored.data, "id": stored.id}
    for number, step in enumerate(_steps(stored)):
        mark = f"/{number}" if number else ""
        content, beside = _spoken(step)
        results = list(filter(None, (_result(name, part) for name, part in step)))
        rest = [_rest_of_call(name, part) for name, part in step if part.get("type") == "tool"]
        if not results:
            beside += rest
        if beside:
            kept["parts"] = beside
        if ids := _names((name, part) for name, part in step if kind(part.get("type")) in _SPOKEN):
            kept["ids"] = ids
        yield Said(mark, {"role": "assistant", "content": content or ""}, kept)
        kept = {"messageID": stored.id}
        if results:
            yield Said(f"{mark}/results", {"role": "user", "content": results}, {**kept, "parts": rest})


def _names(parts: Iterable[tuple[str, Json]]) -> list[Json]:
    return [name for name, _ in parts]


def _steps(stored: StoredMessage) -> list[list[tuple[str, dict[str, Json]]]]:
    """Older versions keep several calls of the model in one message: words behind a tool begin the next."""
    steps: list[list[tuple[str, dict[str, Json]]]] = [[]]
    for name, part in stored.parts:
        called = any(earlier.get("type") == "tool" for _, earlier in steps[-1])
        if called and kind(part.get("type")) in _SPOKEN:
            steps.append([])
        steps[-1].append((name, part))
    return steps


def _spoken(step: list[tuple[str, dict[str, Json]]]) -> tuple[list[Json], list[Json]]:
    content: list[Json] = []
    beside: list[Json] = []
    for name, part in step:
        match part.get("type"):
            case "text":
                content.append(part)
            case "reasoning":
                content.append(
                    {"type": "thinking", "thinking": part.get("text", ""), **without(part, ("type", "text"))}
                )
            case "tool":
                state = mapping(part.get("state"))
                call = {
                    "id": part.get("callID") or name,
                    "name": part.get("tool"),
                    "input": state.get("input"),
                }
                content.append({"type": "tool_use", **call})
            case _:
                beside.append({"id": name, **part})
    return content, beside


def _result(name: str, part: dict[str, Json]) -> Json:
    state = mapping(part.get("state"))
    if part.get("type") != "tool" or state.get("status") not in ("completed", "error"):
        return None
    failed = state.get("status") == "error"
    told = state.get("error" if failed else "output")
    result = {"type": "tool_result", "tool_use_id": part.get("callID") or name, "content": told}
    return {**result, "is_error": True} if failed else result


def _rest_of_call(name: str, part: dict[str, Json]) -> Json:
    state = without(mapping(part.get("state")), ("input", "output"))
    return {"id": name, **part, "state": state}


# ── Where OpenCode keeps its sessions: a database, or a folder of files ───────────────────────────
# The three forms in which OpenCode keeps a session, as one: its database, its older files, its exports.

_IDS: Final = frozenset({"id", "sessionID", "messageID"})
"""They stand in the files and not in the database; without them both say the same."""


_DATA: Final = {
    "message": "SELECT data FROM message WHERE id = ?",
    "part": "SELECT data FROM part WHERE id = ?",
}


class Stored(Protocol):
    """A session as it is stored."""

    info: dict[str, Json]
    """In the names of the older files: parentID, directory, time.created."""

    def messages(self) -> Iterator[StoredMessage]:
        """From the first on, oldest first."""


class InDatabase:
    def __init__(self, db: apsw.Connection, row: dict[str, Json], path: Path, on_problem: OnProblem) -> None:
        self._db = db
        self._path = path
        self._on_problem = on_problem
        self.key = str(row["id"])
        self.info = _as_in_files(row)

    def messages(self) -> Iterator[StoredMessage]:
        with reporting(self._path, self._on_problem):
            for message, names in groupby(self._names(), key=itemgetter("message")):
                parts = [str(row["part"]) for row in names if row["part"] is not None]
                data = self._data("message", str(message))
                if data is not None:
                    yield StoredMessage(str(message), data, list(self._parts(parts)))

    def _names(self) -> Iterator[dict[str, Json]]:
        # Names only: so that SQLite sorts little, and where an index is missing makes one for itself.
        wanted = (
            "SELECT message.id AS message, part.id AS part FROM message"
            " LEFT JOIN part ON part.message_id = message.id"
            " WHERE message.session_id = ? ORDER BY message.time_created, message.id, part.id"
        )
        return rows(self._db, wanted, (self.key,))

    def _parts(self, names: list[str]) -> Iterator[tuple[str, dict[str, Json]]]:
        for name in names:
            data = self._data("part", name)
            if data is not None:
                yield name, data

    def _data(self, table: Literal["message", "part"], name: str) -> dict[str, Json] | None:
        row = next(rows(self._db, _DATA[table], (name,)), {"data": None})
        data = decode_or_none(row["data"])
        if isinstance(data, dict):
            return without(data, _IDS)
        reason = f"the data of {table} {name} is not a JSON object"
        self._on_problem(Problem(path=str(self._path), line=None, reason=reason))
        return None


class InFiles:
    """`storage/session/<project>/<session>.json`, and beside it a file for each message and each part."""

    def __init__(self, path: Path, info: dict[str, Json], on_problem: OnProblem, on_bytes: OnBytes) -> None:
        self.info = info
        self._storage = path.parent.parent.parent
        self._on_problem = on_problem
        self._on_bytes = on_bytes

    def messages(self) -> Iterator[StoredMessage]:
        found = []
        for file in _json_files(self._storage / "message" / str(self.info["id"])):
            data = self._object(file)
            if data is not None:
                found.append((_created(data), file.stem, data))
        for _, name, data in sorted(found, key=lambda each: each[:2]):
            parts = [(file.stem, self._object(file)) for file in _json_files(self._storage / "part" / name)]
            whole = [(key, without(part, _IDS)) for key, part in parts if part is not None]
            yield StoredMessage(name, without(data, _IDS), whole)

    def _object(self, file: Path) -> dict[str, Json] | None:
        try:
            raw = content_of(file)
            self._on_bytes(len(raw))
            value = decode(raw)
        except (OSError, ValueError, RecursionError) as exc:
            self._on_problem(Problem(path=str(file), line=None, reason=f"not valid JSON: {exc}"))
            return None
        return value if isinstance(value, dict) else None


class InExport:
    """What `opencode export` writes: one document."""

    def __init__(self, whole: dict[str, Json]) -> None:
        self.info = mapping(whole.get("info"))
        self._messages = items(whole.get("messages"))

    def messages(self) -> Iterator[StoredMessage]:
        for number, message in enumerate(map(mapping, self._messages)):
            info = mapping(message.get("info"))
            parts = [
                (plain_name(part.get("id")) or f"part-{at}", without(part, _IDS))
                for at, part in enumerate(map(mapping, items(message.get("parts"))))
            ]
            yield StoredMessage(plain_name(info.get("id")) or f"message-{number}", without(info, _IDS), parts)


def from_document(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> InFiles | InExport | None:
    on_bytes(path.stat().st_size)
    try:
        whole = mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(
            Problem(path=str(path), line=getattr(exc, "lineno", None), reason=f"not valid JSON: {exc}")
        )
        return None
    stored = InExport(whole) if "messages" in whole else InFiles(path, whole, on_problem, on_bytes)
    if text(stored.info.get("id")):
        return stored
    on_problem(Problem(path=str(path), line=None, reason="the session has no id"))
    return None


def _as_in_files(row: dict[str, Json]) -> dict[str, Json]:
    renamed = {"project_id": "projectID", "parent_id": "parentID"}
    info = {renamed.get(name, name): value for name, value in row.items() if value is not None}
    info["time"] = {name: row.get(f"time_{name}") for name in ("created", "updated")}
    for name in ("revert", "model", "permission"):
        if (value := decode_or_none(info.get(name))) is not None:
            info[name] = value
    return info


def _created(data: dict[str, Json]) -> float:
    created = mapping(data.get("time")).get("created")
    return created if isinstance(created, int | float) else 0


def _json_files(folder: Path) -> list[Path]:
    note_folder(folder)
    return sorted(folder.glob("*.json")) if folder.is_dir() else []


# ── The reader ────────────────────────────────────────────────────────────────────────────────────
# Sessions of OpenCode: its SQLite database, the JSON files before 1.2, and what `opencode export` writes.

NAME: Final = "opencode"
KNOWS_FOLDERS: Final = True

_TABLES: Final = frozenset({"session", "message", "part"})
_RENAMED: Final = {"agent": "mode"}
"""What it calls an agent is a way of working, such as "build"; the agent is OpenCode."""
_TOLD: Final = frozenset({"id", "title", "directory", "time_created", "time_updated"})
_FORK: Final = re.compile(r" \(fork #\d+\)$")


def recognises(path: Path, beginning: bytes) -> bool:
    if is_sqlite(beginning):
        return tables(path) >= _TABLES
    if path.is_dir():
        # Neither is to be searched for anything else: beside them lie copies of the user's own files.
        stores = (path, path / "storage")
        return any((store / "session").is_dir() and (store / "message").is_dir() for store in stores)
    is_session = has_keys(beginning, "id", "projectID") or has_keys(beginning, "info", "messages")
    return is_session and b'"ses_' in beginning


def known_places(home: Path) -> list[Path]:
    return [home / ".local" / "share" / "opencode"]


def files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    storage = path if (path / "session").is_dir() else path / "storage"
    # The names of sessions count down: the oldest has the last one.
    return [
        *sorted((storage / "session").glob("*/ses_*.json"), reverse=True),
        *sorted(path.glob("opencode*.db")),
    ]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    with path.open("rb") as file:
        beginning = file.read(16)
    if not is_sqlite(beginning):
        stored = from_document(path, on_problem, on_bytes)
        if stored is not None:
            yield _session(stored, _Paid(), None)
        return
    with reporting(path, on_problem), opened(path) as db:
        paid = _Paid()
        listed = _parents_first(list(rows(db, "SELECT * FROM session ORDER BY time_created, id")))
        titles = {str(row.get("title")): str(row["id"]) for row in reversed(listed)}
        for row in listed:
            # A fork does not say of what, except by its title.
            base, forks = _FORK.subn("", str(row.get("title")))
            yield _session(InDatabase(db, row, path, on_problem), paid, titles.get(base) if forks else None)
    on_bytes(path.stat().st_size)


def _parents_first(listed: list[dict[str, Json]]) -> list[dict[str, Json]]:
    waiting = {str(row["id"]): row for row in listed}
    ordered: list[dict[str, Json]] = []

    for row in listed:
        line: list[dict[str, Json]] = []
        above: Json = row["id"]
        while isinstance(above, str) and above in waiting:
            line.append(waiting.pop(above))
            above = line[-1].get("parent_id")
        ordered += reversed(line)
    return ordered


class _Paid:
    """Calls that were told of. A fork copies messages under new ids: the same call is not paid twice."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def once(self, stored: StoredMessage) -> SourceUsage | None:
        usage = usage_of(stored)
        if usage is None:
            return None
        data = stored.data
        moment = data.get("time") or stored.id
        call = digest([moment, data.get("modelID"), data.get("tokens"), data.get("cost")])
        if call in self._seen:
            return None
        self._seen.add(call)
        return usage


class _Walk:
    def __init__(self, stored: Stored, paid: _Paid) -> None:
        self._stored = stored
        self._paid = paid
        self._revert = mapping(stored.info.get("revert"))
        self._is_agent = text(stored.info.get("parentID")) is not None
        """Started by another session, whose model wrote the prompts."""
        self._first: dict[str, str] = {}  # the first entry of each message
        self._tails: dict[str, str] = {}  # what a request for a summary wants to keep
        self._beside: list[SourceEvent] = []
        self.head: str | None = None
        self.model, self.vendor = _model_in(stored.info)

    def entries(self) -> Iterator[SourceEntry]:
        parent: str | None = None
        reverted = False
        for stored in self._stored.messages():
            if stored.id == self._revert.get("messageID"):
                reverted = True
                yield from self._before_revert(stored, parent)
            self._remember(stored)
            if asks_for_summary(stored):
                self._beside.append(_request(stored))
                continue
            for entry in self._entries_of(stored, parent):
                self._first.setdefault(stored.id, entry.uid)
                yield entry
                parent = entry.uid
            if not reverted:
                self.head = parent

    def events(self) -> list[SourceEvent]:
        """Those behind the last entry."""
        return self._beside

    def _remember(self, stored: StoredMessage) -> None:
        model, vendor = _model_in(stored.data)
        if model is not None:
            self.model, self.vendor = model, vendor or self.vendor
        for _, part in stored.parts:
            if kept := text(part.get("tail_start_id")):
                self._tails[stored.id] = kept

    def _before_revert(self, stored: StoredMessage, parent: str | None) -> Iterator[SourceEntry]:
        """What a revert into the middle of a message left of it."""
        names = [name for name, _ in stored.parts]
        part = self._revert.get("partID")
        if part in names[1:]:
            rest = stored._replace(parts=stored.parts[: names.index(part)])
            for entry in self._entries_of(rest, parent):
                yield entry
                self.head = entry.uid

    def _entries_of(self, stored: StoredMessage, parent: str | None) -> Iterator[SourceEntry]:
        uid = version(parent, stored.id, digest([stored.data, stored.parts]))
        at = when(mapping(stored.data.get("time")).get("created"))
        usage = self._paid.once(stored)
        events, self._beside = tuple(self._beside), []
        if is_compaction(stored):
            notes: dict[str, Json] = {"source": {**stored.data, "id": stored.id, "parts": _but_words(stored)}}
            message = self._compacted(stored)
            yield SourceEntry(
                uid=uid,
                parent=parent,
                message=message,
                kind="compaction",
                at=at,
                usage=usage,
                notes=notes,
                events=events,
            )
            return
        for each in said(stored):
            entry = SourceEntry(
                uid=uid + each.suffix,
                parent=parent,
                message=each.message,
                at=at,
                usage=usage,
                human=False if self._is_agent and stored.data.get("role") != "assistant" else each.human,
                events=events,
                notes={"source": each.kept} if each.kept else {},
            )
            yield entry
            parent, usage, events = entry.uid, None, ()

    def _compacted(self, summary: StoredMessage) -> dict[str, Json]:
        """The summary, and the first message before it that was kept as it is."""
        told: dict[str, Json] = {"text": summary_text(summary)}
        kept = self._tails.get(str(summary.data.get("parentID")))
        return {**told, "from": self._first[kept]} if kept in self._first else told


def _but_words(summary: StoredMessage) -> list[Json]:
    """The parts of a summary, without its words: these are the compaction. Where several parts have words, no
    other place says which has which."""
    is_one = sum(part.get("type") == "text" for _, part in summary.parts) == 1
    return [
        {"id": name, **without(part, ("text",) if is_one and part.get("type") == "text" else ())}
        for name, part in summary.parts
    ]


def _model_in(data: dict[str, Json]) -> tuple[str | None, str | None]:
    """Model and vendor. Answers name them side by side, prompts and sessions in an object."""
    told = mapping(data.get("model")) or data
    model = plain_name(told.get("modelID")) or (plain_name(told.get("id")) if told is not data else None)
    return model, plain_name(told.get("providerID"))


def _request(stored: StoredMessage) -> SourceEvent:
    told: Json = {**stored.data, "parts": [{"id": name, **part} for name, part in stored.parts]}
    at = when(mapping(stored.data.get("time")).get("created"))
    return SourceEvent(id=stored.id, type="compaction", data=told, at=at)


def _session(stored: Stored, paid: _Paid, origin: str | None) -> SourceSession:
    info = stored.info
    walk = _Walk(stored, paid)
    spawner = text(info.get("parentID"))
    above = spawner or origin
    return SourceSession(
        id=session_id(NAME, info["id"]),
        aliases=(info["id"],),
        entries=walk.entries(),
        head=lambda: walk.head,
        title=plain_name(info.get("title")),
        workspace=plain_name(info.get("directory")),
        created_at=when(mapping(info.get("time")).get("created")),
        metadata={_RENAMED.get(name, name): value for name, value in without(info, _TOLD).items()},
        parent=session_id(NAME, above) if above else None,
        is_copy=spawner is None,
        events=walk.events,
        updates=lambda: {"model": walk.model, "vendor": walk.vendor},
    )
