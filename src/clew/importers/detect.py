"""Which files of a path can be imported, by which reader, and in which order; and which cannot, and why."""

from __future__ import annotations

import os
import re
import stat
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec

from clew.core.log.jsonl import begins_log
from clew.core.messages.value_count import check_value_count
from clew.errors import InvalidError
from clew.importers import OWN, READERS
from clew.importers.contract import Problem, Reader
from clew.importers.ledger import Ledger
from clew.importers.reading import files as beginnings
from clew.importers.reading import sqlite
from clew.importers.reading.files import (
    DEEPEST,
    first_keys,
    first_objects,
    is_data,
    read_beginning,
    watching_folders,
)
from clew.importers.reading.seen import FILE, OnList
from clew.importers.reading.values import kind
from clew.importers.records import Source, path_of
from clew.model import Json
from clew.model.transfer import FoundPlace

_TIME: Final = re.compile(rb'"(?:timestamp|startTime|created_at|ts)"\s*:\s*"(\d{4}-[^"]{6,40})"')
_COPIED: Final = (b'"forkedFrom"', b'"forked_from_id"')
_Age: TypeAlias = tuple[bytes, bool, float, str]
_NOT_ENTERED: Final = "it cannot be read: no permission to open what is in it"


class Job(msgspec.Struct, frozen=True):
    """One file to be read."""

    format: str
    path: Path
    size: int
    is_sure: bool = True
    """Its content tells the format. Else only the caller said so, and the file may be anything."""
    known: Source | None = None
    """Not None: it is as it was when it was read last, and this is what came of it."""
    before: Source | None = None
    """Not None: it has only grown since then."""


class Found(msgspec.Struct, frozen=True):
    """What is at a path."""

    jobs: list[Job]
    """The files to read, parents before what was copied from them."""
    problems: list[Problem]
    """Files and directories that cannot be read, or look like sessions of no known format."""
    same: int = 0
    """Of a sync: files that did not change; they are not among the jobs."""
    same_bytes: int = 0


def reader_of(format: str) -> Reader:
    if format not in READERS:
        raise _unknown(format)
    return cast("Reader", import_module(READERS[format]))


def _unknown(format: str) -> InvalidError:
    names = [OWN, *READERS]
    near = next((name for name in names if format and name.startswith(format.lower())), None)
    hint = f" (did you mean {near}?)" if near else ""
    return InvalidError(f"there is no format {format!r}{hint}; known formats: {', '.join(names)}")


