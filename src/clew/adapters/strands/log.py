"""Strands' messages as a path of the log, and the names they have."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from strands.types.exceptions import SessionException

import clew
from clew.adapters.common import (
    BEGINNING,
    count_of,
    encode,
    find_own,
    listed,
    mended,
    open_own,
    restored,
    session_id,
)
from clew.model import Json

# ── Which sessions belong to Strands, and their keys ──────────────────────────────────────────────
# Which sessions of a store belong to Strands: to its sessions, its agents and the keys of its storages.
#
# A `ClewStorage` keeps the keys of each agent's snapshots in a session of their own, and all other keys in
# one session of the storage, whose documents `p/<place>` name the sessions of the agents. In both,
# `k/<name>` says that there is a key, and `d/<name>` holds its bytes, without the messages if those are in
# the log.

FRAMEWORK: Final = "strands"
SESSION: Final = "session"
AGENT: Final = "agent"
MULTI_AGENT: Final = "multi_agent/"
"""Documents: the records of Strands about a session, an agent and a multi-agent."""
STATE: Final = "strands-state"
"""The tag of sessions that never have messages and are still needed."""


def checked(id: str, what: str) -> str:
    """The id, if Strands' own stores accept it too. Raises ValueError."""
    if os.path.basename(id) != id:
        raise ValueError(f"{what}_id={id} | id cannot contain path separators")
    return id


def place_of_session(session: str) -> str:
    return session_id(checked(session, "session"))


def place_of_agent(session: str, agent: str) -> str:
    return session_id(checked(session, "session"), checked(agent, "agent"))


def keys_of_session(session: str) -> dict[str, Json]:
    return {"framework": FRAMEWORK, "session_id": session}


def keys_of_agent(session: str, agent: str) -> dict[str, Json]:
    return {**keys_of_session(session), "agent_id": agent}


def made_session(store: clew.Store, session: str) -> clew.Session:
    return open_own(store, place_of_session(session), keys_of_session(session), tags=[STATE])


def found(store: clew.Store, id: str) -> clew.Session | None:
    return find_own(store, id, FRAMEWORK)


def known_session(store: clew.Store, session: str) -> clew.Session:
    known = found(store, place_of_session(session))
    if known is None or known.get_document(SESSION) is None:
        raise SessionException(f"Session {session} does not exist")
    return known


def known_agent(store: clew.Store, session: str, agent: str) -> clew.Session:
    known = found(store, place_of_agent(session, agent))
    if known is None:
        raise SessionException(f"Agent {agent} in session {session} does not exist")
    return known


def agents_of(store: clew.Store, session: str) -> Iterator[tuple[str, clew.Session]]:
    """The agents of a session by their ids, without other forks of them."""
    for agent, id in _listed(store, session, deleted=False):
        yield agent, store.get(id)


def deleted_agents_of(store: clew.Store, session: str) -> list[str]:
    """The sessions of agents that are in the trash and have not been created again."""
    gone = dict.fromkeys(id for _, id in _listed(store, session, deleted=True))
    return [id for id in gone if store.find(id) is None]


def _listed(store: clew.Store, session: str, *, deleted: bool) -> Iterator[tuple[str, str]]:
    for info in listed(store, keys_of_session(session), deleted=deleted):
        agent = info.metadata.get("agent_id")
        if isinstance(agent, str) and info.id == place_of_agent(session, agent):
            yield agent, info.id


def fork_session(store: clew.Store, session: str, new: str, content: bytes) -> None:
    """Fork all agents of a session; `content` is the record of Strands about the new one."""
    base = known_session(store, session)
    if found(store, place_of_session(new)) is not None:
        raise SessionException(f"Session {new} already exists")
    made = made_session(store, new)
    made.set_document(SESSION, content)
    for name, known in base.documents(MULTI_AGENT):
        made.set_document(name, known)
    for agent, kept in list(agents_of(store, session)):
        fork = kept.fork(place_of_agent(new, agent))
        fork.update(metadata=keys_of_agent(new, agent))
        for name, known in kept.documents(AGENT):
            fork.set_document(name, known)


# -- the keys of a storage

LATEST: Final = "snapshot_latest.json"
_SNAPSHOTS: Final = "/snapshots/"
_KEY: Final = re.compile(r"((?:.+?/)?scopes/agent/[^/]+)/snapshots/(.+)", re.DOTALL)
_PLACES: Final = re.compile(r"(?:^|/)scopes/agent/[^/]+(?=/)")


class Spot(NamedTuple):
    """Where a key is: in the session of an agent, or, without a place, in that of the storage."""

    place: str | None
    name: str

    @classmethod
    def of(cls, key: str) -> Spot:
        found = _KEY.fullmatch(key)
        return cls(None, key) if found is None else cls(found[1], found[2])

    @property
    def key(self) -> str:
        return self.name if self.place is None else f"{self.place}{_SNAPSHOTS}{self.name}"


