"""A log that lost lines which were read already, and then grew otherwise: how such a file is made, and what
must be in a store that has followed it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clew
from clew.importers.sync import Sync
from tests.importers.following import content_of

_IDS = frozenset({"id", "uuid", "messageId", "parentUuid", "parentId", "leafUuid", "message_id", "turn_id"})
_TEXTS = frozenset({"text", "content", "arguments", "output", "summary", "message", "thinking", "result"})
_YEAR = re.compile(r"^20\d\d-")


def otherwise(kept: list[bytes], lost: list[bytes], times: str = "2031-") -> list[bytes]:
    """Lines as a program could have written them instead of those that were lost: with other words, times
    and ids, and the same ones of what stands in the lines that were kept."""
    known = {id for line in kept for id in _ids_in(_decoded(line))}
    return [_again(line, known, times) for line in lost]


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _again(line: bytes, known: set[str], times: str) -> bytes:
    record = _decoded(line)
    if record is None:
        return line
    return json.dumps(_changed(record, "", known, times), ensure_ascii=False).encode() + b"\n"


def _changed(value: Any, name: str, known: set[str], times: str) -> Any:
    if isinstance(value, dict):
        return {key: _changed(one, key, known, times) for key, one in value.items()}
    if value == [] and name == "content":
        return [{"type": "text", "text": "instead"}]
    if isinstance(value, list):
        return [_changed(one, name, known, times) for one in value]
    if not isinstance(value, str):
        return value
    if name in _IDS:
        return value if value in known else f"{value}2"
    if name in _TEXTS:
        return f"{value} instead"
    return _YEAR.sub(times, value)


def _ids_in(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _ids_in(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _ids_in(one, name)
    elif isinstance(value, str) and name in _IDS:
        yield value


def check(store: clew.Store, path: Path, before: bytes, after: bytes, *, root: Path | None = None) -> None:
    """A file that was followed is cut, written on in the same place, and followed again."""
    path.write_bytes(before)
    sync = Sync(lambda writes: store, [root or path])
    sync.all()
    old = content_of(store)
    with path.open("r+b") as file:  # the same inode, as with a log that a crash cut
        file.write(after)
        file.truncate(len(after))
    sync.all()
    store.import_path(root or path)
    with clew.open("memory:") as fresh:
        assert fresh.import_path(root or path).left_out == ()
        compare(store, fresh, old)


def compare(store: clew.Store, fresh: clew.Store, old: dict[str, dict[str, Any]]) -> None:
    new = content_of(store)
    for id, wanted in content_of(fresh).items():
        found = new[id]
        assert _shown(store, id) == _shown(fresh, id)
        hashes = _hashes(found)
        assert len(set(hashes)) == len(hashes), "an entry is there twice"
        assert not Counter(_said(wanted)) - Counter(_said(found)), "not all that is in the file is here"
        assert set(_events(wanted)) <= set(_events(found))
        assert set(wanted["calls"]) <= set(found["calls"])
    for id, had in old.items():
        assert set(_hashes(had)) <= set(_hashes(new[id])), "what was read before is not there any more"
        assert set(_events(had)) <= set(_events(new[id]))
    assert store.verify().ok


def _shown(store: clew.Store, id: str) -> list[bytes]:
    return [entry.raw for entry in store.get(id).entries()]


def _hashes(content: dict[str, Any]) -> list[str]:
    return [entry[5] for entry in content["entries"]]


def _said(content: dict[str, Any]) -> list[tuple[int, str, bytes]]:
    return [(entry[1], entry[2], entry[3]) for entry in content["entries"]]


def _events(content: dict[str, Any]) -> list[str]:
    return [json.dumps([type, data], sort_keys=True) for _, type, _, data, _ in content["events"]]
