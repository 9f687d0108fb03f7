"""Sessions of pi: an append-only tree in a file, in its versions 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clew.importers.contract import OnBytes, OnProblem, Problem, SourceSession
from clew.importers.programs.pi_tree import PiTree
from clew.importers.reading.ids import session_id
from clew.importers.reading.jsonlines import first_objects, read_lines
from clew.importers.reading.values import plain_name, text, when, without
from clew.model import Json

NAME: Final = "pi"

_TOLD: Final = frozenset({"type", "id", "timestamp", "cwd"})


def recognises(path: Path, beginning: bytes) -> bool:
    first = first_objects(beginning, most=1)
    return bool(first) and first[0].get("type") == "session" and "cwd" in first[0] and "id" in first[0]


def known_places(home: Path) -> list[Path]:
    return [home / ".pi" / "agent" / "sessions"]


def files(path: Path) -> list[Path]:
    # Their names begin with the time.
    return sorted(path.rglob("*.jsonl"), key=lambda file: file.name) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    header = _header(path)
    if header is None:
        on_problem(Problem(path=str(path), line=1, reason="no header: no line of type session"))
        return
    tree = PiTree(path, header, on_problem)
    source = text(header.get("parentSession"))
    own = text(header.get("id")) or _id_in_name(path)
    yield SourceSession(
        id=session_id(NAME, own),
        aliases=(own,),
        entries=tree.entries(read_lines(path, on_problem, on_bytes)),
        head=lambda: tree.head,
        workspace=plain_name(header.get("cwd")),
        created_at=when(header.get("timestamp")),
        metadata=without(header, _TOLD),
        parent=session_id(NAME, _id_in_name(Path(source))) if source else None,
        checkpoints=tree.checkpoints,
        events=tree.events,
        updates=lambda: without({"title": tree.title, "model": tree.model, "vendor": tree.vendor}, ()),
    )


def _header(path: Path) -> dict[str, Json] | None:
    for line in read_lines(path, lambda _: None, lambda _: None):
        if line.record.get("type") == "session":
            return line.record
    return None


def _id_in_name(path: Path) -> str:
    """Files are called <time>_<id>.jsonl."""
    return path.stem.rpartition("_")[2]
