"""What a request brings, as values of the types that its route names. Nothing is believed before that."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any, Final, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from clew.server.problems import Problem

JSON_TYPES: Final = frozenset({"application/json", "application/merge-patch+json"})
MOST_FIELDS: Final = 200
_SPARE: Final = tuple(b"\\u%04x" % code for code in range(0xE000, 0xE100))
"""Characters that hardly any text has, one of which stands for half of a character for a moment."""
_WHERE: Final = re.compile(r" - at `\$?\.?([^`]{0,200})`")


def query_of(text: bytes, kind: Any) -> Any:
    """The query string as a value of its type. A parameter that is not known is refused."""
    known = _fields(kind)
    try:
        given = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError as exc:
        raise _invalid("the query string is not percent-encoded UTF-8, or has too many fields") from exc
    values: dict[str, Any] = {}
    for name, value in given:
        family, dot, rest = name.partition(".")
        if dot and rest and f"{family}.*" in known:
            values.setdefault(f"{family}.*", {})[rest] = value
        elif name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise _invalid(f"there is no parameter {name[:80]!r}; there is {names}")
        elif known[name]:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise _invalid(f"the parameter {name!r} can be given once only")
        else:
            values[name] = value
    try:
        found = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise _invalid(_told(exc)) from exc
    for field in msgspec.structs.fields(kind):
        value = getattr(found, field.name)
        if field.encode_name in values and _is_no_value(value):
            raise _invalid(f"{field.encode_name}: {values[field.encode_name]!r} is no value; leave it out")
    return found


def _is_no_value(value: Any) -> bool:
    """The texts null, nan and inf were taken for what they name."""
    return value is None or (isinstance(value, float) and not isfinite(value))


@cache
def _fields(kind: Any) -> dict[str, bool]:
    """The parameters of a query, and whether each may be given several times."""
    hints = get_type_hints(kind)
    return {
        field.encode_name: get_origin(hints[field.name]) in (list, tuple)
        for field in msgspec.structs.fields(kind)
    }


@cache
def _without_body(kind: Any) -> Any:
    """What a body that is not sent stands for, if all that it may hold may be left out; else None."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return None
    return kind() if all(not field.required for field in msgspec.structs.fields(kind)) else None


def may_be_empty(kind: Any) -> bool:
    """Whether a request need not have a body of this type."""
    return _without_body(kind) is not None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def body_of(content: bytes, kind: Any, headers: Mapping[str, str], most: int) -> Any:
    """The body as a value of its type."""
    content = unpacked(content, headers.get("content-encoding", ""), most)
    if kind is bytes:
        return content
    if not content and (nothing := _without_body(kind)) is not None:
        return nothing
    check_json(headers)
    try:
        return _decoder(kind).decode(content)
    except msgspec.ValidationError as exc:
        raise _invalid(_told(exc)) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if isinstance(exc, msgspec.DecodeError) and (found := _with_surrogates(content, kind)) is not None:
            return found
        raise Problem(
            400, "invalid_json", "The body is not JSON", str(exc)[:200] or "it is nested too deep"
        ) from exc


def check_json(headers: Mapping[str, str]) -> None:
    """Refuse a body that does not say that it is JSON."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in JSON_TYPES:
        raise Problem(
            415,
            "unsupported_media_type",
            "The body has to be JSON",
            f"the content type is {media_type[:80] or 'not given'!r}",
            next="send Content-Type: application/json",
        )


_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def _with_surrogates(content: bytes, kind: Any) -> Any:
    """A body whose messages hold halves of characters, which JSON can say and msgspec refuses: programs in
    languages with 16-bit characters cut texts so. The messages come back byte for byte, for the library to
    judge. None: that is not what is wrong with it."""
    if not (isinstance(kind, type) and "messages" in getattr(kind, "__struct_fields__", ())):
        return None
    spare = next((mark for mark in _SPARE if mark not in content), None)
    lone: list[bytes] = []

    def stand_in(found: re.Match[bytes]) -> bytes:
        if found["lone"] is None or spare is None:
            return found[0]
        lone.append(found[0])
        return spare

    whole = _ESCAPES.sub(stand_in, content)
    if not lone or spare is None:
        return None
    try:
        body = _decoder(kind).decode(whole)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if sum(bytes(message).count(spare) for message in body.messages or ()) != len(lone):
        return None  # some are elsewhere, where no text can have them
    left = iter(lone)
    messages = []
    for message in body.messages:
        first, *rest = bytes(message).split(spare)
        messages.append(msgspec.Raw(first + b"".join(next(left) + piece for piece in rest)))
    return msgspec.structs.replace(body, messages=messages)


def unpacked(content: bytes, encoding: str, most: int) -> bytes:
    """The body without its compression; never longer than a body may be."""
    match encoding.strip().lower():
        case "" | "identity":
            return content
        case "gzip" | "x-gzip":
            unpacker: Any = zlib.decompressobj(31)
            try:
                whole: bytes = unpacker.decompress(content, most + 1)
            except zlib.error as exc:
                raise _bad_encoding("gzip") from exc
        case "zstd":
            whole = _unzstd(content, most)
            unpacker = None
        case other:
            raise Problem(
                415,
                "unsupported_encoding",
                "The body is compressed in a way that is not known here",
                f"Content-Encoding is {other[:40]!r}; there is gzip and zstd",
                headers={"accept-encoding": "zstd, gzip"},
            )
    if len(whole) > most:
        raise too_large(most)
    if unpacker is not None and not unpacker.eof:
        raise _bad_encoding("gzip")
    return whole


def _unzstd(content: bytes, most: int) -> bytes:
    zstd = zstd_module()
    unpacker = zstd.ZstdDecompressor()
    try:
        whole: bytes = unpacker.decompress(content, most + 1)
    except zstd.ZstdError as exc:
        raise _bad_encoding("zstd") from exc
    if len(whole) <= most and not unpacker.eof:
        raise _bad_encoding("zstd")
    return whole


def zstd_module() -> Any:
    """Part of Python from 3.14 on."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _bad_encoding(name: str) -> Problem:
    return Problem(400, "invalid_body", "The body cannot be unpacked", f"it is not whole, or not {name}")


def too_large(most: int) -> Problem:
    return Problem(
        413,
        "too_large",
        "The request is too large",
        f"a body may have {most} bytes",
        next="send it in several requests",
    )


def _invalid(detail: str) -> Problem:
    return Problem(422, "invalid", "The request is not valid", detail)


def _told(error: msgspec.ValidationError) -> str:
    """What is wrong and where, without the value, which may be a secret."""
    text = str(error)
    place = _WHERE.search(text)
    return text if place is None else f"{place[1]}: {text[: place.start()]}"
