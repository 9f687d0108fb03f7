"""Sessions of Gemini CLI: files of updates (`.jsonl`), and the older whole documents (`.json`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, NamedTuple

from msgspec.structs import replace

from clew.core.messages.repair import NOTICE
from clew.importers.contract import (
    OnBytes,
    OnProblem,
    Problem,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading.files import content_of, files_below, has_keys
from clew.importers.reading.jsonlines import Line, Reached, object_of, read_lines
from clew.importers.reading.values import (
    count,
    decode_or_none,
    digest,
    document,
    items,
    mapping,
    plain_name,
    session_id,
    text,
    version,
    when,
    without,
)
from clew.model import Json

NAME: Final = "gemini-cli"

_BUFFER: Final = 256 * 1024
_TOLD: Final = frozenset({"sessionId", "startTime", "summary", "messages"})


def recognises(path: Path, beginning: bytes) -> bool:
    return has_keys(beginning, "sessionId", "projectHash")


def known_places(home: Path) -> list[Path]:
    return [home / ".gemini" / "tmp"]


def files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = files_below(path, ".json", ".jsonl")
    chats = [file for file in found if "chats" in file.parts]
    # A subagent's file lies deeper than that of its parent, and parents come first.
    return sorted(chats, key=lambda file: (len(file.parts), file.name))


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    fold = GeminiFold()
    records = _Lines(path)
    kept = _KeptLines(())
    if path.suffix == ".json":
        whole = _whole(path, on_problem, on_bytes)
        records = _Document(path, whole)
        fold.apply(Line(1, 0, whole))
    else:
        reached = Reached()
        for line in read_lines(path, on_problem, on_bytes, reached=reached):
            fold.apply(line)
        kept = _KeptLines(read_lines(path, lambda _: None, lambda _: None, end=reached.offset))
    key = text(fold.about.get("sessionId"))
    if key is None:
        on_problem(Problem(path=str(path), line=None, reason="no line tells the id of the session"))
        return
    yield _session(key, path, fold, records, kept)


def _whole(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> dict[str, Json]:
    on_bytes(path.stat().st_size)
    try:
        return mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(
            Problem(path=str(path), line=getattr(exc, "lineno", None), reason=f"not valid JSON: {exc}")
        )
        return {}


class _Lines:
    """Messages by their places."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._last: tuple[int, dict[str, Json]] | None = None

    def get(self, ref: Ref) -> dict[str, Json]:
        record = self._record(ref.offset)
        if ref.within is None:
            return record
        messages = items(mapping(record.get("$set", record)).get("messages"))
        return mapping(messages[ref.within]) if ref.within < len(messages) else {}

    def _record(self, offset: int) -> dict[str, Json]:
        if self._last is None or self._last[0] != offset:
            if self._file is None:
                self._file = self._path.open("rb", buffering=_BUFFER)
            self._file.seek(offset)
            raw = self._file.readline().removeprefix(b"\xef\xbb\xbf")
            # What is wrong with the line was told when it was read first.
            self._last = offset, object_of(raw, 0, self._path, lambda _: None) or {}
        return self._last[1]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Document(_Lines):
    def __init__(self, path: Path, whole: dict[str, Json]) -> None:
        super().__init__(path)
        self._last = 0, whole


