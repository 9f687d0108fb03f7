"""Transactions that touch several logs: written here first, so that all of them get it or none.

An intent is a line that names logs, places and lengths, and then what goes there. It is durable
before any of the logs is touched, so one sync serves them all; after a crash it is done again, which
changes nothing where it was done. When the journal has grown, the logs are synced and it is emptied.

So an intent that is in the journal is the truth about its part of a log, whatever that holds. What is
taken back is therefore gone for good, at every level of durability, before anything else is written there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from xxhash import xxh3_64_hexdigest

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.quarantine import copy_aside
from clew.core import lines
from clew.errors import OutcomeUnknownError

LONGEST: Final = 4 * 1024 * 1024
SECTOR: Final = 512
"""What a disk writes as a whole."""

Part = tuple[str, int, bytes]
"""(log, offset, what to write there)"""


class NotUndoneError(Exception):
    """A write failed, and what it left could not be taken away: the logs must be read again."""


class Intent(msgspec.Struct, frozen=True, tag_field="kind", tag="intent", omit_defaults=True):
    """(log, offset, length, checksum) of each part; the parts follow."""

    parts: tuple[tuple[str, int, int, str], ...]
    durable: bool = False
    """It was acknowledged as durable: its logs are synced before it goes, whoever empties the journal."""


_decode = msgspec.json.Decoder(Intent).decode


class Journal:
    """The journal of a store. Whoever calls holds the store's lock."""

    def __init__(self, layout: Layout, *, durable: bool) -> None:
        self._layout = layout
        self._durable = durable

    def add(self, parts: Sequence[Part]) -> int:
        """Write an intent and sync it; how long the journal was before.

        Raises with nothing added: OSError, or OutcomeUnknownError if it could not be synced (a crash may
        bring it back); or NotUndoneError.
        """
        named = tuple((name, at, len(data), xxh3_64_hexdigest(data)) for name, at, data in parts)
        head = lines.finish(msgspec.json.encode(Intent(named, self._durable))[1:], is_last=True)
        is_new = not self._layout.journal.exists()
        handle = disk.open_for_appending(self._layout.journal)
        try:
            before = disk.size(handle)
            is_written = False
            try:
                disk.write(handle, b"".join((head, *(data for _, _, data in parts))))
                is_written = True
                self._sync(handle, is_new=is_new)
            except BaseException as exc:
                self._undo(handle, before)
                if is_written and isinstance(exc, OSError):
                    raise OutcomeUnknownError(f"could not sync {self._layout.journal}: {exc}") from exc
                raise
        finally:
            disk.close(handle)
        return before

    def _sync(self, handle: int, *, is_new: bool) -> None:
        if self._durable:
            disk.sync(handle)
            if is_new:
                disk.sync_directory(self._layout.root)

    def _undo(self, handle: int, before: int) -> None:
        """It must be gone for sure: an intent that comes back would overwrite what is written next."""
        try:
            disk.truncate(handle, before)
            disk.sync(handle)
        except OSError as exc:
            raise NotUndoneError from exc

    def take_back(self, before: int) -> None:
        """Undo the newest intent: its logs can not be written."""
        self._shorten(before, sync=True)

    def _shorten(self, length: int, *, sync: bool) -> None:
        handle = disk.open_for_patching(self._layout.journal)
        try:
            disk.truncate(handle, length)
            if sync:
                disk.sync(handle)
        finally:
            disk.close(handle)

    def replay(self) -> None:
        """Do again what the logs may lack, then empty the journal, whatever it looks like."""
        if not self._layout.journal.exists():
            return
        for intent, pieces in self._intents():
            for (name, at, _, _), data in zip(intent.parts, pieces, strict=True):
                self._patch(name, at, data)
        self.empty()
        self._shorten(0, sync=self._durable)

    def _patch(self, name: str, at: int, data: bytes) -> None:
        """Let a log have its part, all of it: of a torn one any piece may be there."""
        handle = disk.open_for_patching(self._layout.path(name))
        try:
            found = disk.read_at(handle, len(data), at)
            if found != data:
                if not _is_torn(found, data, at):
                    copy_aside(self._layout, name, at, found)
                disk.write_at(handle, data, at)
        finally:
            disk.close(handle)

    def empty_if_long(self) -> None:
        try:
            is_long = self._layout.journal.stat().st_size > LONGEST
        except FileNotFoundError:
            return
        if is_long:
            self.empty()

    def empty(self, *, for_good: bool = False) -> None:
        """Sync the logs that it speaks of, and forget it. `for_good`: these are going to be changed where
        it speaks of them, so that it must not come back after a power cut."""
        if not self._layout.journal.exists() or not self._layout.journal.stat().st_size:
            return
        intents = [intent for intent, _ in self._intents()]
        is_durable = any(intent.durable for intent in intents)
        if is_durable:
            for name in sorted({part[0] for intent in intents for part in intent.parts}):
                self._sync_log(name)
            disk.sync_directory(self._layout.sessions)
            disk.sync_directory(self._layout.root)
        self._shorten(0, sync=is_durable or for_good)

    def _sync_log(self, name: str) -> None:
        try:
            handle = disk.open_for_patching(self._layout.path(name))
        except FileNotFoundError:
            return
        try:
            disk.sync(handle)
        finally:
            disk.close(handle)

    def _intents(self) -> Iterator[tuple[Intent, list[bytes]]]:
        """The whole intents, in order, with their parts. The first that is not whole is the end: it was
        never acknowledged."""
        try:
            handle = disk.open_for_reading(self._layout.journal)
        except FileNotFoundError:
            return
        try:
            at = 0
            while True:
                found = _intent_at(handle, at)
                if found is None:
                    return
                intent, at = found
                pieces: list[bytes] = []
                for _, _, length, recorded in intent.parts:
                    data = disk.read_at(handle, length, at)
                    at += length
                    if len(data) != length or xxh3_64_hexdigest(data) != recorded:
                        return
                    pieces.append(data)
                yield intent, pieces
        finally:
            disk.close(handle)


def _is_torn(found: bytes, data: bytes, offset: int) -> bool:
    """Whether there is nothing but sectors of `data`, and NULs where others did not arrive."""
    begin = 0
    while begin < len(found):
        end = begin + SECTOR - (offset + begin) % SECTOR
        piece = found[begin:end]
        if piece != data[begin : begin + len(piece)] and piece.strip(b"\0"):
            return False
        begin = end
    return True


def _intent_at(handle: int, at: int) -> tuple[Intent, int] | None:
    """The intent that begins there, and where its parts begin."""
    text = b""
    while b"\n" not in text:
        more = disk.read_at(handle, 64 * 1024, at + len(text))
        if not more:
            return None
        text += more
    line = text[: text.index(b"\n")]
    try:
        _, rest = lines.open_line(line)
        return _decode(b"{" + rest), at + len(line) + 1
    except (lines.BadLineError, msgspec.DecodeError):
        return None
