"""One line of the JSONL format: what it says, its bytes, its checksum. docs/reference/format.md tells more.

    {"x":"<16 hex digits>","end":1,"kind":"record",...}

`x` is the XXH3 of all that follows its comma. `end` is 1 in the last line of a batch: what was written
by one transaction is there as a whole or not at all. Its width never changes, so the place of a body
is known before it is known which line comes last.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct, StructMeta, structs
from xxhash import xxh3_64_hexdigest

from clew.core.log.rows import BranchRow, Details, EntryRow, EventRow, HeadRow, SessionRow, UsageRow
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.errors import SchemaTooNewError, SchemaTooOldError
from clew.version import __version__

FORMAT: Final = 10
"""The version of the format. A reader refuses a newer one. New kinds and fields do not change it; another
name for a field, or one less, does."""
FIRST_FORMAT: Final = 1
"""Written before this one, with the same lines. Checkouts before 0.1 wrote it too, some with other names of
fields; numbers 2 to 9 were never used."""
FORMATS: Final = (FIRST_FORMAT, FORMAT)
"""That can be read."""
OLD_NAMES: Final = {"cut": "view_start", "asked": "last_user_turn", "titled": "has_title"}
"""What the first checkouts called fields of rows and entries."""

_HEAD: Final = len(b'{"x":"0123456789abcdef",')
_END: Final = len(b'"end":0,')
BOM: Final = b"\xef\xbb\xbf"


class Line(Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True, gc=False):
    """What all lines have in common. `kind` says which line it is."""


class LogLine(Line, frozen=True, tag="log", forbid_unknown_fields=False, omit_defaults=True):
    """The first line of a file. Newer ones may have more fields: what counts is the format."""

    format: int
    sid: int = 0
    id: str = ""
    mark: str = ""
    """Random, and new each time the whole file is written: a log with the same mark has only grown."""
    clew: str = ""
    """The version of Clew that began the file."""


def first_line(sid: int = 0, id: str = "", mark: str = "") -> LogLine:
    """The line that a file begins with."""
    return LogLine(FORMAT, sid, id, mark, __version__)


def refuse_format(place: str, format: int, written_by: str) -> None:
    """SchemaTooNewError, SchemaTooOldError: this version cannot read what is written in a format."""
    if format > FORMAT:
        raise SchemaTooNewError(place, format, FORMAT, written_by)
    if format not in FORMATS:
        raise SchemaTooOldError(place, format)


class SessionLine(Line, frozen=True, tag="session"):
    """A session's row, new or changed."""

    row: SessionRow


class DetailsLine(Line, frozen=True, tag="details"):
    sid: int
    details: Details


class HeadLine(Line, frozen=True, tag="head"):
    """What an append does to the row of a session."""

    sid: int
    head: HeadRow
    updated: int
    title: str | None
    preview: str


class SessionGoneLine(Line, frozen=True, tag="session-gone"):
    sid: int


class BranchLine(Line, frozen=True, tag="branch"):
    row: BranchRow


class DisownedLine(Line, frozen=True, tag="branch-disowned"):
    branch: int


class AdoptedLine(Line, frozen=True, tag="branch-adopted"):
    branch: int
    owner: int


class BranchGoneLine(Line, frozen=True, tag="branch-gone"):
    branch: int


class EntryLine(Line, frozen=True, tag="entry", omit_defaults=True):
    branch: int
    position: int
    type: int
    time: int
    flags: int
    digest: bytes
    messages: int
    turns: int
    size: int
    view_start: int
    summary: int
    last_user_turn: int
    epoch: int
    base64: bool = False
    body: Raw = Raw(b"")
    """The last field of its line: its place is known without a search."""


class EntriesGoneLine(Line, frozen=True, tag="entries-gone"):
    branch: int
    after: int


class ErasedLine(Line, frozen=True, tag="entries-erased"):
    branch: int
    positions: tuple[int, ...]


class EventLine(Line, frozen=True, tag="event", omit_defaults=True):
    sid: int
    number: int
    time: int
    stream: str
    type: str
    id: str | None
    base64: bool = False
    data: Raw = Raw(b"")


class EventsGoneLine(Line, frozen=True, tag="events-gone"):
    sid: int
    upto: int


class UsageLine(Line, frozen=True, tag="usage"):
    sid: int
    row: UsageRow