class _KeptLines:
    """The lines of the file once more, in their order: with them it can be written again."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._next = next(self._lines, None)

    def upto(self, ref: Ref) -> tuple[tuple[SourceEvent, ...], Line | None]:
        """Those before the line of a message, and this line itself, if it was not given before."""
        passed = tuple(self._take(ref.offset))
        line = self._next
        if line is None or line.offset != ref.offset:
            return passed, None
        self._next = next(self._lines, None)
        return passed, line

    def rest(self) -> list[SourceEvent]:
        return list(self._take(None))

    def _take(self, end: int | None) -> Iterator[SourceEvent]:
        while self._next is not None and (end is None or self._next.offset < end):
            yield SourceEvent(id=f"line-{self._next.number}", type="", line=self._next)
            self._next = next(self._lines, None)


class _Walk:
    """The paths of a fold as a tree, each entry once."""

    def __init__(self, fold: GeminiFold, records: _Lines, lines: _KeptLines) -> None:
        self._fold = fold
        self._records = records
        self._lines = lines
        self.head: str | None = None
        self.model: str | None = None

    def entries(self) -> Iterator[SourceEntry]:
        ends: dict[str, str] = {}
        with closing(self._records):
            for path in [*self._fold.abandoned, self._fold.current]:
                parent: str | None = None
                for ref in path:
                    uid = version(parent, ref.id, ref.digest)
                    if uid not in ends:
                        ends[uid] = uid
                        for entry in self._read(ref, uid, parent):
                            ends[uid] = entry.uid
                            yield entry
                    parent = ends[uid]
                self.head = parent

    def _read(self, ref: Ref, uid: str, parent: str | None) -> list[SourceEntry]:
        record = self._records.get(ref)
        self.model = plain_name(record.get("model")) or self.model
        found = entries_of(record, uid, parent, is_agent=_is_agent(self._fold.about))
        before, line = self._lines.upto(ref)
        found[0] = replace(found[0], events=before)
        found[-1] = replace(found[-1], line=line)  # results have most of it
        return found


def _session(key: str, path: Path, fold: GeminiFold, records: _Lines, lines: _KeptLines) -> SourceSession:
    walk = _Walk(fold, records, lines)
    about = fold.about
    return SourceSession(
        id=session_id(NAME, key),
        aliases=(key,),
        entries=walk.entries(),
        head=lambda: walk.head,
        title=plain_name(about.get("summary")),
        workspace=_workspace(path, about),
        vendor="google",
        created_at=when(about.get("startTime")),
        metadata=without(about, _TOLD),
        parent=_parent(path, about),
        events=lambda: [*_unknown(fold), *lines.rest()],
        updates=lambda: {"model": walk.model} if walk.model else {},
    )


def _unknown(fold: GeminiFold) -> list[SourceEvent]:
    return [
        SourceEvent(id=f"line-{line.number}", type="record", data=line.record, stream=NAME)
        for line in fold.unknown
    ]


def _is_agent(about: dict[str, Json]) -> bool:
    return about.get("kind") == "subagent"


def _parent(path: Path, about: dict[str, Json]) -> str | None:
    """A subagent's file lies in a directory with the name of its parent."""
    if not _is_agent(about) or path.parent.name == "chats":
        return None
    return session_id(NAME, path.parent.name)


def _workspace(path: Path, about: dict[str, Json]) -> str | None:
    """The files do not tell it: a file beside them does, or the list of all projects."""
    if named := next(filter(None, map(text, items(about.get("directories")))), None):
        return named
    project = next((folder.parent for folder in path.parents if folder.name == "chats"), None)
    if project is None:
        return None
    try:
        return content_of(project / ".project_root").decode().strip() or None
    except (OSError, ValueError):
        return _listed(project, text(about.get("projectHash")))


def _listed(project: Path, hashed: str | None) -> str | None:
    try:
        listed = decode_or_none(content_of(project.parent.parent / "projects.json"))
    except OSError:
        return None
    for folder, slug in mapping(mapping(listed).get("projects")).items():
        known = sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()
        if slug == project.name or known in (project.name, hashed):
            return folder
    return None


# -- messages, in the shape of the Gemini API: what was said, then what the tools answered


_TOLD_OF_CALLS: Final = frozenset({"args", "result"})
"""What is left are status, times and what was shown, such as the text of a file before and after an edit."""
_NOT_PROMPTS: Final = ("/", "?", "<session_context>", "<hook_context>")
"""How the text begins that stands under the name of the human and is none of his prompts."""


def entries_of(record: dict[str, Json], uid: str, parent: str | None, *, is_agent: bool) -> list[SourceEntry]:
    """A message, and behind it what the tools answered. `is_agent`: a model wrote the prompts."""
    at = when(record.get("timestamp"))
    if record.get("type") == "gemini":
        return _answer_and_results(record, uid, parent, at)
    parts = _parts(record.get("content"))
    is_notice = record.get("type") != "user"
    message: dict[str, Json] = {"role": "system" if is_notice else "user", "parts": parts}
    if is_notice:
        message[NOTICE] = True
    human = None if is_notice or (_is_prompt(parts) and not is_agent) else False
    notes = {"source": without(record, ("content",))}
    return [
        SourceEntry(uid=uid, parent=parent, message=message, at=at, human=human, notes=notes, decoded=True)
    ]


def _answer_and_results(
    record: dict[str, Json], uid: str, parent: str | None, at: datetime | None
) -> list[SourceEntry]:
    kept = without(record, ("content", "thoughts", "toolCalls"))
    calls = [call for call in items(record.get("toolCalls")) if isinstance(call, dict)]
    answer = SourceEntry(
        uid=uid,
        parent=parent,
        message={"role": "model", "parts": _answer(record, calls)},
        at=at,
        usage=_usage(record, uid, at),
        notes={"source": kept},
        decoded=True,
    )
    results = _results(calls)
    if not results:
        return [answer]
    told = SourceEntry(
        uid=f"{uid}/results",
        parent=uid,
        message={"role": "user", "parts": results},
        at=at,
        notes={"source": {"toolCalls": [without(call, _TOLD_OF_CALLS) for call in calls]}},
        decoded=True,
    )
    return [answer, told]


def _is_prompt(parts: list[Json]) -> bool:
    first = next((part["text"] for part in parts if isinstance(part.get("text"), str)), "")
    return not first.lstrip().startswith(_NOT_PROMPTS)


