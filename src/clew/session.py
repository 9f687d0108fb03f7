"""A session: one conversation, as a handle that is cheap to make. All that it can do is in this file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, tzinfo
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Literal, ParamSpec, TypeVar, overload

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import history, points, records, sessions
from clew.core.conversation.append import MessageLike, appending, batch_of
from clew.core.conversation.points import Point
from clew.core.conversation.sessions import updated
from clew.core.engine.engine import Engine, EngineLike
from clew.core.log.ids import MAX_POSITION, MOST, check_after, check_count, check_id, check_limit
from clew.core.log.lease import Holder, parse_secret
from clew.core.log.records import json_in
from clew.core.log.rows import SessionRow
from clew.core.messages.codec import encode_json
from clew.core.runs import status
from clew.core.runs.access import Access
from clew.errors import (
    CheckpointNotFoundError,
    ClewError,
    CorruptEntryError,
    InvalidError,
    InvalidQueryError,
    LeaseHeldError,
)
from clew.model import (
    Checkpoint,
    Context,
    Entry,
    Event,
    EventCounts,
    Head,
    Json,
    LeaseInfo,
    Moved,
    MoveInfo,
    Outline,
    Resumption,
    SessionInfo,
    StatusChange,
    Tree,
    Usage,
    UsageGroup,
    UsageKey,
    UsageTotals,
)

if TYPE_CHECKING:
    from typing import Unpack

    from clew.core.conversation.fork import ForkedCheckpoints
    from clew.core.conversation.sessions import SessionSettings
    from clew.core.runs.lease import Bid
    from clew.core.streams.events import EventDraft
    from clew.files.rewind import WithFiles
    from clew.model.files import FileVersion, OnConflict, OnProgress, RestoreReport
    from clew.run import Run

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="Session")


class Session:
    """One conversation of a store.

    A handle holds no state: every call sees what is stored now, by whatever thread or process.
    Each call that changes something is durable when it returns, all of it or nothing.
    While a worker holds the lease of the session, other handles are refused with LeaseHeldError when they
    change the conversation, its status, its checkpoints or its variables.
    """

    # The methods that work inside `transact` and `read`, or inside `transact` only; as for `Store`.
    _READS: ClassVar = frozenset(
        {
            "checkpoints", "context", "count_events", "documents", "entries", "events", "get_checkpoint",
            "get_document", "get_var", "head", "info", "lease", "messages", "moves", "outline",
            "outside_lease", "resume", "status_changes", "summary", "tree", "usage", "usage_records", "vars",
        }
    )  # fmt: skip
    _WRITES: ClassVar = frozenset(
        {
            "add_alias", "add_event", "add_events", "add_usage", "annotate", "append", "checkpoint", "clear",
            "close", "compact", "complete", "delete_checkpoint", "delete_document", "delete_var", "fail",
            "follow", "fork", "new_fork_id", "redo", "remove_alias", "reopen", "replace", "rewind",
            "set_document", "set_metadata", "set_summary", "set_var", "start", "touch", "truncate", "turn",
            "undo", "update",
        }
    )  # fmt: skip

    def __init__(self, scope: EngineLike, access: Access) -> None:
        self._scope = scope
        self._held = access
        self._sid = access.sid
        self.id = access.id

    def __repr__(self) -> str:
        return f"<Session {self.id!r} in {self._scope.location}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and (self._sid, self._scope) == (other._sid, other._scope)

    def __hash__(self) -> int:
        return hash((self._sid, id(self._scope)))

    @property
    def _engine(self) -> Engine:
        """The whole engine: refused inside a transaction, where `_scope` is all there is."""
        return self._scope.outside("this", waits=False)

    @property
    def _access(self) -> Access:
        """The right by which this handle writes."""
        return self._held

    @property
    def _worker(self) -> str:
        """Whose name a change of status bears."""
        return self._scope.host.name

    def _handle(self, access: Access) -> Session:
        return self._scope.offered(Session)(self._scope, access)

    def _look(self) -> AbstractContextManager[tuple[Reader, SessionRow]]:
        """Read the session as it is now."""
        return history.look(self._scope, self._sid, self.id)

    def _write(
        self, work: Callable[Concatenate[Transaction, Access, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Commit one operation; durable when this returns."""
        access = self._access
        return self._scope.run(lambda tx: work(tx, access, *args, **kwargs))

    def _encoded(self, value: Json, what: str) -> bytes:
        """A JSON value as it is kept; `what` names it in errors."""
        encoded, redactor = encode_json(value, what=what), self._scope.redactor()
        return encoded if redactor is None else redactor.body(encoded)

    def _error_text(self, error: str | BaseException) -> str:
        text, redactor = status.error_text(error), self._scope.redactor()
        return text if redactor is None else redactor.text(text)

    # -- the session itself

    @property
    def info(self) -> SessionInfo:
        """Counts, times, title and all else that is known without reading messages."""
        with self._look() as (reader, row):
            run = reader.get_record(row.sid, "run", "")
            return sessions.info_of(reader, row, reader.get_details(self._sid), run)

    @property
    def head(self) -> Head:
        """Where the session stands now."""
        with self._look() as (reader, row):
            return points.head_of(reader, row.head)

    def update(self, **settings: Unpack[SessionSettings]) -> None:
        """Set what is given; None empties it. A title set here is never replaced by an automatic one;
        `title=None` brings that one back.

        `metadata` and `tags` replace those that are there. `expires_at` ("never": exempt from expiry) and
        `idle_timeout` (seconds, or a timedelta) come before the rules of the store.
        """
        changes = sessions.without_secrets(updated("update", settings), self._scope.redactor())
        self._write(sessions.update, changes)

    def set_metadata(self, **values: Json) -> None:
        """Set these keys of the metadata and keep the others; None removes a key.

        `update(metadata=…)` replaces all of them.
        """
        self._write(sessions.set_metadata, sessions.metadata_of(values, self._scope.redactor()))

    def touch(self) -> None:
        """Count as active now: first in listings, and not idle. For work on a session that adds no messages,
        as with documents."""
        self._write(sessions.touch, self._scope.now())

    def add_alias(self, alias: str, *, move: bool = False) -> None:
        """Give the session one more id to be found by. AliasExistsError if it leads elsewhere."""
        self._write(sessions.add_alias, check_id(alias, "alias"), move=move)

    def remove_alias(self, alias: str) -> bool:
        """False if the alias did not lead here."""
        return self._write(sessions.remove_alias, check_id(alias, "alias"))

    def outside_lease(self) -> Session:
        """The same session for writes that no lease shall stop, as a remark from outside."""
        return self._handle(Access(self._sid, self.id, self._scope.host, ignores_lease=True))

    # -- reading

    def messages(
        self,
        *,
        last: int | None = None,
        before: Point | None = None,
        after: Point | None = None,
        at: Point | None = None,
        newest_first: bool = False,
    ) -> list[dict[str, Json]]:
        """The full history on the path, whatever was compacted or truncated; yours to change.

        Args:
            last: Only so many, from the end.
            before: Only those before this point.
            after: Only those after this point.
            at: The path to this point of the tree, wherever the session stands; not the one to its head.
            newest_first: The other way round.
        """
        with self._look() as (reader, row):
            return history.messages(reader, row, last, before, after, at=at, newest_first=newest_first)

    def entries(
        self,
        *,
        last: int | None = None,
        before: Point | None = None,
        after: Point | None = None,
        at: Point | None = None,
        newest_first: bool = False,
        label: str | None = None,
        damaged: Literal["raise", "skip"] = "raise",
        on_damage: Callable[[CorruptEntryError], object] | None = None,
    ) -> Iterator[Entry]:
        """Messages and marks on the path, one by one, in bounded memory; with `at` on the path to that point.

        Entries that are appended while you iterate are not part of it. `damaged="skip"` leaves out entries
        that cannot be read instead of raising CorruptEntryError; `on_damage` is told of each.
        """
        pages = self._entry_pages(
            last=last,
            before=before,
            after=after,
            at=at,
            newest_first=newest_first,
            label=label,
            damaged=damaged,
            on_damage=on_damage,
        )
        return (entry for page in pages for entry in page)

    def _entry_pages(self, **options: Any) -> Iterator[list[Entry]]:
        """The entries in the lists in which they are read from storage. Takes the options of `entries`."""
        if options["damaged"] not in ("raise", "skip"):
            raise InvalidQueryError(f"damaged is 'raise' or 'skip', not {options['damaged']!r}")
        return history.pages(self._scope.read, self._sid, self.id, **options)

    def context(
        self,
        *,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[dict[str, Json]], int] | None = None,
        at: Point | None = None,
        repair: bool = True,
    ) -> Context:
        """The messages for a model: from the latest compaction or truncation on, inside the budget,
        every tool call with its result, well-formed whatever a crash left behind.

        A plain list of messages; its `report` says what was left out or repaired.

        Args:
            max_messages: How many at most.
            max_tokens: How many tokens at most.
            count_tokens: Counts the tokens of a message; default: an estimate.
            at: The context that the session would have if it stood at this point.
            repair: False: the messages as they are stored, with calls without results, and results
                without calls.
        """
        from clew.core.conversation.context import build

        with self._look() as (reader, row):
            return build(
                reader,
                history.standing_at(reader, row, at),
                max_messages,
                max_tokens,
                count_tokens,
                repairs=repair,
            )

    @property
    def summary(self) -> str | None:
        """The latest summary on the path."""
        from clew.core.conversation import marks

        with self._look() as (reader, row):
            return marks.summary(reader, row)

    def outline(self, *, at: Point | None = None) -> Outline:
        """The prompts of people, the compactions and the checkpoints on the whole path, a line for each; with
        `at` on the path to that point. Reads these entries only, and remembers them."""
        from clew.core.search.outline import Outlines

        # What is not committed yet must not be remembered.
        scope = self._scope
        outlines = scope.service(Outlines) if isinstance(scope, Engine) else Outlines()
        with self._look() as (reader, row):
            return outlines.read(reader, history.standing_at(reader, row, at))

    # -- writing

    def append(
        self,
        *messages: MessageLike,
        key: str | None = None,
        expect: Head | None = None,
        strict: bool = False,
        at: datetime | None = None,
    ) -> list[Entry]:
        """Append messages to the path, all of them or none; one entry comes back for each.

        Args:
            messages: JSON objects, or JSON texts of objects; kept byte for byte.
            key: Names this batch. A second append with the same key and the same messages writes
                nothing and returns the entries of the first, so it is safe to repeat after a failure.
            expect: Refuse with HeadMovedError unless the head is this one.
            strict: Refuse lone surrogates instead of replacing them.
            at: When they were said, with a time zone; default: now. For histories that are brought over
                from elsewhere. Their order is that of the appends, whatever the time; the last activity of
                the session is its newest time, but never in the future.

        An append without messages writes nothing.
        """
        work = self._appending(messages, key, expect, strict, at)
        return [] if work is None else self._scope.run(work)

    def _appending(
        self,
        messages: Sequence[MessageLike],
        key: str | None = None,
        expect: Head | None = None,
        strict: bool = False,
        at: datetime | None = None,
    ) -> Callable[[Transaction], list[Entry]] | None:
        """The operation of `append`, for a committer; None: there is nothing to append."""
        redactor = self._scope.redactor()
        return appending(self._access, messages, self._scope.now(), key, expect, strict, at, redactor)

    def append_nowait(
        self, *messages: MessageLike, key: str | None = None, strict: bool = False, at: datetime | None = None
    ) -> None:
        """Append some time soon, in the order of the calls. `store.flush()` waits, and raises failures."""
        engine = self._scope.outside("Session.append_nowait()")
        work = self._appending(messages, key=key, strict=strict, at=at)
        if work is not None:
            engine.post(work)

    def replace(
        self, messages: Sequence[MessageLike], *, user_turns: int | None = None, strict: bool = False
    ) -> list[Entry]:
        """Let the path hold these messages and no others; one entry comes back for each.

        The beginning that the old history and the new one share is kept, and only the rest is written: to
        save a growing list again and again costs no more than to append. The context is these messages,
        whatever was compacted or truncated before; the summary stays. The old history stays reachable:
        `undo()` goes back to where the session stood. The same messages again change nothing: no step.

        `user_turns` sets the counter of user turns, which otherwise counts those in `messages`.
        """
        from clew.core.conversation.replace import replace

        if isinstance(messages, (str, bytes, dict)):
            raise InvalidError(f"replace takes a list of messages, not {type(messages).__name__}")
        if user_turns is not None:
            check_count(user_turns, "user_turns", most=MAX_POSITION)
        batch = batch_of(messages, strict=strict, redactor=self._scope.redactor())
        return self._write(replace, batch, user_turns, self._scope.now())

    def clear(self) -> Head:
        """Start over with an empty path. The history stays reachable: `undo()` brings it back."""
        from clew.core.conversation import moves

        return self._write(moves.clear, self._scope.now())

    def truncate(self, keep_last: int) -> Entry | None:
        """Let `context()` begin with the last `keep_last` messages; `messages()` still gives all.

        Where the cut would part a tool call from its result, more is kept. None: nothing to cut.
        """
        from clew.core.conversation import marks

        return self._write(marks.truncate, check_count(keep_last, "keep_last"), self._scope.now())

    def compact(
        self,
        messages_or_text: str | Sequence[MessageLike],
        *,
        upto: Point | None = None,
        tokens: int | None = None,
    ) -> Entry:
        """Let `context()` begin with these messages instead of everything up to `upto` (the head).

        A text becomes one user message; with an empty list the model begins anew. Nothing is removed:
        `messages()` still gives all, and a rewind to before the compaction brings the old context back. Tool
        calls that still wait for their results are not compacted away.
        """
        from clew.core.conversation import marks

        digest = marks.digest_of(messages_or_text, tokens, self._scope.redactor())
        return self._write(marks.compact, digest, upto, self._scope.now())

    def set_summary(self, text: str | None) -> Entry:
        """Keep a summary of the conversation so far; it rewinds with the conversation."""
        from clew.core.conversation import marks

        draft = marks.summary_of(text, self._scope.redactor())
        return self._write(marks.set_summary, draft, self._scope.now())

    def annotate(self, entry: Point, **fields: Json) -> Entry:
        """Put fields beside an entry, never into it, for this session; None takes a field away.

        A fork takes along what its base has put there by then; later changes do not cross. Entries are found
        again by their `label`: `s.entries(label="…")`.
        """
        from clew.core.conversation import annotations

        return self._write(annotations.annotate, entry, annotations.fields_of(fields, self._scope.redactor()))

    @contextmanager
    def turn(self: H) -> Iterator[H]:
        """Appends inside the block are durable and visible as they come; an exception rewinds to where
        it began, so that no half turn stays on the path. `undo()` brings the aborted turn back."""
        began = self.head
        try:
            yield self
        except BaseException as failure:
            self._abort(began, failure)
            raise

    def _abort(self, began: Head, failure: BaseException) -> None:
        from clew.core.conversation import moves

        try:
            self._write(moves.abort, began, self._scope.now())
        except ClewError as exc:
            failure.add_note(f"the turn that failed stays on the path: {exc}")

    # -- points in time

    def checkpoint(
        self,
        name: str,
        *,
        state: Json = None,
        files: str | os.PathLike[str] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Checkpoint:
        """Name the head, to come back to; again: move the name.

        Args:
            name: Unique in the session.
            state: Any JSON value, kept beside it.
            files: A directory: its content is kept with the checkpoint, for `rewind(files=True)`.
            include: With `exclude` as for `store.snapshot`.

        SnapshotFailedError: the system failed to read a file, and no checkpoint was set. Other files that
        the snapshot does not hold are in `store.get_snapshot(checkpoint.snapshot).skipped`.
        """
        from clew.core.conversation.checkpoints import set_checkpoint

        check_id(name, "checkpoint name")
        encoded = self._encoded(state, "state")
        setting = partial(set_checkpoint, name=name, state=encoded, now=self._scope.now())
        return self._set_checkpoint(setting, files, include, exclude)

    def _set_checkpoint(
        self,
        setting: Callable[..., Checkpoint],
        files: str | os.PathLike[str] | None,
        include: Sequence[str],
        exclude: Sequence[str],
    ) -> Checkpoint:
        if files is None:
            return self._write(setting)
        from clew.files.rewind import checkpoint_with_files  # only stores with files pay for it

        engine = self._scope.outside("Session.checkpoint(files=…)")
        return checkpoint_with_files(engine, self._access, setting, files, include, exclude)

    def checkpoints(self) -> list[Checkpoint]:
        """Oldest first. Reads no messages."""
        from clew.core.conversation.checkpoints import list_checkpoints

        with self._look() as (reader, row):
            return list_checkpoints(reader, row)

    def get_checkpoint(self, name: str) -> Checkpoint:
        """CheckpointNotFoundError if there is none of this name."""
        from clew.core.conversation.checkpoints import find_checkpoint

        check_id(name, "checkpoint name")
        with self._look() as (reader, row):
            found = find_checkpoint(reader, row, name)
        if found is None:
            raise CheckpointNotFoundError(self.id, name, f"session {self.id!r} has no checkpoint {name!r}")
        return found

    def delete_checkpoint(self, name: str) -> bool:
        """Forget the name; False if there was none. The entries stay."""
        from clew.core.conversation.checkpoints import delete_checkpoint

        return self._write(delete_checkpoint, check_id(name, "checkpoint name"))

    def rewind(
        self,
        to: Point,
        *,
        files: WithFiles = False,
        on_conflict: OnConflict = "overwrite",
        dry_run: bool = False,
    ) -> Moved:
        """Go back to a checkpoint (or its name), an entry (or its id) or a position.

        What came after stays reachable; `undo()` goes back there.

        Args:
            to: Where to.
            files: True: also make the directory of the checkpoint (or of the last one with files before
                that point) what it was, if this user took it there, on this machine; or the directory to
                restore its files in. Head and files move together, and `undo()` brings both back.
            on_conflict: What to do with files that changed since the last snapshot, as for
                `store.restore`.
            dry_run: Only say where it would go, and what would be done to the files.

        What comes back is the new head; its `files` says what was restored, deleted and kept.
        RestoreFailedError if single files could not be restored: its `report` names them.
        """
        if files is not False:
            from clew.files.rewind import rewind_with_files  # only stores with files pay for it

            engine = self._scope.outside("Session.rewind(files=…)")
            return rewind_with_files(engine, self._access, to, files, on_conflict, dry_run=dry_run)
        from clew.core.conversation import moves

        if dry_run:
            with self._look() as (reader, row):
                return moves.moved_to(points.head_of(reader, history.standing_at(reader, row, to).head))
        return moves.moved_to(self._write(moves.rewind, to, self._scope.now()))

    def undo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        """Take back the last operation that was not an append: rewind, clear, replace, truncate,
        compact or set_summary; files that a rewind restored come back too. Survives restarts;
        NothingToUndoError at the end.

        Args:
            root: The directory of these files. It has to be named if another user restored them, or this
                user on another machine; else that is refused (RootNotNamedError).
            dry_run: Only say where it would go, and what would be done to the files.
        """
        return self._step("undo", root, dry_run=dry_run)

    def redo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        """Take back the last undo. `root` and `dry_run` as for `undo`."""
        return self._step("redo", root, dry_run=dry_run)

    def follow(self, *, dry_run: bool = False) -> Moved:
        """Go to where the agent stands that the session was imported from: `info.agent_branch.head`.

        From then on the head moves with what the agent writes, as before it was rewound here. `undo()` goes
        back. InvalidError if no agent's file was read into the session.

        Args:
            dry_run: Only say where it would go.
        """
        from clew.core.conversation import moves

        if dry_run:
            with self._look() as (reader, row):
                tip = points.tip_at(reader, *moves.agent_place(reader, row))
                return moves.moved_to(points.head_of(reader, tip))
        return moves.moved_to(self._write(moves.follow, self._scope.now()))

    def _step(
        self, what: Literal["undo", "redo"], root: str | os.PathLike[str] | None, *, dry_run: bool
    ) -> Moved:
        from clew.core.conversation import moves

        with self._look() as (reader, row):
            files = moves.files_of(reader, row, what)
            there = moves.next_head(reader, row, what) if dry_run else None
        if files is not None:
            from clew.files.rewind import step_with_files  # only stores with files pay for it

            engine = self._scope.outside(f"Session.{what}() of files")
            moved = step_with_files(engine, self._access, what, files, root, there=there)
            if moved is not None:
                return moved
        if there is not None:
            return moves.moved_to(there)
        return moves.moved_to(self._write(moves.undo if what == "undo" else moves.redo, self._scope.now()))

    def moves(self) -> list[MoveInfo]:
        """The history of moves, newest first: every operation that was not an append, each undo and redo
        too, and which of them `undo()` and `redo()` take back next. Reads no messages."""
        from clew.core.conversation import moves

        with self._look() as (reader, row):
            return moves.history(reader, row)

    def fork(
        self, id: str | None = None, *, at: Point | None = None, checkpoints: ForkedCheckpoints = "path"
    ) -> Session:
        """A new session that shares every entry up to `at` (the head): it costs the same however many.

        Checkpoints, variables and annotations are copied: they are its own from now on. Title, workspace,
        tags, metadata, model and expiry are those of this session; the star (the tag `starred`) is not
        inherited, and neither are aliases, events, usage and the list of undos. It starts pending, with its
        own runs.

        Args:
            id: What it is called; default: `<this id>#fork-<n>`.
            at: Where it begins.
            checkpoints: Which checkpoints are copied: those on the way to where it begins ("path"), or
                "all", with those that a rewind left ahead.
        """
        from clew.core.conversation.fork import check_checkpoints, fork

        given = None if id is None else check_id(id)
        taken = check_checkpoints(checkpoints)
        row = self._write(fork, given, at, self._scope.now(), checkpoints=taken)
        return self._handle(Access(row.sid, row.id, self._scope.host))

    def new_fork_id(self) -> str:
        """Return the id that `fork()` would give, `<this id>#fork-<n>`, without making a fork. The count is
        stored: no later call and no fork gets the same id."""
        from clew.core.conversation.fork import new_fork_id

        return self._write(new_fork_id)

    def tree(self) -> Tree:
        """Every branch, fork, checkpoint and head of this session and its relatives."""
        from clew.core.conversation.fork import tree

        with self._look() as (reader, row):
            return tree(reader, row)

    # -- runs

    def start(self, request: Json = None, *, task: str | None = None) -> None:
        """Set the status to running, without a lease; the outcome of the last run is cleared.

        Also if it is running already: then a new run begins. Of a closed session: InvalidTransitionError.
        """
        status.check_task(task)
        self._write(status.start, self._encoded(request, "request"), task, self._scope.now())

    def complete(self, response: Json = None) -> None:
        """End the run well. If none was started, one that began just now.

        The last word counts: after `fail` or another `complete` this outcome takes the place of that one;
        only, when it has completed already, no response leaves the one that is there.
        """
        self._write(status.complete, self._encoded(response, "response"), self._scope.now(), self._worker)

    def fail(self, error: str | BaseException) -> None:
        """End the run with an error: its text is kept. As `complete`, whatever the status was."""
        self._write(status.fail, self._error_text(error), self._scope.now(), self._worker)

    def close(self) -> None:
        """Set the status to closed: no run starts until `reopen()`. Everything is kept.

        A run that is under way ends. Its outcome can still be told later by `complete` or `fail`;
        the session stays closed.
        """
        self._write(status.close, self._scope.now(), self._worker)

    def reopen(self) -> None:
        """Make a closed or expired session pending again. One that is open stays as it is."""
        self._write(status.reopen, self._scope.now())

    def status_changes(self) -> list[StatusChange]:
        """Every change of status, oldest first, with who made it and when."""
        with self._look() as (reader, row):
            return status.changes(reader, row)

    @property
    def lease(self) -> LeaseInfo | None:
        """Who works on the session now; None: no worker, or one that is gone."""
        from clew.core.runs.lease import lease_info

        with self._look() as (reader, row):
            return lease_info(reader, row, self._scope.host)

    def run(
        self,
        request: Json = None,
        *,
        task: str | None = None,
        lease: float = 30.0,
        owner: str | None = None,
        wait: float | None = None,
        steal: bool = False,
        detached: bool = False,
    ) -> Run:
        """Take the lease of the session and start a run: `with s.run(request="fix it") as run:`.

        While the run lasts, only writes through it are accepted. Leaving the block completes it, an
        exception fails it. A thread renews the lease; when this process dies, another worker gets
        the lease at once on the same machine, else when it has run out.

        Args:
            request: Any JSON value; kept with the run.
            task: What kind of work it is.
            lease: For how many seconds the lease holds without being renewed.
            owner: Who works; default: host and process.
            wait: How many seconds to wait for a lease that another worker holds (math.inf: for ever);
                default: LeaseHeldError at once.
            steal: Take the lease even if a worker holds it, which gets LeaseLostError on its next write.
            detached: The worker is not this process, as when this one serves others: no thread renews the
                lease, and it outlives the process. The worker keeps `run.secret`, calls `run.renew()`, and
                `attach(secret)` goes on with the run in any process. Only time tells that it is gone.
        """
        from clew.core.runs.lease import Pauses, bid_of

        bid = bid_of(
            self._scope.host,
            request,
            task=task,
            lease=lease,
            owner=owner,
            steal=steal,
            detached=detached,
            redactor=self._scope.redactor(),
        )
        pauses = Pauses(wait)
        while True:
            try:
                return self._take(bid)
            except LeaseHeldError:
                pause = pauses.next()
                if pause is None:
                    raise
                time.sleep(pause)

    def _take(self, bid: Bid) -> Run:
        from clew.core.runs.lease import refuse_early, take
        from clew.run import Run  # a run is a session too

        engine = self._scope.outside("Session.run()")
        if not bid.steal:
            with engine.read() as reader:
                refuse_early(reader, self._access)
        lease = self._write(take, bid)
        return Run(engine, self._access, lease, bid.task, detached=bid.holder == Holder())

    def attach(self, secret: str) -> Run:
        """Go on with a detached run: `secret` is that of the run. LeaseLostError: its lease is not in force
        any more. No thread renews it; leaving the block of `with` ends the run, as ever."""
        from clew.core.runs.access import held_lease
        from clew.run import Run

        engine = self._scope.outside("Session.attach()")
        found = parse_secret(secret)
        if found is None:
            raise InvalidError("this is no secret of a run: `run.secret` has it")
        access = Access(self._sid, self.id, self._scope.host, *found)
        with self._look() as (reader, row):
            lease = held_lease(reader, access)
            run = status.run_of(reader, row.sid)
        return Run(engine, access, lease, run.task if run else None, detached=True)

    def resume(
        self, *, system_prompt: Json = None, tools_hash: str | None = None, model: str | None = None
    ) -> Resumption:
        """The newest checkpoint that a run set, with the messages up to it.

        CheckpointNotFoundError if there is none. What is given is compared with what the checkpoint
        was set with: see `changed`. To go on there, take the lease and rewind:

            with s.run(task="sync") as run:
                point = run.resume()
                run.rewind(point.head)
        """
        from clew.core.conversation.checkpoints import resume

        with self._look() as (reader, row):
            return resume(reader, row, system_prompt, tools_hash, model)

    # -- beside the conversation: variables, a few JSON values

    def set_var(self, name: str, value: Json) -> None:
        """Keep a JSON value with the session. It does not rewind."""
        self._write(sessions.set_var, check_id(name, "variable name"), self._encoded(value, name))

    def get_var(self, name: str, default: Json = None) -> Json:
        """The value of this name; `default` if there is none."""
        check_id(name, "variable name")
        with self._look() as (reader, _):
            value = reader.get_record(self._sid, "var", name)
        return default if value is None else json_in(value, f"the variable {name!r}")

    def vars(self) -> dict[str, Json]:
        """All variables, by name."""
        with self._look() as (reader, _):
            found = reader.scan_records(self._sid, "var")
        return {name: json_in(value, f"the variable {name!r}") for name, value in found}

    def delete_var(self, name: str) -> bool:
        """False if there was none."""
        return self._write(sessions.delete_var, check_id(name, "variable name"))

    # -- beside the conversation: documents, bytes, any number of them

    def set_document(self, name: str, content: bytes) -> None:
        """Keep bytes under a name, instead of those before. They do not rewind; forks do not have them."""
        self._write(records.set_document, check_id(name, "document name"), records.content_of(content))

    def get_document(self, name: str) -> bytes | None:
        """None: there is none of this name."""
        check_id(name, "document name")
        with self._look() as (reader, _):
            return reader.get_record(self._sid, "document", name)

    def documents(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[tuple[str, bytes]]:
        """Names and contents of the documents whose names begin with `prefix`, in the order of their names.

        Args:
            after: Only those behind this name; for the next page.
            limit: How many at most.
            newest_first: From the last name to the first: names that grow with time are then newest first.
        """
        with self._look() as (reader, _):
            return records.scan_documents(reader, self._sid, prefix, after, limit, newest_first=newest_first)

    def delete_document(self, name: str) -> bool:
        """False if there was none."""
        return self._write(records.delete_document, check_id(name, "document name"))

    # -- beside the conversation: events

    def add_event(self, type: str, data: Json = None, *, stream: str = "", id: str | None = None) -> Event:
        """Keep a small record beside the conversation. It does not rewind.

        Args:
            type: What happened.
            data: Any JSON value.
            stream: Tells several sequences of events of one session apart.
            id: Names this event. A second one with the same id, type, stream and data is not written:
                the first one comes back, so it is safe to repeat after a failure.
        """
        from clew.core.streams import events

        return self._scope.run(self._adding([events.draft_of(type, data, stream, id)]))[0]

    def add_event_nowait(
        self, type: str, data: Json = None, *, stream: str = "", id: str | None = None
    ) -> None:
        """Keep an event some time soon, in the order of the calls. `events` and `count_events` wait for it;
        `store.flush()` waits until it is durable, and raises failures."""
        from clew.core.streams import events

        engine = self._scope.outside("Session.add_event_nowait()")
        engine.post(self._adding([events.draft_of(type, data, stream, id)]))

    def add_events(self, events: Sequence[Mapping[str, Json]]) -> list[Event]:
        """Add several events, all of them or none; one comes back for each.

        Each is a mapping with "type", and "data", "stream" and "id" as `add_event` has them.
        """
        from clew.core.streams import events as events_

        drafts = events_.drafts_of(events)
        return self._scope.run(self._adding(drafts)) if drafts else []

    def _adding(self, drafts: Sequence[EventDraft]) -> Callable[[Transaction], list[Event]]:
        """The operation that adds these events, for a committer."""
        from clew.core.streams import events

        access, now, redactor = self._access, self._scope.now(), self._scope.redactor()
        if redactor is not None:
            drafts = [msgspec.structs.replace(draft, data=redactor.body(draft.data)) for draft in drafts]
        return lambda tx: events.add(tx, access, drafts, now)

    def events(
        self, *, after: Event | int | None = None, stream: str | None = None, limit: int = 1000
    ) -> list[Event]:
        """Events in the order in which they came.

        Args:
            after: Only those after this event, or after its `cursor`.
            stream: Only those of this stream; "" for those of none.
            limit: How many at most.
        """
        from clew.core.streams import events

        start = check_after(after.cursor if isinstance(after, Event) else after)
        events.check_stream(stream)
        most = check_limit(limit, clip=MOST)
        self._scope.wait_for_posted()
        with self._look() as (reader, _):
            return events.read(reader, self._sid, start, stream, most)

    def count_events(self) -> EventCounts:
        """How many events there were and are, without reading them."""
        from clew.core.streams import events

        self._scope.wait_for_posted()
        with self._look() as (reader, _):
            return events.counts(reader, self._sid)

    # -- beside the conversation: tokens and money of model calls

    def add_usage(
        self,
        *,
        model: str | None = None,
        vendor: str | None = None,
        endpoint: str | None = None,
        source: str | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost: Decimal | int | str | None = None,
        entry: Point | None = None,
        at: datetime | None = None,
        id: str | None = None,
    ) -> Usage:
        """Write down the tokens and the cost of one model call.

        Args:
            model: And `vendor`, `endpoint`: who was called; those of the session when not given.
            source: Who called: an agent, a summariser, a tool.
            input_tokens: The whole prompt, tokens read from or written to a cache included.
            output_tokens: The whole answer, reasoning included.
            cache_read_tokens: Those of the prompt that came from a cache.
            cache_write_tokens: Those of the prompt that were put into one.
            reasoning_tokens: Those of the answer that are not shown.
            cost: In dollars, never a float. When not given, it is estimated from the list prices at the time
                of the call, if the list has the model.
            entry: The entry that the call made.
            at: When, with a time zone; now when not given.
            id: Names this call. A second one with the same id and the same values is not written: the
                first one comes back, so it is safe to repeat after a failure.
        """
        from clew.core.streams import usage
        from clew.core.streams.prices import estimate_call

        draft = usage.draft_of(
            names={"model": model, "vendor": vendor, "endpoint": endpoint},
            tokens={
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "cache_read_tokens": cache_read_tokens,
                "cache_write_tokens": cache_write_tokens,
                "reasoning_tokens": reasoning_tokens,
            },
            source=source,
            cost=cost,
            at=at,
            id=id,
        )
        now = self._scope.now()
        estimate = estimate_call(self._scope, self._sid, self.id, draft, now)
        return self._write(usage.add, draft, estimate, entry, now)

    def usage_records(self, *, after: Usage | int | None = None, limit: int = 1000) -> list[Usage]:
        """The calls of this session in the order in which they were written down.

        `after`: only those after this one, or after its `number`.
        """
        from clew.core.streams import usage

        start = check_after(after.number if isinstance(after, Usage) else after)
        most = check_limit(limit, clip=MOST)
        with self._look() as (reader, _):
            return usage.read(reader, self._sid, start, most)

    @overload
    def usage(
        self,
        *,
        by: None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        subagents: bool = False,
    ) -> UsageTotals: ...
    @overload
    def usage(
        self,
        *,
        by: UsageKey,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        subagents: bool = False,
    ) -> dict[UsageGroup, UsageTotals]: ...
    def usage(
        self,
        *,
        by: UsageKey | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        subagents: bool = False,
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        """Sums over the calls of this session; those of the session it was forked from are not its own.

        Args:
            by: One sum for each day, week (named by its Monday), month, model, agent, project, session,
                vendor, endpoint, source, workspace or branch.
            since: Only calls at this time or later.
            until: Only calls before this time.
            tz: The time zone of days, weeks and months; UTC when not given.
            subagents: Count the calls of its subagents too.
        """
        from clew.core.streams import totals

        asked = totals.wanted(by, since, until, tz, subagents=subagents)
        with self._look() as (reader, row):
            return totals.session_totals(reader, self._sid, row.id, asked)

    # -- files

    def restore_files(
        self,
        to: Point,
        root: str | os.PathLike[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        dry_run: bool = False,
        on_conflict: OnConflict = "overwrite",
        on_progress: OnProgress | None = None,
    ) -> RestoreReport:
        """Restore the files of a checkpoint, and leave the conversation where it is.

        As `store.restore`, with the snapshot of the checkpoint, or of the last one before a point.
        """
        from clew.files.rewind import restore_files

        engine = self._scope.outside("Session.restore_files()")
        return restore_files(
            engine, self._access, to, root, paths, on_conflict, dry_run=dry_run, on_progress=on_progress
        )

    def file_history(self, path: str) -> list[FileVersion]:
        """The checkpoints on the path at which a file was not as at the one before, oldest first."""
        from clew.files.rewind import file_history

        return file_history(self._engine, self._access, path)
