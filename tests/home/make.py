"""A home directory full of the files of real agents. README.md says how they were made."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).parent / "files"
NOW: Final = datetime(2026, 11, 15, 18, 0, tzinfo=UTC)
"""A moment after the newest session: what a fixed clock of a test shows."""
SOURCE: Final = Path(__file__).parents[2] / "src"
_STAMP: Final = re.compile(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d")


def make_home(path: Path) -> Path:
    """A home directory at `path`, which must not exist yet. Databases are made of their `.sql` files."""
    shutil.copytree(FILES, path)
    for script in sorted(path.rglob("*.db.sql")):
        database = script.with_suffix("")
        with sqlite3.connect(database) as connection:
            connection.executescript(script.read_text(encoding="utf-8"))
        connection.close()
        _set_time(database, script.read_bytes())
        script.unlink()
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.suffix != ".db":
            _set_time(file, file.read_bytes())
    return path


def environment(home: Path) -> dict[str, str]:
    """The environment of a process that is at home there: this checkout's code, no settings of the user."""
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(SOURCE),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
    }


def _set_time(file: Path, content: bytes) -> None:
    """A checkout gives files the time of the checkout. They get the newest time that they speak of."""
    stamps = [stamp.decode().replace(" ", "T") for stamp in _STAMP.findall(content)]
    newest = max((s for s in stamps if s < NOW.isoformat()), default="2026-10-01T00:00:00")
    seconds = datetime.fromisoformat(newest).replace(tzinfo=UTC).timestamp()
    os.utime(file, (seconds, seconds))
