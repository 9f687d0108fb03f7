"""A session as a run of ductwork that can be resumed: the messages, and how far the run had come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.seed_go import go_json, go_time
from clew.exporters.seed_shapes import as_anthropic
from clew.model import Json

if TYPE_CHECKING:
    from clew.session import Session
    from clew.store import Store

_BEFORE: Final[tuple[str, ...]] = ("run_id", "task_name", "iteration")
"""The fields before the messages."""


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    redactor = redactor_of(redact)
    session = store.get(id)
    state = _imported_state(session) or _own_state(session)
    head: dict[str, Json] = {name: state[name] for name in _BEFORE if name in state}
    tail = {name: value for name, value in state.items() if name not in head}
    messages = [as_anthropic(message) for message in _messages(session)]
    run: dict[str, Json] = {**head, "messages": messages, **tail}
    yield go_json(redactor.value(run, "run") if redactor else run, pretty=True)


def _messages(session: Session) -> list[dict[str, Json]]:
    """The whole history; of a compacted one what a model would get, as ductwork itself does."""
    found = []
    for entry in session.entries():
        if entry.kind in ("compaction", "truncation"):
            return list(session.context())
        if entry.kind == "message":
            found.append(entry.message)
    return found


def _imported_state(session: Session) -> dict[str, Json] | None:
    """What the newest file of this run said."""
    for checkpoint in reversed(session.checkpoints()):
        if isinstance(checkpoint.state, dict) and "run_id" in checkpoint.state:
            return checkpoint.state
    return None


def _own_state(session: Session) -> dict[str, Json]:
    info = session.info
    runs = [checkpoint.run for checkpoint in session.checkpoints() if checkpoint.run]
    newest = max(runs, key=lambda run: run.number, default=None)
    spent = session.usage()
    assert not isinstance(spent, dict)
    return {
        "run_id": info.id,
        "task_name": (info.run.task if info.run else None) or info.title or "",
        "iteration": (newest.iteration if newest else None) or 0,
        "system_prompt": "",
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "created_at": go_time(info.updated_at),
    }