def checked(path: str | os.PathLike[str]) -> Path:
    """The real path of a file or a directory. InvalidError: it is neither. A pipe or a device is not even
    opened: that could wait forever."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as exc:
        if isinstance(exc, FileNotFoundError | NotADirectoryError | ValueError):
            raise InvalidError(f"there is no file {os.fspath(path)!s}") from exc
        raise InvalidError(f"{os.fspath(path)!s} cannot be read: {exc.strerror}") from exc
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InvalidError(
            f"{os.fspath(path)!s} is {_kind(mode)}: only a file or a directory can be imported; "
            "write what it holds to a file first"
        )
    return Path(os.path.realpath(path))


def look(path: Path, format: str | None, ledger: Ledger | None = None) -> Found:
    """What there is to import at a path. InvalidError: nothing, and nothing that should be named. `ledger`:
    files that it knows, and that did not change, are not opened."""
    if format is not None and format != OWN:
        reader_of(format)
    looking = _Looking(ledger)
    if ledger is not None and path.is_dir():
        ledger.look_below(str(path))
    if not path.is_dir():
        jobs = looking.at_file(path) if format is None else looking.as_told(format, [path])
        if looking.problems and not jobs:
            [problem, *_] = looking.problems
            raise InvalidError(f"{problem.path}: {problem.reason}")
    elif format is None or format == OWN:
        jobs = [job for job in looking.below(path) if format in (None, job.format)]
    else:
        jobs = looking.as_told(format, looking.files_in(reader_of(format), path))
    if not jobs and not looking.problems and not looking.same:
        what = "holds no file" if path.is_dir() else "is"
        raise InvalidError(
            f"{path} {what} of {'a' if path.is_dir() else 'no'} format that can be imported "
            f"({', '.join([OWN, *READERS])})"
        )
    return looking.found(jobs)


def look_in(format: str, path: Path, ledger: Ledger) -> Found:
    """What a program has at one of its usual places. There may be nothing."""
    looking = _Looking(ledger)
    if path.is_dir():
        ledger.look_below(str(path))
    return looking.found(looking.as_told(format, looking.files_in(reader_of(format), path)))


def look_at_file(format: str | None, path: Path, ledger: Ledger) -> list[Job]:
    """The file at a path, if it surely holds sessions, of this format; None: of any."""
    looking = _Looking(ledger)
    if not path.is_file():
        return []
    if format is None:
        return [job for job in looking.at_file(path) if job.path == path]
    return [job for job in looking.as_told(format, [path]) if job.is_sure]


def known_places(home: Path | None = None) -> list[tuple[str, Path]]:
    """The places of this machine where programs keep their sessions, with their formats: those that are
    there."""
    base = Path.home() if home is None else home
    places = ((format, place) for format in READERS for place in reader_of(format).known_places(base))
    return [(format, place) for format, place in places if os.path.exists(place)]


def scan_places(home: Path | None = None) -> list[FoundPlace]:
    """Where programs whose sessions can be imported keep them on this machine, with what is there. A place
    that cannot be read is one of them: an import says so."""
    found = []
    for format, place in known_places(home):
        looking = _Looking()
        files = looking._files_at(format, place)
        if files or looking.problems:
            sizes = [_size(file) for file in files]
            found.append(FoundPlace(format=format, path=str(place), files=len(files), bytes=sum(sizes)))
    return found


class _Looking:
    """Looks at files, and keeps what should be told of those that are not taken."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger
        self._beside: set[str] = set()
        """Files that belong to one that did not change, and are of another kind."""
        self.problems: list[Problem] = []
        self._is_sync = ledger is not None and ledger.is_sync
        self.same = self._same_bytes = 0

    def found(self, jobs: list[Job]) -> Found:
        jobs = list({str(job.path): job for job in jobs}.values())
        return Found(jobs, self.problems, self.same, self._same_bytes)

    def at_file(self, path: Path) -> list[Job]:
        """A file, by its content."""
        known = self._known(path, None)
        if known is not None and known.format != OWN:
            beside = [file for file in self._files_at(known.format, path) if file != path]
            return [known, *(self._job(known.format, file) for file in beside)]
        beginning = self._beginning(path) if known is None else None
        return [known] if known else [] if beginning is None else self._jobs_of(path, beginning)

    def _known(self, path: Path, format: str | None) -> Job | None:
        """A file that need not be opened, or not from its beginning on."""
        if self._ledger is None:
            return None
        place = str(path)
        source = self._ledger.unchanged(place, format, _lists_of)
        if source is None:
            source = self._ledger.grown(place, format, _lists_of)
            if source is None:
                return None
            return Job(source.format, path, _size(path), source.is_sure, before=source)
        if len(source.seen) > 1:
            beside = (path_of(stamp.path) for stamp in source.seen[1:] if stamp.kind == FILE)
            self._beside.update(one for one in beside if not one.endswith(path.suffix or "l"))
        return Job(source.format, path, source.seen[0].size, source.is_sure, source)

    def _is_passed_over(self, job: Job) -> bool:
        """Of a sync: whether a file did not change, and that is all there is to say. A session may come back
        from the trash; and where a loss of power can take something, its sessions are looked at."""
        if not self._is_sync or job.known is None or self._ledger is None or self._ledger.must_check_sessions:
            return False
        for session in job.known.sessions:
            if session.is_trashed:
                return False
        self.same += 1
        self._same_bytes += job.size
        return True

    def _job(self, format: str, path: Path) -> Job:
        return self._known(path, format) or _job(format, path)

    def below(self, path: Path, level: int = 0) -> list[Job]:
        """A directory that a reader knows as a whole, or all the files in it."""
        if level > DEEPEST:
            self._tell(path, f"it lies more than {DEEPEST} directories deep")
            return []
        whole = _recognised_folder(path)
        if whole is not None:
            return self.as_told(whole, self.files_in(reader_of(whole), path))
        same: list[Job] = []
        groups: list[tuple[_Age, list[Job]]] = []
        others: list[Path] = []
        for entry in self._inside(path):
            place = Path(entry.path)
            if _is_folder(entry):
                jobs = [] if entry.is_symlink() else self.below(place, level + 1)
                same += [job for job in jobs if job.known or job.before]
                if jobs := [job for job in jobs if not (job.known or job.before)]:
                    groups.append((_age(jobs[0].path, self._beginning(jobs[0].path) or b""), jobs))
            elif not _is_file(entry):
                continue
            elif known := self._known(place, None):
                if not self._is_passed_over(known):
                    same.append(known)
            else:
                others.append(place)
        for place in others:
            if str(place) in self._beside:
                continue
            beginning = self._beginning(place)
            if beginning is not None and (jobs := self._jobs_of(place, beginning)):
                groups.append((_age(place, beginning), jobs))
        return same + [job for _, jobs in sorted(groups, key=lambda group: group[0]) for job in jobs]

    def as_told(self, format: str, files: list[Path]) -> list[Job]:
        """Files that the caller says are of a format, but for those that are of another one."""
        jobs, others = [], []
        for file in files:
            job = self._known(file, format)
            if job is None:
                others.append(file)
            elif not self._is_passed_over(job):
                jobs.append(job)
        files = [file for file in others if os.path.isfile(file)]
        in_order = None if format == OWN else getattr(reader_of(format), "in_order", None)
        if in_order is not None and len(files) > 1:
            files = in_order(files)
        for file in files:
            beginning = self._beginning(file)
            if beginning is None:
                continue
            is_sure = _is_of(format, file, beginning)
            other = None if is_sure else OWN if begins_log(beginning) else _recognised(file, beginning)
            if other is None and not is_sure and self._is_sync and b"\n" not in beginning:
                continue  # its first line is being written
            if other is None:
                jobs.append(_job(format, file, is_sure=is_sure))
            else:
                self._tell(file, f"its format is {other}, not {format}")
        return jobs

    def _files_at(self, format: str, place: Path) -> list[Path]:
        # A pipe is no file: it has no end that one could wait for.
        return [file for file in self.files_in(reader_of(format), place) if os.path.isfile(file)]

    def files_in(self, reader: Reader, place: Path) -> list[Path]:
        """What the reader finds at a path, files or not. Directories that it may not enter are told here."""
        try:
            if not place.is_dir():
                return reader.files(place)
            with watching_folders(self._refused) as entered:
                files = reader.files(place)
            folders = entered or (folder for folder, _, _ in os.walk(place, onerror=self._refused))
            for folder in folders:
                if not os.access(folder, os.X_OK):
                    self._tell(Path(folder), _NOT_ENTERED)
            return files
        except OSError as exc:
            self._refused(exc)
            return []
        except RecursionError:
            self._tell(place, "its directories are nested too deeply")
            return []

    def _inside(self, path: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as exc:
            self._refused(exc)
            return []
        if not os.access(path, os.X_OK):
            self._tell(path, _NOT_ENTERED)
            return []
        return inside

    def _beginning(self, path: Path) -> bytes | None:
        """None: it cannot be read, and this was told."""
        try:
            return read_beginning(path)
        except OSError as exc:
            self._tell(path, f"it cannot be read: {exc.strerror or exc}")
            return None

    def _jobs_of(self, path: Path, beginning: bytes) -> list[Job]:
        if begins_log(beginning):
            return [_job(OWN, path)]
        format = _recognised(path, beginning)
        if format is not None:
            files = self._files_at(format, path)
            return [_job(format, file) if file == path else self._job(format, file) for file in files]
        try:
            reason = reason_to_name(path, beginning)
        except OSError as exc:
            reason = f"it cannot be read: {exc.strerror or exc}"
        if reason is not None:
            self._tell(path, reason)
        return []

    def _refused(self, exc: OSError) -> None:
        self._tell(Path(exc.filename or "."), f"it cannot be read: {exc.strerror or exc}")

    def _tell(self, path: Path, reason: str) -> None:
        problem = Problem(path=str(path), line=None, reason=reason)
        if problem not in self.problems:
            self.problems.append(problem)


def _is_of(format: str, path: Path, beginning: bytes) -> bool:
    if format == OWN:
        return begins_log(beginning)
    try:
        return reader_of(format).recognises(path, beginning)
    except Exception:  # noqa: BLE001 (as in `_recognised`)
        return False


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _recognised(path: Path, beginning: bytes) -> str | None:
    is_data = not beginning or beginnings.is_data(path, beginning)
    for format in READERS:
        reader = reader_of(format)
        try:
            if (is_data or getattr(reader, "IS_TEXT", False)) and reader.recognises(path, beginning):
                return format
        except Exception:  # noqa: BLE001 (what a reader makes of one file must not cost the others)
            continue
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def _is_file(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def _recognised_folder(path: Path) -> str | None:
    """The format of a directory that a reader knows as a whole."""
    for format in READERS:
        reader = reader_of(format)
        try:
            if getattr(reader, "KNOWS_FOLDERS", False) and reader.recognises(path, b""):
                return format
        except Exception:  # noqa: BLE001 (as in `_recognised`)
            continue
    return None


@cache
def _lists_of(format: str) -> OnList:
    def listed(path: str, key: str) -> Json:
        return getattr(reader_of(format), "listed")(path, key)  # noqa: B009 (not every reader has it)

    return listed


def _age(path: Path, beginning: bytes) -> _Age:
    """Sorts files by the time of what they begin with; a copy of a session after that session."""
    match = _TIME.search(beginning)
    try:
        changed = path.stat().st_mtime
    except OSError:
        changed = 0.0
    return match[1] if match else b"", any(mark in beginning for mark in _COPIED), changed, str(path)


def _job(format: str, path: Path, *, is_sure: bool = True) -> Job:
    return Job(format, path, _size(path), is_sure)


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            return sum(_size(Path(root, name)) for root, _, names in os.walk(path) for name in names)
        return path.stat().st_size
    except (OSError, RecursionError):
        return 0


# -- files that no reader takes: which of them to name, and why


ROLES: Final = frozenset({"system", "developer", "user", "human", "assistant", "model", "tool", "toolResult"})
_WORDS: Final = ("content", "parts", "text", "tool_calls")
_HISTORIES: Final = frozenset({"messages", "Messages", "history", "conversation"})
_ROLE: Final = re.compile(rb'"[Rr]ole"\s*:\s*"(?:system|user|assistant|model|tool)"')
_MESSAGES: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{[^{}\[\]]{0,1000}"[Rr]ole"\s*:')
"""A list that begins with a message."""
_OWN_KEYS: Final = frozenset({"x", "end", "kind"})
_DATABASES: Final = re.compile(r"sessions\.db|logs\.db|tingly\.db|opencode.*\.db")
"""The names that programs give to their databases of sessions."""


def reason_to_name(path: Path, beginning: bytes) -> str | None:
    """What an import should say of a file that is of no known format; None: it is none of its business."""
    if not beginning and path.stat().st_size == 0:
        return None
    if sqlite.is_sqlite(beginning):
        damage = sqlite.damage_of(path)
        return None if damage is None else f"the database cannot be read: {damage}"
    if _DATABASES.fullmatch(path.name):
        return "it has the name of a database of sessions, but is not an SQLite database"
    if not is_data(path, beginning):
        return None
    found = first_objects(beginning)
    if _has_name_of_log(path) and not found and (beginning.strip() or not beginning):
        return "it has the name of a log, but none of its first lines is valid JSON"
    if any(record.keys() >= _OWN_KEYS for record in found):
        return "it is a log of Clew whose first line is damaged"
    if any(map(_is_spoken, found)) or _is_conversation(beginning):
        return "it looks like a session, but its format is not known; name the format if you know it"
    return None


def _has_name_of_log(path: Path) -> bool:
    suffixes = path.suffixes[:-1] if path.suffix == ".zst" else path.suffixes
    return suffixes[-1:] in ([".jsonl"], [".ndjson"])


def _is_spoken(record: dict[str, Json]) -> bool:
    """Whether a line is a message, or holds one."""
    inner = record.get("message")
    said = inner if isinstance(inner, dict) else record
    return kind(said.get("role")) in ROLES and any(word in said for word in _WORDS)


def _is_conversation(beginning: bytes) -> bool:
    """Whether a document has a list of messages."""
    if _ROLE.search(beginning) is None:
        return False
    return _is_list_of_messages(beginning) or not _HISTORIES.isdisjoint(first_keys(beginning))


def _is_list_of_messages(beginning: bytes) -> bool:
    if not _MESSAGES.match(beginning):
        return False
    try:
        check_value_count(beginning)
        found = msgspec.json.decode(beginning)
    except (ValueError, RecursionError):
        return len(_ROLE.findall(beginning)) > 1  # the rest of it is not shown
    return isinstance(found, list) and all(isinstance(one, dict) and _is_spoken(one) for one in found)
