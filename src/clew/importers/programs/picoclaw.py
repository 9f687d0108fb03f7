"""picoclaw: a log of messages with a small file of settings beside it, or (older) one JSON document.

    <name>.jsonl + <name>.meta.json        one message a line; where the model's view begins, summary, aliases
    <name>.json, <name>.json.migrated      the older form, and what a migration left of it

The lines before `skip` are read too: for the model they are gone, for its user they are the history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from clew.importers.contract import OnBytes, OnProblem, Problem, SourceEntry, SourceSession
from clew.importers.reading import values
from clew.importers.reading.files import beginning_of, first_objects
from clew.importers.reading.jsonlines import decoded, members_of_file, objects, read_lines
from clew.importers.reading.seen import note
from clew.importers.reading.values import link, session_id
from clew.model import Json

NAME: Final = "picoclaw"
_LEGACY: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"key"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"messages"\s*:')
_META: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"key"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"(?:summary|skip)"\s*:'
)
_META_SUFFIX: Final = ".meta.json"
_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_FIELDS: Final = frozenset(
    {
        *("role", "content", "model_name", "created_at", "reasoning_content", "system_parts"),
        *("media", "attachments", "tool_calls", "tool_call_id"),
    }
)
_Mark: TypeAlias = Literal["compaction", "summary"]
_KEPT_ELSEWHERE: Final = frozenset({"key", "summary", "skip", "count", "aliases"})
_CUT_OFF: Final = "[The messages before this were cut off.]"


def recognises(path: Path, beginning: bytes) -> bool:
    if path.name.endswith(_META_SUFFIX):
        return _META.match(beginning) is not None and not _log_of(path).exists()
    if path.suffix != ".jsonl":
        return _LEGACY.match(beginning) is not None
    found = first_objects(beginning)
    if bool(found) and all(map(_is_message, found)):
        return all(record.keys() <= _FIELDS for record in found) or _has_meta(path)
    # Whatever a crash left of a log: its settings may have a summary of what it held.
    return not any(map(_is_foreign, found)) and _has_meta(path)


def _is_message(record: dict[str, Json]) -> bool:
    return values.kind(record.get("role")) in _ROLES and isinstance(record.get("content"), str)


def _is_foreign(record: dict[str, Json]) -> bool:
    return "role" not in record


def _has_meta(path: Path) -> bool:
    """Whether picoclaw's settings lie beside a log: then it may have fields that we do not know."""
    beside = path.with_name(path.stem + _META_SUFFIX)
    return beside.is_file() and _META.match(beginning_of(beside)) is not None


def known_places(home: Path) -> list[Path]:
    return [home / ".picoclaw" / "workspace" / "sessions"]


def files(path: Path) -> list[Path]:
    """What a migration left comes first: it has the dates that the migration lost."""
    if not path.is_dir():
        return [_log_of(path)] if path.name.endswith(_META_SUFFIX) and _log_of(path).exists() else [path]
    older = [*path.glob("*.json.migrated"), *path.glob("*.json")]
    older = [file for file in older if not file.name.endswith(_META_SUFFIX)]
    alone = [file for file in path.glob(f"*{_META_SUFFIX}") if not _log_of(file).exists()]
    return [*sorted(older), *sorted(path.glob("*.jsonl")), *sorted(alone)]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    if path.name.endswith(_META_SUFFIX):
        meta = _document(path, on_problem, on_bytes)
        if meta:
            yield _source(meta, path.name.removesuffix(_META_SUFFIX), _Log([], meta))
    elif path.suffix == ".jsonl":
        beside = path.with_name(path.stem + _META_SUFFIX)
        note(beside)
        meta = _document(beside, on_problem, on_bytes) if beside.is_file() else {}
        yield _source(meta, path.stem, _Log(_lines(path, on_problem, on_bytes), meta))
    else:
        legacy = _document(path, on_problem, on_bytes)
        if legacy:
            messages = objects(legacy.pop("messages", None), "the messages", path, on_problem)
            legacy["created_at"], legacy["updated_at"] = (
                legacy.pop("created", None),
                legacy.pop("updated", None),
            )
            yield _source(legacy, path.name.partition(".json")[0], _Log(enumerate(messages, start=1), legacy))


