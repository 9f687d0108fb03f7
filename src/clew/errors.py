"""Every error that Clew raises, under one base.

    ClewError                     .code  a stable string   .retryable  may the same call succeed later?
    ├── NotFoundError             (LookupError)  StoreNotFoundError  SessionNotFoundError
    │                             SessionDeletedError  EntryNotFoundError  CheckpointNotFoundError
    │                             SnapshotNotFoundError  ObjectMissingError
    ├── ConflictError             SessionExistsError  AliasExistsError  HeadMovedError  KeyReusedError
    │                             InvalidTransitionError  OpenCallsError  LeaseHeldError  LeaseLostError
    │                             RestoreConflictError  SessionTakenError
    ├── InvalidError              (ValueError)  InvalidEntryError  InvalidQueryError  InvalidUrlError
    │                             RootRefusedError  RootNotNamedError
    ├── NothingToUndoError
    ├── CorruptError              CorruptSessionError  CorruptEntryError  UnreadableEntryError
    │                             BranchMissingError
    ├── VersionError              SchemaTooNewError  SchemaTooOldError
    ├── BackendError              StoreBusyError  BackendUnavailableError  DiskFullError  ReadOnlyError
    │                             OutcomeUnknownError  QuotaExceededError  RestoreFailedError
    │                             AccessDeniedError
    ├── UnsupportedError
    └── StoreClosedError

The message says what happened, with the values; the docstring says what to do next. The errors of
drivers never leak: they are the `__cause__` of one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar


class ClewError(Exception):
    """Base of every error that Clew raises."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False


class NotFoundError(ClewError, LookupError):
    """The store does not have what was asked for."""

    code = "not_found"


class StoreNotFoundError(NotFoundError):
    """There is nothing at this address to be read. Open it without `read_only` to create it."""

    code = "store_not_found"

    def __init__(self, location: str) -> None:
        super().__init__(f"no store at {location}")
        self.location = location


class SessionNotFoundError(NotFoundError):
    """No session has this id or alias. `store.session(id)` would create it."""

    code = "session_not_found"

    def __init__(self, session: str) -> None:
        super().__init__(f"no session {session!r}")
        self.session = session


class SessionDeletedError(NotFoundError):
    """The session behind this handle was deleted. `store.restore_deleted(id)` brings it back from
    the trash; a purged session is gone."""

    code = "session_deleted"

    def __init__(self, session: str) -> None:
        super().__init__(f"session {session!r} was deleted; store.restore_deleted() may bring it back")
        self.session = session


class EntryNotFoundError(NotFoundError):
    """No such entry in this session's tree. `s.entries()` lists the entries of the path."""

    code = "entry_not_found"

    def __init__(self, session: str, entry: object) -> None:
        super().__init__(f"session {session!r} has no entry {entry!r}")
        self.session = session
        self.entry = entry


class CheckpointNotFoundError(NotFoundError):
    """No such checkpoint, entry or position to go to. `s.checkpoints()` lists the names."""

    code = "checkpoint_not_found"

    def __init__(self, session: str, checkpoint: object, message: str | None = None) -> None:
        noun = "position" if type(checkpoint) is int else "checkpoint or entry"
        super().__init__(message or f"session {session!r} has no {noun} {checkpoint!r}")
        self.session = session
        self.checkpoint = checkpoint


class SnapshotNotFoundError(NotFoundError):
    """No such snapshot, or the checkpoint has no files. `store.snapshots()` lists them."""

    code = "snapshot_not_found"

    def __init__(self, snapshot: object, message: str | None = None) -> None:
        super().__init__(message or f"no snapshot {snapshot!r}")
        self.snapshot = snapshot


class ObjectMissingError(NotFoundError):
    """A part of a snapshot is not in the store; nothing was written in its place. `store.verify()`
    says what else is missing."""

    code = "object_missing"

    def __init__(self, name: str) -> None:
        super().__init__(f"the object {name} is not in the store")
        self.name = name


class ConflictError(ClewError):
    """The store is not in the state that the call expected. Read again, then decide."""

    code = "conflict"


