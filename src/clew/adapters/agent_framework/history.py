"""The messages of agents: a `HistoryProvider`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Final

from agent_framework import AgentSession, HistoryProvider, Message, SessionContext, SupportsAgentRun
from agent_framework._sessions import filter_new_messages

import clew
from clew.adapters.common import count_of, encode, faces, find_own, mended, open_own, restored, session_id

# -- messages as JSON, and back

FRAMEWORK: Final = "agent-framework"


def encoded(message: Message) -> bytes:
    return encode(message.to_dict())


def decoded(value: dict[str, Any]) -> Message:
    return Message.from_dict(restored(value))


def messages_of(session: clew.Session, last: int | None = None) -> list[Message]:
    """The last messages on the path, or all."""
    found = session.messages(last=last)
    try:
        return [decoded(value) for value in found]
    except (KeyError, TypeError, ValueError) as exc:
        raise clew.InvalidError(
            f"session {session.id!r} has an entry that is no message of the Agent Framework: "
            "rewind to before it"
        ) from exc


# -- the provider

_USED: ContextVar[Mapping[str, Any] | None] = ContextVar("clew_agent_framework_used", default=None)
"""The usage of the run whose messages are being saved: the framework does not pass it with them."""

_COUNTS: Final = {
    "input_tokens": "input_token_count",
    "output_tokens": "output_token_count",
    "cache_read_tokens": "cache_read_input_token_count",
    "cache_write_tokens": "cache_creation_input_token_count",
    "reasoning_tokens": "reasoning_output_token_count",
}
_OF_ANTHROPIC: Final = {
    "cache_read_tokens": "anthropic.cache_read_input_tokens",
    "cache_write_tokens": "anthropic.cache_creation_input_tokens",
}
"""Fields of Anthropic's client, whose input tokens do not include cached tokens."""


class ClewHistoryProvider(HistoryProvider):
    """Keeps the history of each session of an agent in a session of a Clew store.

    The messages of a run are appended in one commit. If an agent saves the whole transcript again, only the
    new messages are appended. The path to the head is loaded: a rewind of the session is a rewind of the
    agent. The usage of a run is recorded with its messages.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "clew_history"
    DEFAULT_SESSION: ClassVar[str] = "default"

    def __init__(
        self,
        store: clew.Store | clew.AsyncStore,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        run: clew.AsyncRun | None = None,
    ) -> None:
        """The options of `HistoryProvider`, and:

        Args:
            store: Where the history is kept.
            source_id: Names this provider. One with a name of its own has a history of its own.
            skip_excluded: Do not load messages that a compaction has marked as excluded.
            run: Write to the session of this run under its lease.
        """
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._store, self._tasks = faces(store)
        self._run = run

    def session(self, session_id: str | None = None) -> clew.Session:
        """The Clew session that holds the history of an agent's session: to rewind, fork, set checkpoints
        with files, search. SessionNotFoundError if there is none."""
        return self._store.get(self._id(session_id))

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        def read(store: clew.Store) -> list[Message]:
            session = find_own(store, self._id(session_id), FRAMEWORK)
            return [] if session is None else messages_of(session)

        messages = await self._tasks.read(read)
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded", False)]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        given = [encoded(message) for message in messages]
        told = [decoded(json.loads(mended(body))) for body in given]  # as they will be read again
        id = self._id(session_id)
        while given:
            head, last = await self._tasks.read(partial(_end, id=id, count=len(given)))
            new = len(filter_new_messages(last, told))
            adding = partial(
                _append,
                id=id,
                bodies=given[len(given) - new :],
                expect=head,
                metadata=self._metadata(session_id),
                used=_counted(_USED.get()),
            )
            if not new or await self._tasks.transact(adding, run=self._run):
                return

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        # A provider that only stores must not count the usage that the loading provider has counted.
        response = context.response if self.load_messages and self.store_outputs else None
        token = _USED.set(None if response is None else response.usage_details)
        try:
            await super().after_run(agent=agent, session=session, context=context, state=state)
        finally:
            _USED.reset(token)

    def _id(self, session: str | None) -> str:
        name = session or self.DEFAULT_SESSION
        return (
            session_id(name) if self.source_id == self.DEFAULT_SOURCE_ID else session_id(name, self.source_id)
        )

    def _metadata(self, session: str | None) -> dict[str, Any]:
        named = {"session": session} if session else {}
        return {"framework": FRAMEWORK, "source": self.source_id, **named}


def _end(store: clew.Store, id: str, count: int) -> tuple[clew.Head | None, list[Message]]:
    """Where a history ends, and its last `count` messages: only these can be among messages saved again."""
    session = find_own(store, id, FRAMEWORK)
    return (None, []) if session is None else (session.head, messages_of(session, count))


def _counted(used: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of `add_usage`; empty: the usage is not known."""
    told = used or {}
    found = {name: count_of(told.get(field)) for name, field in _COUNTS.items()}
    for name, field in _OF_ANTHROPIC.items():
        found[name] = found[name] or count_of(told.get(field))
    cached = found["cache_read_tokens"] + found["cache_write_tokens"]
    is_apart = not told.keys().isdisjoint(_OF_ANTHROPIC.values())
    if is_apart or found["input_tokens"] < cached:
        found["input_tokens"] += cached
    return {name: count for name, count in found.items() if count}


def _append(
    store: clew.Store,
    id: str,
    bodies: Sequence[bytes],
    expect: clew.Head | None,
    metadata: dict[str, Any],
    used: dict[str, Any],
) -> bool:
    """False: another writer has appended since the end was read."""
    session = find_own(store, id, FRAMEWORK)
    if (None if session is None else session.head) != expect:
        return False
    if session is None:
        session = open_own(store, id, metadata)
    entries = session.append(*bodies)
    if used:
        session.add_usage(entry=entries[-1], **used)
    return True
