"""`Run` for tasks. What each method promises is written there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType

from clew.aio.bridge import Bridge
from clew.aio.session import AsyncSession
from clew.model import Checkpoint, Json
from clew.run import Run


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