class Layout(NamedTuple):
    """The sessions of one storage."""

    storage: str

    def session_id(self, place: str | None) -> str:
        if place is None:
            return session_id(self.storage, "storage", "keys")
        return session_id(self.storage, *place.split("/"))

    def found(self, store: clew.Store, spot: Spot) -> clew.Session | None:
        return found(store, self.session_id(spot.place))

    def made(self, store: clew.Store, spot: Spot) -> clew.Session:
        """The session for a key. A new one is also noted in the session of the storage."""
        id = self.session_id(spot.place)
        known = found(store, id)
        if known is not None:
            return known
        if spot.place is not None:
            self.made(store, Spot(None, "")).set_document(f"p/{spot.place}", b"")
        tags = [] if spot.place else [STATE]
        return open_own(store, id, self._metadata(spot.place), tags=tags)

    def _metadata(self, place: str | None) -> dict[str, Json]:
        keys: dict[str, Json] = {"framework": FRAMEWORK, "storage": self.storage}
        if place is None:
            return keys
        *before, _, _, agent = place.split("/")
        return {**keys, "session_id": before[-1] if before else "", "agent_id": agent}

    def keys(self, store: clew.Store, prefix: str) -> Iterator[str]:
        """All keys that begin with `prefix`."""
        storage = found(store, self.session_id(None))
        if storage is None:
            return
        yield from (name.removeprefix("k/") for name, _ in storage.documents(f"k/{prefix}"))
        places = [name.removeprefix("p/") for name, _ in storage.documents(f"p/{prefix}")]
        places += [prefix[: found.end()] for found in _PLACES.finditer(prefix)]
        for place in dict.fromkeys(places):
            session = found(store, self.session_id(place))
            for name, _ in [] if session is None else session.documents("k/"):
                key = Spot(place, name.removeprefix("k/")).key
                if key.startswith(prefix):
                    yield key

    def drop(self, store: clew.Store, spot: Spot) -> None:
        """Delete a key. An agent without keys goes to the trash of the store with its messages."""
        session = self.found(store, spot)
        if session is None or not session.delete_document(f"k/{spot.name}"):
            return
        session.delete_document(f"d/{spot.name}")
        if spot.place is not None and not session.documents("k/", limit=1):
            store.delete(session.id)
            storage = found(store, self.session_id(None))
            if storage is not None:
                storage.delete_document(f"p/{spot.place}")

    def fork(self, store: clew.Store, base: clew.Session, target: Spot) -> None:
        """A session for another place, with the path and the keys of this one."""
        id = self.session_id(target.place)
        if store.find(id) is not None:
            raise clew.SessionExistsError(id)
        fork = base.fork(id)
        fork.update(metadata=self._metadata(target.place))
        for name, content in base.documents():
            fork.set_document(name, content)
        self.made(store, Spot(None, "")).set_document(f"p/{target.place}", b"")


# ── The messages of a Strands agent in the log of its session, in the order of their numbers ──────
# What Strands keeps of an agent beside its messages does not rewind with them. So it is corrected when it is
# read, if the head was moved since it was kept.

Record: TypeAlias = dict[str, Any]
"""A `SessionMessage` as its own `to_dict` has it."""


def text_of_record(record: Record) -> bytes:
    """A record as JSON text. Other values raise the errors of `json`, as in Strands' own stores."""
    return encode(record)


def record_of(entry: clew.Entry) -> Record | None:
    """The record in an entry; None: the entry is no message for an agent.

    An entry that Strands did not write has no number: its position is used.
    """
    message = entry.message
    if isinstance(message.get("message"), dict) and isinstance(message.get("message_id"), int):
        known: Record = restored(message)
        return known
    content, role = message.get("content"), message.get("role")
    if role not in ("user", "assistant") or not isinstance(content, (str, list)):
        return None
    blocks = [{"text": content}] if isinstance(content, str) else content
    at = entry.time.isoformat()
    said = {**message, "content": blocks}
    return {"message": said, "message_id": entry.position, "created_at": at, "updated_at": at}


def add(session: clew.Session, number: int, text: bytes) -> clew.Entry | None:
    """Write a message behind those with smaller numbers. None: there is a message of this number."""
    behind: list[clew.Entry] = []
    for entry in _newest_first(session):
        known = number_of(entry)
        if known < number:
            break
        if known == number:
            return None
        behind.append(entry)
    if behind:
        go_back(session, before(behind[-1]))
    return session.append(text, *(entry.raw for entry in reversed(behind)))[0]


def find(session: clew.Session, number: int) -> clew.Entry | None:
    """The message of this number."""
    if 0 <= number <= session.head.position:
        # Nearly always the number of a message is its position.
        (there,) = session.entries(at=number, last=1)
        if there.kind == "message" and number_of(there) == number:
            return there
    for entry in _newest_first(session):
        if number_of(entry) <= number:
            return entry if number_of(entry) == number else None
    return None


def put(session: clew.Session, entry: clew.Entry, text: bytes) -> None:
    """Replace the message of an entry. The old one stays on the branch that is left."""
    if entry.raw == mended(text):
        return
    behind = [later.raw for later in session.entries(after=entry) if later.kind == "message"]
    go_back(session, before(entry))
    session.append(text, *behind)


