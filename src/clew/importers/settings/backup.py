"""What was in a file before we changed it: kept in a directory of ours, and put back.

A record says what we wrote. If the file still is so, nobody else changed it, and what was there comes back
byte for byte. Else the caller takes out what is ours, and the copy stays.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew.core.disk import create_file, make_directories
from clew.importers.settings import file as settings_file
from clew.importers.settings.file import Found


class Change(NamedTuple):
    """What happens to one file; None: it is not there."""

    path: Path
    before: str | None
    after: str | None


class Original(NamedTuple):
    """What was there before we came; None: no file."""

    data: bytes | None


class _Record(msgspec.Struct, omit_defaults=True):
    """What was there before us."""

    path: str
    existed: bool
    after: str
    """The digest of what we wrote."""
    before: str | None = None
    """The digest of the copy, if putting it back restores what was there."""
    backup: str | None = None
    directories: list[str] = []
    """Those that we made, the deepest first."""


class Backup:
    """The record of one file, and the copy of what it was."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._record = self._read()

    @property
    def exists(self) -> bool:
        """Whether we changed the file, and did not put it back yet."""
        return self._record is not None

    @property
    def copy(self) -> Path | None:
        """Where the file lies as it was. A record cannot name a file elsewhere."""
        name = None if self._record is None else self._record.backup
        return self._directory / name if name and os.path.basename(name) == name else None

    @property
    def directories(self) -> list[Path]:
        """Those that we made for it, the deepest first."""
        return [] if self._record is None else [Path(place) for place in self._record.directories]

    def is_made(self, found: Found) -> bool:
        """Whether there was no such file before we came."""
        return self._is_of(found) and self._record is not None and not self._record.existed

    def original(self, found: Found) -> Original | None:
        """What was there, if nobody else changed the file since; None: it cannot be put back as a whole."""
        record = self._record
        if record is None or found.data is None or not self._is_of(found):
            return None
        if record.after != _digest(found.data):
            return None
        if not record.existed:
            return Original(None)
        kept = None if self.copy is None else settings_file.read(self.copy).data
        return Original(kept) if kept is not None and _digest(kept) == record.before else None

    # -- changes

    def change(self, found: Found, after: bytes, *, has_ours: bool) -> None:
        """Write our version of the file, with a copy of what was there. `has_ours`: what was there is not the
        file as it was before us. InvalidError: as `settings_file.replace`; then it is as it was."""
        make_directories(self._directory)
        record = self._record_before(found, after, has_ours)
        settings_file.refuse_changed(found)
        self._write(record)
        record.directories += [str(place) for place in settings_file.replace(found, after)]
        self._write(record)

    def put_back(self, found: Found, after: bytes | None) -> None:
        """Write the file without what is ours; None: remove it, and the directories that we made for it, if
        they are empty."""
        if after is not None:
            settings_file.replace(found, after)
            return
        settings_file.remove(found)
        settings_file.remove_directories(found, self.directories)

    def forget(self, *, with_copy: bool) -> None:
        """There is nothing of ours in the file any more."""
        copy = self.copy
        self._path.unlink(missing_ok=True)
        if with_copy and copy is not None:
            copy.unlink(missing_ok=True)
        self._record = None

    # -- the record

    @property
    def _path(self) -> Path:
        return self._directory / f"{self._name}.json"

    def _is_of(self, found: Found) -> bool:
        return self._record is not None and self._record.path == str(found.path)

    def _record_before(self, found: Found, after: bytes, has_ours: bool) -> _Record:
        """What to keep of what was there. If only we changed it since the last time, what was there then."""
        old = self._record
        digest = None if found.data is None else _digest(found.data)
        if old is not None and self._is_of(found) and old.after == digest:
            return msgspec.structs.replace(old, after=_digest(after))
        record = _Record(str(found.path), existed=found.data is not None, after=_digest(after))
        if found.data is not None:
            moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            record.backup = self._save(f"{self._name}.{moment}.before", found.data)
            record.before = None if has_ours else digest
        return record

    def _read(self) -> _Record | None:
        """None: there is none, or it cannot be read; then nothing is restored from it."""
        data = settings_file.read(self._path).data
        try:
            return None if data is None else msgspec.json.decode(data, type=_Record)
        except msgspec.DecodeError:
            return None

    def _write(self, record: _Record) -> None:
        settings_file.replace(settings_file.read(self._path), msgspec.json.encode(record) + b"\n")
        self._record = record

    def _save(self, name: str, data: bytes) -> str:
        path = self._directory / name
        path.unlink(missing_ok=True)
        with open(create_file(path), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return name


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
