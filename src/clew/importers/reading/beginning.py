"""What a file is, by how it begins: data of a program, or a page, a source or a log that shows some."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from clew.importers.reading.jsonlines import begins_with_object, first_objects

_SQLITE: Final = b"SQLite format 3\0"
_BOM: Final = b"\xef\xbb\xbf"
_LOGS: Final = frozenset({".jsonl", ".ndjson"})
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]', re.DOTALL)


def is_data(path: Path, beginning: bytes) -> bool:
    """Whether it is JSON or SQLite. A log of JSON may begin with what a crash left."""
    start = beginning.removeprefix(_BOM).lstrip(b" \t\r\n\0")
    return start.startswith((b"{", b"[", _SQLITE)) or not _LOGS.isdisjoint(path.suffixes[-2:])


def has_keys(beginning: bytes, *names: str) -> bool:
    """Whether a document, or one of the first lines, is an object with these members: not one that holds
    such an object, or a text that does."""
    if not begins_with_object(beginning) or not all(f'"{name}"'.encode() in beginning for name in names):
        return False
    wanted = set(names)
    return first_keys(beginning) >= wanted or any(wanted <= line.keys() for line in first_objects(beginning))


def first_keys(beginning: bytes) -> set[str]:
    """The names of the members of the object that a file begins with, as far as it is shown."""
    found: set[str] = set()
    depth, is_key = 0, False
    for match in _TOKEN.finditer(beginning):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
            is_key = token == b"{"
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                break
        elif token == b",":
            is_key = depth == 1
        elif is_key and depth == 1 and token != b":":
            found.add(token[1:-1].decode(errors="replace"))
            is_key = False
    return found