class SessionExistsError(ConflictError):
    """A session, or an alias, has this id already. `store.session(id)` opens it."""

    code = "session_exists"

    def __init__(self, session: str, alias_of: str | None = None) -> None:
        taken = "exists already" if alias_of is None else f"cannot be made: this is an alias of {alias_of!r}"
        super().__init__(f"session {session!r} {taken}")
        self.session = session


class SessionTakenError(ConflictError):
    """A framework asked for a session that is not its own; nothing was written. Give the conversation
    another id."""

    code = "session_taken"

    def __init__(self, session: str, framework: str, owner: str | None) -> None:
        if owner is not None:
            told = f"session {session!r} belongs to {owner}, not to {framework}: use another id"
        else:
            told = (
                f"session {session!r} holds what {framework} did not write: use another id; or, if its "
                f"messages are of {framework}, set 'framework': {framework!r} in the metadata of the session"
            )
        super().__init__(told)
        self.session = session
        self.framework = framework
        self.owner = owner


class AliasExistsError(ConflictError):
    """The alias leads elsewhere. `s.add_alias(alias, move=True)` moves it here, unless it is the id of a
    session: that stays where it is."""

    code = "alias_exists"

    def __init__(self, alias: str, session: str) -> None:
        known = f"alias {alias!r} leads to session {session!r}; pass move=True to move it"
        super().__init__(
            known if alias != session else f"{alias!r} is the id of a session, so it can be no alias"
        )
        self.alias = alias
        self.session = session


class HeadMovedError(ConflictError):
    """Another writer moved the head since `expected` was read; nothing was written. Read `s.head`
    again and decide, or `s.fork(at=expected)` and go on there."""

    code = "head_moved"

    def __init__(self, expected: object, actual: object) -> None:
        super().__init__(f"the head is {actual}, not {expected} as expected; nothing was written")
        self.expected = expected
        self.actual = actual


class KeyReusedError(ConflictError):
    """The idempotency key, or the id of an event or of a model call, stands for something else
    already; nothing was written. Choose one that names this alone."""

    code = "key_reused"

    def __init__(self, session: str, key: str, what: str = "key") -> None:
        super().__init__(
            f"{what} {key!r} of session {session!r} was used for something else; nothing was written"
        )
        self.session = session
        self.key = key


class InvalidTransitionError(ConflictError):
    """A run cannot start on a closed session; nothing was changed. `s.reopen()` makes it pending again."""

    code = "invalid_transition"

    def __init__(self, session: str, was: str, wanted: str) -> None:
        super().__init__(f"session {session!r} is {was}; it cannot become {wanted}")
        self.session = session
        self.was = was
        self.wanted = wanted


class OpenCallsError(ConflictError):
    """Tool calls still wait for their results, so no provider would accept the history as it is.
    Append the results first, or pass `force=True`."""

    code = "open_calls"

    def __init__(self, session: str, calls: Sequence[str]) -> None:
        super().__init__(f"session {session!r} waits for the results of {', '.join(calls)}")
        self.session = session
        self.calls = tuple(calls)


class LeaseHeldError(ConflictError):
    """Another worker holds the session. Wait (`s.run(wait=60)`), fork, write all the same
    (`s.outside_lease()`), or take the lease away (`s.run(steal=True)`)."""

    code = "lease_held"
    retryable = True

    def __init__(
        self, session: str | None, owner: str, expires_at: datetime, message: str | None = None
    ) -> None:
        moment = expires_at.isoformat(timespec="milliseconds")
        held = message or f"{owner} holds the lease of session {session!r}"
        super().__init__(f"{held} until {moment} unless it renews it")
        self.session = session
        self.owner = owner
        self.expires_at = expires_at


class LeaseLostError(ConflictError):
    """The run's lease is not in force any more: it ended, or another worker took over. Nothing was
    written. `messages` are those that were not: `s.fork()` and append them there, or drop them."""

    code = "lease_lost"

    def __init__(
        self,
        session: str | None,
        epoch: int,
        now: int,
        owner: str | None = None,
        message: str | None = None,
    ) -> None:
        by = f": {owner} took over with epoch {now}" if owner else ""
        lost = message or f"the lease of session {session!r}"
        super().__init__(f"{lost} with epoch {epoch} is not in force any more{by}")
        self.session = session
        self.epoch = epoch
        self.current_epoch = now
        self.owner = owner
        self.messages: tuple[dict[str, Any], ...] = ()