def _log_of(meta: Path) -> Path:
    return meta.with_name(meta.name.removesuffix(_META_SUFFIX) + ".jsonl")


def _document(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> dict[str, Json]:
    return {name: decoded(raw) for name, raw in members_of_file(path, on_problem, on_bytes).items()}


def _lines(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[tuple[int, dict[str, Json]]]:
    """Messages with their numbers as `skip` counts them: damaged lines count, blank ones do not."""
    damaged: set[int | None] = set()

    def tell(problem: Problem) -> None:
        damaged.add(problem.line)
        on_problem(problem)

    for whole, line in enumerate(read_lines(path, tell, on_bytes), start=1):
        damaged.discard(line.number)
        yield whole + len(damaged), line.record


class _Log:
    """The messages of a session, and behind them the marks that stand for its settings.

    The marks are always behind the last message: a file that has grown, or was cut at another place,
    has new ones there.
    """

    def __init__(self, messages: Iterable[tuple[int, dict[str, Json]]], meta: dict[str, Json]) -> None:
        self._messages = messages
        self._first, self._last = values.when(meta.get("created_at")), values.when(meta.get("updated_at"))
        self._skip = values.count(meta.get("skip"))
        self._summary = values.text(meta.get("summary"))
        self.head: str | None = None
        self.model: str | None = None

    def entries(self) -> Iterator[SourceEntry]:
        left: str | None = None
        skipped = 0
        waiting: SourceEntry | None = None
        for number, message in self._messages:
            if waiting:
                yield waiting
            is_first, parent = waiting is None, self.head
            self.head = link(parent, message)
            self.model = values.plain_name(message.get("model_name")) or self.model
            at = values.when(message.get("created_at")) or (self._first if is_first else None)
            waiting = SourceEntry(uid=self.head, parent=parent, message=message, at=at)
            if number <= self._skip:
                skipped += 1
            else:
                left = left or self.head
        if waiting:
            yield _ended(waiting, self._last)
        # picoclaw summarises and then removes what it skips: a summary stands for messages in any case.
        if skipped or self._summary:
            yield self._mark("compaction", {"messages": [self._instead()], "from": left}, {"skip": skipped})
        if self._summary:
            yield self._mark("summary", {"text": self._summary}, {})

    def _instead(self) -> Json:
        """What the model gets for what was cut off: picoclaw puts the summary into its prompt."""
        told = f"Summary of the conversation so far:\n{self._summary}" if self._summary else _CUT_OFF
        return {"role": "system", "content": told}

    def _mark(self, kind: _Mark, content: dict[str, Json], notes: dict[str, Json]) -> SourceEntry:
        parent = self.head
        self.head = link(parent, [kind, content])
        return SourceEntry(
            uid=self.head, parent=parent, kind=kind, message=content, at=self._last, notes=notes
        )


def _ended(entry: SourceEntry, last: datetime | None) -> SourceEntry:
    """The last message was written when the session was last changed, if it does not say when."""
    own = values.when(entry.message.get("created_at"))
    return entry if own or not last else msgspec.structs.replace(entry, at=last)


def _source(meta: dict[str, Json], stem: str, log: _Log) -> SourceSession:
    key = values.text(meta.get("key")) or stem
    aliases = [alias for alias in values.items(meta.get("aliases")) if isinstance(alias, str) and alias]
    return SourceSession(
        id=session_id(NAME, key),
        entries=log.entries(),
        head=lambda: log.head,
        created_at=values.when(meta.get("created_at")),
        metadata={"key": key, **{name: value for name, value in meta.items() if name not in _KEPT_ELSEWHERE}},
        aliases=tuple(dict.fromkeys([key, *aliases])),
        updates=lambda: {"model": log.model},
    )
