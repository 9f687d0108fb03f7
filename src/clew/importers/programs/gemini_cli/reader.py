"""Sessions of Gemini CLI: files of updates (`.jsonl`), and the older whole documents (`.json`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec.structs import replace

from clew.importers.contract import (
    NotFollowedError,
    OnBytes,
    OnProblem,
    Place,
    Problem,
    SourceEntry,
    SourceEvent,
    SourceSession,
)
from clew.importers.programs.gemini_cli.fold import GeminiFold, Ref, State, without_calls
from clew.importers.programs.gemini_cli.messages import calls_of, entries_of
from clew.importers.reading.files import content_of, files_below, has_keys
from clew.importers.reading.jsonlines import Line, Reached, object_of, read_lines
from clew.importers.reading.seen import doubt
from clew.importers.reading.values import (
    decode_or_none,
    document,
    items,
    mapping,
    plain_name,
    session_id,
    text,
    unreadable,
    when,
    without,
)
from clew.model import Json

NAME: Final = "gemini-cli"
END_WAITS: Final = True

_BUFFER: Final = 256 * 1024
_DEAD: Final = 3600
"""Seconds."""
_MOST_MESSAGES: Final = 64
_MOST_STATE: Final = 64 * 1024
_TOLD: Final = frozenset({"sessionId", "startTime", "summary", "messages"})


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(State).decode


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
    if path.suffix == ".json":
        yield from _of_document(path, on_problem, on_bytes)
        return
    fold, reached = GeminiFold(), Reached()
    for line in read_lines(path, on_problem, on_bytes, reached=reached):
        fold.apply(line)
    lines = _KeptLines(read_lines(path, _told_before, lambda _: None, end=reached.offset))
    yield from _session(path, fold, _Walk(fold, _Lines(path), lines), on_problem)


def follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes
) -> Iterator[SourceSession | Place]:
    """Only a file of updates has a place. A message that will be written again waits."""
    if path.suffix == ".json":
        yield from _of_document(path, on_problem, on_bytes)
        return
    state = None if place is None else _decoded(place.state)
    fold, reached = GeminiFold(state), Reached()
    for line in read_lines(path, on_problem, on_bytes, after=place, whole=True, reached=reached):
        fold.apply(line)
    if not reached.offset:
        return
    lines = read_lines(path, _told_before, lambda _: None, after=place, end=reached.offset)
    walk = _Walk(fold, _Lines(path), _KeptLines(lines), state, may_wait=not _is_old(path))
    for session in _session(path, fold, walk, on_problem):
        yield session
        found = reached.place(walk.state()) if walk.is_read else None
        if found is not None and found.state:
            yield found


def _of_document(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    fold, whole = GeminiFold(), _whole(path, on_problem, on_bytes)
    fold.apply(Line(1, 0, whole))
    yield from _session(path, fold, _Walk(fold, _Document(path, whole), _KeptLines(())), on_problem)


def _told_before(problem: Problem) -> None:
    """What is wrong with a line was told when it was read first."""


def _is_old(path: Path) -> bool:
    """Whether nobody writes to a file any more: what is unfinished in it stays so."""
    return time.time() - path.stat().st_mtime >= _DEAD


def _decoded(state: bytes) -> State:
    try:
        return _decode(state)
    except msgspec.MsgspecError as error:
        raise NotFollowedError(f"the state of a chat cannot be read: {error}") from error


def _whole(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> dict[str, Json]:
    on_bytes(path.stat().st_size)
    try:
        return mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(unreadable(path, exc))
        return {}


class _Lines:
    """Messages by their places."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._last: tuple[int, dict[str, Json]] | None = None

    def get(self, offset: int, within: int | None) -> dict[str, Json]:
        record = self._record(offset)
        if within is None:
            return record
        messages = items(mapping(record.get("$set", record)).get("messages"))
        return mapping(messages[within]) if within < len(messages) else {}

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

    def upto(self, offset: int) -> tuple[tuple[SourceEvent, ...], Line | None]:
        """Those before the line of a message, and this line itself, if it was not given before."""
        passed = tuple(self._take(offset))
        line = self._next
        if line is None or line.offset != offset:
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
    """The paths of a fold as a tree, each entry once. `state`: what was told of it before. `may_wait`: a last
    message that will be written again is left for the next time."""

    def __init__(
        self,
        fold: GeminiFold,
        records: _Lines,
        lines: _KeptLines,
        state: State | None = None,
        *,
        may_wait: bool = False,
    ) -> None:
        self._fold = fold
        self._records = records
        self._lines = lines
        self._before = state
        self._is_agent = _is_agent(fold.about)
        self._may_wait = may_wait
        self.head: str | None = None
        self.model = None if state is None else state.model
        self._at = None if state is None else state.at
        self._ends: dict[str, str] = {}
        """The entries that were told, and the last one of the same message."""
        self._path: list[tuple[Ref, str]] = []
        """The messages that are there now, and the uid of the last entry of each."""
        self._is_held = False
        self.is_read = False
        """To the end."""

    def entries(self) -> Iterator[SourceEntry]:
        if self._before is not None:
            self._know(self._before)
        current = self._fold.current
        self._is_held = self._may_wait and bool(current) and current[-1].is_open
        if self._is_held:
            doubt()
        with closing(self._records):
            for path in self._fold.abandoned:
                yield from self._along(path)
            yield from self._along(current[:-1] if self._is_held else current)
            if self._is_held and current[-1].is_said:
                yield from self._words_of_held(current[-1])
        self.is_read = True

    def _words_of_held(self, ref: Ref) -> Iterator[SourceEntry]:
        """The words of an answer that gains calls are an entry of their own, and stay in view."""
        words, _, _ = ref.names(self.head)
        if words is not None:
            if words not in self._ends:
                self._ends[words] = words
                yield from self._words(ref, words, self.head)
            self.head = words

    def _know(self, before: State) -> None:
        parent = self._fold.before
        for number, ref in enumerate(before.refs, start=1):
            words, own, end = ref.names(parent)
            is_told = number < len(before.refs) or not before.is_held
            if words is not None and (is_told or ref.is_said):
                self._ends[words] = words
            if is_told:
                self._ends[own] = parent = end

    def _along(self, path: list[Ref]) -> Iterator[SourceEntry]:
        parent = self._fold.before
        self._path = []
        for ref in path:
            words, own, _ = ref.names(parent)
            if words is not None:
                if words not in self._ends:
                    self._ends[words] = words
                    yield from self._words(ref, words, parent)
                parent = words
            if own not in self._ends:
                self._ends[own] = own
                for entry in self._read(ref, own, parent):
                    self._ends[own] = entry.uid
                    yield entry
            parent = self._ends[own]
            self._path.append((ref, parent))
        self.head = parent

    def _words(self, ref: Ref, uid: str, parent: str | None) -> list[SourceEntry]:
        record = without_calls(self._record(*ref.words_at))
        found = entries_of(record, uid, parent, self._at, is_agent=self._is_agent)
        # A line with words and calls is that of the calls.
        return self._with_lines(found, ref.words_at[0], has_line=ref.words_at[0] != ref.offset)

    def _read(self, ref: Ref, uid: str, parent: str | None) -> list[SourceEntry]:
        record = self._record(ref.offset, ref.within)
        if ref.words and parent is not None:
            found = calls_of(record, uid, parent, self._at)
        else:
            found = entries_of(record, uid, parent, self._at, is_agent=self._is_agent)
        return self._with_lines(found, ref.offset)

    def _record(self, offset: int, within: int | None) -> dict[str, Json]:
        record = self._records.get(offset, within)
        self.model = plain_name(record.get("model")) or self.model
        self._at = when(record.get("timestamp")) or self._at
        return record

    def _with_lines(
        self, found: list[SourceEntry], offset: int, *, has_line: bool = True
    ) -> list[SourceEntry]:
        if has_line:
            before, line = self._lines.upto(offset)
            found[0] = replace(found[0], events=before)
            found[-1] = replace(found[-1], line=line)  # results have most of it
        return found

    def lines_left(self) -> list[SourceEvent]:
        return self._lines.rest()

    def state(self) -> bytes:
        """For the place behind the last line; empty: it is too large, or has a text that is no UTF-8."""
        refs = self._fold.current
        dropped = max(0, len(refs) - _MOST_MESSAGES)
        was_cut, newest = False, ""
        if self._before is not None:
            was_cut, newest = self._before.is_cut, self._before.newest_cut
        state = State(
            about=self._fold.about,
            before=self._path[dropped - 1][1] if dropped else self._fold.before,
            is_cut=was_cut or dropped > 0,
            newest_cut=max([newest, *(ref.time for ref in refs[:dropped])]),
            refs=refs[dropped:],
            is_held=self._is_held,
            model=self.model,
            at=self._at,
            names=self._fold.names.state(),
        )
        try:
            encoded = _encode(state)
        except (UnicodeEncodeError, OverflowError):
            return b""
        return encoded if len(encoded) <= _MOST_STATE else b""


