"""JSON documents and lines, also compressed, torn or growing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, Final, NoReturn, TypeVar

import msgspec

from clew.core.disk import open_file
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.importers.contract import OnBytes, OnProblem, Place, Problem
from clew.importers.reading import values
from clew.importers.reading.files import content_of, damage_of, opened
from clew.importers.reading.holes import WithoutHoles, without_holes
from clew.importers.reading.seen import doubt, note
from clew.importers.reading.values import finite, integer
from clew.model import Json
from clew.model.source import SourceLine

# ── One JSON document, whole or torn ──────────────────────────────────────────────────────────────
# A file that is one JSON object, as crashes leave it: of one that was cut off, what is whole is kept.

_DOCUMENT_BOM: Final = b"\xef\xbb\xbf"
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
    body = raw.removeprefix(_DOCUMENT_BOM).strip()
    if not body:
        return {}
    try:
        check_value_count(body)
        body.decode()  # members are looked at later, and are to be good then
        return _members(body)
    except TooManyValuesError as exc:
        on_problem(values.unreadable(path, exc))
        return {}
    except (ValueError, RecursionError) as exc:
        line, mended = _mend(body)
        found = members(mended)
        reason = f"not valid JSON ({exc})"
        kept = f"{reason}; what comes before that is kept" if found else reason
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


# ── Lines of JSON ─────────────────────────────────────────────────────────────────────────────────
# Lines of JSON from other programs' logs: a damaged line costs itself, and is told with its number.
#
# What is seen in the wild: a torn last line, a torn line to which a later record was glued, CRLF, a byte
# order mark, lines of zeros that a crash left, lone surrogates, bytes that are no UTF-8, lines of many
# megabytes, files that were compressed when they had grown cold.

T = TypeVar("T")

LONGEST: Final = 128 * 1024 * 1024
"""A line that is longer is passed over: nothing in it could be stored as one message."""
TOLD: Final = 1024 * 1024
"""After how many bytes progress is told."""
GLUED_LONGEST: Final = 4 * 1024 * 1024
GLUED_TRIES: Final = 2000
_BUFFER: Final = 1024 * 1024
_SMALL_BUFFER: Final = 64 * 1024
_BOM: Final = b"\xef\xbb\xbf"

_decode = msgspec.json.Decoder().decode


Line = SourceLine


class Reached:
    """Where the reading of a file ended: behind its last whole line."""

    def __init__(self) -> None:
        self.offset = self.lines = 0
        self.is_compressed = False

    def place(self, state: bytes) -> Place | None:
        """None: the file cannot be followed. A compressed one does not grow line by line."""
        return None if self.is_compressed else Place(self.offset, self.lines, state)


def read_lines(
    path: Path,
    on_problem: OnProblem,
    on_bytes: OnBytes,
    *,
    after: Place | None = None,
    whole: bool = False,
    end: int | None = None,
    reached: Reached | None = None,
) -> Generator[Line, None, None]:
    """The objects of a file, one a line, in order; a line that is none is told to `on_problem`.

    `after`: only the lines behind that place. `whole`: a last line that has no end yet is not read. `end`:
    only lines that begin before this offset. `reached` is told where the reading ended.
    """
    lines, offset = (0, 0) if after is None else (after.lines, after.offset)
    told = offset
    note(path)
    try:
        with open_file(path, _BUFFER if after is None else _SMALL_BUFFER) as raw:
            # Only a plain file has places: looking at its beginning would read it for nothing.
            file = opened(raw, path) if after is None else raw
            if file is not raw:
                end = None
                if reached is not None:
                    reached.is_compressed = True
            elif end is None:
                # What is written while we read comes with the next import: so there is an end.
                end = os.fstat(raw.fileno()).st_size
            if after is not None:
                file.seek(offset)
            sparse = without_holes(raw) if file is raw else None
            source = sparse or file
            while end is None or offset < end:
                number = lines + 1
                try:
                    line = source.readline(LONGEST)
                    size, has_end = len(line), line.endswith(b"\n")
                    is_long = size == LONGEST and not has_end
                    if is_long:
                        more, has_end = _skip_line(source)
                        size += more
                    hole = sparse.skipped() if sparse else 0
                    if is_long or hole:
                        if whole and not has_end:
                            break
                        size += hole
                        holes = f", of which {hole} are a hole that was never written" if hole else ""
                        reason = f"the line has {size} bytes{holes}"
                        on_problem(Problem(path=str(path), line=number, reason=reason))
                        line = b"\n"
                except OSError as error:
                    doubt()
                    reason = f"it cannot be read from here on: {error}"
                    on_problem(Problem(path=str(path), line=number, reason=reason))
                    break
                if not size:
                    damage = damage_of(file)
                    if damage is not None:
                        on_problem(Problem(path=str(path), line=number, reason=damage))
                    break
                if whole and not line.endswith(b"\n"):
                    break
                if number == 1:
                    line = line.removeprefix(_BOM)
                start, offset, lines = offset, offset + size, number
                if offset - told >= TOLD:
                    on_bytes(offset - told)
                    told = offset
                try:
                    check_value_count(line)
                    record = _decode(line)
                except TooManyValuesError as exc:
                    on_problem(Problem(path=str(path), line=number, reason=f"the line has {exc}"))
                    continue
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    record = None
                if type(record) is not dict:
                    record = object_of(line, number, path, on_problem, is_last=not line.endswith(b"\n"))
                    if record is None:
                        continue
                    yield Line(number, start, record, line.removesuffix(b"\n") if _is_json(line) else b"")
                else:
                    yield Line(number, start, record, line.removesuffix(b"\n"))
        if offset > told:
            on_bytes(offset - told)
    finally:
        if reached is not None:
            reached.offset, reached.lines = offset, lines


def _skip_line(file: IO[bytes] | WithoutHoles) -> tuple[int, bool]:
    """Read to the end of a line; how many bytes that was, and whether it has an end."""
    skipped = 0
    while part := file.readline(1024 * 1024):
        skipped += len(part)
        if part.endswith(b"\n"):
            return skipped, True
    return skipped, False


def _is_json(line: bytes) -> bool:
    """Whether a line that msgspec refuses is JSON all the same: it has a lone surrogate in it, escaped."""
    try:
        json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid in JSON")


def object_of(
    line: bytes, number: int, path: Path, on_problem: OnProblem, *, is_last: bool = False
) -> dict[str, Json] | None:
    """The object in a line; None: there is none, and it was said why, unless the line is blank."""

    def tell(reason: str) -> None:
        on_problem(Problem(path=str(path), line=number, reason=reason))

    try:
        check_value_count(line)
        record = _decode(line)
    except TooManyValuesError as exc:
        tell(f"the line has {exc}")
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = None
    if type(record) is dict:
        return record

    text = line.strip(b" \t\r\n\0")
    return _mended(text, tell, is_last=is_last) if text else None


def _mended(text: bytes, tell: Callable[[str], None], *, is_last: bool) -> dict[str, Json] | None:
    """What msgspec refuses: lone surrogates, bytes that are no UTF-8, a record glued to a torn one."""
    record = leniently(text, tell)
    if record is None:
        other = _other_value(text)
        if other is not None:
            tell(f"this is {other}, not a JSON object")
            return None
        record = _glued(text)
        end = "the line is cut off" if is_last else "not valid JSON"
        tell(
            end
            if record is None
            else "the line begins with a record that is cut off; the one after it is kept"
        )
    return record


_JSON_NAMES: Final = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _other_value(text: bytes) -> str | None:
    """What a line holds that is JSON and no object."""
    try:
        return _JSON_NAMES.get(type(_decode(text)), "a value")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def leniently(text: bytes, tell: Callable[[str], None]) -> dict[str, Json] | None:
    """An object that msgspec refuses and Python takes; `tell` is called with what had to be replaced."""
    decoded = text.decode(errors="replace")
    strange: list[str] = []

    def kept(number: T | None, digits: str) -> T | None:
        if number is None:
            strange.append(digits)
        return number

    try:
        record: Any = json.loads(
            decoded,
            parse_constant=strange.append,
            parse_float=lambda digits: kept(finite(digits), digits),
            parse_int=lambda digits: kept(integer(digits), digits),
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        tell(f"not valid UTF-8 at byte {error.start}: replaced by U+FFFD")
    if strange:
        tell(f"{strange[0][:20]} is not a number that JSON can hold: replaced by null")
    return record


def _glued(text: bytes) -> dict[str, Json] | None:
    """The whole record at the end of a line that begins with a torn one. No part of a torn record passes
    for it: behind such a part there is no end of line, but what else the record held."""
    if len(text) > GLUED_LONGEST or not text.endswith(b"}"):
        return None
    at = 0
    for _ in range(GLUED_TRIES):
        at = text.find(b'{"', at + 1)
        if at < 0:
            return None
        try:
            record = _decode(text[at:])
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return record if isinstance(record, dict) else None
    return None
