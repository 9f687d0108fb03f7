"""Going on with a session in an agent: the copy that is written for it, and the command that takes it up.

An exporter with `write_session` puts a session into the place of its agent, under a new id, and says with
what command the agent goes on.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec
from blake3 import blake3

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.conversation.points import resolve, tip_at
from clew.core.load.entries import state_of
from clew.core.log.records import COPY, Count, Time, decoder
from clew.errors import ConflictError, CorruptError, InvalidError, ReadOnlyError
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


# ── Copies that were written before ───────────────────────────────────────────────────────────────


class CopyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A copy as it was written. A command is never stored: a store may come from anywhere."""

    path: str
    """The file of the agent."""
    size: Count
    hash: str
    """BLAKE3 of the file."""
    session_hash: str
    """The hash of the conversation that it holds."""
    directory: str
    time: Time


_encode: Final = msgspec.json.Encoder().encode
_decode: Callable[[bytes], CopyRecord] = decoder(CopyRecord, "the record of a copy")
_OWN_ID: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_-]{0,199}")
_COMMANDS: Final = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "gemini-cli": ("gemini", "--resume"),
    "pi": ("pi", "--session"),
}
"""The words before the id of a copy. OpenCode is missing: its sessions are rows of its own database, and no
file tells whether one was continued."""
_PIECE: Final = 1 << 20


def note_copy(store: Store, id: str, agent: str, written: Written, *, at: Point | None = None) -> None:
    """Remember of which session a copy was written for an agent: an import of the copy names it, and
    `unused_copy` finds it. A store that cannot be written to does without."""
    session = store.get(id)
    name = f"{COPY}{agent}:{written.id}"
    record = b""
    if agent in _COMMANDS and written.paths:
        path = written.paths[0]
        found = _content_of(str(path))
        if found is not None:
            size, hash = found
            known = CopyRecord(
                str(path), size, hash, _hash_at(session, at), written.directory, session._scope.now()
            )
            record = _encode(known)

    def write(tx: Transaction) -> None:
        tx.put_record(STORE_WIDE, "source", name, session.id.encode())
        tx.put_record(session._access.sid, "source", name, record)  # a purge finds it

    with suppress(ReadOnlyError):
        session._engine.run(write)


def unused_copy(store: Store, id: str, agent: str, *, at: Point | None, directory: str) -> Written | None:
    """The newest copy of this conversation that was written for the agent and the directory, and that nobody
    has used: its file is byte for byte as it was written. None: there is none."""
    words = _COMMANDS.get(agent)
    if words is None:
        return None
    session = store.get(id)
    prefix = f"{COPY}{agent}:"
    with session._look() as (reader, row):
        found = reader.scan_records(row.sid, "source", prefix, prefix + "\U0010ffff")
    wanted = _hash_at(session, at)
    known: list[tuple[CopyRecord, str]] = []
    for name, value in found:
        with suppress(CorruptError):
            if value:
                known.append((_decode(value), name.removeprefix(prefix)))
    for copy, own in sorted(known, key=lambda one: one[0].time, reverse=True):
        is_wanted = copy.session_hash == wanted and copy.directory == directory
        # A store may name any file: one that does not bear the id of the copy is not opened.
        is_named = _OWN_ID.fullmatch(own) is not None and own[:8] in os.path.basename(copy.path)
        if is_wanted and is_named and _content_of(copy.path, size=copy.size) == (copy.size, copy.hash):
            return Written(id=own, command=[*words, own], directory=directory, paths=[Path(copy.path)])
    return None


def _hash_at(session: Session, at: Point | None) -> str:
    """The hash of the conversation up to a point."""
    with session._look() as (reader, row):
        tip = row.head if at is None else tip_at(reader, *resolve(reader, row, at))
    return tip.digest.hex()


def _content_of(path: str, *, size: int | None = None) -> tuple[int, str] | None:
    """Size and hash of a regular file; None: there is none, or it has another size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (size is not None and status.st_size != size):
            return None
        hash, length = blake3(), 0
        while piece := file.read(_PIECE):
            hash.update(piece)
            length += len(piece)
            if length > status.st_size:  # somebody is writing to it
                return None
        return length, hash.hexdigest()


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
