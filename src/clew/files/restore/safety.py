"""The safety snapshot of a restore: the present state, kept in the transaction that begins the restore."""

from __future__ import annotations

import os
from collections.abc import Collection
from types import TracebackType
from typing import TYPE_CHECKING

from clew.backends.contract import Transaction
from clew.errors import ObjectMissingError
from clew.files import records
from clew.files.objects.overlay import Overlay
from clew.files.records import CollectedError, Shelf
from clew.files.roots import check_root
from clew.files.snapshot.ignore import GIT

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.files.objects.store import ObjectReader
    from clew.files.signatures import OwnWork
    from clew.files.snapshot.taking import Rules, Taken, Taker
    from clew.model.files import KeptReason


class Safety:
    """Taken before the plan is made, put when it is known that there is something to do."""

    def __init__(
        self,
        engine: Engine,
        taker: Taker,
        objects: ObjectReader,
        place: str,
        rules: Rules,
        shelf: Shelf,
        *,
        own: OwnWork,
        sessions: int,
        force: bool,
    ) -> None:
        """`own` signs it. `sessions`: the tree of the session whose head moves with the restore."""
        self.objects = Overlay(objects)
        """Reads what is stored, and what was taken."""
        self._engine = engine
        self._taker = taker
        self._place = place
        self._rules = rules
        self._shelf = shelf
        self._own = own
        self._sessions = sessions
        self._force = force
        self._taken: Taken | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(exc, Exception) and self._taken is not None:
            self._taken.store_packs()
        if isinstance(exc, ObjectMissingError):
            self._refuse_if_collected(exc)

    def _refuse_if_collected(self, exc: ObjectMissingError) -> None:
        """No record names yet what was taken: `gc` may have removed it before the plan was made."""
        with self._engine.read() as reader:
            if records.shelf_of(reader).collected != self._shelf.collected:
                raise CollectedError(f"objects were removed while {self._place} was looked at") from exc

    @property
    def id(self) -> str:
        assert self._taken is not None
        return self._taken.snapshot.id

    def take(self, also: Collection[bytes]) -> tuple[str, bytes]:
        """Look at the present state, with these paths whatever is ignored: (id, tree)."""
        if self._taken is not None:
            self._taken.store_packs()  # the next scan asks the store for them
        check_root(self._place, force=self._force)  # once more: it may have been made just now
        self._taken = self._taker.take(self._place, "safety", self._rules, self._shelf, also)
        self.objects.lay(self._taken.packs)
        return self.id, bytes.fromhex(self._taken.snapshot.tree)

    def look(self, also: Collection[bytes]) -> bytes:
        """The tree of the present state, for a dry run: no record will be kept of it."""
        self._taken = self._taker.look(self._place, self._rules, also, "safety")
        return bytes.fromhex(self._taken.snapshot.tree)

    def left_out(self) -> dict[bytes, KeptReason]:
        """What is there and was not taken, and why; empty if there is no such directory yet."""
        if self._taken is None:
            return {}
        skipped = {os.fsencode(one.path): one.reason for one in self._taken.snapshot.skipped}
        ignored = {path: _reason(path) for path in self._taken.ignored}
        return {**ignored, **skipped}

    def put(self, tx: Transaction) -> None:
        assert self._taken is not None
        taken = self._taken.snapshot
        signature = self._own.sign_snapshot(taken)
        records.put(tx, taken, self._shelf, sessions=self._sessions, signature=signature)
        self._taken.add_packs(tx)


def _reason(path: bytes) -> KeptReason:
    return "repository" if path == os.fsencode(GIT) else "ignored"
