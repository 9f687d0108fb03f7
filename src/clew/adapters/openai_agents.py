"""Sessions of the OpenAI Agents SDK in a Clew store.

    from clew.adapters.openai_agents import ClewSession                # pip install '.[openai-agents]'

    session = ClewSession("chat-1", clew.open("agents.db"))
    result = await Runner.run(agent, "hello", session=session)

Each item is one entry of the log, written once. Items that the SDK takes away (a retry pops, a compaction
replaces, `clear_session` clears) stay on a branch: `session.clew.undo()` brings them back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from clew import (
    AsyncRun,
    AsyncStore,
    Checkpoint,
    ClewError,
    Entry,
    Head,
    InvalidError,
    Run,
    Session,
    Store,
)
from clew.adapters.common import (
    BEGINNING,
    Remembered,
    faces,
    find_own,
    missing,
    newest,
    open_own,
    require,
    rewind_before,
)
from clew.adapters.common import session_id as id_of
from clew.errors import InvalidEntryError

try:
    require("openai-agents")
    from agents import RunHooks
    from agents.memory.session_settings import (
        SessionSettings,
        coerce_session_settings,
        resolve_session_limit,
    )
except ImportError as exc:
    raise missing("openai-agents", exc) from exc

if TYPE_CHECKING:
    from agents import Agent, ModelResponse, RunContextWrapper, TResponseInputItem

T = TypeVar("T")

Item: TypeAlias = dict[str, Any]
Point: TypeAlias = Checkpoint | Entry | Head | str | int
Change: TypeAlias = Callable[[Callable[[Store], bool]], Awaitable[bool]]

MOST: Final = 2**32 - 1
"""No session can have more items than this."""

FRAMEWORK: Final = "openai-agents"


class SessionClosedError(ClewError, RuntimeError):
    """`close()` was called on this session object. Make another `ClewSession`: the store is still open."""

    code = "session_closed"

    def __init__(self, kind: str, session_id: str) -> None:
        super().__init__(f"{kind} is closed: make another one for {session_id!r}; the store is still open")
        self.session_id = session_id


class ClewSession:
    """A `Session` of the Agents SDK: the Clew session of the same id, created by the first write.

    Args:
        session_id: The id of the session, in the SDK and in the store.
        store: An open store, sync or async. The session does not close it.
        session_settings: As for the SDK's own sessions: `limit` is how many items a run reads.
        run: Write under the lease of this run (`with session.clew.run() as run:`).
        title: A setting for the creation of the session, like `workspace`, `tags`, `model` and `metadata`.
    """

    def __init__(
        self,
        session_id: str,
        store: Store | AsyncStore,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        run: Run | AsyncRun | None = None,
        title: str | None = None,
        workspace: str | None = None,
        tags: Sequence[str] = (),
        model: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._blocking, self._tasks = faces(store)
        self._id = id_of(session_id)
        if run is not None and run.id != self._id:
            raise InvalidError(
                f"the run is of session {run.id!r}, not of {self._id!r}: start a run of that session"
            )
        self._run = run
        self._history = Remembered()
        self._closed = False
        self._created_with: dict[str, Any] = {
            "title": title,
            "workspace": workspace,
            "tags": tuple(tags),
            "model": model,
            "metadata": {**(metadata or {}), "framework": FRAMEWORK},
        }

    def __repr__(self) -> str:
        return f"<ClewSession {self.session_id!r} in {self._blocking.location}>"

    # -- the protocol of the SDK

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """The items on the path to the head, oldest first.

        With a `limit`, here or in the settings, only the latest ones; a negative limit means all, as in
        SQLite.
        """
        self._check_open()
        last = resolve_session_limit(limit, self.session_settings)
        if last is None or last < 0:
            found = await self._tasks.read(lambda store: self._history.messages(store, self._found(store)))
        else:
            found = await self._tasks.read(lambda store: latest_items(self._found(store), last))
        return cast("list[TResponseInputItem]", found)

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Append items, all of them or none. A cancellation is raised after they are stored."""
        self._check_open()
        if not items:
            return

        async def append(given: list[Item]) -> None:
            await self._change(lambda store: self._made(store).append(*given))

        await as_json(append, items)

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Rewind by one item, and return it; None: there was none."""
        return await self._pop_item_with_validation()

    async def _pop_item_with_validation(
        self, validate: Callable[[TResponseInputItem], None] | None = None
    ) -> TResponseInputItem | None:
        """Like `pop_item`, but nothing is taken away if `validate` raises. The SDK's encryption uses it."""
        popped = await self._change(lambda store: pop_newest(self._found(store), validate))
        return cast("TResponseInputItem | None", popped)

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Start again with an empty history; `session.clew.undo()` brings the old one back."""
        await self._change(lambda store: replace_all(self._found(store), []))

    def close(self) -> Closed:
        """Make this object unusable. Other objects of the same session and the store stay open.

        May be awaited or not, because some of the SDK's own sessions need the one, some the other.
        """
        self._closed = True
        self._history = Remembered()
        return Closed()

    # -- compaction by the SDK

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> Snapshot | None:
        """The latest items, with a function that replaces them if they are still the latest."""
        self._check_open()
        if self._is_reshaped():
            return None
        return await take_snapshot(self._tasks, self._found, limit, prune_prefix, self._change)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replace the whole history by a compacted one; the old history stays on its branch."""
        if self._is_reshaped():
            return False

        async def replace(given: list[Item]) -> None:
            await self._change(lambda store: replace_all(self._made(store), given))

        await as_json(replace, items)
        return True

    def _is_reshaped(self) -> bool:
        """Whether a subclass stores items in its own form: writing past its methods would mix both forms."""
        cls = type(self)
        return cls.get_items is not ClewSession.get_items or cls.add_items is not ClewSession.add_items

    # -- beyond the SDK

    @property
    def clew(self) -> Session:
        """The Clew session: for `checkpoint(name, files=…)`, `rewind`, `undo`, `usage()` and so on.

        If a `Run` was given, it is that run, which is a session too. Use an `AsyncRun` itself: its methods
        are awaited.
        """
        return self._run if isinstance(self._run, Run) else self._made(self._blocking)

    async def fork(self, id: str | None = None, *, at: Point | None = None) -> ClewSession:
        """A new session that shares all items up to `at` (by default the head), to try another way."""
        fork = await self._tasks.transact(lambda store: self._made(store).fork(id, at=at).id)
        made = ClewSession(fork, self._blocking, session_settings=self.session_settings)
        made._id = fork
        return made

    async def record_usage(
        self, response: ModelResponse, *, agent: Agent[Any] | None = None, model: str | None = None
    ) -> None:
        """Record the usage of a model call, once for each `response_id`: for the `raw_responses` of a result.

        `UsageHooks` records it while the calls are made.
        """
        await self._count(response, agent, model, id=response.response_id)

    async def _count(
        self, response: ModelResponse, agent: Agent[Any] | None, model: str | None, *, id: str | None
    ) -> None:
        usage = response.usage
        if not (usage.requests or usage.total_tokens):
            return
        counts: dict[str, Any] = {
            "model": model or _model_of(agent),
            "source": None if agent is None else agent.name,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.input_tokens_details.cached_tokens,
            "cache_write_tokens": getattr(usage.input_tokens_details, "cache_write_tokens", 0),
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens,
            "id": id,
        }
        # Not under the lease: the tokens were used, whichever run has the session now.
        await settled(self._tasks.transact(lambda store: self._made(store).add_usage(**counts)))

    # -- inside

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosedError(type(self).__name__, self.session_id)

    def _made(self, store: Store) -> Session:
        return open_own(store, self._id, **self._created_with)

    def _found(self, store: Store) -> Session | None:
        return find_own(store, self._id, FRAMEWORK)

    async def _change(self, work: Callable[[Store], T]) -> T:
        """One transaction. A cancelled caller still waits for its outcome, which the SDK needs to know."""
        self._check_open()
        if isinstance(self._run, Run):
            return await settled(asyncio.to_thread(self._blocking.transact, work, run=self._run))
        return await settled(self._tasks.transact(work, run=self._run))


