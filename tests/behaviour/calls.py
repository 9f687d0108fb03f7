"""The calls of a session, for tests of who may make them, and where; and a session on which each has work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from clew.backends.contract import Transaction
from clew.core.log.rows import NO_TIME, AgentTip
from clew.core.runs.access import Access
from clew.session import Session
from clew.testing.backend.base import assistant, state, user

Use = Callable[[Session], Any]


def furnish(s: Session) -> Session:
    """Give a session something to change of every kind, and a run that is over."""
    s.append(user("a"), user("b"), key="k")
    s.append(assistant("c"))
    s.set_summary("sum")
    s.set_summary("other")
    s.undo()
    s.checkpoint("c")
    s.set_var("v", 1)
    s.set_document("d", b"d")
    s.add_alias(f"alias of {s.id}")
    with s.run() as run:
        run.checkpoint()
    s._write(_owned, AgentTip(s.head.branch, 0, messages=1, left=1, time=NO_TIME))
    return s


def _owned(tx: Transaction, access: Access, agent: AgentTip) -> None:
    """As if the session was loaded from the file of an agent, which stands elsewhere."""
    tx.set_details(access.sid, msgspec.structs.replace(tx.get_details(access.sid), agent=agent))


def everything(session: Session) -> Any:
    """Everything that a write could have changed."""
    with session._look() as (_, row):
        forks = row.forks
    return (
        forks,
        state(session),
        session.info,
        session.checkpoints(),
        session.vars(),
        session.documents(),
        session.events(),
        session.usage_records(),
        session.status_changes(),
        [dict(entry.annotations) for entry in session.entries()],
    )


def _turn(s: Session) -> None:
    with s.turn() as turn:
        turn.append(user("x"))


def _reopened(s: Session) -> None:
    if s.lease is None:  # else it would end the run
        s.close()
    s.reopen()


READS: Final[dict[str, Use]] = {
    "checkpoints": lambda s: s.checkpoints(),
    "context": lambda s: s.context(),
    "count_events": lambda s: s.count_events(),
    "documents": lambda s: s.documents(),
    "entries": lambda s: list(s.entries()),
    "events": lambda s: s.events(),
    "get_checkpoint": lambda s: s.get_checkpoint("c"),
    "get_document": lambda s: s.get_document("d"),
    "get_var": lambda s: s.get_var("v"),
    "head": lambda s: s.head,
    "info": lambda s: s.info,
    "lease": lambda s: s.lease,
    "messages": lambda s: s.messages(),
    "moves": lambda s: s.moves(),
    "outline": lambda s: s.outline(),
    "resume": lambda s: s.resume(),
    "status_changes": lambda s: s.status_changes(),
    "summary": lambda s: s.summary,
    "tree": lambda s: s.tree(),
    "usage": lambda s: s.usage(),
    "usage_records": lambda s: s.usage_records(),
    "vars": lambda s: s.vars(),
}
BESIDE: Final[dict[str, Use]] = {
    "add_alias": lambda s: s.add_alias(f"new alias of {s.id}"),
    "add_event": lambda s: s.add_event("x"),
    "add_events": lambda s: s.add_events([{"type": "x"}]),
    "add_usage": lambda s: s.add_usage(model="m", input_tokens=1, output_tokens=1),
    "annotate": lambda s: s.annotate(0, note="x"),
    "fork": lambda s: s.fork(f"fork of {s.id}"),
    "new_fork_id": lambda s: s.new_fork_id(),
    "remove_alias": lambda s: s.remove_alias(f"alias of {s.id}"),
    "set_metadata": lambda s: s.set_metadata(x=1),
    "touch": lambda s: s.touch(),
    "update": lambda s: s.update(title="x"),
}
"""What is kept beside the conversation: nobody has to wait for it."""
STATUS_ONLY: Final[dict[str, Use]] = {
    "close": lambda s: s.close(),
    "reopen": _reopened,
    "start": lambda s: s.start(),
}
CONVERSATION: Final[dict[str, Use]] = {
    "append": lambda s: s.append(user("x")),
    "append (known key)": lambda s: s.append(user("a"), user("b"), key="k"),
    "checkpoint": lambda s: s.checkpoint("new"),
    "clear": lambda s: s.clear(),
    "compact": lambda s: s.compact("all of it"),
    "complete": lambda s: s.complete(),
    "delete_checkpoint": lambda s: s.delete_checkpoint("c"),
    "delete_document": lambda s: s.delete_document("d"),
    "delete_var": lambda s: s.delete_var("v"),
    "fail": lambda s: s.fail("x"),
    "follow": lambda s: s.follow(),
    "redo": lambda s: s.redo(),
    "replace": lambda s: s.replace([user("x")]),
    "rewind": lambda s: s.rewind(0),
    "set_document": lambda s: s.set_document("n", b""),
    "set_summary": lambda s: s.set_summary("x"),
    "set_var": lambda s: s.set_var("n", 1),
    "truncate": lambda s: s.truncate(1),
    "turn": _turn,
    "undo": lambda s: s.undo(),
}
"""What changes the conversation, its status, its checkpoints, variables or documents."""
WRITES: Final = BESIDE | STATUS_ONLY | CONVERSATION
