"""`Session` and `Run` for tasks: the same methods, with `await`. What each promises is written there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, tzinfo
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from clew.aio.bridge import Bridge
from clew.core.conversation.append import MessageLike
from clew.core.conversation.points import Point
from clew.core.runs.lease import Pauses, bid_of
from clew.core.streams import events as events_
from clew.errors import CorruptEntryError, LeaseHeldError
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
from clew.session import Session

if TYPE_CHECKING:
    from typing import Unpack

    from clew.core.conversation.fork import ForkedCheckpoints
    from clew.core.conversation.sessions import SessionSettings
    from clew.core.runs.lease import Bid
    from clew.files.rewind import WithFiles
    from clew.model.files import FileVersion, OnConflict, OnProgress, RestoreReport
    from clew.run import Run

H = TypeVar("H", bound="AsyncSession")


class AsyncSession:
    """One conversation of a store. As `Session`, with `await`, also for `info`, `head`, `summary` and
    `lease`."""

    def __init__(self, bridge: Bridge, session: Session) -> None:
        self._call = bridge.call
        self._bridge = bridge
        self._session = session
        self.id = session.id

    def __repr__(self) -> str:
        return repr(self._session).replace("<Session", "<AsyncSession", 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncSession) and self._session == other._session

    def __hash__(self) -> int:
        return hash(self._session)

    # -- the session itself

    @property
    def info(self) -> Awaitable[SessionInfo]:
        return self._call(lambda: self._session.info)

    @property
    def head(self) -> Awaitable[Head]:
        return self._call(lambda: self._session.head)

    async def update(self, **settings: Unpack[SessionSettings]) -> None:
        await self._call(self._session.update, **settings)

    async def set_metadata(self, **values: Json) -> None:
        await self._call(self._session.set_metadata, **values)

    async def touch(self) -> None:
        await self._call(self._session.touch)

    async def add_alias(self, alias: str, *, move: bool = False) -> None:
        await self._call(self._session.add_alias, alias, move=move)

    async def remove_alias(self, alias: str) -> bool:
        return await self._call(self._session.remove_alias, alias)

    def outside_lease(self) -> AsyncSession:
        return AsyncSession(self._bridge, self._session.outside_lease())

    # -- reading

    async def messages(
        self,
        *,
        last: int | None = None,
        before: Point | None = None,
        after: Point | None = None,
        at: Point | None = None,
        newest_first: bool = False,
    ) -> list[dict[str, Json]]:
        return await self._call(
            self._session.messages, last=last, before=before, after=after, at=at, newest_first=newest_first
        )

    async def entries(
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
    ) -> AsyncIterator[Entry]:
        pages = self._session._entry_pages(
            last=last,
            before=before,
            after=after,
            at=at,
            newest_first=newest_first,
            label=label,
            damaged=damaged,
            on_damage=on_damage,
        )
        while page := await self._call(next, pages, None):
            for entry in page:
                yield entry

    async def context(
        self,
        *,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[dict[str, Json]], int] | None = None,
        at: Point | None = None,
        repair: bool = True,
    ) -> Context:
        return await self._call(
            self._session.context,
            max_messages=max_messages,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            at=at,
            repair=repair,
        )

    @property
    def summary(self) -> Awaitable[str | None]:
        return self._call(lambda: self._session.summary)

    async def outline(self, *, at: Point | None = None) -> Outline:
        return await self._call(self._session.outline, at=at)

    # -- writing

    async def append(
        self,
        *messages: MessageLike,
        key: str | None = None,
        expect: Head | None = None,
        strict: bool = False,
        at: datetime | None = None,
    ) -> list[Entry]:
        work = self._session._appending(messages, key=key, expect=expect, strict=strict, at=at)
        return [] if work is None else await self._bridge.commit(work)

    def append_nowait(
        self, *messages: MessageLike, key: str | None = None, strict: bool = False, at: datetime | None = None
    ) -> None:
        self._session.append_nowait(*messages, key=key, strict=strict, at=at)

    async def replace(
        self, messages: Sequence[MessageLike], *, user_turns: int | None = None, strict: bool = False
    ) -> list[Entry]:
        return await self._call(self._session.replace, messages, user_turns=user_turns, strict=strict)

    async def clear(self) -> Head:
        return await self._call(self._session.clear)

    async def truncate(self, keep_last: int) -> Entry | None:
        return await self._call(self._session.truncate, keep_last)

    async def compact(
        self,
        messages_or_text: str | Sequence[MessageLike],
        *,
        upto: Point | None = None,
        tokens: int | None = None,
    ) -> Entry:
        return await self._call(self._session.compact, messages_or_text, upto=upto, tokens=tokens)

    async def set_summary(self, text: str | None) -> Entry:
        return await self._call(self._session.set_summary, text)

    async def annotate(self, entry: Point, **fields: Json) -> Entry:
        return await self._call(self._session.annotate, entry, **fields)

    @asynccontextmanager
    async def turn(self: H) -> AsyncIterator[H]:
        """`async with s.turn():`"""
        began = await self.head
        try:
            yield self
        except BaseException as failure:
            await self._call(self._session._abort, began, failure)
            raise

    # -- points in time

    async def checkpoint(
        self,
        name: str,
        *,
        state: Json = None,
        files: str | os.PathLike[str] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Checkpoint:
        return await self._call(
            self._session.checkpoint, name, state=state, files=files, include=include, exclude=exclude
        )

    async def checkpoints(self) -> list[Checkpoint]:
        return await self._call(self._session.checkpoints)

    async def get_checkpoint(self, name: str) -> Checkpoint:
        return await self._call(self._session.get_checkpoint, name)

    async def delete_checkpoint(self, name: str) -> bool:
        return await self._call(self._session.delete_checkpoint, name)

    async def rewind(
        self,
        to: Point,
        *,
        files: WithFiles = False,
        on_conflict: OnConflict = "overwrite",
        dry_run: bool = False,
    ) -> Moved:
        return await self._call(
            self._session.rewind, to, files=files, on_conflict=on_conflict, dry_run=dry_run
        )

    async def follow(self, *, dry_run: bool = False) -> Moved:
        return await self._call(self._session.follow, dry_run=dry_run)

    async def undo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        return await self._call(self._session.undo, root=root, dry_run=dry_run)

    async def redo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        return await self._call(self._session.redo, root=root, dry_run=dry_run)

    async def moves(self) -> list[MoveInfo]:
        return await self._call(self._session.moves)

    async def fork(
        self, id: str | None = None, *, at: Point | None = None, checkpoints: ForkedCheckpoints = "path"
    ) -> AsyncSession:
        fork = await self._call(self._session.fork, id, at=at, checkpoints=checkpoints)
        return AsyncSession(self._bridge, fork)

    async def new_fork_id(self) -> str:
        return await self._call(self._session.new_fork_id)

    async def tree(self) -> Tree:
        return await self._call(self._session.tree)

    # -- runs

    async def start(self, request: Json = None, *, task: str | None = None) -> None:
        await self._call(self._session.start, request, task=task)

    async def complete(self, response: Json = None) -> None:
        await self._call(self._session.complete, response)

    async def fail(self, error: str | BaseException) -> None:
        await self._call(self._session.fail, error)

    async def close(self) -> None:
        await self._call(self._session.close)

    async def reopen(self) -> None:
        await self._call(self._session.reopen)

    async def status_changes(self) -> list[StatusChange]:
        return await self._call(self._session.status_changes)

    @property
    def lease(self) -> Awaitable[LeaseInfo | None]:
        return self._call(lambda: self._session.lease)

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
    ) -> Taking:
        """`async with s.run(…) as run:`, or `run = await s.run(…)`."""
        scope = self._session._scope
        make_bid = partial(
            bid_of,
            scope.host,
            request,
            task=task,
            lease=lease,
            owner=owner,
            steal=steal,
            detached=detached,
            redactor=scope.redactor(),
        )
        return Taking(self._bridge, self._session, make_bid, wait)

    async def attach(self, secret: str) -> AsyncRun:
        return AsyncRun(self._bridge, await self._call(self._session.attach, secret))

    async def resume(
        self, *, system_prompt: Json = None, tools_hash: str | None = None, model: str | None = None
    ) -> Resumption:
        return await self._call(
            self._session.resume, system_prompt=system_prompt, tools_hash=tools_hash, model=model
        )

    # -- beside the conversation

    async def set_var(self, name: str, value: Json) -> None:
        await self._call(self._session.set_var, name, value)

    async def get_var(self, name: str, default: Json = None) -> Json:
        return await self._call(self._session.get_var, name, default)

    async def vars(self) -> dict[str, Json]:
        return await self._call(self._session.vars)

    async def delete_var(self, name: str) -> bool:
        return await self._call(self._session.delete_var, name)

    async def set_document(self, name: str, content: bytes) -> None:
        await self._call(self._session.set_document, name, content)

    async def get_document(self, name: str) -> bytes | None:
        return await self._call(self._session.get_document, name)

    async def documents(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[tuple[str, bytes]]:
        return await self._call(
            self._session.documents, prefix, after=after, limit=limit, newest_first=newest_first
        )

    async def delete_document(self, name: str) -> bool:
        return await self._call(self._session.delete_document, name)

    async def add_event(
        self, type: str, data: Json = None, *, stream: str = "", id: str | None = None
    ) -> Event:
        draft = events_.draft_of(type, data, stream, id)
        return (await self._bridge.commit(self._session._adding([draft])))[0]

    def add_event_nowait(
        self, type: str, data: Json = None, *, stream: str = "", id: str | None = None
    ) -> None:
        self._session.add_event_nowait(type, data, stream=stream, id=id)

    async def add_events(self, events: Sequence[Mapping[str, Json]]) -> list[Event]:
        drafts = events_.drafts_of(events)
        return await self._bridge.commit(self._session._adding(drafts)) if drafts else []

    async def events(
        self, *, after: Event | int | None = None, stream: str | None = None, limit: int = 1000
    ) -> list[Event]:
        return await self._call(self._session.events, after=after, stream=stream, limit=limit)

    async def count_events(self) -> EventCounts:
        return await self._call(self._session.count_events)

    async def add_usage(
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
        return await self._call(
            self._session.add_usage,
            model=model,
            vendor=vendor,
            endpoint=endpoint,
            source=source,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=reasoning_tokens,
            cost=cost,
            entry=entry,
            at=at,
            id=id,
        )

    async def usage_records(self, *, after: Usage | int | None = None, limit: int = 1000) -> list[Usage]:
        return await self._call(self._session.usage_records, after=after, limit=limit)

    @overload
    async def usage(
        self,
        *,
        by: None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        subagents: bool = False,
    ) -> UsageTotals: ...
    @overload
    async def usage(
        self,
        *,
        by: UsageKey,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        subagents: bool = False,
    ) -> dict[UsageGroup, UsageTotals]: ...
    async def usage(
        self,
        *,
        by: UsageKey | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        subagents: bool = False,
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        return await self._call(
            lambda: self._session.usage(by=by, since=since, until=until, tz=tz, subagents=subagents)
        )

    # -- files

    async def restore_files(
        self,
        to: Point,
        root: str | os.PathLike[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        dry_run: bool = False,
        on_conflict: OnConflict = "overwrite",
        on_progress: OnProgress | None = None,
    ) -> RestoreReport:
        return await self._call(
            self._session.restore_files,
            to,
            root,
            paths=paths,
            dry_run=dry_run,
            on_conflict=on_conflict,
            on_progress=on_progress,
        )

    async def file_history(self, path: str) -> list[FileVersion]:
        return await self._call(self._session.file_history, path)


class AsyncRun(AsyncSession):
    """A session while this worker holds its lease. As `Run`, with `await`; the heartbeat needs no loop."""

    def __init__(self, bridge: Bridge, run: Run) -> None:
        super().__init__(bridge, run)
        self._run = run
        self.owner = run.owner
        self.epoch = run.epoch
        self.task = run.task

    def __repr__(self) -> str:
        return repr(self._run).replace("<Run", "<AsyncRun", 1)

    @property
    def lost(self) -> bool:
        return self._run.lost

    @property
    def secret(self) -> str:
        return self._run.secret

    async def renew(self) -> LeaseInfo:
        return await self._bridge.call(self._run.renew)

    async def __aenter__(self) -> AsyncRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._bridge.call(self._run.__exit__, kind, exc, trace)

    async def checkpoint(
        self,
        name: str | None = None,
        *,
        state: Json = None,
        iteration: int | None = None,
        system_prompt: Json = None,
        tools_hash: str | None = None,
        model: str | None = None,
        force: bool = False,
        files: str | os.PathLike[str] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Checkpoint:
        return await self._bridge.call(
            self._run.checkpoint,
            name,
            state=state,
            iteration=iteration,
            system_prompt=system_prompt,
            tools_hash=tools_hash,
            model=model,
            force=force,
            files=files,
            include=include,
            exclude=exclude,
        )


class Taking:
    """A lease about to be taken: awaited, or entered with `async with`."""

    def __init__(
        self, bridge: Bridge, session: Session, make_bid: Callable[[], Bid], wait: float | None
    ) -> None:
        self._bridge = bridge
        self._session = session
        self._make_bid = make_bid
        self._wait = wait
        self._run: AsyncRun | None = None

    async def _take(self) -> AsyncRun:
        bid = self._make_bid()
        pauses = Pauses(self._wait)
        while True:
            try:
                run = await self._bridge.acquire(
                    lambda: self._session._take(bid), lambda run: run.fail("cancelled before it began")
                )
            except LeaseHeldError:
                pause = pauses.next()
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                self._run = AsyncRun(self._bridge, run)
                return self._run

    def __await__(self) -> Generator[Any, Any, AsyncRun]:
        return self._take().__await__()

    async def __aenter__(self) -> AsyncRun:
        return await self._take()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is not None:
            await self._run.__aexit__(kind, exc, trace)
