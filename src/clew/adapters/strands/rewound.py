"""What Strands keeps beside the messages of an agent, when somebody moved the head since it was kept.

It does not rewind with the messages. What would not fit them any more is put right when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import clew
from clew.adapters.strands.log import record_of
from clew.adapters.strands.places import AGENT

_AT: Final = f"{AGENT}_at"
"""The document that says where the session stood when its agent was kept."""


def put_agent(session: clew.Session, content: bytes) -> None:
    session.set_document(AGENT, content)
    session.set_document(_AT, str(session.head).encode())


def agent_in(session: clew.Session) -> dict[str, Any] | None:
    """What is known of the agent of a session; None: nothing."""
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
    """Make what is known of an agent fit a shorter path."""
    internal = agent.get("_internal_state")
    if isinstance(internal, dict) and "interrupt_state" in internal:
        internal["interrupt_state"] = _without_question(internal["interrupt_state"])
    state = agent.get("conversation_manager_state")
    if isinstance(state, dict) and _count(state.get("removed_message_count")) >= messages:
        # The window began behind the end: it slides anew from the beginning.
        state["removed_message_count"] = 0


def fit_snapshot(snapshot: bytes, path: Sequence[clew.Entry]) -> bytes:
    """The same snapshot with the messages that are on the path now."""
    content = json.loads(snapshot)
    records = [record_of(entry) for entry in path]
    data = content["data"]
    data["messages"] = [record["message"] for record in records if record is not None]
    if "interrupt_state" in data:
        data["interrupt_state"] = _without_question(data["interrupt_state"])
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _without_question(state: Any) -> Any:
    """An agent that waits for an answer, in a turn that is not there any more, waits no longer."""
    if not isinstance(state, dict) or not state.get("activated"):
        return state
    return {"interrupts": {}, "context": {}, "activated": False}


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
