"""Putting values into the lines of a store that no version writes, with checksums as they have to be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.log import jsonl

LOST = "lost line"
VALUES: dict[str, Any] = {
    "null": None,
    "-1": -1,
    "0": 0,
    "most": 2**63 - 1,
    "least": -(2**63),
    "more": 2**64,
    "real": 1.5,
    "true": True,
    "no text": "",
    "text": "x\u00e9\n\x1b[31my",
    "huge text": "h" * 100_000,
    "list": [1, None, {"b": -1}],
    "object": {"a": [1, None]},
}
PLAUSIBLE = "another"
"""A value of the same type, near to the one that was there."""
MISSING = "no field"


class Harm(NamedTuple):
    file: str
    line: int
    """Counted from 0."""
    kind: str
    field: tuple[str, ...]
    value: str
    """A name of VALUES, PLAUSIBLE, MISSING or LOST."""

    def __str__(self) -> str:
        return f"{'.'.join((self.kind, *self.field))} in line {self.line} of {self.file}: {self.value}"


def harms(store: Path, id: str) -> Iterator[Harm]:
    """Everything that can be done to the lines in the log of the session with a name, and of the store
    itself: one line of each kind, the first and the last of those that say more than one thing."""
    for path in sorted(store.rglob("*.jsonl")):
        name = str(path.relative_to(store))
        found = path.read_bytes().splitlines()
        if "sessions/" in name and _fields(found[0]).get("id") != id:
            continue
        seen: dict[tuple[Any, ...], int] = {}
        for number, raw in enumerate(found):
            told = _fields(raw)
            seen[_kind(told), 0] = seen.get((_kind(told), 0), number)
            seen[_kind(told), 1] = number
        for number in sorted(set(seen.values())):
            told = _fields(found[number])
            kind = told["kind"]
            yield Harm(name, number, kind, (), LOST)
            for field in _places(told):
                for value in (*VALUES, PLAUSIBLE, MISSING):
                    yield Harm(name, number, kind, field, value)


def _kind(told: dict[str, Any]) -> tuple[Any, ...]:
    return told["kind"], told.get("type")


def _places(told: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in told.items():
        yield (*above, name)
        if isinstance(value, dict) and name not in ("body", "value", "data"):
            yield from _places(value, (*above, name))


def _fields(raw: bytes) -> dict[str, Any]:
    return jsonl.fields_of(jsonl.open_line(raw)[1])


def put(sound: Path, place: Path, harm: Harm) -> None:
    """The store at `place`, harmed, without its index."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sound, place, ignore=shutil.ignore_patterns("index.db*"))
    path = place / harm.file
    found = path.read_bytes().splitlines(keepends=True)
    is_last, text = jsonl.open_line(found[harm.line].rstrip(b"\n"))
    if harm.value == LOST:
        del found[harm.line]
        if is_last and harm.line:  # the batch still has its end
            _, text = jsonl.open_line(found[harm.line - 1].rstrip(b"\n"))
            found[harm.line - 1] = jsonl.finish(text, is_last=True)
    else:
        told = jsonl.fields_of(text)
        _set(told, harm.field, harm.value)
        changed = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()[1:]
        found[harm.line] = jsonl.finish(changed, is_last=is_last)
    path.write_bytes(b"".join(found))


def _set(told: dict[str, Any], field: tuple[str, ...], value: str) -> None:
    *above, last = field
    for name in above:
        told = told[name]
    if value == MISSING:
        del told[last]
    else:
        told[last] = _near(told[last]) if value == PLAUSIBLE else VALUES[value]


def _near(old: Any) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + 1
    if isinstance(old, str):
        return f"{old[:-1]}{'A' if old[-1:] != 'A' else 'B'}"
    if isinstance(old, list):
        return old[:-1]
    if isinstance(old, dict):
        return dict(list(old.items())[:-1])
    return 1
