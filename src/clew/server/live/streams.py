"""The bytes of streams: what feeds and the hub have to tell, heartbeats, and the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from clew.backends.rows import make_cursor
from clew.core.engine.engine import Engine
from clew.core.streams.watch import News
from clew.errors import ClewError, StoreClosedError
from clew.server.access.principal import Principal
from clew.server.live import sse
from clew.server.live.event_ids import place_id, vector_id
from clew.server.live.feed import Feed, Frame
from clew.server.live.hub import Hub
from clew.server.live.store import Backlog, seen_by

log = logging.getLogger("clew.server")

CHUNK: Final = 64 * 1024
"""Bytes that are sent at once, unless a single frame is larger."""


class Line(NamedTuple):
    """What every stream needs."""

    hub: Hub
    principal: Principal
    in_thread: Callable[[Callable[[], Any]], asyncio.Future[Any]]
    """Does something that blocks elsewhere."""
    heartbeat: float
    """Seconds between two signs of life."""


class Pulse:
    """When a stream that has nothing to tell is to show that it lives. It counts from what was sent last, and
    from nothing else: the pauses would tell of what happens that the client is not to hear of."""

    def __init__(self, every: float) -> None:
        """`every`: in seconds."""
        self._every = every
        self._now = asyncio.get_running_loop().time
        self._due = self._now() + every

    @property
    def left(self) -> float:
        """Seconds until then; 0: it is time."""
        return max(0.0, self._due - self._now())

    def sent(self) -> None:
        self._due = self._now() + self._every


async def until_it_fails(stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """A stream, and a farewell if the store cannot be read: its client comes back and goes on."""
    async with aclosing(stream):
        try:
            async for piece in stream:
                yield piece
        except StoreClosedError:
            yield sse.farewell("stopping")
        except ClewError as exc:
            log.warning("a stream ends, because the store cannot be read: %s", exc)
            yield sse.farewell("unavailable")


async def of_sessions(
    line: Line, feeds: Sequence[Feed], *, gone: Sequence[str] = (), is_vector: bool = False
) -> AsyncGenerator[bytes]:
    """A stream of one session or several. `gone`: sessions that were asked for and are not there."""
    yield sse.HELLO
    following = {feed.sid: feed for feed in feeds}
    places = {feed.id: feed.first_place for feed in feeds if feed.first_place is not None}

    def written(feed: Feed, frame: Frame) -> bytes:
        if frame.place is None:
            return sse.frame(frame.event, frame.data)
        if not is_vector:
            return sse.frame(frame.event, frame.data, place_id(frame.place))
        places[feed.id] = frame.place
        return sse.frame(frame.event, frame.data, vector_id(places))

    for id in gone:
        yield sse.frame("gone", {"session": id})
    pulse = Pulse(line.heartbeat)
    with line.hub.subscribed(line.principal, following) as subscription:
        behind: set[int] = set()
        while following and subscription.over is None:
            changed, _ = subscription.take()
            behind = (behind | changed) & following.keys()
            for feed in [following[sid] for sid in behind]:  # a page of each in turn
                page = await line.in_thread(feed.read)
                for chunk in _chunks(written(feed, frame) for frame in page.frames):
                    yield chunk
                    pulse.sent()
                if not page.has_more:
                    behind.discard(feed.sid)
                if page.is_over:
                    del following[feed.sid]
                    places.pop(feed.id, None)
            if following and not behind:
                if not pulse.left:
                    yield sse.HEARTBEAT
                    pulse.sent()
                await subscription.wait(pulse.left)
        if subscription.over is not None:
            yield sse.farewell(subscription.over)


async def of_store(line: Line, engine: Engine, backlog: Backlog | None) -> AsyncGenerator[bytes]:
    """A stream of all changes in a store. `backlog`: those since the cursor with which it resumes."""
    yield sse.HELLO

    async def written(news: list[News]) -> list[bytes]:
        changes = await line.in_thread(lambda: seen_by(line.principal, engine, news)) if news else []
        return [sse.frame("change", change, change.cursor) for change in changes]

    with line.hub.subscribed(line.principal, None) as subscription:
        await subscription.ready.wait()
        if backlog is None:
            cursor = make_cursor(engine.now(), "")
            yield sse.frame("head", {"cursor": cursor}, cursor)
        while backlog is not None and subscription.over is None:
            page = await line.in_thread(backlog.read)
            if not page:
                backlog = None
            for chunk in _chunks(await written(page)):
                yield chunk
        pulse = Pulse(line.heartbeat)
        while subscription.over is None:
            _, news = subscription.take()
            for chunk in _chunks(await written(news)):
                yield chunk
                pulse.sent()
            if not pulse.left:
                yield sse.HEARTBEAT
                pulse.sent()
            await subscription.wait(pulse.left)
        yield sse.farewell(subscription.over)


def _chunks(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames together, as many as make a piece of a good size."""
    pending: list[bytes] = []
    size = 0
    for frame in frames:
        pending.append(frame)
        size += len(frame)
        if size >= CHUNK:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)
