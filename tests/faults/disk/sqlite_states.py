"""Every state in which a crash may have left the files that SQLite wrote."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from tests.faults.disk.sqlite_log import Event

SECTOR: Final = 512
"""What a disk writes as a whole."""
EXHAUSTIVE: Final = 4
"""Up to so many unsynced writes, every combination is tried; of more, a fixed choice."""
SAMPLES: Final = 8


class CrashState(msgspec.Struct, frozen=True):
    """The files as a crash may have left them, and the marks made before it."""

    files: Mapping[str, bytes]
    marks: tuple[str, ...]
    story: str
    """What was lost, to be shown when this state is bad."""

    def write_to(self, directory: Path) -> None:
        for name, content in self.files.items():
            (directory / name).write_bytes(content)


class _Inode:
    """A file's content: what is safe, and what is still on its way."""

    def __init__(self, content: bytes = b"", *, is_new: bool = False) -> None:
        self.safe = content
        self.is_new = is_new
        self.pending: list[Event] = []


class _Model:
    """A disk as far as a crash is concerned: names lead to contents, and both arrive late."""

    def __init__(self, base: Mapping[str, bytes]) -> None:
        self.names: dict[str, list[_Inode | None]] = {
            name: [_Inode(content)] for name, content in base.items()
        }
        """For each name what it may lead to after a crash: what is safe first, what is newest last."""
        self.order: list[Event] = []

    def take(self, event: Event) -> None:
        chain = self.names.setdefault(event.file, [None])
        inode = chain[-1]
        if event.kind == "create":
            chain.append(_Inode(is_new=True))
        elif event.kind == "delete":
            chain.append(None)
            if event.offset:
                del chain[:-1]
        elif inode is None:  # a file that was there before the recording began
            chain[-1] = inode = _Inode()
        if inode is not None and event.kind in ("write", "truncate"):
            inode.pending.append(event)
            self.order.append(event)
        if inode is not None and event.kind == "sync":
            inode.safe, inode.pending = _applied(inode.safe, inode.pending), []
            # With the first sync of a new journal or log SQLite syncs the directory, hence all names.
            for names in self.names.values() if inode.is_new else [chain]:
                del names[:-1]
            inode.is_new = False
        newest = (chain[-1] for chain in self.names.values())
        live = {id(pending) for inode in newest if inode is not None for pending in inode.pending}
        self.order = [pending for pending in self.order if id(pending) in live]

    def files(self, survivors: Mapping[int, Event], *, old_names: bool = False) -> dict[str, bytes]:
        """The files when of the pending writes only these (by identity) arrived, perhaps torn."""
        found: dict[str, bytes] = {}
        for name, chain in self.names.items():
            inode = chain[0] if old_names else chain[-1]
            if inode is not None:
                arrived = [survivors[id(event)] for event in inode.pending if id(event) in survivors]
                found[name] = _applied(inode.safe, arrived)
        return found


def _applied(content: bytes, events: Sequence[Event]) -> bytes:
    if not events:
        return content
    result = bytearray(content)
    for event in events:
        if event.kind == "truncate":
            del result[event.offset :]
        end = event.offset + len(event.data)
        if len(result) < end:
            result += bytes(end - len(result))
        result[event.offset : end] = event.data
    return bytes(result)


def crash_states(
    events: Sequence[Event], base: Mapping[str, bytes] | None = None, *, seed: int = 0
) -> Iterator[CrashState]:
    """Every state (of many unsynced writes: a fixed choice) in which a crash may have left the disk.

    `base` holds the files that were there, safely, before the recording began. A state with fewer
    writes than another is made at the latest moment at which it is possible: when most is promised.
    """
    model = _Model(base or {})
    chooser = random.Random(seed)
    marks: tuple[str, ...] = ()
    seen: set[bytes] = set()
    for event in [*events, None]:
        if event is None or event.kind in ("sync", "delete", "create"):
            for story, files in _states_now(model, chooser):
                state = CrashState(files, marks, story)
                name = _digest(state)
                if name not in seen:
                    seen.add(name)
                    yield state
        if event is not None and event.kind == "mark":
            marks = (*marks, event.file)
        elif event is not None and not event.file.endswith("-shm"):  # no crash survives in -shm
            model.take(event)


def _states_now(model: _Model, chooser: random.Random) -> Iterator[tuple[str, dict[str, bytes]]]:
    pending = model.order
    for lost in _losses(len(pending), chooser):
        kept = {id(event): event for place, event in enumerate(pending) if place not in lost}
        yield f"lost {sorted(lost)} of {len(pending)} unsynced writes", model.files(kept)
        if not kept and any(len(chain) > 1 for chain in model.names.values()):
            yield "lost all unsynced writes and names", model.files(kept, old_names=True)
    for place, event in enumerate(pending):
        for part in _torn(event):
            story = f"write {place} of {len(pending)} torn to {len(part.data)} bytes at {part.offset}"
            for others in (pending[:place], pending):
                yield story, model.files({**{id(other): other for other in others}, id(event): part})


def _losses(count: int, chooser: random.Random) -> Iterator[frozenset[int]]:
    """Which of `count` writes may be lost together."""
    if count <= EXHAUSTIVE:
        for chosen in itertools.product((False, True), repeat=count):
            yield frozenset(place for place, lost in enumerate(chosen) if lost)
        return
    everything = frozenset(range(count))
    for place in range(count + 1):
        yield frozenset(range(place, count))  # all prefixes
    for place in range(count):
        yield frozenset({place})
        yield everything - {place}
    for _ in range(SAMPLES):
        yield frozenset(place for place in range(count) if chooser.random() < 0.5)


def _torn(event: Event) -> Iterator[Event]:
    """The first part, or the last part, of a write that crosses sectors."""
    first = (event.offset // SECTOR + 1) * SECTOR
    cuts = list(range(first, event.offset + len(event.data), SECTOR))
    for cut in sorted({*cuts[:1], *cuts[len(cuts) // 2 :][:1], *cuts[-1:]}):
        size = cut - event.offset
        yield msgspec.structs.replace(event, data=event.data[:size])
        yield msgspec.structs.replace(event, offset=cut, data=event.data[size:])


def _digest(state: CrashState) -> bytes:
    hasher = blake3(repr(state.marks).encode())
    for name, content in sorted(state.files.items()):
        hasher.update(f"\0{name}\0{len(content)}\0".encode())
        hasher.update(content)
    return hasher.digest()