class RecordLine(Line, frozen=True, tag="record", omit_defaults=True):
    sid: int
    type: str
    name: str
    base64: bool = False
    value: Raw = Raw(b"")


class RecordGoneLine(Line, frozen=True, tag="record-gone"):
    sid: int
    type: str
    name: str


class PackLine(Line, frozen=True, tag="pack"):
    """A pack lies in a file of its own, which also says what is in it."""

    pack: int
    file: str
    codec: int
    size: int
    checksum: int
    stored: int
    members: tuple[tuple[bytes, int, int], ...]


class ObjectsGoneLine(Line, frozen=True, tag="objects-gone"):
    names: tuple[bytes, ...]


class PackGoneLine(Line, frozen=True, tag="pack-gone"):
    pack: int


class NumbersLine(Line, frozen=True, tag="numbers"):
    """The highest numbers ever given out: none is used twice, also when its owner left no line."""

    sid: int
    branch: int
    pack: int


AnyLine: TypeAlias = (
    LogLine | SessionLine | DetailsLine | HeadLine | SessionGoneLine | BranchLine | DisownedLine | AdoptedLine
    | BranchGoneLine | EntryLine | EntriesGoneLine | ErasedLine | EventLine | EventsGoneLine | UsageLine
    | RecordLine | RecordGoneLine | PackLine | ObjectsGoneLine | PackGoneLine | NumbersLine
)  # fmt: skip

