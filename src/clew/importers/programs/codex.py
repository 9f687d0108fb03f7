"""Codex CLI: one rollout a thread, JSONL (or `.jsonl.zst` when it has grown cold).

Response items are the messages. The same story told again for the screen (`event_msg`), settings of turns and
whatever else stands in a line become events. A rollback leaves the turns that it took on a branch.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    Problem,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading.files import (
    beginning_of,
    begins_with_object,
    files_below,
    first_objects,
    has_keys,
)
from clew.importers.reading.jsonlines import Line, read_lines
from clew.importers.reading.seen import entry_of
from clew.importers.reading.values import when
from clew.model import Json

NAME: Final = "codex"

_TYPES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_BURST: Final = timedelta(seconds=1)
_LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""There is a second after it."""
"""A fork writes all that it copies at once."""
_DEEPEST: Final = 32
_STEP: Final = 10**9
"""The numbers of a base's lines lie so far below those of the file itself."""


def recognises(path: Path, beginning: bytes) -> bool:
    if not begins_with_object(beginning):
        return False
    records = first_objects(beginning)
    if any(
        str(record.get("type")) in _TYPES and isinstance(record.get("payload"), dict) for record in records
    ):
        return True
    if records:
        first = records[0]
        # The first rollouts had bare items behind a line about the session.
        return "instructions" in first and "id" in first and "timestamp" in first and "type" not in first
    is_meta = b'"type":"session_meta"' in beginning and has_keys(beginning, "type", "payload")
    return is_meta and b"\n" not in beginning


def known_places(home: Path) -> list[Path]:
    places = [home / ".codex"]
    moved = os.environ.get("CODEX_HOME")
    if moved and home == Path.home():
        places.insert(0, Path(moved))
    return [place / name for place in dict.fromkeys(places) for name in ("sessions", "archived_sessions")]


def files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = files_below(path, ".jsonl", ".jsonl.zst", beginning="rollout-")
    return sorted(found, key=lambda file: file.name)


def listed(path: str, key: str) -> Json:
    """The name of a thread in the list of names."""
    return _names(Path(path)).get(key)


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    records = first_objects(beginning_of(path, 1024 * 1024), most=8)
    metas = [record for record in records if record.get("type") == "session_meta"]
    line = metas[0] if metas else (records[0] if records else {})
    meta = _payload(line)
    thread = str(meta.get("id") or meta.get("session_id") or path.name.split(".")[0])
    rollout = _rollout_of(path, thread)
    id = f"{NAME}:{thread}" + (f"_{rollout}" if rollout else "")
    parent, is_agent = _parent(meta)
    if rollout and parent is None:
        parent = f"{NAME}:{thread}"
    inherited = _inherited_until(line, metas)
    lines = _with_base(path, meta, read_lines(path, on_problem, on_bytes), on_problem, 0)
    provider = meta.get("model_provider")
    vendor = provider if isinstance(provider, str) else "openai"
    story = Rollout(
        lines,
        inherited_until=inherited,
        is_agent=is_agent,
        is_fork=inherited is not None or isinstance(meta.get("history_base"), dict),
        vendor=vendor,
    )
    name = _name_of(path, thread)
    yield SourceSession(
        id=id,
        entries=story.entries(),
        head=story.head,
        title=name,
        workspace=meta.get("cwd") if isinstance(meta.get("cwd"), str) else None,
        vendor=vendor,
        created_at=when(meta.get("timestamp")) or when(line.get("timestamp")),
        metadata={"codex": {key: value for key, value in meta.items() if key != "base_instructions"}},
        aliases=(thread,) if not rollout else (f"{thread}_{rollout}",),
        parent=parent,
        is_copy=not is_agent,
        shares_calls=False,
        events=story.events,
        usage=story.usage,
        updates=story.updates,
    )


def _payload(record: dict[str, Json]) -> dict[str, Json]:
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else record


def _rollout_of(path: Path, thread: str) -> str:
    """A thread that was reverted goes on in a file of its own, which has a second id in its name."""
    _, found, rest = path.name.partition(f"{thread}_")
    return rest.split(".")[0] if found else ""


def _parent(meta: dict[str, Json]) -> tuple[str | None, bool]:
    """The session of which this one is a subagent (True), or a copy."""
    source = meta.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    if agent is not None:
        spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
        spawner = spawned.get("parent_thread_id") if isinstance(spawned, dict) else None
        spawner = spawner or meta.get("parent_thread_id") or meta.get("forked_from_id")
        return (f"{NAME}:{spawner}" if spawner else None), True
    base = meta.get("forked_from_id")
    return (f"{NAME}:{base}" if base else None), False


def _inherited_until(line: dict[str, Json], metas: list[dict[str, Json]]) -> datetime | None:
    """A fork of the old kind copies its base, each line with the time of the copy: until when."""
    born = when(line.get("timestamp"))
    is_fork = len(metas) > 1 or _payload(line).get("forked_from_id")
    if born is None or not is_fork or _payload(line).get("history_base"):
        return None
    return min(born, _LAST) + _BURST


# -- forks that name their base


def _with_base(
    path: Path, meta: dict[str, Json], own: Iterator[Line], on_problem: OnProblem, depth: int
) -> Generator[Line, None, None]:
    """The lines of a rollout behind those of the one that it continues, whose numbers are below one."""
    base = meta.get("history_base")
    if isinstance(base, dict) and depth < _DEEPEST:
        yield from _base_lines(path, base, on_problem, depth)
    yield from own


