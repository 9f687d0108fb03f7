"""`ClewSessionRepository`: the protocol of Strands' session repositories."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session as StrandsSession
from strands.types.session import SessionAgent, SessionMessage

from clew import AsyncStore, ClewError, Run, Session, Store
from clew.adapters.common import faces, mended, open_own
from clew.adapters.strands.log import (
    AGENT,
    MULTI_AGENT,
    SESSION,
    add,
    agent_in,
    agents_of,
    checked,
    deleted_agents_of,
    find,
    fork_session,
    found,
    keys_of_agent,
    known_agent,
    known_session,
    made_session,
    note_usage,
    part,
    place_of_agent,
    place_of_session,
    put,
    put_agent,
    record_of,
    text_of_record,
)

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

T = TypeVar("T")


class ClewSessionRepository(SessionRepository):
    """A `SessionRepository` of Strands on a store.

    Args:
        store: An open store, sync or async. The repository does not close it.
        run: Write under the lease of this run (`with repository.session("chat-1").run() as run:`).
    """

    def __init__(self, store: Store | AsyncStore, *, run: Run | None = None) -> None:
        self._store = faces(store)[0]
        self._run = run

    # -- sessions

    def create_session(self, session: StrandsSession, **kwargs: Any) -> StrandsSession:
        """Raises SessionException if there is one of this id."""
        place_of_session(session.session_id)
        content = _json(session.to_dict())

        def work(tx: Store) -> None:
            kept = made_session(tx, session.session_id)
            if kept.get_document(SESSION) is not None:
                raise SessionException(f"Session {session.session_id} already exists")
            kept.set_document(SESSION, content)

        self._change(work)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> StrandsSession | None:
        content = self._document(place_of_session(session_id), SESSION)
        return None if content is None else StrandsSession.from_dict(_parsed(content))

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Put a session and its agents in the trash of the store. Raises SessionException if unknown."""
        id = place_of_session(session_id)

        def work(tx: Store) -> None:
            known_session(tx, session_id)
            for _, agent in list(agents_of(tx, session_id)):
                tx.delete(agent.id)
            tx.delete(id)

        self._change(work)

    def restore_deleted(self, session_id: str) -> StrandsSession:
        """Bring a deleted session and its agents back from the trash. Raises SessionException if it is not
        there."""
        id = place_of_session(session_id)

        def work(tx: Store) -> None:
            tx.restore_deleted(id)
            for agent in deleted_agents_of(tx, session_id):
                tx.restore_deleted(agent)

        self._change(work)
        restored = self.read_session(session_id)
        assert restored is not None
        return restored

    # -- agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Raises SessionException if there is no such session."""
        agent_id = session_agent.agent_id
        id = place_of_agent(session_id, agent_id)
        content = _json(session_agent.to_dict())

        def work(tx: Store) -> None:
            known_session(tx, session_id)
            put_agent(open_own(tx, id, keys_of_agent(session_id, agent_id)), content)

        self._change(work)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """The agent as it was kept. After a rewind, parts that no longer fit the messages are corrected."""
        id = place_of_agent(session_id, agent_id)

        def look(store: Store) -> dict[str, Any] | None:
            agent = found(store, id)
            return None if agent is None else agent_in(agent)

        record = self._look(look)
        return None if record is None else SessionAgent.from_dict(record)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Raises SessionException if there is no such agent. Its time of creation does not change."""
        agent_id = session_agent.agent_id
        previous = self._document(place_of_agent(session_id, agent_id), AGENT)
        if previous is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        session_agent.created_at = _parsed(previous)["created_at"]
        content = _json(session_agent.to_dict())
        self._change(lambda tx: put_agent(known_agent(tx, session_id, agent_id), content))

    # -- messages

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Append a message. Raises SessionException if there is no such agent, and if another message has
        this number: two programs that use one agent at once do not overwrite each other's messages."""
        number = _number(session_message.message_id)
        place_of_agent(session_id, agent_id)
        text = text_of_record(session_message.to_dict())

        def work(tx: Store) -> None:
            agent = known_agent(tx, session_id, agent_id)
            entry = add(agent, number, text)
            if entry is not None:
                note_usage(agent, session_message.message, entry)
            elif (there := find(agent, number)) is None or there.raw != mended(text):
                raise SessionException(
                    f"Message {number} already exists in agent {agent_id} in session {session_id}"
                )

        self._change(work)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        number = _number(message_id)
        id = place_of_agent(session_id, agent_id)

        def look(store: Store) -> SessionMessage | None:
            agent = found(store, id)
            entry = None if agent is None else find(agent, number)
            record = None if entry is None else record_of(entry)
            return None if record is None else SessionMessage.from_dict(record)

        return self._look(look)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Put a message in the place of the one with its number, on a new branch.

        Raises SessionException if there is none. Its time of creation does not change. The old message stays
        in the store, on the branch that is left, until the session is purged; so does text that you redact.
        """
        number = session_message.message_id
        previous = self.read_message(session_id, agent_id, number)
        if previous is None:
            raise SessionException(f"Message {number} does not exist")
        session_message.created_at = previous.created_at
        text = text_of_record(session_message.to_dict())

        def work(tx: Store) -> None:
            agent = known_agent(tx, session_id, agent_id)
            entry = find(agent, number)
            if entry is None:
                raise SessionException(f"Message {number} does not exist")
            put(agent, entry, text)

        self._change(work)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """The messages on the path to the head, counted from the oldest."""
        place_of_agent(session_id, agent_id)

        def look(store: Store) -> list[Any]:
            return [*part(known_agent(store, session_id, agent_id), offset, limit)]

        records = [record_of(entry) for entry in self._look(look)]
        return [SessionMessage.from_dict(record) for record in records if record is not None]

    # -- multi-agents

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Raises SessionException if there is no such session."""
        name = MULTI_AGENT + checked(multi_agent.id, "agent")
        content = _json(multi_agent.serialize_state())
        self._change(lambda tx: known_session(tx, session_id).set_document(name, content))

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        name = MULTI_AGENT + checked(multi_agent_id, "agent")
        content = self._document(place_of_session(session_id), name)
        found: dict[str, Any] | None = None if content is None else _parsed(content)
        return found

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Raises SessionException if its state was never kept."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(
                f"MultiAgent state {multi_agent.id} in session {session_id} does not exist"
            )
        self.create_multi_agent(session_id, multi_agent)

    # -- beyond Strands

    def session(self, session_id: str, agent_id: str = "default") -> Session:
        """The Clew session of an agent: for `checkpoint(name, files=…)`, `rewind`, `undo`, `usage()` and so
        on.

        The next `RepositorySessionManager` goes on where this session stands.
        """
        return known_agent(self._store, session_id, agent_id)

    def fork_session(self, session_id: str, new_session_id: str) -> StrandsSession:
        """A new session whose agents share all messages so far, to try another way."""
        base = self.read_session(session_id)
        if base is None:
            raise SessionException(f"Session {session_id} does not exist")
        made = StrandsSession(session_id=new_session_id, session_type=base.session_type)
        content = _json(made.to_dict())
        self._change(lambda tx: fork_session(tx, session_id, new_session_id, content))
        return made

    # -- inside

    def _change(self, work: Callable[[Store], T]) -> T:
        """One transaction; errors become those of Strands."""
        try:
            return self._store.transact(work, run=self._run)
        except ClewError as error:
            raise SessionException(str(error)) from error

    def _look(self, work: Callable[[Store], T]) -> T:
        try:
            return self._store.read(work)
        except ClewError as error:
            raise SessionException(str(error)) from error

    def _document(self, id: str, name: str) -> bytes | None:
        def look(store: Store) -> bytes | None:
            session = found(store, id)
            return None if session is None else session.get_document(name)

        return self._look(look)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _parsed(content: bytes) -> Any:
    return json.loads(content.decode("utf-8", "surrogatepass"))


def _number(message_id: object) -> int:
    if not isinstance(message_id, int):
        raise ValueError(f"message_id=<{message_id}> | message id must be an integer")
    return message_id
