"""Going on with a session in an agent: the copy that is written for it, and the command that takes it up.

An exporter with `write_session` puts a session into the place of its agent, under a new id, and says with
what command the agent goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.load.entries import state_of
from clew.core.log.records import COPY
from clew.errors import ConflictError, InvalidError, ReadOnlyError
from clew.model import Head

if TYPE_CHECKING:
    from clew.core.conversation.points import Point
    from clew.session import Session
    from clew.store import Store

AGENTS: Final = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini-cli": "gemini_cli",
    "opencode": "opencode",
    "pi": "pi",
}
"""Agents that can go on with any session, and the module that writes it for each."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A session that an agent can go on with."""

    id: str
    """The agent's own id of it."""
    command: list[str]
    """The program and its arguments."""
    directory: str
    """Where to run it."""
    paths: list[Path] = []
    """The files that were written, the session's own first."""
    notes: list[str] = []
    """What is different in the agent, a sentence each: what was left out, what could not be mapped."""


class Writer(Protocol):
    """A module of an agent."""

    def write_session(
        self, store: Store, id: str, *, at: Point | None, home: Path, workspace: str, new_id: str | None
    ) -> Written: ...


def writer_of(agent: str) -> Writer:
    if agent not in AGENTS:
        raise InvalidError(f"no session can be written for {agent!r}; there is {', '.join(AGENTS)}")
    return cast("Writer", import_module(f"clew.exporters.programs.{AGENTS[agent]}"))


def is_changed(session: Session) -> bool | None:
    """Whether a session that came from an agent does not stand where the agent left it: something was added
    here, or it was rewound. None: it did not come from one, or is a fork."""
    with session._engine.read() as reader:
        state = state_of(reader, session._access.sid)
        agent = reader.get_details(session._access.sid).agent
    if state is None:
        return None
    there = state.head if agent is None else Head(agent.uid, agent.position)
    return there != session.head


def note_copy(store: Store, id: str, copy: str) -> None:
    """Remember of which session a copy was written for an agent: when it comes back from there, it names it.
    A store that cannot be written to does without."""
    session = store.get(id)

    def write(tx: Transaction) -> None:
        tx.put_record(STORE_WIDE, "source", COPY + copy, session.id.encode())
        tx.put_record(session._access.sid, "source", COPY + copy, b"")  # a purge finds it

    with suppress(ReadOnlyError):
        session._engine.run(write)


def write_new(path: Path, pieces: Iterable[bytes]) -> Path:
    """Write a file that is not there yet, with the directories above it, private to the user.

    A file that is there is never touched: ConflictError. One that could not be written whole is removed.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise ConflictError(f"{path} exists already; nothing was written") from error
    try:
        with open(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path