def _base_lines(path: Path, base: dict[str, Json], on_problem: OnProblem, depth: int) -> Iterator[Line]:
    thread = str(base.get("thread_id"))
    found = _find_rollout(path, thread)
    if found is None:
        reason = f"its beginning is in the rollout of thread {thread}, which is not here"
        on_problem(Problem(path=str(path), line=1, reason=reason))
        return
    meta = _payload((first_objects(beginning_of(found, 1024 * 1024), most=1) or [{}])[0])
    quiet = read_lines(found, lambda problem: None, lambda count: None)
    end, most = base.get("end_ordinal_exclusive"), base.get("end_byte_offset")
    for line in _with_base(found, meta, quiet, on_problem, depth + 1):
        ordinal = line.record.get("ordinal")
        if line.number > 0 and isinstance(end, int) and isinstance(ordinal, int):
            if ordinal >= end:
                return
        elif line.number > 0 and isinstance(most, int) and line.offset >= most:
            return
        if line.record.get("type") != "session_meta":
            yield Line(line.number - _STEP, line.offset, line.record)


def _find_rollout(path: Path, thread: str) -> Path | None:
    home = _home_of(path) or path.parent
    found = sorted(file for file in files(home) if thread in file.name and file != path)
    plain = [file for file in found if f"{thread}_" not in file.name]
    return next(iter(plain or found), None)


def _home_of(path: Path) -> Path | None:
    for place in path.parents:
        if place.name in ("sessions", "archived_sessions"):
            return place.parent
    return None


def _name_of(path: Path, thread: str) -> str | None:
    """The name that a thread was given."""
    home = _home_of(path)
    if home is None:
        return None
    name: str | None = entry_of(home / "session_index.jsonl", thread, listed)
    return name


def _names(index: Path) -> dict[str, str]:
    try:
        return _names_in(index, index.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _names_in(index: Path, changed: int) -> dict[str, str]:
    names = {}
    for line in read_lines(index, lambda problem: None, lambda count: None):
        id, name = line.record.get("id"), line.record.get("thread_name")
        if isinstance(id, str) and isinstance(name, str):
            names[id] = name
    return names


# -- the records of a rollout


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
_TOKENS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
_NOTHING: Final = (0, 0, 0, 0, 0)
_MODES: Final[dict[Json, Literal["fast", "flex"]]] = {"fast": "fast", "priority": "fast", "flex": "flex"}
"""What the program calls a tier of service, where that has a price of its own."""


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
    return _tokens_in(info.get(field)) if isinstance(info, dict) else None


def _tokens_in(told: Json) -> tuple[int, ...] | None:
    if not isinstance(told, dict):
        return None
    return tuple(value if isinstance(value := told.get(name), int) else 0 for name in _TOKENS)


class Rollout:
    def __init__(
        self,
        lines: Generator[Line, None, None],
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
        self._mode: Literal["fast", "flex"] | None = None
        self._calls: list[SourceUsage] = []
        self._answers: dict[str, tuple[int, ...]] = {}
        """The tokens of answers that the counter has not told of yet, by their ids."""
        self._was_apart = False
        """A call was counted that the counter does not tell of: its next step may hold it, or not."""
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
        with closing(self._lines) as lines:
            for line in lines:
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
        elif kind == "token_usage_record":
            used, answer = _tokens_in(payload.get("usage")), payload.get("response_id")
            if used is not None and isinstance(answer, str):
                self._answers[answer] = used
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
            at=when(record.get("timestamp")),
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
        self._count_compaction(line, payload.get("compaction_response_id"))
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
        elif kind == "thread_settings_applied" and isinstance(payload.get("thread_settings"), dict):
            tier = payload["thread_settings"].get("service_tier")
            if isinstance(tier, str):  # without one, it is the tier of before
                self._mode = _MODES.get(tier)
        elif kind == "token_count":
            self._count(line, payload)

    def _count(self, line: Line, payload: dict[str, Json]) -> None:
        """The counter is that of the thread, and is told again and again: only what it grew by is a call."""
        total = tokens_of(payload)
        if total is None or total == self._total:
            return
        last = tokens_of(payload, "last_token_usage")
        grown = _grown(None if self._was_apart and last else self._total, total, last)
        self._total, self._was_apart = total, False
        self._answers = {id: used for id, used in self._answers.items() if used not in (tuple(grown), last)}
        if not self._is_inherited(line) and any(grown):
            self._add_call(line, grown)

    def _count_compaction(self, line: Line, answer: Json) -> None:
        """The call that made a summary: the counter does not tell of it if the vendor made it."""
        used = self._answers.pop(answer, None) if isinstance(answer, str) else None
        if used is not None and any(used):
            self._was_apart = True
            if not self._is_inherited(line):
                self._add_call(line, used, source="compaction")

    def _add_call(self, line: Line, used: Sequence[int], source: str | None = None) -> None:
        whole, cached, written, output, reasoning = used
        self._calls.append(
            SourceUsage(
                id=_uid(line),
                model=self._model,
                vendor=self._vendor,
                source=source,
                input_tokens=max(whole, cached + written),
                cache_read_tokens=cached,
                cache_write_tokens=written,
                output_tokens=output,
                reasoning_tokens=reasoning,
                mode=self._mode,
                at=when(line.record.get("timestamp")),
            )
        )

    def _is_inherited(self, line: Line) -> bool:
        """Whether the line is a copy of another thread's."""
        if line.number <= 0:
            return True
        if self._inherited_until is None:
            return False
        at = when(line.record.get("timestamp"))
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
                at=when(line.record.get("timestamp")),
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