class RestoreConflictError(ConflictError):
    """Files changed since the last snapshot, and `on_conflict="refuse"` was asked for; nothing was
    touched. "keep" leaves them as they are, "overwrite" keeps their content in the safety snapshot."""

    code = "restore_conflict"

    def __init__(self, root: str, conflicts: Sequence[str]) -> None:
        shown = ", ".join(map(repr, conflicts[:5])) + (", …" if len(conflicts) > 5 else "")
        files = "1 file" if len(conflicts) == 1 else f"{len(conflicts)} files"
        super().__init__(f"{files} in {root} changed since the last snapshot: {shown}")
        self.root = root
        self.conflicts = tuple(conflicts)


class InvalidError(ClewError, ValueError):
    """An argument is not valid. The message names it and what is accepted."""

    code = "invalid"


class InvalidEntryError(InvalidError):
    """A message that no backend could give back unchanged: not JSON, too deep, or too large. `path` leads to
    the value to change."""

    code = "invalid_entry"

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.path = path


class InvalidQueryError(InvalidError):
    """A filter, cursor or limit is not valid. The message names it and what is accepted."""

    code = "invalid_query"


class InvalidUrlError(InvalidError):
    """No backend understands this store address."""

    code = "invalid_url"


class RootRefusedError(InvalidError):
    """This directory is not one to take a snapshot of, or to restore into: the root of a drive, a home
    directory, something that is no directory. `force=True` takes a home directory all the same."""

    code = "root_refused"

    def __init__(self, root: str, reason: str) -> None:
        super().__init__(f"{root!r} is refused: {reason}" if root else reason)
        self.root = root
        self.reason = reason


class RootNotNamedError(RootRefusedError):
    """A store names a directory in which this user did not work with it on this machine, or none, as an
    import does (`root` is empty). A store may come from anybody, so it is neither written nor read there:
    name the directory in the call."""

    code = "root_not_named"


class NothingToUndoError(ClewError):
    """There is no operation left to undo, or to redo."""

    code = "nothing_to_undo"

    def __init__(self, session: str, what: str = "undo") -> None:
        super().__init__(f"session {session!r} has nothing to {what}")
        self.session = session


class CorruptError(ClewError):
    """Stored bytes are not what was written. Nothing was changed; other sessions are unharmed."""

    code = "corrupt"


class CorruptSessionError(CorruptError):
    """The stored row of a session is damaged. `store.repair()` saves what can be read of it;
    `store.delete(id, purge=True)` removes it."""

    code = "corrupt_session"

    def __init__(self, session: str, reason: str) -> None:
        super().__init__(f"session {session!r} is damaged: {reason}")
        self.session = session
        self.reason = reason


class BranchMissingError(CorruptError, KeyError):
    """A branch that something leads to is not there: it was purged just now, or is lost. `store.verify()`
    says what else is."""

    code = "branch_missing"
    __str__ = Exception.__str__

    def __init__(self, branch: int) -> None:
        super().__init__(f"branch {branch} is missing")
        self.branch = branch


class CorruptEntryError(CorruptError):
    """One entry is damaged. `s.entries(damaged="skip")` reads the others."""

    code = "corrupt_entry"

    def __init__(self, source: str, position: int, reason: str) -> None:
        super().__init__(f"entry {position} of branch {source} is damaged: {reason}")
        self.source = source
        self.position = position
        self.reason = reason


class UnreadableEntryError(CorruptEntryError):
    """The system does not give the file that holds an entry: a failing disk, or missing permissions. That
    is no proof of damage. See to it, and try again; `s.entries(damaged="skip")` reads what can be read."""

    code = "unreadable_entry"
    retryable = True

    def __init__(self, source: str, position: int, reason: str) -> None:
        super().__init__(source, position, reason)
        self.args = (f"entry {position} of branch {source} cannot be read: {reason}",)


