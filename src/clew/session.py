"""A session: one conversation, as a handle that is cheap to make."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

import msgspec

from clew.backends.contract import Transaction
from clew.beside import Beside
from clew.core.conversation import history, points, sessions
from clew.core.conversation.append import Sayable, append, batch_of
from clew.core.conversation.points import Point
from clew.core.log.ids import MAX_POSITION, check_id
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access
from clew.errors import InvalidError, InvalidQueryError
from clew.lifecycle import Lifecycle
from clew.model import Context, Entry, Head, Json, SessionInfo
from clew.points import Points
from clew.streams import Streams


class Session(Lifecycle, Points, Streams, Beside):
    """One conversation of a store.

    A handle holds no state: every call sees what is stored now, by whatever thread or process.
    Each call that changes something is durable when it returns, all of it or nothing.
    While somebody holds the lease of the session, what changes the conversation, its status, its
    checkpoints or its variables is refused with LeaseHeldError.
    """

    # What of a session is offered inside a transaction and inside `read`; as for `Store`.
    _READS: ClassVar = frozenset(
        {
            "checkpoints", "context", "count_events", "documents", "entries", "events", "get_checkpoint",
            "get_document", "get_var", "head", "info", "lease", "messages", "outside_lease", "resume",
            "status_changes", "summary", "tree", "usage", "usage_records", "vars",
        }
    )  # fmt: skip
    _WRITES: ClassVar = frozenset(
        {
            "add_alias", "add_event", "add_events", "add_usage", "annotate", "append", "checkpoint", "clear",
            "close", "compact", "complete", "delete_checkpoint", "delete_document", "delete_var", "fail",
            "fork", "redo", "remove_alias", "reopen", "replace", "rewind", "set_document", "set_summary",
            "set_var", "start", "touch", "truncate", "turn", "undo", "update",
        }
    )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Session {self.id!r} in {self._scope.location}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and (self._sid, self._scope) == (other._sid, other._scope)

    def __hash__(self) -> int:
        return hash((self._sid, id(self._scope)))

    def _sibling(self, row: SessionRow) -> Session:
        return self._handle(Access(row.sid, row.id, self._scope.here))

    def outside_lease(self) -> Session:
        """The same session for writes that nobody's lease shall stop, as a remark from outside."""
        return self._handle(Access(self._sid, self.id, self._scope.here, heedless=True))

    def _handle(self, access: Access) -> Session:
        return self._scope.offered(Session)(self._scope, access)

    # -- what the session is

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

    def update(
        self,
        *,
        title: str | msgspec.UnsetType | None = msgspec.UNSET,
        workspace: str | os.PathLike[str] | msgspec.UnsetType | None = msgspec.UNSET,
        tags: Sequence[str] | msgspec.UnsetType = msgspec.UNSET,
        vendor: str | msgspec.UnsetType | None = msgspec.UNSET,
        endpoint: str | msgspec.UnsetType | None = msgspec.UNSET,
        model: str | msgspec.UnsetType | None = msgspec.UNSET,
        metadata: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET,
        expires_at: datetime | Literal["never"] | msgspec.UnsetType | None = msgspec.UNSET,
        idle_timeout: timedelta | float | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> None:
        """Set what is given; None empties it. A title set here is never replaced by an automatic one;
        `title=None` brings that one back.

        `metadata` and `tags` replace what was there. `expires_at` ("never": exempt from expiry) and
        `idle_timeout` (seconds, or a timedelta) come before the rules of the store.
        """
        changes = sessions.settings(
            title=title,
            workspace=workspace,
            tags=tags,
            vendor=vendor,
            endpoint=endpoint,
            model=model,
            metadata=metadata,
            expires_at=expires_at,
            idle_timeout=idle_timeout,
        )
        self._write(sessions.update, changes)

    def touch(self) -> None:
        """Count as active now: first in listings, and not idle. For whoever works on a session in other ways
        than by messages, as with documents."""
        self._write(sessions.touch, self._scope.now())

    def add_alias(self, alias: str, *, move: bool = False) -> None:
        """Give the session one more id to be found by. AliasExistsError if it leads elsewhere."""
        self._write(sessions.add_alias, check_id(alias, "alias"), move=move)

    def remove_alias(self, alias: str) -> bool:
        """False if the alias did not lead here."""
        return self._write(sessions.remove_alias, check_id(alias, "alias"))

    # -- writing

    def append(
        self,
        *messages: Sayable,
        key: str | None = None,
        expect: Head | None = None,
        strict: bool = False,
        at: datetime | None = None,
    ) -> list[Entry]:
        """Append messages to the path, all of them or none; one entry comes back for each.

        Args:
            messages: JSON objects, or JSON texts of objects; kept byte for byte.
            key: Names this batch. A second append with the same key and the same messages writes
                nothing and returns the first one's entries, so it is safe to repeat after a failure.
            expect: Refuse with HeadMovedError unless the head is this one.
            strict: Refuse lone surrogates instead of replacing them.
            at: When they were said, with a time zone; default: now. For histories that are brought over
                from elsewhere. Their order is that of the appends, whatever the time; the last activity of
                the session is its newest time, but never in the future.

        An append without messages writes nothing.
        """
        work = self._appending(messages, key=key, expect=expect, strict=strict, at=at)
        return [] if work is None else self._scope.run(work)

    def _appending(
        self,
        messages: Sequence[Sayable],
        *,
        key: str | None,
        expect: Head | None = None,
        strict: bool,
        at: datetime | None = None,
    ) -> Callable[[Transaction], list[Entry]] | None:
        """The operation that appends these messages, checked; for whoever commits it. None: nothing to do."""
        from clew.core.streams import usage

        time = None if at is None else usage.moment(at, "at")
        if not messages:
            return None
        batch = batch_of(messages, strict=strict)
        if key is not None:
            check_id(key, "key")
        access, now = self._access, self._scope.now()
        return lambda tx: append(tx, access, batch, now, key=key, expect=expect, at=time)

    def append_nowait(
        self, *messages: Sayable, key: str | None = None, strict: bool = False, at: datetime | None = None
    ) -> None:
        """Append some time soon, in the order of the calls. `store.flush()` waits and raises what failed."""
        work = self._appending(messages, key=key, strict=strict, at=at)
        if work is not None:
            self._scope.outside("Session.append_nowait()").post(work)

    def replace(
        self, messages: Sequence[Sayable], *, user_turns: int | None = None, strict: bool = False
    ) -> list[Entry]:
        """Let the path hold these messages and no others; one entry comes back for each.

        What the old history and the new one begin with is kept, and only the rest is written: to save a
        growing list again and again costs no more than to append. The context is these messages, whatever
        was compacted or truncated before; the summary stays. The old history stays reachable: `undo()`
        goes back to where the session stood. The same messages again change nothing, and are no step.

        `user_turns` sets the counter of user turns, which otherwise counts those in `messages`.
        """
        from clew.core.conversation import replace as replacing

        if isinstance(messages, (str, bytes, dict)):
            raise InvalidError(f"replace takes a list of messages, not {type(messages).__name__}")
        if user_turns is not None and (type(user_turns) is not int or not 0 <= user_turns <= MAX_POSITION):
            raise InvalidError(f"user_turns must be a number from 0 to {MAX_POSITION}, not {user_turns!r}")
        return self._write(
            replacing.replace, batch_of(messages, strict=strict), user_turns, self._scope.now()
        )

    def clear(self) -> Head:
        """Start over with an empty path. The history stays reachable: `undo()` brings it back."""
        from clew.core.conversation import moves

        return self._write(moves.clear, self._scope.now())

    def truncate(self, keep_last: int) -> Entry | None:
        """Let `context()` begin with the last `keep_last` messages; `messages()` still gives all.

        Where the cut would part a tool call from its result, more is kept. None: nothing to cut.
        """
        from clew.core.conversation import marks

        if isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 0:
            raise InvalidError(f"keep_last must be a number from 0 on, not {keep_last!r}")
        return self._write(marks.truncate, keep_last, self._scope.now())

    def compact(
        self,
        messages_or_text: str | Sequence[Sayable],
        *,
        upto: Point | None = None,
        tokens: int | None = None,
    ) -> Entry:
        """Let `context()` begin with these messages instead of everything up to `upto` (the head).

        A text becomes one user message. Nothing is removed: `messages()` still gives all, and a
        rewind to before the compaction brings the old context back. Tool calls that still wait for
        their results are not compacted away.
        """
        from clew.core.conversation import marks

        digest = marks.digest_of(messages_or_text, tokens)
        return self._write(marks.compact, digest, upto, self._scope.now())

    @property
    def summary(self) -> str | None:
        """The latest summary on the path."""
        from clew.core.conversation import marks

        with self._look() as (reader, row):
            return marks.summary(reader, row)

    def set_summary(self, text: str | None) -> Entry:
        """Keep a summary of the conversation so far; it rewinds with the conversation."""
        from clew.core.conversation import marks

        return self._write(marks.set_summary, marks.summary_of(text), self._scope.now())

    def annotate(self, entry: Point, **fields: Json) -> Entry:
        """Put something beside an entry, never into it; None takes a field away.

        Entries are found again by their `label`: `s.entries(label="…")`.
        """
        from clew.core.conversation import annotations

        return self._write(annotations.annotate, entry, annotations.fields_of(fields))

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
    ) -> Iterator[Entry]:
        """Messages and marks on the path, one by one, in bounded memory; with `at` on the path to that point.

        What is appended while you iterate is not part of it. `damaged="skip"` leaves out entries
        that can not be read instead of raising CorruptEntryError.
        """
        pages = self._entry_pages(
            last=last,
            before=before,
            after=after,
            at=at,
            newest_first=newest_first,
            label=label,
            damaged=damaged,
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
    ) -> Context:
        """What a model should get: from the latest compaction or truncation on, inside the budget,
        every tool call with its result, well-formed whatever a crash left behind.

        A plain list of messages; its `report` says what was left out or repaired.
        """
        from clew.core.conversation import context

        with self._look() as (reader, row):
            return context.build(reader, row, max_messages, max_tokens, count_tokens)