def _session(path: Path, fold: GeminiFold, walk: _Walk, on_problem: OnProblem) -> Iterator[SourceSession]:
    about = fold.about
    for line, _ in fold.unknown:
        if names := [name for name in line.record if name.startswith("$")]:
            reason = f"an update that is not known here, {names[0]!r}: what it changes is not in the session"
            on_problem(Problem(path=str(path), line=line.number, reason=reason))
    key = text(about.get("sessionId"))
    if key is None:
        on_problem(Problem(path=str(path), line=None, reason="no line tells the id of the session"))
        return
    yield SourceSession(
        id=session_id(NAME, key),
        aliases=(key,),
        entries=walk.entries(),
        head=lambda: walk.head or "",
        title=plain_name(about.get("summary")),
        workspace=_workspace(path, about),
        vendor="google",
        created_at=when(about.get("startTime")),
        metadata=without(about, _TOLD),
        parent=_parent(path, about),
        events=lambda: [*_unknown(fold), *walk.lines_left()],
        updates=lambda: {"model": walk.model} if walk.model else {},
    )


def _unknown(fold: GeminiFold) -> list[SourceEvent]:
    return [
        SourceEvent(id=name, type="record", data=line.record, stream=NAME, formerly=f"line-{line.number}")
        for line, name in fold.unknown
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
