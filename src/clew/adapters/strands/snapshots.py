"""Snapshots of Strands agents, taken apart: the messages go to the log, once, and the rest is small.

A snapshot is JSON text with the whole conversation in it, and is written anew at each save. Its bytes are cut
here, never parsed and made again, so that they can be put together as they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from blake3 import blake3

import clew

BEGINNING: Final = clew.Head("", -1)
_COMMA: Final = b", "
_BEGIN: Final = re.compile(
    rb'\{"scope": "agent", "schema_version": "[^"\\\n]*", "created_at": "[^"\\\n]*", "data": \{"messages": \['
)
_scan: Final = json.JSONDecoder().raw_decode


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Which messages of the log a snapshot has: those behind `after` on the path to (branch, position)."""

    branch: str
    position: int
    after: int
    """-1: from the first on."""

    @property
    def head(self) -> clew.Head:
        return clew.Head(self.branch, self.position)


class Text(msgspec.Struct, frozen=True, array_like=True):
    """What the log holds of the snapshot that was written last: enough to see if the next goes on there."""

    place: Place
    length: int
    digest: str
    """Of the messages as they stand in the snapshot."""


class Plan(NamedTuple):
    """How a snapshot gets into the log."""

    rewind: clew.Head | int | None
    """Where to go before anything is appended; None: stay."""
    new: list[bytes]
    after: int
    end: int
    """Where the messages end in the snapshot."""
    digest: str
    """Of all messages in it."""


class Step(NamedTuple):
    """A message of the log."""

    position: int
    raw: bytes


def begin_of(data: bytes) -> int | None:
    """Where the messages begin in a snapshot of an agent; None: it is something else."""
    found = _BEGIN.match(data)
    return None if found is None else found.end()


def going_on(data: bytes, begin: int, text: Text) -> Plan | None:
    """The plan for a snapshot that has all messages of the last one, and perhaps some more."""
    old = begin + text.length
    hasher = blake3(memoryview(data)[begin:old])
    if len(data) < old or hasher.hexdigest() != text.digest:
        return None
    found = _messages(data, old, is_first=not text.length)
    if found is None:
        return None
    messages, end = found
    return Plan(None, messages, text.place.after, end, hasher.update(memoryview(data)[old:end]).hexdigest())


def starting_anew(data: bytes, begin: int, log: Sequence[Step]) -> Plan | None:
    """The plan for any other snapshot. It shares the longest run of messages that begins as it does: where
    a window slides, the log keeps what left it; where something was changed, a branch begins."""
    found = _messages(data, begin, is_first=True)
    if found is None:
        return None
    messages, end = found
    digest = blake3(memoryview(data)[begin:end]).hexdigest()
    start, shared = _aligned(messages, log)
    if not shared:
        return Plan(BEGINNING if log else None, messages, -1, end, digest)
    after = log[start].position - 1
    is_tip = start + shared == len(log)
    back_to = None if is_tip else log[start + shared - 1].position
    return Plan(back_to, messages[shared:], after, end, digest)


def _aligned(messages: Sequence[bytes], log: Sequence[Step]) -> tuple[int, int]:
    """Where in the log the messages begin, and how many of them are there."""
    best = (0, 0)
    for start, step in enumerate(log):
        if not messages or step.raw != messages[0]:
            continue
        shared = 0
        for given, kept in zip(messages, log[start:], strict=False):
            if given != kept.raw:
                break
            shared += 1
        if shared > best[1]:
            best = (start, shared)
    return best


def _messages(data: bytes, begin: int, *, is_first: bool) -> tuple[list[bytes], int] | None:
    """The messages from here on, and where their list ends; None: this is no such list."""
    try:
        text = data[begin:].decode()
        found: list[bytes] = []
        at, end = 0, begin
        while not text.startswith("]", at):
            if found or not is_first:
                if not text.startswith(", ", at):
                    return None
                at += 2
            value, until = _scan(text, at)
            if not isinstance(value, dict):
                return None
            found.append(text[at:until].encode())
            at = until
    except (ValueError, RecursionError):
        return None
    end += sum(map(len, found)) + len(_COMMA) * (len(found) - is_first if found else 0)
    return found, end


def is_another(one: bytes, other: bytes) -> bool:
    """Not the same message with other words: Strands gives each an id that stays."""
    ids = [json.loads(raw).get("tracking_id") for raw in (one, other)]
    return None not in ids and ids[0] != ids[1]


def joined(raws: Sequence[bytes]) -> bytes:
    return _COMMA.join(raws)
