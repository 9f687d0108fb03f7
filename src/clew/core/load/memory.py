"""What a session remembers of the source that it was loaded from: which of its entries are here, and where.

The names of a source's entries lie in records of kind "key", one for each batch: they are keys by which
something was appended once. A batch is a few runs of entries, each on one branch; so a name costs its own
bytes, and no record of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec
from blake3 import blake3

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.points import find
from clew.core.log.ids import MAX_POSITION
from clew.core.log.records import decoder
from clew.core.log.rows import SessionRow
from clew.errors import ConflictError
from clew.model import Head

PREFIX: Final = "clew load "
STATE: Final = PREFIX + "state"
_BITS: Final = MAX_POSITION.bit_length()

_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="deterministic").encode


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Entries at consecutive positions of a branch: a `KeyUse`, and the names of them."""

    uid: str
    first: int
    count: int
    digest: str
    names: tuple[str, ...]


class State(msgspec.Struct, frozen=True):
    """How the last load left the session."""

    head: Head = Head("", -1)
    settings: dict[str, str] = {}
    """Name by name, what stands for the value that was set: a value that differs is the user's."""
    ended: bool = False
    """The source was read to its end."""


class StateUse(msgspec.Struct, frozen=True, array_like=True):
    """A `KeyUse` that names the empty beginning, and the state."""

    uid: str
    first: int
    count: int
    digest: str
    state: State


_decode_runs: Callable[[bytes], list[Run]] = decoder(list[Run], "the record of an import")
_decode_state: Callable[[bytes], list[StateUse]] = decoder(list[StateUse], "the record of an import")


def sign(value: object) -> str:
    """What stands for a value in the state."""
    return blake3(_sorted(value)).hexdigest(8)


def packed(branch: int, position: int) -> int:
    """A place as one number, to be small. Those of entries one behind the other are consecutive."""
    return branch << _BITS | position


def unpacked(place: int) -> tuple[int, int]:
    return place >> _BITS, place & MAX_POSITION


class Memory:
    """The places of the entries that were loaded, by name."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.batches = 0
        self.state = State()

    def place(self, name: str) -> tuple[int, int] | None:
        """(branch, position)."""
        found = self.places.get(name)
        return None if found is None else unpacked(found)


def recall(reader: Reader, sid: int) -> Memory | None:
    """The memory of a session; None: it was never loaded."""
    value = reader.get_record(sid, "key", STATE)
    if value is None:
        return None
    memory = Memory()
    memory.state = _decode_state(value)[0].state
    after = batch_name(1)
    while found := reader.scan_records(sid, "key", after, batch_name(10**8 - 1), limit=64):
        for name, runs in found:
            _take(reader, memory, _decode_runs(runs))
            memory.batches += 1
            after = name + "\x01"
    return memory


def find_target(reader: Reader, id: str, *, rename: bool) -> tuple[str, SessionRow | None, Memory | None]:
    """The session that this source was loaded into, or the id for a new one."""
    for number in count(1):
        name = id if number == 1 else f"{id}~{number}"
        holder = find(reader, name)  # asked once: another process may make the session meanwhile
        row = holder if holder is not None else reader.find_session(name, deleted=True)
        if row is not None and row.id != name:
            row = None
        memory = None if row is None else recall(reader, row.sid)
        if memory is not None:
            return name, row, memory
        if holder is None:
            return name, None, None
        if not rename:
            raise ConflictError(
                f"the store has another session {name!r}; pass rename=True to give this one a new id"
            )
    raise AssertionError("not reached")


def _take(reader: Reader, memory: Memory, runs: Sequence[Run]) -> None:
    for run in runs:
        branch = reader.find_branch(run.uid)
        if branch is not None:
            start = packed(branch.branch, run.first)
            memory.places.update(zip(run.names, range(start, start + len(run.names)), strict=True))


def batch_name(number: int) -> str:
    return f"{PREFIX}{number:08d}"


def keep_runs(tx: Transaction, sid: int, number: int, runs: Sequence[Run]) -> None:
    tx.put_record(sid, "key", batch_name(number), _encode(runs))


def keep_state(tx: Transaction, sid: int, state: State) -> None:
    tx.put_record(sid, "key", STATE, _encode([StateUse("", 0, 0, "", state)]))


def settled(state: State, wanted: Mapping[str, object], present: Mapping[str, object]) -> dict[str, object]:
    """Those of the wanted values that are to be set: they are new, and the user set no others."""
    found = {}
    for name, value in wanted.items():
        before = state.settings.get(name)
        if sign(value) != before and (before is None or sign(present.get(name)) == before):
            found[name] = value
    return found
