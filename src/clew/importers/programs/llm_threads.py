"""The newer tables of llm: messages named by their content, and threads that point at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.importers.contract import SourceEntry, SourceUsage
from clew.importers.reading.sqlite import rows
from clew.importers.reading.values import (
    count,
    decode_or_none,
    items,
    mapping,
    plain_name,
    text,
    when,
    without,
)
from clew.model import Json

if TYPE_CHECKING:
    import apsw


class Threads:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def all(self) -> Iterator[dict[str, Json]]:
        yield from list(rows(self._db, "SELECT * FROM threads ORDER BY id"))

    def turns(self, thread: str) -> list[dict[str, Json]]:
        """The calls of the model, oldest first."""
        return list(rows(self._db, "SELECT * FROM turns WHERE thread_id = ? ORDER BY id", (thread,)))

    def entries(self, thread: dict[str, Json]) -> Iterator[SourceEntry]:
        """What each call left behind, and what the thread points at: a call may have been left out of it."""
        seen: set[str] = set()
        for turn in self.turns(str(thread["id"])):
            yield from self._chain(text(turn.get("tip_message_hash")), seen, turn)
        yield from self._chain(text(thread.get("tip_message_hash")), seen, {})

    def _chain(self, tip: str | None, seen: set[str], turn: dict[str, Json]) -> Iterator[SourceEntry]:
        new: list[dict[str, Json]] = []
        at = tip
        while at is not None and at not in seen:
            row = next(rows(self._db, "SELECT * FROM messages WHERE hash = ?", (at,)), None)
            if row is None:
                break
            seen.add(at)
            new.append(row)
            at = text(row.get("parent_hash"))
        parent = at if at in seen else None
        for row in reversed(new):
            uid = str(row["hash"])
            rest = without(row, ("hash", "parent_hash", "role"))
            if uid == tip:
                rest |= {"turn": without(turn, ("thread_id", "parent_message_hash", "tip_message_hash"))}
            yield SourceEntry(
                uid=uid,
                parent=parent,
                message={
                    "role": row.get("role"),
                    "content": [self._block(part) for part in self._parts(uid)],
                },
                at=when(turn.get("datetime_utc")),
                usage=_usage(turn) if uid == tip else None,
                notes={"source": rest} if rest else {},
            )
            parent = uid

    def _parts(self, message: str) -> Iterator[dict[str, Json]]:
        return rows(self._db, "SELECT * FROM parts WHERE message_hash = ? ORDER BY position", (message,))

    def _block(self, part: dict[str, Json]) -> Json:
        payload = mapping(decode_or_none(part.get("payload")))
        words = part.get("text")
        if words is None and "text_ref" in payload:
            words = self._resolved(payload["text_ref"])
        rest = without(payload, ("text_ref", "name", "arguments", "tool_call_id", "output"))
        match part.get("type"):
            case "reasoning":
                return {"type": "thinking", "thinking": words or "", **rest}
            case "tool_call":
                name = part.get("tool_name") or payload.get("name")
                call = {"id": payload.get("tool_call_id"), "name": name, "input": payload.get("arguments")}
                return {"type": "tool_use", **call, **rest}
            case "tool_result":
                output = payload.get("output", words)
                result = {"tool_use_id": payload.get("tool_call_id"), "content": output}
                return {"type": "tool_result", **result, **rest}
            case "text":
                return {"type": "text", "text": words or "", **rest}
            case "attachment":
                return {"type": "file", **payload}
            case kind:
                return {"type": str(kind), **({"text": words} if words is not None else {}), **payload}

    def _resolved(self, references: Json) -> str:
        """Text that was put together of fragments, each of which is stored once."""
        told = []
        for piece in map(mapping, items(references)):
            if "fragment" in piece:
                wanted = "SELECT content FROM fragments WHERE id = ?"
                found = next(rows(self._db, wanted, (plain_name(str(piece["fragment"])) or "",)), {})
                told.append(text(found.get("content")) or "")
            else:
                told.append(text(piece.get("literal")) or "")
        return "".join(told)


def _usage(turn: dict[str, Json]) -> SourceUsage | None:
    sent, received = count(turn.get("input_tokens")), count(turn.get("output_tokens"))
    if not (sent or received):
        return None
    return SourceUsage(
        id=str(turn["id"]),
        model=plain_name(turn.get("resolved_model")) or text(turn.get("model")),
        input_tokens=sent,
        output_tokens=received,
        at=when(turn.get("datetime_utc")),
    )