def _parts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict):
        return [content]
    return [part if isinstance(part, dict) else {"text": str(part)} for part in items(content)]


def _answer(record: dict[str, Json], made: list[dict[str, Json]]) -> list[Json]:
    said = [part for part in _parts(record.get("content")) if part != {"text": ""}]
    if any(part.get("thought") or "functionCall" in part for part in said):
        return said  # a list that replaced all messages: it has the parts as the model wrote them
    thoughts = [_thought(mapping(thought)) for thought in items(record.get("thoughts"))]
    calls: list[Json] = [{"functionCall": _call(call)} for call in made]
    return [*thoughts, *said, *calls] or [{"text": ""}]


def _thought(thought: dict[str, Json]) -> Json:
    told = [text(thought.get("subject")), text(thought.get("description"))]
    return {"text": "\n".join(filter(None, told)), "thought": True}


def _call(call: dict[str, Json]) -> Json:
    return {name: call[name] for name in ("id", "name", "args") if name in call}


def _results(calls: list[dict[str, Json]]) -> list[Json]:
    parts: list[Json] = []
    for call in calls:
        result = call.get("result")
        if result is None:
            continue
        answered = _parts(result)
        if not any("functionResponse" in part for part in answered):
            same = {name: call[name] for name in ("id", "name") if name in call}
            answered = [{"functionResponse": {**same, "response": {"output": result}}}]
        parts += answered
    return parts


def _usage(record: dict[str, Json], uid: str, at: datetime | None) -> SourceUsage | None:
    tokens = mapping(record.get("tokens"))
    told = {name: count(value) for name, value in tokens.items()}
    if not any(told.values()):
        return None
    thoughts = told.get("thoughts", 0)
    return SourceUsage(
        id=plain_name(record.get("id")) or uid,
        model=plain_name(record.get("model")),
        vendor="google",
        input_tokens=told.get("input", 0) + told.get("tool", 0),
        output_tokens=told.get("output", 0) + thoughts,
        cache_read_tokens=told.get("cached", 0),
        reasoning_tokens=thoughts,
        at=at,
    )


# -- what a file says when all its updates are applied, and what each of them took away


class Ref(NamedTuple):
    """Where the newest version of a message stands: its bytes are read again when they are wanted."""

    id: str
    offset: int
    within: int | None
    """In the list of messages of its line; None: the line is the message."""
    digest: str


class GeminiFold:
    """Applies one line after the other. Small: of a message it keeps a name and a place."""

    def __init__(self) -> None:
        self.about: dict[str, Json] = {}
        self.abandoned: list[list[Ref]] = []
        """What was there before each rewind, and before each list that left something out."""
        self.unknown: list[Line] = []
        self._current: dict[str, Ref] = {}

    @property
    def current(self) -> list[Ref]:
        return list(self._current.values())

    def apply(self, line: Line) -> None:
        record = line.record
        if "$rewindTo" in record:
            self._rewind(text(record["$rewindTo"]))
        elif "$set" in record:
            self._describe(mapping(record["$set"]), line.offset)
        elif "type" in record and text(record.get("id")):
            self._current[record["id"]] = Ref(record["id"], line.offset, None, digest(record))
        elif "sessionId" in record:
            self._describe(record, line.offset)
        else:
            self.unknown.append(line)

    def _describe(self, fields: dict[str, Json], offset: int) -> None:
        self.about |= {name: value for name, value in fields.items() if name != "messages"}
        if isinstance(fields.get("messages"), list):
            self._replace(_refs(fields["messages"], offset))

    def _rewind(self, target: str | None) -> None:
        """The target goes too. An unknown one clears everything: so does Gemini."""
        ids = list(self._current)
        at = ids.index(target) if target in self._current else 0
        if ids[at:]:
            self.abandoned.append(self.current)
        for gone in ids[at:]:
            del self._current[gone]

    def _replace(self, refs: dict[str, Ref]) -> None:
        # While an answer arrives, its message grows; whatever else is different was taken away.
        before = self.current
        after = list(refs.values())
        settled = [(ref.id, ref.digest) for ref in before[:-1]]
        same = settled == [(ref.id, ref.digest) for ref in after[: len(settled)]]
        last_stays = not before or (len(after) >= len(before) and after[len(before) - 1].id == before[-1].id)
        if not (same and last_stays):
            self.abandoned.append(before)
        self._current = refs


def _refs(messages: Json, offset: int) -> dict[str, Ref]:
    refs: dict[str, Ref] = {}
    for index, message in enumerate(items(messages)):
        if isinstance(message, dict):
            name = text(message.get("id")) or f"#{index}"
            refs[name] = Ref(name, offset, index, digest(message))
    return refs
