"""Sessions of Gemini CLI: files of updates (`.jsonl`), and the older whole documents (`.json`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    Problem,
    SourceEntry,
    SourceEvent,
    SourceSession,
)
from clew.importers.programs.gemini_fold import GeminiFold, Ref
from clew.importers.programs.gemini_messages import entries_of
from clew.importers.reading.ids import session_id, version
from clew.importers.reading.jsonlines import Line, object_of, read_lines
from clew.importers.reading.telling import has_keys
from clew.importers.reading.unpacking import content_of
from clew.importers.reading.values import (
    decode_or_none,
    document,
    items,
    mapping,
    plain_name,
    text,
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
    found = [*path.rglob("*.json"), *path.rglob("*.jsonl")]
    chats = [file for file in found if "chats" in file.parts]
    # A subagent's file lies deeper than that of its parent, and parents come first.
    return sorted(chats, key=lambda file: (len(file.parts), file.name))


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    fold = GeminiFold()
    records = _Lines(path)
    if path.suffix == ".json":
        whole = _whole(path, on_problem, on_bytes)
        records = _Document(path, whole)
        fold.apply(Line(1, 0, whole))
    else:
        for line in read_lines(path, on_problem, on_bytes):
            fold.apply(line)
    key = text(fold.about.get("sessionId"))
    if key is None:
        on_problem(Problem(path=str(path), line=None, reason="no line tells the id of the session"))
        return
    yield _session(key, path, fold, records)


def _whole(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> dict[str, Json]:
    on_bytes(path.stat().st_size)
    try:
        return mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(Problem(path=str(path), line=getattr(exc, "lineno", None), reason=f"no JSON: {exc}"))
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


class _Walk:
    """The paths of a fold as a tree, each entry once."""

    def __init__(self, fold: GeminiFold, records: _Lines) -> None:
        self._fold = fold
        self._records = records
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
        return entries_of(record, uid, parent, is_agent=_is_agent(self._fold.about))


def _session(key: str, path: Path, fold: GeminiFold, records: _Lines) -> SourceSession:
    walk = _Walk(fold, records)
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
        events=_unknown(fold),
        updates=lambda: {"model": walk.model} if walk.model else {},
    )


def _unknown(fold: GeminiFold) -> Callable[[], list[SourceEvent]]:
    return lambda: [
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
