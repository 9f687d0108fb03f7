"""The messages of a Strands agent in the log of its session, in the order of their numbers.

What Strands keeps of an agent beside its messages does not rewind with them. So it is corrected when it is
read, if the head was moved since it was kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeAlias

import clew
from clew.adapters.common.history import BEGINNING, count_of
from clew.adapters.common.jsontext import encode, mended, restored
from clew.adapters.strands.keys import AGENT

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
