"""A session as a run of ductwork that can be resumed: the messages, and how far the run had come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from clew.core.log.ids import entry_id
from clew.core.messages.dialects import role_of
from clew.exporters.programs.shapes import as_anthropic, go_json, go_time
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Checkpoint, Json

if TYPE_CHECKING:
    from clew.session import Session
    from clew.store import Store

_BEFORE: Final[tuple[str, ...]] = ("run_id", "task_name", "iteration")
"""The fields before the messages."""
_TOKENS: Final = ("input_tokens", "output_tokens")


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    redactor = redactor_of(redact)
    session = store.get(id)
    state = _state(session)
    head: dict[str, Json] = {name: state[name] for name in _BEFORE if name in state}
    tail = {name: value for name, value in state.items() if name not in head}
    messages: Json = [message and as_anthropic(message) for message in _messages(session)]
    if not messages and "messages" in tail:
        messages = None  # as Go writes a list that was never made
    tail.pop("messages", None)
    run: dict[str, Json] = {**head, "messages": messages, **tail}
    yield go_json(redactor.value(run, "run") if redactor else run, pretty=True)


def _messages(session: Session) -> list[dict[str, Json] | None]:
    """The whole history, None for a message that was null in the file; of a compacted one what a model would
    get, as ductwork itself does."""
    found: list[dict[str, Json] | None] = []
    for entry in session.entries():
        if entry.kind in ("compaction", "truncation"):
            return list(session.context())
        if entry.kind == "message":
            found.append(None if entry.annotations.get("null") is True else entry.message)
    return found


def _state(session: Session) -> dict[str, Json]:
    """What stands beside the messages: as the newest file of this run said it, if nothing happened since."""
    info, checkpoints = session.info, session.checkpoints()
    imported = [checkpoint for checkpoint in checkpoints if _is_imported(checkpoint)]
    saved: dict[str, Json] = imported[-1].state if imported else {}
    # The file says what the run had used by then, be it less than an older one said.
    known = {name: count for name in _TOKENS if isinstance(count := saved.get(name), int)}
    added = _added(session, str(saved.get("run_id") or info.id.removeprefix("ductwork:")))
    if imported and session.head == imported[-1].head and not any(added.values()):
        return saved
    now: dict[str, Json] = {
        "iteration": _iteration(session, checkpoints),
        **{name: known.get(name, 0) + count for name, count in added.items()},
        "created_at": go_time(info.updated_at),
    }
    if imported:
        return {**saved, **now}
    task = (info.run.task if info.run else None) or info.title or ""
    return {"run_id": info.id, "task_name": task, "system_prompt": "", **now}


def _added(session: Session, run: str) -> dict[str, int]:
    """The tokens of the calls that were added here, and not told of by the files of the run."""
    told = f"{run}:total"  # as the import calls it; what came later has more behind that
    sums = dict.fromkeys(_TOKENS, 0)
    last = None
    while calls := session.usage_records(after=last):
        last = calls[-1]
        for call in calls:
            if call.id != told and not (call.id or "").startswith(f"{told}+rest"):
                sums["input_tokens"] += call.input_tokens
                sums["output_tokens"] += call.output_tokens
    return sums


def _is_imported(checkpoint: Checkpoint) -> bool:
    return isinstance(checkpoint.state, dict) and "run_id" in checkpoint.state


def _iteration(session: Session, checkpoints: Sequence[Checkpoint]) -> int:
    """As the last checkpoint on the path says, and one more for each answer since: a round of ductwork is
    one answer of the model and the results of its tools."""
    known: dict[str, int] = {}
    for checkpoint in checkpoints:
        said = checkpoint.state.get("iteration") if _is_imported(checkpoint) else None
        said = checkpoint.run.iteration if checkpoint.run else said
        if isinstance(said, int):
            known[entry_id(checkpoint.head.branch, checkpoint.head.position)] = said
    iteration = 0
    for entry in session.entries():
        if entry.kind == "message" and role_of(entry.message) == "assistant":
            iteration += 1
        iteration = known.get(entry.id, iteration)
    return iteration
