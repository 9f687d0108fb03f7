"""Which files of a path can be imported, by which reader, and in which order."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import msgspec

from clew.errors import InvalidError
from clew.importers import OWN, READERS, telling
from clew.importers.contract import Reader
from clew.importers.jsonlines import beginning_of
from clew.model.porting import FoundPlace

_TIME: Final = re.compile(rb'"(?:timestamp|startTime|created_at|ts)"\s*:\s*"(\d{4}-[^"]{6,40})"')
_COPIED: Final = (b'"forkedFrom"', b'"forked_from_id"')


class Job(msgspec.Struct, frozen=True):
    """One file to be read."""

    format: str
    path: Path
    size: int


def reader_of(format: str) -> Reader:
    if format not in READERS:
        raise InvalidError(f"no import of {format!r}; there is {', '.join([OWN, *READERS])}")
    return cast("Reader", import_module(READERS[format]))


def find_jobs(path: Path, format: str | None) -> list[Job]:
    """The files to read, parents before what was copied from them. InvalidError: there is none."""
    if not path.exists():
        raise InvalidError(f"there is no file {path}")
    if format is not None:
        jobs = [_job(format, file) for file in ([path] if format == OWN else reader_of(format).files(path))]
    elif path.is_dir():
        jobs = _jobs_below(path)
    else:
        jobs = _jobs_of_file(path, beginning_of(path))
    if not jobs:
        what = "holds no file" if path.is_dir() else "is"
        raise InvalidError(
            f"{path} {what} of {'a' if path.is_dir() else 'no'} format that can be imported "
            f"({', '.join([OWN, *READERS])}); format= names one"
        )
    return list({job.path: job for job in jobs}.values())


def scan_places(home: Path | None = None) -> list[FoundPlace]:
    """Where programs whose sessions can be imported keep them on this machine, with what is there."""
    found = []
    for format in READERS:
        reader = reader_of(format)
        for place in reader.known_places(Path.home() if home is None else home):
            files = _files_at(reader, place)
            if files:
                sizes = [_size(file) for file in files]
                found.append(FoundPlace(format=format, path=str(place), files=len(files), bytes=sum(sizes)))
    return found


def _files_at(reader: Reader, place: Path) -> list[Path]:
    try:
        return reader.files(place) if place.exists() else []
    except OSError:
        return []


def _jobs_below(path: Path) -> list[Job]:
    """A directory that a reader knows as a whole, or all the files in it."""
    whole = _recognised(path, b"")
    if whole is not None:
        return [_job(whole, file) for file in reader_of(whole).files(path)]
    groups: list[tuple[tuple[bytes, bool, float, str], list[Job]]] = []
    try:
        inside = sorted(path.iterdir())
    except OSError:
        return []
    for place in inside:
        if place.is_dir() and not place.is_symlink():
            jobs = _jobs_below(place)
            if jobs:
                groups.append((_age(jobs[0].path, beginning_of(jobs[0].path)), jobs))
        elif place.is_file():
            beginning = beginning_of(place)
            jobs = _jobs_of_file(place, beginning)
            if jobs:
                groups.append((_age(place, beginning), jobs))
    return [job for _, jobs in sorted(groups, key=lambda group: group[0]) for job in jobs]


def _jobs_of_file(path: Path, beginning: bytes) -> list[Job]:
    if _is_own(beginning):
        return [_job(OWN, path)]
    format = _recognised(path, beginning)
    return [] if format is None else [_job(format, file) for file in reader_of(format).files(path)]


def _is_own(beginning: bytes) -> bool:
    from clew.core import lines

    return lines.begins_log(beginning)


def _recognised(path: Path, beginning: bytes) -> str | None:
    is_data = not beginning or telling.is_data(path, beginning)
    for format in READERS:
        reader = reader_of(format)
        try:
            if (is_data or getattr(reader, "IS_TEXT", False)) and reader.recognises(path, beginning):
                return format
        except (OSError, ValueError):
            continue
    return None


def _age(path: Path, beginning: bytes) -> tuple[bytes, bool, float, str]:
    """Sorts files by the time of what they begin with; a copy of a session after that session."""
    match = _TIME.search(beginning)
    try:
        changed = path.stat().st_mtime
    except OSError:
        changed = 0.0
    return match[1] if match else b"", any(mark in beginning for mark in _COPIED), changed, str(path)


def _job(format: str, path: Path) -> Job:
    return Job(format, path, _size(path))


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            return sum(_size(Path(root, name)) for root, _, names in os.walk(path) for name in names)
        return path.stat().st_size
    except OSError:
        return 0