class Closed:
    """What `close()` returns: there is nothing to wait for."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class UsageHooks(RunHooks[Any]):
    """Records the tokens of every model call of a run: `Runner.run(…, hooks=UsageHooks(session))`.

    `model` names the model when its agents do not: where the run's configuration has it.
    """

    def __init__(self, session: ClewSession, *, model: str | None = None) -> None:
        self._session = session
        self._model = model

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        # The SDK reports each call once, and some models give their responses the same id.
        await self._session._count(response, agent, self._model, id=None)


def _model_of(agent: Agent[Any] | None) -> str | None:
    model = None if agent is None else agent.model
    name = getattr(model, "model", model)
    return name if isinstance(name, str) else None


async def settled(write: Awaitable[T]) -> T:
    """The outcome of a write. A cancellation while it runs is raised afterwards."""
    task = asyncio.ensure_future(write)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = cancelled or exc
    if cancelled is not None:
        task.cancelled() or task.exception()  # asyncio complains of an error that is never retrieved
        raise cancelled
    return task.result()


# -- the items in the log


@dataclass(frozen=True)
class Snapshot:
    """The latest items at one moment, with the attributes that the SDK expects."""

    items: list[Item]
    complete: bool
    """There are no items before them."""
    replace_suffix: Callable[[int, list[Any]], Awaitable[bool]]


async def as_json(write: Callable[[list[Item]], Awaitable[T]], items: Sequence[Any]) -> T:
    """Write items as the SDK's own stores do: values that only `json` accepts, like tuples, become JSON, and
    other values raise the errors of `json`."""
    given = list(items)  # the caller may change the list while it is written
    try:
        return await write(given)
    except InvalidEntryError:
        return await write(json.loads(json.dumps(given)))


def latest_items(session: Session | None, last: int) -> list[Item]:
    return [] if session is None else session.messages(last=min(last, MOST))


def pop_newest(session: Session | None, validate: Callable[[Any], None] | None = None) -> Item | None:
    """Go back to before the newest item. Marks behind it, such as a summary, are left with it."""
    latest = [] if session is None else newest(session, 1)
    if session is None or not latest:
        return None
    item = latest[0].message
    if validate is not None:
        validate(item)
    rewind_before(session, latest[0])
    return item


def replace_all(session: Session | None, items: Sequence[Item | bytes]) -> None:
    if session is None or (not items and session.head == BEGINNING):
        return
    if items:
        session.replace(items)
    else:
        session.clear()


async def take_snapshot(
    store: AsyncStore,
    find: Callable[[Store], Session | None],
    limit: int,
    is_expired: Callable[[Item], bool] | None,
    change: Change,
) -> Snapshot:
    """The latest `limit` items. A replacement also drops items at the beginning that are `is_expired`."""

    def look(inside: Store) -> list[Entry]:
        session = find(inside)
        return [] if session is None else newest(session, limit + 1)

    latest = await store.read(look)
    entries = latest[:limit][::-1]

    async def replace_suffix(start: int, items: list[Any]) -> bool:
        """False: there is no item from `start` on, or another writer changed the session."""
        expected = entries[start:]
        if not expected:
            return False

        async def replace(given: list[Item]) -> bool:
            def work(inside: Store) -> bool:
                session = find(inside)
                return session is not None and _replace(session, expected, given, is_expired)

            return await change(work)

        return await as_json(replace, items)

    return Snapshot([entry.message for entry in entries], len(latest) <= limit, replace_suffix)


def _replace(
    session: Session,
    expected: Sequence[Entry],
    items: Sequence[Item],
    is_expired: Callable[[Item], bool] | None,
) -> bool:
    present = newest(session, len(expected))[::-1]
    if [entry.id for entry in present] != [entry.id for entry in expected]:
        return False
    kept = None if is_expired is None else _without_expired(session, expected[0], is_expired)
    if kept is not None:
        replace_all(session, [*kept, *items])
        return True
    rewind_before(session, expected[0])
    session.append(*items)
    return True


def _without_expired(
    session: Session, until: Entry, is_expired: Callable[[Item], bool]
) -> list[bytes] | None:
    """The items before `until` without expired ones at the beginning; None: none is expired."""
    earlier = (entry for entry in session.entries(before=until) if entry.kind == "message")
    for count, entry in enumerate(earlier):
        if not is_expired(entry.message):
            return [entry.raw, *(later.raw for later in earlier)] if count else None
    return [] if until.position else None
