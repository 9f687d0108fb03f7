"""`Session` for tasks. What each method promises is written there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from clew.aio.beside import AsyncBeside
from clew.aio.bridge import Bridge
from clew.aio.lifecycle import AsyncLifecycle
from clew.aio.streams import AsyncStreams
from clew.core.conversation.append import Sayable
from clew.core.conversation.points import Point
from clew.model import Checkpoint, Context, Entry, Head, Json, Moved, SessionInfo, Tree
from clew.model.files import FileVersion, OnConflict, OnProgress, RestoreReport
from clew.session import Session
from clew.session_files import WithFiles


class AsyncSession(AsyncLifecycle, AsyncStreams, AsyncBeside):
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

    def outside_lease(self) -> AsyncSession:
        return AsyncSession(self._bridge, self._session.outside_lease())

    @property
    def info(self) -> Awaitable[SessionInfo]:
        return self._call(lambda: self._session.info)

    @property
    def head(self) -> Awaitable[Head]:
        return self._call(lambda: self._session.head)

    @property
    def summary(self) -> Awaitable[str | None]:
        return self._call(lambda: self._session.summary)

    async def update(
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
        await self._call(
            self._session.update,
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

    async def touch(self) -> None:
        await self._call(self._session.touch)

    async def add_alias(self, alias: str, *, move: bool = False) -> None:
        await self._call(self._session.add_alias, alias, move=move)

    async def remove_alias(self, alias: str) -> bool:
        return await self._call(self._session.remove_alias, alias)

    async def append(
        self,
        *messages: Sayable,
        key: str | None = None,
        expect: Head | None = None,
        strict: bool = False,
        at: datetime | None = None,
    ) -> list[Entry]:
        work = self._session._appending(messages, key=key, expect=expect, strict=strict, at=at)
        return [] if work is None else await self._bridge.commit(work)

    def append_nowait(
        self, *messages: Sayable, key: str | None = None, strict: bool = False, at: datetime | None = None
    ) -> None:
        self._session.append_nowait(*messages, key=key, strict=strict, at=at)

    async def replace(
        self, messages: Sequence[Sayable], *, user_turns: int | None = None, strict: bool = False
    ) -> list[Entry]:
        return await self._call(self._session.replace, messages, user_turns=user_turns, strict=strict)

    async def clear(self) -> Head:
        return await self._call(self._session.clear)

    async def truncate(self, keep_last: int) -> Entry | None:
        return await self._call(self._session.truncate, keep_last)

    async def compact(
        self,
        messages_or_text: str | Sequence[Sayable],
        *,
        upto: Point | None = None,
        tokens: int | None = None,
    ) -> Entry:
        return await self._call(self._session.compact, messages_or_text, upto=upto, tokens=tokens)

    async def set_summary(self, text: str | None) -> Entry:
        return await self._call(self._session.set_summary, text)

    async def annotate(self, entry: Point, **fields: Json) -> Entry:
        return await self._call(self._session.annotate, entry, **fields)

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
    ) -> AsyncIterator[Entry]:
        pages = self._session._entry_pages(
            last=last,
            before=before,
            after=after,
            at=at,
            newest_first=newest_first,
            label=label,
            damaged=damaged,
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
    ) -> Context:
        return await self._call(
            self._session.context, max_messages=max_messages, max_tokens=max_tokens, count_tokens=count_tokens
        )

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
        self, to: Point, *, files: WithFiles = False, on_conflict: OnConflict = "overwrite"
    ) -> Moved:
        return await self._call(self._session.rewind, to, files=files, on_conflict=on_conflict)

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

    async def undo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        return await self._call(self._session.undo, root=root, dry_run=dry_run)

    async def redo(self, *, root: str | os.PathLike[str] | None = None, dry_run: bool = False) -> Moved:
        return await self._call(self._session.redo, root=root, dry_run=dry_run)

    async def fork(self, id: str | None = None, *, at: Point | None = None) -> AsyncSession:
        return AsyncSession(self._bridge, await self._call(self._session.fork, id, at=at))

    async def tree(self) -> Tree:
        return await self._call(self._session.tree)
