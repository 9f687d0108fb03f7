"""The lines of one Codex rollout, read in a stream into entries and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from clew.importers.contract import SourceEntry, SourceEvent, SourceUsage
from clew.importers.reading.jsonlines import Line, closed_after
from clew.importers.reading.moments import moment_of
from clew.model import Json

ITEMS: Final = frozenset(
    {
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
        "custom_tool_call_output", "local_shell_call", "web_search_call",
    }
)  # fmt: skip
"""What stood in the first rollouts without a line around it."""
_INJECTED: Final = (
    "# AGENTS.md instructions",
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<skill>",
    "<skills",
    "<hook",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<subagent_notification>",
    "<user_shell_command>",
    "<user_action>",
    "<INSTRUCTIONS>",
    "<system-reminder>",
)
_TOKENS: Final = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
_NOTHING: Final = (0, 0, 0, 0)


def is_injected(message: dict[str, Json]) -> bool:
    """Whether the program put it there in the role of the user."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts = [str(part.get("text", "")) for part in content if isinstance(part, dict)]
    said = [text.lstrip() for text in texts if text.strip()]
    return bool(said) and all(text.startswith(_INJECTED) for text in said)


def tokens_of(payload: dict[str, Json], field: str = "total_token_usage") -> tuple[int, ...] | None:
    """The tokens of the whole thread so far, or ("last_token_usage") of its last call."""
    info = payload.get("info")
    total = info.get(field) if isinstance(info, dict) else None
    if not isinstance(total, dict):
        return None
    return tuple(value if isinstance(value := total.get(name), int) else 0 for name in _TOKENS)


class Rollout:
    def __init__(
        self,
        lines: Iterable[Line],
        *,
        inherited_until: datetime | None,
        is_agent: bool,
        is_fork: bool,
        vendor: str,
    ) -> None:
        self._lines = lines
        self._inherited_until = inherited_until
        self._is_agent = is_agent
        self._vendor = vendor
        self._last: str | None = None
        self._turns: list[str | None] = []
        """What stands before each turn of the user on the path."""
        self._model: str | None = None
        self._total: tuple[int, ...] | None = None if is_fork else _NOTHING
        """The counter of the thread; None: a fork goes on with that of its base, which was not told yet."""
        self._calls: list[SourceUsage] = []
        self._waiting: list[SourceEvent] = []
        self._title: str | None = None

    def head(self) -> str | None:
        return self._last or ""

    def events(self) -> Iterator[SourceEvent]:
        yield from self._waiting

    def usage(self) -> Iterator[SourceUsage]:
        yield from self._calls

    def updates(self) -> dict[str, Json]:
        return {"model": self._model, **({"title": self._title} if self._title else {})}

    def entries(self) -> Iterator[SourceEntry]:
        for line in closed_after(self._lines):
            entry = self._take(line)
            if entry is not None:
                self._waiting = []
                yield entry

    def _take(self, line: Line) -> SourceEntry | None:
        record = line.record
        kind, payload = record.get("type"), record.get("payload")
        if not isinstance(payload, dict):
            if isinstance(kind, str) and kind in ITEMS:
                return self._item(line, record)
        elif kind == "response_item":
            if payload.get("type") != "ghost_snapshot":
                return self._item(line, payload)
        elif kind == "compacted":
            return self._compacted(line, payload)
        elif kind == "turn_context" and isinstance(payload.get("model"), str):
            self._model = payload["model"]
        elif kind == "event_msg":
            self._heed(line, payload)
        self._event(line, payload if isinstance(payload, dict) else {})
        return None

    def _item(self, line: Line, item: dict[str, Json]) -> SourceEntry:
        human: bool | None = None
        if item.get("type") == "message" and item.get("role") == "user":
            if self._is_agent or is_injected(item):
                human = False
            if not is_injected(item):
                self._turns.append(self._last)
        return self._entry(line, item, human=human)

    def _entry(
        self, line: Line, message: dict[str, Json], *, human: bool | None = None, is_mark: bool = False
    ) -> SourceEntry:
        parent, self._last = self._last, _uid(line)
        record = line.record
        notes: dict[str, Json] = {}
        if "payload" in record:
            own = ("type", "payload", "timestamp")
            notes = {key: value for key, value in record.items() if key not in own}
        if self._is_inherited(line):
            notes["inherited"] = True
        return SourceEntry(
            uid=_uid(line),
            parent=parent,
            message=message,
            kind="compaction" if is_mark else "message",
            at=moment_of(record.get("timestamp")),
            human=human,
            notes=notes,
            decoded=True,
            events=tuple(self._waiting),
        )

    def _compacted(self, line: Line, payload: dict[str, Json]) -> SourceEntry:
        history = payload.get("replacement_history")
        if not isinstance(history, list) or not history:
            text = str(payload.get("message") or "")
            history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
        self._event(line, {key: value for key, value in payload.items() if key != "replacement_history"})
        return self._entry(line, {"messages": history}, is_mark=True)

    def _heed(self, line: Line, payload: dict[str, Json]) -> None:
        kind = payload.get("type")
        if kind == "thread_rolled_back":
            dropped = payload.get("num_turns")
            dropped = min(dropped, len(self._turns)) if isinstance(dropped, int) else 0
            if dropped > 0:
                self._last = self._turns[-dropped]
                del self._turns[-dropped:]
        elif kind == "thread_name_updated" and isinstance(payload.get("thread_name"), str):
            self._title = payload["thread_name"]
        elif kind == "token_count":
            self._count(line, payload)

    def _count(self, line: Line, payload: dict[str, Json]) -> None:
        """The counter is that of the thread, and is told again and again: only what it grew by is a call."""
        total = tokens_of(payload)
        if total is None or total == self._total:
            return
        grown = _grown(self._total, total, tokens_of(payload, "last_token_usage"))
        self._total = total
        if self._is_inherited(line) or not any(grown):
            return
        whole, cached, output, reasoning = grown
        self._calls.append(
            SourceUsage(
                id=_uid(line),
                model=self._model,
                vendor=self._vendor,
                input_tokens=max(whole, cached),
                cache_read_tokens=cached,
                output_tokens=output,
                reasoning_tokens=reasoning,
                at=moment_of(line.record.get("timestamp")),
            )
        )

    def _is_inherited(self, line: Line) -> bool:
        """Whether the line is a copy of another thread's."""
        if line.number <= 0:
            return True
        if self._inherited_until is None:
            return False
        at = moment_of(line.record.get("timestamp"))
        if at is None or at <= self._inherited_until:
            return True
        self._inherited_until = None  # what follows is its own
        return False

    def _event(self, line: Line, payload: dict[str, Json]) -> None:
        kind = str(line.record.get("type") or "record")
        part = payload.get("type")
        self._waiting.append(
            SourceEvent(
                id=_uid(line),
                type=(f"{kind}.{part}" if isinstance(part, str) and part else kind)[:100],
                data=payload or line.record,
                stream="codex",
                at=moment_of(line.record.get("timestamp")),
            )
        )


def _grown(before: tuple[int, ...] | None, total: tuple[int, ...], last: tuple[int, ...] | None) -> list[int]:
    """What was spent since the counter was told before. Without that, only the last call is known."""
    if before is None:
        return [*(last or _NOTHING)]
    if any(new < old for new, old in zip(total, before, strict=True)):
        before = _NOTHING  # it began anew
    return [new - old for new, old in zip(total, before, strict=True)]


def _uid(line: Line) -> str:
    return f"line-{line.number}" if line.number > 0 else f"base{line.number}"
