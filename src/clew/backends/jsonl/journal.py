"""Transactions that touch several logs: written here first, so that all of them get it or none.

An intent is a line that names logs, places and lengths, and then what goes there. It is durable
before any of the logs is touched, so one sync serves them all; after a crash it is done again, which
changes nothing where it was done. When the journal has grown, the logs are synced and it is emptied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from xxhash import xxh3_64_hexdigest

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import Layout
from clew.core import lines
from clew.errors import OutcomeUnknownError

LONGEST: Final = 4 * 1024 * 1024

Part = tuple[str, int, bytes]
"""(log, offset, what to write there)"""


class NotUndoneError(Exception):
    """A write failed, and what it left could not be taken away: the logs must be read again."""


class Intent(msgspec.Struct, frozen=True, tag_field="kind", tag="intent"):
    """(log, offset, length, checksum) of each part; the parts follow."""

    parts: tuple[tuple[str, int, int, str], ...]


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
        head = lines.finish(msgspec.json.encode(Intent(named))[1:], is_last=True)
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
            if self._durable:
                disk.sync(handle)
        except OSError as exc:
            raise NotUndoneError from exc

    def take_back(self, before: int) -> None:
        """Undo the newest intent: its logs can not be written."""
        handle = disk.open_for_patching(self._layout.journal)
        try:
            disk.truncate(handle, before)
            if self._durable:
                disk.sync(handle)
        finally:
            disk.close(handle)

    def replay(self) -> None:
        """Do again what the logs may lack, then empty the journal, whatever it looks like."""
        if not self._layout.journal.exists():
            return
        for parts in self._intents():
            for name, at, data in parts:
                self._patch(name, at, data)
        self.empty()
        self.take_back(0)

    def _patch(self, name: str, at: int, data: bytes) -> None:
        handle = disk.open_for_patching(self._layout.path(name))
        try:
            found = disk.read_at(handle, len(data), at)
            if found != data and not _begins_with_a_line(found):
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

    def empty(self) -> None:
        """Sync the logs that it speaks of, and forget it."""
        if not self._layout.journal.exists() or not self._layout.journal.stat().st_size:
            return
        if self._durable:
            names = {name for parts in self._intents(with_data=False) for name, _, _ in parts}
            for name in sorted(names):
                try:
                    handle = disk.open_for_patching(self._layout.path(name))
                    try:
                        disk.sync(handle)
                    finally:
                        disk.close(handle)
                except FileNotFoundError:
                    pass
            disk.sync_directory(self._layout.sessions)
            disk.sync_directory(self._layout.root)
        self.take_back(0)

    def _intents(self, *, with_data: bool = True) -> Iterator[list[Part]]:
        """The whole intents, in order. The first that is not whole is the end: it was never acknowledged."""
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
                parts: list[Part] = []
                for name, offset, length, recorded in intent.parts:
                    data = disk.read_at(handle, length, at)
                    at += length
                    if len(data) != length or xxh3_64_hexdigest(data) != recorded:
                        return
                    parts.append((name, offset, data if with_data else b""))
                yield parts
        finally:
            disk.close(handle)


def _begins_with_a_line(found: bytes) -> bool:
    """Whether the log has a whole line there: then it went on without this intent."""
    end = found.find(b"\n")
    if end < 0:
        return False
    try:
        lines.open_line(found[:end])
    except lines.BadLineError:
        return False
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