ANEW: Final = (SessionLine, DetailsLine, RecordLine, RecordGoneLine)
"""Kinds that are written again and again for one thing: of its lines the newest counts."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyLine).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_kind = msgspec.json.Decoder(dict[str, Raw]).decode


class BadLineError(ValueError):
    """A line whose bytes are not what was written."""


class WrongLineError(BadLineError):
    """A line whose bytes are what was written, and which says what no version writes."""


class OtherVersionError(WrongLineError):
    """A line whose bytes are what was written, with fields that this version does not write."""


def encode(line: AnyLine) -> bytes:
    """The text of a line from its kind on, without the frame that `finish` puts around it."""
    text = _encode(line)
    if b"\n" in text or b"\r" in text:  # between the tokens of an embedded value; in texts they are escaped
        text = text.replace(b"\n", b" ").replace(b"\r", b" ")
    return text[1:]


def finish(text: bytes, *, is_last: bool) -> bytes:
    """The whole line, with its checksum and line end."""
    rest = (b'"end":1,' if is_last else b'"end":0,') + text
    return b'{"x":"' + xxh3_64_hexdigest(rest).encode() + b'",' + rest + b"\n"


def finished_size(text: bytes) -> int:
    """How long the line will be."""
    return _HEAD + _END + len(text) + 1


def open_line(line: bytes) -> tuple[bool, bytes]:
    """Whether it is the last of its batch, and its text, of a line whose checksum is right."""
    if line[:6] != b'{"x":"' or line[22 : _HEAD + 6] != b'","end":':
        raise BadLineError("it does not begin as a line does")
    if line[6:22] != xxh3_64_hexdigest(memoryview(line)[_HEAD:]).encode():
        raise BadLineError("its checksum does not match")
    return line[_HEAD + 6 : _HEAD + 7] == b"1", line[_HEAD + _END :]


def looks_like_line(raw: bytes) -> bool:
    """Whether a line that cannot be read was one of ours: of the marks at its begin one is left."""
    return raw[:6] == b'{"x":"' or raw[22:30] == b'","end":' or raw[32:40] == b'"kind":"'


def begins_log(content: bytes) -> bool:
    """Whether a file that begins so is a log: by its first line."""
    first = content.removeprefix(BOM).split(b"\n", 1)[0].rstrip(b"\r")
    try:
        text = open_line(first)[1]
        check_value_count(text)
        return isinstance(decode(text), LogLine)
    except (BadLineError, TooManyValuesError):
        return False


def decode(text: bytes, format: int = FORMAT) -> AnyLine | None:
    """What a line says; None: it is of a kind that this version does not know. Fields that it does not know
    are passed over, but not in the format before: there they may be known ones by another name."""
    try:
        line: AnyLine = _decode(b"{" + text)
        return line
    except msgspec.ValidationError as exc:
        kind = _kind_of(text)
        if kind not in KINDS:
            return None
        if kind in _WITH_OLD_NAMES and (renamed := _with_new_names(text)) != text:
            return decode(renamed, format)
        if format != FIRST_FORMAT and (known := _with_known_fields(text, KINDS[kind])) != text:
            return decode(known, format)
        wrong = OtherVersionError if _ABOUT_FIELDS.search(str(exc)) else WrongLineError
        raise wrong(f"malformed {kind!r} line: {exc}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise WrongLineError(f"it is not valid JSON: {exc}") from exc


_ABOUT_FIELDS: Final = re.compile("missing required field|contains unknown field")
_WITH_OLD_NAMES: Final = ("session", "head", "entry")


def _with_new_names(text: bytes) -> bytes:
    """A line that the first checkouts wrote, with the names of today. Its last field stays as it is."""

    def renamed(value: Raw, *within: str) -> Raw:
        fields = {OLD_NAMES.get(name, name): field for name, field in _decode_kind(value).items()}
        for number, name in enumerate(within, 1):
            if bytes(fields.get(name, Raw(b"")))[:1] == b"{":
                fields[name] = renamed(fields[name], *within[number:])
        return Raw(_encode(fields))

    try:
        return bytes(renamed(Raw(b"{" + text), "row", "head"))[1:]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return text


def _with_known_fields(text: bytes, kind: type[Line]) -> bytes:
    """A line without the fields that this version does not know. One whose body is not its last field stays
    as it is: the place of the body would not be known."""

    def known(value: Raw, row: type[Struct]) -> Raw:
        types = {field.encode_name: field.type for field in structs.fields(row)}
        fields = {
            name: field for name, field in _decode_kind(value).items() if name in types or name == "kind"
        }
        for name, inner in types.items():
            if name in fields and isinstance(inner, StructMeta) and bytes(fields[name])[:1] == b"{":
                fields[name] = known(fields[name], cast("type[Struct]", inner))
        return Raw(_encode(fields))

    try:
        whole = Raw(b"{" + text)
        if kind is EntryLine and "body" in [*_decode_kind(whole)][:-1]:
            return text
        return bytes(known(whole, kind))[1:]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return text


def _kind_of(text: bytes) -> str:
    try:
        return _decode_text(_decode_kind(b"{" + text).get("kind", Raw(b'""')))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise WrongLineError(f"it is no line: {exc}") from exc


KINDS: Final[dict[Any, type[Line]]] = {kind.__struct_config__.tag: kind for kind in AnyLine.__args__}


def embed(value: bytes) -> tuple[bool, Raw]:
    """A value as it stands in a line: itself if it is JSON on one line, else base64 of it."""
    if b"\n" not in value and b"\r" not in value:
        try:
            value.decode()
            if bytes(_decode_raw(value)) == value:
                return False, Raw(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return True, Raw(_encode(value))


def extract(is_base64: bool, value: Raw) -> bytes:
    """The value that was embedded."""
    if not is_base64:
        return bytes(value)
    try:
        return msgspec.json.decode(value, type=bytes)
    except msgspec.MsgspecError as exc:
        raise WrongLineError(f"it is no base64: {exc}") from exc


def entry_line(branch: int, row: EntryRow) -> EntryLine:
    is_base64, body = embed(row.body)
    return EntryLine(
        branch, row.position, row.kind, row.time, row.flags, row.digest, row.messages, row.turns,
        row.size, row.view_start, row.summary, row.last_user_turn, row.epoch, is_base64, body,
    )  # fmt: skip


def entry_row(line: EntryLine) -> EntryRow:
    return EntryRow(
        line.position, line.type, line.time, line.flags, line.digest, line.messages, line.turns,
        line.size, line.view_start, line.summary, line.last_user_turn,
        extract(line.base64, line.body), line.epoch,
    )  # fmt: skip


def event_line(sid: int, row: EventRow) -> EventLine:
    return EventLine(sid, row.number, row.time, row.stream, row.type, row.id, *embed(row.data))


def event_row(line: EventLine) -> EventRow:
    return EventRow(line.number, line.time, line.stream, line.type, line.id, extract(line.base64, line.data))


def record_line(sid: int, kind: str, name: str, value: bytes) -> RecordLine:
    return RecordLine(sid, kind, name, *embed(value))


def fields_of(text: bytes) -> dict[str, Any]:
    """All fields of a line of any kind, for readers that meet a kind they do not know."""
    return dict(msgspec.json.decode(b"{" + text, type=dict[str, Any]))