def part(session: clew.Session, offset: int, limit: int | None) -> Sequence[clew.Entry]:
    """Some of the messages, counted from the oldest as a slice of a list counts them."""
    is_plain = offset >= 0 and (limit is None or limit >= 0)
    if is_plain and session.info.messages == session.head.position + 1:
        # There are no marks on the path: positions count messages, and those before need not be read.
        if offset > session.head.position:
            return []
        path = session.entries(after=offset - 1) if offset else session.entries()
        counted = list(path if limit is None else islice(path, limit))
    else:
        found = [entry for entry in session.entries() if entry.kind in ("message", "removed")]
        counted = found[offset:] if limit is None else found[offset : offset + limit]
    return [entry for entry in counted if entry.kind == "message"]


def number_of(entry: clew.Entry) -> int:
    number = entry.message.get("message_id")
    return number if isinstance(number, int) else entry.position


def before(entry: clew.Entry) -> int | clew.Head:
    return entry.position - 1 if entry.position else BEGINNING


def go_back(session: clew.Session, to: int | clew.Head) -> None:
    """Rewind before other messages are written. An automatic title must not keep words that were left
    behind."""
    session.rewind(to)
    info = session.info
    if info.title_is_auto and not info.user_turns:
        session.update(title=None)


def note_usage(session: clew.Session, message: Any, entry: clew.Entry) -> None:
    """Record the usage of a model call, if its message contains it; once for each message."""
    metadata = message.get("metadata") if isinstance(message, dict) else None
    usage = metadata.get("usage") if isinstance(metadata, dict) else None
    if not isinstance(usage, dict) or not any(usage.values()):
        return
    tracking = message.get("tracking_id")
    output = count_of(usage.get("outputTokens"))
    # Some providers do not count cached tokens as input; the total includes them.
    # The usage is recorded once, also if the message is written again on another branch.
    with suppress(clew.KeyReusedError):
        session.add_usage(
            input_tokens=max(count_of(usage.get("inputTokens")), count_of(usage.get("totalTokens")) - output),
            output_tokens=output,
            cache_read_tokens=count_of(usage.get("cacheReadInputTokens")),
            cache_write_tokens=count_of(usage.get("cacheWriteInputTokens")),
            entry=entry,
            id=tracking if isinstance(tracking, str) and tracking else None,
        )


def _newest_first(session: clew.Session) -> Iterator[clew.Entry]:
    # Nearly always the newest entry is enough: the others are read only if they are needed.
    for newest in session.entries(last=1):
        if newest.kind == "message":
            yield newest
        for entry in session.entries(before=newest, newest_first=True):
            if entry.kind == "message":
                yield entry


# -- the agent, after a rewind

_AT: Final = f"{AGENT}_at"
"""The document with the head of the session at the time when the agent was kept."""


def put_agent(session: clew.Session, content: bytes) -> None:
    session.set_document(AGENT, content)
    session.set_document(_AT, str(session.head).encode())


def agent_in(session: clew.Session) -> dict[str, Any] | None:
    """The record of Strands about the agent of a session; None: there is none."""
    content = session.get_document(AGENT)
    if content is None:
        return None
    agent: dict[str, Any] = json.loads(content.decode("utf-8", "surrogatepass"))
    stood = (session.get_document(_AT) or b"").decode()
    if stood not in ("", str(session.head)) and not _is_on_path(session, stood):
        fit_agent(agent, session.info.messages)
    return agent


def _is_on_path(session: clew.Session, entry_id: str) -> bool:
    _, _, position = entry_id.rpartition(".")
    if not position.isdecimal():
        return True  # it stood before the first entry
    if int(position) > session.head.position:
        return False
    (there,) = session.entries(at=int(position), last=1)
    return there.id == entry_id


def fit_agent(agent: dict[str, Any], messages: int) -> None:
    """Correct the record of an agent for a shorter path."""
    internal = agent.get("_internal_state")
    if isinstance(internal, dict) and "interrupt_state" in internal:
        internal["interrupt_state"] = _without_question(internal["interrupt_state"])
    state = agent.get("conversation_manager_state")
    if isinstance(state, dict) and count_of(state.get("removed_message_count")) >= messages:
        # The window began behind the end of the path: start it at the beginning again.
        state["removed_message_count"] = 0


def fit_snapshot(snapshot: bytes, path: Sequence[clew.Entry]) -> bytes:
    """The same snapshot with the messages that are now on the path."""
    content = json.loads(snapshot)
    records = [record_of(entry) for entry in path]
    data = content["data"]
    data["messages"] = [record["message"] for record in records if record is not None]
    if "interrupt_state" in data:
        data["interrupt_state"] = _without_question(data["interrupt_state"])
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _without_question(state: Any) -> Any:
    """The state without an interrupt: its turn is no longer on the path."""
    if not isinstance(state, dict) or not state.get("activated"):
        return state
    return {"interrupts": {}, "context": {}, "activated": False}
