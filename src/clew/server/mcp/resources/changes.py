"""Notices of changes: clients name the resources that they keep, and hear when those are worth reading again.

The hub that serves the streams of `clew serve` looks at the store, here too: one thread, which begins with
the first client that listens and ends some seconds after the last. It sees the commits of all processes.
What is told is decided for each client: it hears of sessions that it may see, or could see until now.

Clients of the revision 2026-07-28 listen with one long request. Older ones subscribe to each resource, and
are told as long as their connection lasts; of new sessions they hear nothing, as none of them asks for that.
A note beside an entry is no change of its session, so nobody hears of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio.to_thread
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from clew.backends.contract import Reader
from clew.core.conversation.sessions import info_of
from clew.core.log.rows import SessionRow
from clew.core.streams.watch import News
from clew.errors import ClewError, CorruptError, InvalidError, NotFoundError
from clew.server.live.hub import Hub, Subscription
from clew.server.mcp.places import escaped
from clew.server.mcp.resources import uris
from clew.server.mcp.resources.handlers import answered, meant_by, missing
from clew.server.mcp.view import View

if TYPE_CHECKING:
    from clew.server.mcp.factory import Context, ViewOf

log = logging.getLogger("clew.mcp")

Event: TypeAlias = ResourcesListChanged | ResourceUpdated
Tell: TypeAlias = Callable[[Event], Awaitable[None]]

MOST_STREAMS: Final = 64
"""Of one client, where no HTTP server has a limit of its own."""
MOST_URIS: Final = 1000
"""Resources that one stream follows."""
_PAUSE: Final = 3600.0
_STATE: Final = "clew.subscriptions"


class Changes:
    """Answers the requests for notices."""

    def __init__(self, view_of: ViewOf, hub: Hub | None) -> None:
        """`hub`: of the server that asks; None: one of its own, for the store of the first caller."""
        self._view_of = view_of
        self._hub = hub

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Revision 2026-07-28: the answer is the stream."""
        asked = params.notifications
        view, named = self._view_of(context), asked.resource_subscriptions or []
        # Tools and prompts are always the same, so nobody is promised to hear of them.
        honored = types.SubscriptionFilter(
            resources_list_changed=asked.resources_list_changed, resource_subscriptions=named
        )
        with ExitStack() as stack:
            subscription = await self._subscribed(stack, view)
            bus = _Bus(subscription, await answered(partial(Follower, view, named)))
            handler = ListenHandler(bus)
            bus.on_end = handler.close
            return await handler(context, params.model_copy(update={"notifications": honored}))

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Up to the revision 2025-11-25."""
        view = self._view_of(context)
        try:
            await answered(partial(_find, view, params.uri))
        except NotFoundError:
            raise missing(context, params.uri) from None
        state, closing = _connection(context)
        told: _Connected | None = state.get(_STATE)
        if told is None:
            told = state[_STATE] = _Connected(view)
            closing.callback(told.stop)
        await answered(partial(told.follower.add, [params.uri]))
        async with told.starting:
            if told.subscription is None:
                try:
                    subscription = await self._subscribed(told.stack, view)
                except BaseException:
                    told.stop()
                    raise
                told.start(subscription, context.session.send_resource_updated)
            else:
                told.subscription.follow(told.follower.sids)
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        state, _ = _connection(context)
        told: _Connected | None = state.get(_STATE)
        if told is not None:
            told.follower.remove(params.uri)
            if told.follower.is_idle:
                told.stop()
        return types.EmptyResult()

    async def _subscribed(self, stack: ExitStack, view: View) -> Subscription:
        """A subscription at the hub. Whatever is committed from now on will be told."""
        if self._hub is None:
            self._hub = Hub(view.store._engine, lambda _: True, MOST_STREAMS)
        subscription = stack.enter_context(self._hub.subscribed(view.principal, (), hears_all=True))
        await subscription.ready.wait()
        if subscription.over is not None:
            raise MCPError(
                types.INTERNAL_ERROR,
                f"no stream can be opened now ({subscription.over}); close another one, or try again later",
            )
        return subscription


class Follower:
    """What one client follows, and is told. What reads the store blocks."""

    def __init__(self, view: View, named: Iterable[str] = ()) -> None:
        self._view = view
        self._wanted: dict[str, tuple[uris.Named, int | None]] = {}
        """By their addresses: what was named, and the number of its session, if there is one."""
        self._seen: set[int] = set()
        """Sessions that the client could see when it last heard of them."""
        self.add(named)

    @property
    def is_idle(self) -> bool:
        return not self._wanted

    def add(self, named: Iterable[str]) -> None:
        """Follow these resources too. One that is not there is not told of, unless it comes. InvalidError:
        there are too many."""
        for uri in named:
            if len(self._wanted) >= MOST_URIS:
                raise InvalidError(f"one client follows {MOST_URIS} resources at most; unsubscribe from some")
            meant = uris.named(uri)
            if meant is None:
                continue
            try:
                session = self._view.find(escaped(meant.session))
            except ClewError:
                self._wanted[uri] = meant, None
            else:
                self._wanted[uri] = meant, session._sid
                self._seen.add(session._sid)

    def remove(self, uri: str) -> None:
        self._wanted.pop(uri, None)

    @property
    def sids(self) -> set[int]:
        """The sessions of the resources that are followed."""
        return {sid for _, sid in list(self._wanted.values()) if sid is not None}

    def events(self, changed: Iterable[int], news: Iterable[News]) -> list[Event]:
        """What there is to tell of changes, and of followed sessions that may be gone."""
        told = {one.row.sid: one.row for one in news}
        found: dict[Event, None] = {}
        with self._view.store._engine.read() as reader:
            for sid in dict.fromkeys((*told, *changed)):
                with suppress(CorruptError):
                    row = told.get(sid) or reader.get_session(sid)
                    in_reach = row is not None and self._in_reach(reader, row)
                    is_there = in_reach and row is not None and row.deleted is None
                    if is_there != (sid in self._seen) or (in_reach and sid in told):
                        found |= dict.fromkeys(self._events(sid, row, is_there=is_there))
        return list(found)

    def _events(self, sid: int, row: SessionRow | None, *, is_there: bool) -> Iterator[Event]:
        """Of a session that this client may know of. `row`: None if it was purged. `is_there`: it can be
        read."""
        here = self._view.workspace if self._view.sees_all else None  # else all that is seen is listed
        is_listed = row is None or here is None or row.workspace == here
        if is_listed and not (is_there and sid in self._seen):
            yield ResourcesListChanged()
        if is_there:
            self._seen.add(sid)
        else:
            self._seen.discard(sid)
        for uri, (meant, known) in list(self._wanted.items()):
            if known != sid and (row is None or meant.session != row.id):
                continue
            self._wanted[uri] = meant, sid
            if meant.entry is None or not is_there:  # what an entry says does not change; but it may go
                yield ResourceUpdated(uri)

    def _in_reach(self, reader: Reader, row: SessionRow) -> bool:
        if not self._view.seer.is_bound:
            return True
        try:
            info = info_of(reader, row, reader.get_details(row.sid), None)
        except (KeyError, CorruptError):
            return False
        return self._view.sees(info)


async def pump(subscription: Subscription, follower: Follower, tell: Tell) -> None:
    """Tell a client what happens, until its subscription ends."""
    while subscription.over is None:
        subscription.follow(follower.sids)
        changed, news = subscription.take()
        if changed or news:
            try:
                events = await anyio.to_thread.run_sync(partial(follower.events, changed, news))
            except Exception:
                log.exception("a client is not told of changes any more")
                return
            for event in events:
                await tell(event)
        await subscription.wait(_PAUSE)


class _Bus(InMemorySubscriptionBus):
    """Carries the events of one listening client: from when the SDK asks for them until it does no more."""

    def __init__(self, subscription: Subscription, follower: Follower) -> None:
        super().__init__()
        self._pump = partial(pump, subscription, follower, self.publish)
        self.on_end: Callable[[], None] = lambda: None

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(listener)
        task = asyncio.create_task(self._pump(), name="clew-mcp-changes")
        task.add_done_callback(lambda _: self.on_end())

        def end() -> None:
            unsubscribe()
            task.cancel()

        return end


class _Connected:
    """A connection whose client subscribes to resources one by one."""

    def __init__(self, view: View) -> None:
        self.follower = Follower(view)
        self.subscription: Subscription | None = None
        """None: it is not told of anything now."""
        self.stack = ExitStack()
        self.starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self, subscription: Subscription, send: Callable[[str], Awaitable[None]]) -> None:
        async def tell(event: Event) -> None:
            if isinstance(event, ResourceUpdated):
                await send(event.uri)

        task = asyncio.create_task(pump(subscription, self.follower, tell), name="clew-mcp-changes")
        task.add_done_callback(lambda ended: self.stop() if ended is self._task else None)
        self.subscription, self._task = subscription, task

    def stop(self) -> None:
        """Idempotent. It can be started again."""
        task, self.subscription, self._task = self._task, None, None
        if task is not None:
            task.cancel()
        self.stack.close()


def _connection(context: Context) -> tuple[dict[str, Any], Any]:
    """What lasts as long as the connection of a request: a place for values, and what is done at its end. The
    SDK offers both to handlers, but has no public way to them yet."""
    connection = context.session._connection
    return connection.state, connection.exit_stack


def _find(view: View, uri: str) -> None:
    """NotFoundError: there is no such session that the caller may see."""
    view.find(escaped(meant_by(view, uri).session))
