"""The older tables of llm: one row for a prompt and its response."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from clew.importers.contract import SourceEntry, SourceUsage
from clew.importers.reading.sqlite import rows
from clew.importers.reading.values import count, decode_or_none, mapping, plain_name, text, when, without
from clew.model import Json

if TYPE_CHECKING:
    import apsw

_TOLD: Final = frozenset({"prompt", "system", "response", "reasoning", "conversation_id", "datetime_utc"})
_FRAGMENTS: Final = {
    "prompt": "SELECT f.content FROM prompt_fragments l JOIN fragments f ON f.id = l.fragment_id"
    ' WHERE l.response_id = ? ORDER BY l."order"',
    "system": "SELECT f.content FROM system_fragments l JOIN fragments f ON f.id = l.fragment_id"
    ' WHERE l.response_id = ? ORDER BY l."order"',
}
_ATTACHMENTS: Final = (
    "SELECT a.type, a.path, a.url, a.content FROM prompt_attachments l"
    ' JOIN attachments a ON a.id = l.attachment_id WHERE l.response_id = ? ORDER BY l."order"'
)


class Legacy:
    """Reads rows one by one. Tables that an old database has not yet are empty."""

    def __init__(self, db: apsw.Connection, tables: frozenset[str]) -> None:
        self._db = db
        self._tables = tables

    def conversations(self) -> Iterator[tuple[str, list[str]]]:
        """Their names, each with the ids of its responses, in the order of time."""
        found: dict[str, list[str]] = {}
        wanted = "SELECT id, coalesce(conversation_id, id) AS of FROM responses ORDER BY id"
        for row in rows(self._db, wanted):
            found.setdefault(str(row["of"]), []).append(str(row["id"]))
        yield from found.items()

    def about(self, conversation: str) -> dict[str, Json]:
        wanted = "SELECT * FROM conversations WHERE id = ?"
        return next(rows(self._db, wanted, (conversation,)), {}) if "conversations" in self._tables else {}

    def response(self, key: str) -> dict[str, Json]:
        return next(rows(self._db, "SELECT * FROM responses WHERE id = ?", (key,)), {})

    def entries(self, responses: list[str]) -> Iterator[SourceEntry]:
        parent: str | None = None
        instructed: str | None = None
        for key in responses:
            row = self.response(key)
            at = when(row.get("datetime_utc"))
            system = self._joined(row, "system")
            said = (
                [("system", {"role": "system", "content": system})] if system and system != instructed else []
            )
            instructed = system or instructed
            said += [(f"result-{number}", result) for number, result in enumerate(self._results(key))]
            said += self._asked(row)
            for name, message in said:
                yield SourceEntry(uid=f"{key}/{name}", parent=parent, message=message, at=at)
                parent = f"{key}/{name}"
            uid = f"{key}/response"
            notes = {"source": without(row, _TOLD)}
            usage = _usage(row)
            yield SourceEntry(
                uid=uid, parent=parent, message=self._answer(row), at=at, usage=usage, notes=notes
            )
            parent = uid

    def _joined(self, row: dict[str, Json], field: str) -> str:
        parts: list[Json] = []
        if {f"{field}_fragments", "fragments"} <= self._tables:
            parts = [found["content"] for found in rows(self._db, _FRAGMENTS[field], (str(row["id"]),))]
        return "\n".join(filter(None, map(text, [*parts, row.get(field)])))

    def _asked(self, row: dict[str, Json]) -> list[tuple[str, dict[str, Json]]]:
        prompt = self._joined(row, "prompt")
        files = list(self._attachments(str(row["id"])))
        if files:
            words = [{"type": "text", "text": prompt}] if prompt else []
            return [("prompt", {"role": "user", "content": [*words, *files]})]
        return [("prompt", {"role": "user", "content": prompt})] if prompt else []

    def _attachments(self, key: str) -> Iterator[Json]:
        if not {"prompt_attachments", "attachments"} <= self._tables:
            return
        for kind, path, url, content in self._db.execute(_ATTACHMENTS, (key,)):
            data = base64.b64encode(content).decode() if isinstance(content, bytes) else None
            told: dict[str, Json] = {"mime_type": kind, "path": path, "url": url, "data": data}
            yield {"type": "file", **without(told, ())}

    def _answer(self, row: dict[str, Json]) -> dict[str, Json]:
        message: dict[str, Json] = {"role": "assistant", "content": text(row.get("response")) or ""}
        if thought := text(row.get("reasoning")):
            message["reasoning_content"] = thought
        if calls := list(self._calls(str(row.get("id")))):
            message["tool_calls"] = calls
        return message

    def _calls(self, key: str) -> Iterator[Json]:
        if "tool_calls" not in self._tables:
            return
        for call in rows(self._db, "SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id", (key,)):
            function = {"name": call.get("name"), "arguments": call.get("arguments")}
            yield {"id": call.get("tool_call_id"), "type": "function", "function": function}

    def _results(self, key: str) -> Iterator[dict[str, Json]]:
        if "tool_results" not in self._tables:
            return
        for result in rows(self._db, "SELECT * FROM tool_results WHERE response_id = ? ORDER BY id", (key,)):
            told = {"tool_call_id": result.get("tool_call_id"), "name": result.get("name")}
            yield {"role": "tool", **without(told, ()), "content": result.get("output") or ""}


def _usage(row: dict[str, Json]) -> SourceUsage | None:
    sent, received = count(row.get("input_tokens")), count(row.get("output_tokens"))
    if not (sent or received):
        return None
    details = mapping(decode_or_none(row.get("token_details")))
    # Anthropic leaves out of its input what came from a cache, or went there.
    read, write = (count(details.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    return SourceUsage(
        id=str(row["id"]),
        model=plain_name(row.get("resolved_model")) or text(row.get("model")),
        input_tokens=sent + read + write,
        output_tokens=received,
        cache_read_tokens=read or count(mapping(details.get("prompt_tokens_details")).get("cached_tokens")),
        cache_write_tokens=write,
        reasoning_tokens=count(mapping(details.get("completion_tokens_details")).get("reasoning_tokens")),
        at=when(row.get("datetime_utc")),
    )
