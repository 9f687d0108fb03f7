"""Which directories a store may name by itself: those where the same user worked with it on this machine.

Whoever takes a snapshot, or begins a restore, signs what is kept of it: where that was, and which trees
belong to it. Only a directory that is signed so is used without being named in the call, to write as well as
to read. A store of somebody else, of another machine or of an older Clew is restored as any other, but the
caller has to say where.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from clew.errors import InvalidError, RootNotNamedError
from clew.files.roots import check_named
from clew.files.user_key import UserKey

if TYPE_CHECKING:
    from clew.core.engine.host import Here
    from clew.files.journal import Restore
    from clew.files.records import Kept
    from clew.model.files import Snapshot

NAME_IT: Final = "name a directory (root=, of a rewind files=; clew restore --to)"


class OwnWork:
    """Tells what this user did, on this machine, from what a store only says."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._key = UserKey()

    def sign_snapshot(self, snapshot: Snapshot) -> bytes:
        root, tree = os.fsencode(snapshot.root), bytes.fromhex(snapshot.tree)
        return self._key.sign("snapshot", snapshot.id, root, tree)

    def has_snapshot(self, id: str, kept: Kept) -> bool:
        """Whether it was taken where it says."""
        return bool(kept.root) and self._key.has_signed(kept.signature, "snapshot", id, kept.root, kept.tree)

    def sign_restore(self, record: Restore) -> bytes:
        return self._key.sign(*_essence(record))

    def has_restore(self, record: Restore) -> bool:
        """Whether it was begun where it says."""
        return self._key.has_signed(record.signature, *_essence(record))

    def is_in_the_way(self, record: Restore) -> bool:
        """Whether another restore has to wait for one that is not over: one of this user, or of a process
        that lives here. What others left, or made up, stops nobody."""
        holder, here = record.holder, self._here
        if holder is not None and holder.boot and holder.boot == here.me.boot and not here.is_gone(holder):
            return True
        return self.has_restore(record) or self._key.why_missing() is not None

    def check_restore(self, record: Restore, named: str | os.PathLike[str] | None) -> None:
        """RootNotNamedError: it is not ours, and the caller did not name its directory."""
        if named is not None:
            check_named(named)
            if os.fsencode(os.path.realpath(named)) != record.root:
                place = os.fsdecode(record.root)
                raise InvalidError(f"restore {record.id} was made in {place!r}, not in {os.fspath(named)!r}")
        elif not self.has_restore(record):
            raise self.refusal(f"restore {record.id}", record.root)

    def modes(self, record: Restore, modes: dict[bytes, int] | None) -> dict[bytes, int] | None:
        """Permissions that a restore wrote down; those of somebody else may keep others out, not let them
        in."""
        if modes is None or self.has_restore(record):
            return modes
        return {path: mode & 0o755 for path, mode in modes.items()}

    def refusal(self, what: str, root: bytes) -> RootNotNamedError:
        missing = self._key.why_missing()
        why = f" ({missing})" if missing else ""
        return RootNotNamedError(
            os.fsdecode(root),
            f"the store says that {what} was made there, but not by this user, on this machine{why}"
            "; pass it as root= (of a rewind as files=) if you mean it",
        )


def _essence(record: Restore) -> tuple[object, ...]:
    """All that says what a restore writes, and where. Its state changes, and in a copy its session."""
    return (
        "restore", record.id, record.root, record.snapshot, record.target, record.last, record.safety,
        record.now, record.paths, record.overwrite, record.clears, record.folders, record.blocked,
        record.modes, record.new_modes, record.token,
    )  # fmt: skip
