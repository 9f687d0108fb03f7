"""The checkpoints of workflows: a `CheckpointStorage`.

A checkpoint is a document of a session. A second document, named by workflow and time, points to it, so that
the latest checkpoint is found without reading the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar, Final, NamedTuple

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException
from blake3 import blake3

import clew
from clew.adapters.agent_framework.history import FRAMEWORK
from clew.adapters.agent_framework.values import Values
from clew.adapters.common.jsontext import encode
from clew.adapters.common.sessions import faces, find_own, open_own, session_id

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Named(NamedTuple):
    """The fields of a checkpoint by which it is found."""

    checkpoint_id: str
    workflow_name: str
    timestamp: str


def _named(body: bytes) -> _Named:
    fields = json.loads(body)
    return _Named(fields["checkpoint_id"], fields["workflow_name"], fields["timestamp"])


class ClewCheckpointStorage:
    """Keeps the checkpoints of workflows in a Clew store, as JSON without pickle.

    Types of the framework can be kept, and types of yours that you name; no other type is ever loaded.
    """

    DEFAULT_SESSION: ClassVar[str] = "workflow-checkpoints"

    def __init__(
        self,
        store: clew.Store | clew.AsyncStore,
        *,
        session_id: str = DEFAULT_SESSION,
        allowed_checkpoint_types: Sequence[str] | None = None,
        run: clew.AsyncRun | None = None,
    ) -> None:
        """
        Args:
            store: Where checkpoints are kept.
            session_id: The session that holds the checkpoints. Workflows of the same name share their latest
                checkpoint only if they use the same session.
            allowed_checkpoint_types: As "module:qualname", beside those that were given to
                `register_checkpoint_type`.
            run: Write to the session of this run under its lease.
        """
        self._store, self._tasks = faces(store)
        self._session = _id(session_id)
        self._values = Values(frozenset(allowed_checkpoint_types or ()))
        self._run = run

    def session(self) -> clew.Session:
        """The session that holds the checkpoints. SessionNotFoundError if there is none."""
        return self._store.get(self._session)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        fields = {name: self._values.encode(value) for name, value in checkpoint.to_dict().items()}
        try:
            body = encode(fields)
        except (TypeError, ValueError) as exc:
            raise WorkflowCheckpointException(
                f"checkpoint {checkpoint.checkpoint_id} cannot be written as JSON: {exc}"
            ) from exc
        named = _Named(checkpoint.checkpoint_id, checkpoint.workflow_name, checkpoint.timestamp)
        await self._tasks.transact(partial(_write, id=self._session, named=named, body=body), run=self._run)
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        body = await self._tasks.read(partial(_body, id=self._session, checkpoint=checkpoint_id))
        if body is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decoded(body)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Oldest first."""
        bodies = await self._tasks.read(partial(_bodies, id=self._session, workflow=workflow_name))
        return [self._decoded(body) for body in bodies]

    async def delete(self, checkpoint_id: str) -> bool:
        return await self._tasks.transact(
            partial(_delete, id=self._session, checkpoint=checkpoint_id), run=self._run
        )

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        reading = partial(_bodies, id=self._session, workflow=workflow_name, only_last=True)
        bodies = await self._tasks.read(reading)
        return self._decoded(bodies[0]) if bodies else None

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Oldest first."""
        return await self._tasks.read(partial(_ids, id=self._session, workflow=workflow_name))

    def _decoded(self, body: bytes) -> WorkflowCheckpoint:
        fields = json.loads(body)
        return WorkflowCheckpoint.from_dict({name: self._values.decode(fields[name]) for name in fields})


def _id(name: str) -> str:
    return session_id(name)


def _write(store: clew.Store, id: str, named: _Named, body: bytes) -> None:
    session = open_own(store, id, {"framework": FRAMEWORK})
    before = session.get_document(_document(named.checkpoint_id))
    if before is not None:
        session.delete_document(_signpost(_named(before)))
    session.set_document(_document(named.checkpoint_id), body)
    session.set_document(_signpost(named), named.checkpoint_id.encode(errors="surrogatepass"))


def _delete(store: clew.Store, id: str, checkpoint: str) -> bool:
    session = find_own(store, id, FRAMEWORK)
    body = None if session is None else session.get_document(_document(checkpoint))
    if session is None or body is None:
        return False
    session.delete_document(_document(checkpoint))
    session.delete_document(_signpost(_named(body)))
    return True


def _body(store: clew.Store, id: str, checkpoint: str) -> bytes | None:
    session = find_own(store, id, FRAMEWORK)
    return None if session is None else session.get_document(_document(checkpoint))


def _ids(store: clew.Store, id: str, workflow: str, *, only_last: bool = False) -> list[str]:
    session = find_own(store, id, FRAMEWORK)
    if session is None:
        return []
    found = session.documents(_signposts(workflow), newest_first=only_last, limit=1 if only_last else None)
    return [content.decode(errors="surrogatepass") for _, content in found]


def _bodies(store: clew.Store, id: str, workflow: str, *, only_last: bool = False) -> list[bytes]:
    return list(_present(_body(store, id, each) for each in _ids(store, id, workflow, only_last=only_last)))


def _present(bodies: Iterator[bytes | None]) -> Iterator[bytes]:
    return (body for body in bodies if body is not None)


def _document(checkpoint: str) -> str:
    return session_id("checkpoint", checkpoint)


def _signposts(workflow: str) -> str:
    return f"workflow/{_short(workflow)}/"


def _signpost(named: _Named) -> str:
    """Sorts by time."""
    moment = f"{_microseconds(named.timestamp):020d}"
    return f"{_signposts(named.workflow_name)}{moment}/{_short(named.checkpoint_id)}"


def _short(text: str) -> str:
    """Any text as one that fits into a name."""
    return blake3(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _microseconds(timestamp: str) -> int:
    """Microseconds since 1970; 0 for a text that is no time."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return 0
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max((aware - _BEGINNING) // timedelta(microseconds=1), 0)
