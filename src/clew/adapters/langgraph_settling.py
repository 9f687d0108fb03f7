"""What the log, or LangGraph itself, says anyway is not kept a second time.

LangGraph hands the same text over three times: as the input of a checkpoint, as what a task wrote, and as a
message of the list. So, when the next checkpoint comes and the message is in the log, the document of the one
before it is packed against that text, against its own name, and against the words that every checkpoint has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final

import msgspec

import clew
from clew.adapters.langgraph_documents import PACKED
from clew.core.messages.validate import MAX_MESSAGE_BYTES

_SMALLEST: Final = 128
"""Bytes of a document; less is not worth the time."""
_MOST_WORDS: Final = 1024 * 1024
_LEVEL: Final = 6
_DEEPEST: Final = 40

# A part of the format: what is packed against it is read with it. Another one needs another first byte.
_ALWAYS: Final = (
    b"\xadadditional_kwargs\x80\xb1response_metadata\x80\xa4type\xa4name\xc0\xa2id\xc0\xaatool_calls"
    b"\x90\xb2invalid_tool_calls\x90\xaeusage_metadata\x83\xacinput_tokens\xadoutput_tokens\xactotal_to"
    b"kens\xb3model_validate_json\xa4args\xa9tool_call\xac tool_call_id\xa8artifact\xa6status\xa7succes"
    b"s\xa9ToolMessage\xbclangchain_core.messages.tool\xadSystemMessage\xbelangchain_core.messages.syst"
    b"em\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xbdlangchain_core.messages.human\xac"
    b"HumanMessage\x86\xa7content\xb1__pregel_tasks\xaelanggraph.types\xa4Send\xad__interrupt__\xa9Inte"
    b"rrupt\xa5value\xa6run_id\xa5tools\xa5agent\xa5model\x91\x95\x00\xa8messages\xb9~__pregel_pull, __"
    b"start__\xa7msgpack\xb5~__pregel_pull, model\xa7msgpack\xc5\x05\x92\x95\x01\xafbranch:to:model\xa4"
    b"null\xc4\x00\xa0\xd9$\x85\xa1v\x04\xa1t\xd9 202-T:.+00:00\xa1c\x83\xa9__start__\xcd\xa8messages"
    b"\xcd\xafbranch:to:model\xcd\xa1s\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__\xcd\xa5model"
    b"\x81\xafbranch:to:model\xcd\xa1u\x91\xa9__start__\xa1u\x92\xafbranch:to:model\xa8messages\xc0\x92"
    b"\xa7msgpack\xc4\x1e\x83\xa6source\xa4loop\xa4step\xcd\xa7parents\x80\x82\xafbranch:to:model\x93"
    b"\xa1i\xa4null\xc4\x00\x81\xa8messages\x92\xa1m\xd9$\x83\xa6source\xa5input\xa4step\xa7parents\x80"
    b"\x82\xa9__start__\x93\xa1i\xa7msgpack\xc5\x81\xa8messages\x91\xc8"
)


class Removed(clew.NotFoundError):
    """The messages are gone that this is not readable without: a rule removed them, or a purge of a session
    with which they were shared."""


class _Packed(msgspec.Struct, array_like=True, frozen=True):
    entry: bytes
    """An id, in fewer bytes."""
    count: int
    """Of the entries, the last of which is `entry`, whose text it was packed against; 0: none."""
    content: bytes


def packed(name: str, document: bytes, entry: str = "", raws: Sequence[bytes] = ()) -> bytes:
    """A document without what these messages, which were appended together, say; or as it is."""
    if sum(map(len, raws)) > _MOST_WORDS:
        entry, raws = "", ()
    if not _SMALLEST <= len(document) <= MAX_MESSAGE_BYTES:
        return document
    content = _zstd().compress(document, _LEVEL, zstd_dict=_dictionary(name, entry, raws))
    smaller = PACKED + msgspec.msgpack.encode(_Packed(_short(entry), len(raws), content))
    return smaller if len(smaller) < len(document) else document


def opened(session: clew.Session, name: str, document: bytes) -> bytes:
    """The document as it was before it was packed, if it was. Raises Removed."""
    if document[:1] != PACKED:
        return document
    found = msgspec.msgpack.decode(document[1:], type=_Packed)
    entry = _long(found.entry)
    try:
        entries = list(session.entries(at=entry, last=found.count)) if found.count else []
    except clew.NotFoundError as error:
        raise Removed(f"messages of {name!r} in thread {session.id!r} were purged") from error
    if any(each.kind != "message" for each in entries):
        raise Removed(f"messages of {name!r} in thread {session.id!r} were removed by a retention rule")
    known = _dictionary(name, entry, [each.raw for each in entries])
    zstd = _zstd()
    try:
        # The size stands in the header: looked at first, so that no forged frame fills the memory.
        size = zstd.get_frame_info(found.content).decompressed_size
        if size is None or size > MAX_MESSAGE_BYTES:
            raise clew.CorruptError(f"document {name!r} of thread {session.id!r} claims to have {size} bytes")
        return zstd.ZstdDecompressor(zstd_dict=known).decompress(found.content, size)  # type: ignore[no-any-return]
    except zstd.ZstdError as error:
        raise clew.CorruptError(f"document {name!r} of thread {session.id!r} can not be read") from error


def needed_entry(document: bytes) -> str:
    """The entry that is needed to read a document; empty: none."""
    return _long(msgspec.msgpack.decode(document[1:], type=_Packed).entry) if document[:1] == PACKED else ""


def _short(entry: str) -> bytes:
    name, _, position = entry.rpartition(".")
    try:
        short = b"\0" + bytes.fromhex(name) + int(position).to_bytes(4)
    except (ValueError, OverflowError):
        return entry.encode()
    return short if _long(short) == entry else entry.encode()


def _long(entry: bytes) -> str:
    return f"{entry[1:-4].hex()}.{int.from_bytes(entry[-4:])}" if entry[:1] == b"\0" else entry.decode()


def _dictionary(name: str, entry: str, raws: Sequence[bytes]) -> Any:
    words = "\n".join(text for raw in raws for text in _texts(msgspec.json.decode(raw), 0))
    return _zstd().ZstdDict(words.encode() + entry.encode() + _ALWAYS + name.encode(), is_raw=True)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for each in value.values():
            yield from _texts(each, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for each in value:
            yield from _texts(each, depth + 1)


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