class VersionError(ClewError):
    """The store was written by another version of Clew."""

    code = "version"


class SchemaTooNewError(VersionError):
    """A newer Clew wrote this store; nothing was changed. Upgrade Clew to open it."""

    code = "schema_too_new"

    def __init__(self, location: str, found: int, known: int, written_by: str = "") -> None:
        by = f"Clew {ascii(written_by[:40])[1:-1]}" if written_by else "a newer Clew"
        super().__init__(
            f"{location} has format version {found}, written by {by}; this version of Clew knows up to"
            f" {known}: upgrade Clew"
        )
        self.location = location
        self.found = found
        self.known = known
        self.written_by = written_by
        """The version of Clew that wrote it; empty: it does not say."""


class SchemaTooOldError(VersionError):
    """A checkout of Clew from before its first release wrote this store; nothing was changed. Export its
    sessions with that checkout, and import them here."""

    code = "schema_too_old"

    def __init__(self, location: str, found: int) -> None:
        super().__init__(
            f"{location} has format version {found} as checkouts of Clew before 0.1.0 wrote it, which this"
            " version cannot read; nothing was changed. With the checkout that wrote it, run"
            " `clew export --all`; then run `clew import` here on what it wrote"
        )
        self.location = location
        self.found = found


class BackendError(ClewError):
    """The storage below refused or failed."""

    code = "backend"


class StoreBusyError(BackendError):
    """Others held the store for the whole time-out. The message says what is not done: try again."""

    code = "store_busy"
    retryable = True


class BackendUnavailableError(BackendError):
    """The storage could not be reached or opened."""

    code = "backend_unavailable"
    retryable = True


class DiskFullError(BackendError):
    """No space to write; nothing was written and all that is stored can be read. Free some space;
    the same store object then writes again."""

    code = "disk_full"
    retryable = True


class ReadOnlyError(BackendError):
    """The store can be read, not written."""

    code = "read_only"


class AccessDeniedError(BackendError):
    """The server does not accept the token, or the token does not allow this. Pass another one: `token=…`, or
    the environment variable CLEW_TOKEN; `clew token add NAME --scope store` on the server makes one."""

    code = "access_denied"


class OutcomeUnknownError(BackendError):
    """The write may or may not have happened. Repeat it with the same `key=`: it happens once."""

    code = "outcome_unknown"
    retryable = True


class QuotaExceededError(BackendError):
    """A snapshot would be larger than its limits allow, or than the disk has room for; nothing was
    kept of it. Exclude something, raise the limit, or free space with `store.gc()`."""

    code = "quota_exceeded"


class SnapshotFailedError(BackendError):
    """Files of a directory could not be read, as by a failing disk or a lost network: `paths` below `root`.
    No snapshot was kept, and no checkpoint set. `exclude=` leaves such files out."""

    code = "snapshot_failed"

    def __init__(self, root: str, paths: Sequence[str]) -> None:
        named = ", ".join(map(repr, paths[:5])) + (", …" if len(paths) > 5 else "")
        super().__init__(
            f"{root!r} was not kept: {len(paths)} {'file' if len(paths) == 1 else 'files'} could not be read"
            f" ({named}); mend the disk, or leave them out with exclude="
        )
        self.root = root
        self.paths = tuple(paths)


class RestoreFailedError(BackendError):
    """Files could not be restored; `report` says what was done to every path. One that stopped half-way
    is in `store.pending_restores()`: `store.finish_restore()` goes on with it, `store.undo_restore()`
    goes back. After a rewind in which single files failed, `s.undo()` brings head and files back."""

    code = "restore_failed"

    def __init__(self, message: str, report: object) -> None:
        super().__init__(message)
        self.report = report


class UnsupportedError(ClewError):
    """This backend lacks an optional power, named in `capability`."""

    code = "unsupported"

    def __init__(self, capability: str, backend: str) -> None:
        super().__init__(f"the {backend} backend has no {capability}")
        self.capability = capability


class StoreClosedError(ClewError):
    """The store was closed. Open it again with `clew.open()`."""

    code = "store_closed"

    def __init__(self, location: str) -> None:
        super().__init__(f"the store {location} is closed")
