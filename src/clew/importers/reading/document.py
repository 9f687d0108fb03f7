"""A file that is one JSON object, as crashes leave it: of one that was cut off, what is whole is kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import msgspec

from clew.importers.contract import OnBytes, OnProblem, Problem
from clew.importers.reading import values
from clew.importers.reading.files import content_of
from clew.model import Json

_BOM: Final = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(r'\s*+("(?:[^"\\]|\\.)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]++)', re.DOTALL)
_SCALAR: Final = re.compile(r"true|false|null|-?\d+(\.\d+)?([eE][+-]?\d+)?")
_CLOSES: Final = {"{": "}", "[": "]"}
_MOST_LISTS: Final = 1
"""A document may be cut between members of the outer objects, or between elements of one list. Not inside
an element: half a message is no message."""


def members_of_file(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> dict[str, msgspec.Raw]:
    """The members of the file's object, each still as text; empty when nothing can be read."""
    raw = content_of(path)
    on_bytes(len(raw))
    body = raw.removeprefix(_BOM).strip()
    if not body:
        return {}
    try:
        body.decode()  # members are looked at later, and are to be good then
        return _members(body)
    except (ValueError, RecursionError) as exc:
        line, mended = _mend(body)
        found = members(mended)
        reason = f"no whole JSON object ({exc})"
        kept = f"{reason}; what is whole before that is kept" if found else reason
        on_problem(Problem(path=str(path), line=line, reason=kept))
        return found


def members(value: msgspec.Raw | bytes | None) -> dict[str, msgspec.Raw]:
    """The members of an object, each still as text; of anything else: none."""
    try:
        return {} if value is None else _members(bytes(value))
    except (ValueError, RecursionError):
        return {}


def decoded(value: msgspec.Raw | None) -> Json:
    return None if value is None else values.decode(bytes(value))


def objects(value: Json, what: str, path: Path, on_problem: OnProblem) -> list[dict[str, Json]]:
    """The messages of a list; what is none is told."""
    found = [item for item in values.items(value) if isinstance(item, dict)]
    if lacking := len(values.items(value)) - len(found):
        reason = f"{lacking} of {what} are no messages"
        on_problem(Problem(path=str(path), line=None, reason=reason))
    return found


def _members(raw: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


def _mend(body: bytes) -> tuple[int | None, bytes | None]:
    """The line of the damage, and the document as if it had ended well before it."""
    text = body.decode("utf-8", "replace")
    try:
        # Whole for Python: it has NaN in it, or bytes that are no UTF-8.
        value = json.loads(text, parse_constant=lambda _: None)
        return None, json.dumps(value).encode() if isinstance(value, dict) else None
    except json.JSONDecodeError as exc:
        good, line = text[: exc.pos], exc.lineno
    except RecursionError:
        return None, None
    end = _last_whole(good)
    return line, None if end is None else (good[: end[0]] + end[1]).encode()


def _last_whole(text: str) -> tuple[int, str] | None:
    """Where the last whole value ends at which the text may end, and the brackets that it then lacks."""
    open_brackets: list[str] = []
    inside_lists = 0
    found = None
    is_value, at = True, 0
    while match := _TOKEN.match(text, at):
        token, at = match[1], match.end()
        if token in "{[":
            open_brackets.append(token)
            inside_lists += token == "[" or inside_lists > 0
            is_value = token == "["
            continue
        if token == ":":
            is_value = True
            continue
        if token == ",":
            is_value = open_brackets[-1:] == ["["]
            continue
        if token in "]}":
            if not open_brackets or _CLOSES[open_brackets[-1]] != token:
                break
            open_brackets.pop()
            inside_lists -= inside_lists > 0
        elif not is_value:
            continue
        elif token[0] != '"' and (at == len(text) or not _SCALAR.fullmatch(token)):
            break  # 12 may have been the beginning of 123
        if inside_lists <= _MOST_LISTS:
            found = at, len(open_brackets), inside_lists
    if found is None:
        return None
    end, depth, lists = found
    return end, "]" * lists + "}" * (depth - lists)
