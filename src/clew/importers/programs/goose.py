"""Sessions of goose: its SQLite database, and the files of one session each before 1.10."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from clew.core.messages.dialects.base import texts_in
from clew.importers.contract import OnBytes, OnProblem, Problem, SourceEntry, SourceSession, SourceUsage
from clew.importers.reading.files import first_objects
from clew.importers.reading.jsonlines import read_lines
from clew.importers.reading.sqlite import is_sqlite, opened, reporting, rows, tables
from clew.importers.reading.values import (
    count,
    decode_or_none,
    digest,
    flaw_of,
    items,
    kind,
    mapping,
    money,
    plain_name,
    session_id,
    text,
    version,
    when,
    without,
)
from clew.model import Json

if TYPE_CHECKING:
    import apsw

NAME: Final = "goose"

_TABLES: Final = frozenset({"sessions", "messages", "schema_version"})
_TOLD: Final = frozenset({"id", "name", "description", "working_dir", "created_at", "parent_session_id"})
_JSON_SUFFIX: Final = "_json"
_AGENTS: Final = frozenset({"sub_agent", "subagent"})
"""Types of sessions whose prompts a model wrote."""


def recognises(path: Path, beginning: bytes) -> bool:
    if is_sqlite(beginning):
        return tables(path) >= _TABLES
    first = first_objects(beginning, most=1)
    return (
        bool(first)
        and "working_dir" in first[0]
        and ("description" in first[0] or "message_count" in first[0])
    )


def known_places(home: Path) -> list[Path]:
    share = home / ".local" / "share" / "goose" / "sessions"
    support = home / "Library" / "Application Support" / "Block" / "goose" / "sessions"
    return [share, support]


def files(path: Path) -> list[Path]:
    return [*sorted(path.glob("*.jsonl")), *sorted(path.glob("*.db"))] if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    with path.open("rb") as file:
        beginning = file.read(16)
    if not is_sqlite(beginning):
        yield from _from_lines(path, on_problem, on_bytes)
        return
    with reporting(path, on_problem), opened(path) as db:
        for row in rows(db, "SELECT * FROM sessions ORDER BY created_at, rowid"):
            messages = _stored(db, str(row["id"]), path, on_problem)
            yield _session(str(row["id"]), _plain(row), messages)
    on_bytes(path.stat().st_size)


def _from_lines(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    lines = read_lines(path, on_problem, on_bytes)
    first = next(lines, None)
    if first is None:
        return
    # A session without its first line still has its messages.
    is_header = "role" not in first.record
    about = first.record if is_header else {}
    if not is_header:
        on_problem(
            Problem(path=str(path), line=first.number, reason="the first line does not tell of the session")
        )

    def messages() -> Iterator[GooseMessage]:
        if not is_header:
            yield _told(first.record)
        for line in lines:
            yield _told(line.record)

    yield _session(path.stem, about, messages())


def _told(record: dict[str, Json]) -> GooseMessage:
    rest = without(record, ("role", "content", "created"))
    return GooseMessage(str(record.get("role")), items(record.get("content")), record.get("created"), rest)


def _stored(db: apsw.Connection, key: str, path: Path, on_problem: OnProblem) -> Iterator[GooseMessage]:
    wanted = "SELECT * FROM messages WHERE session_id = ? ORDER BY created_timestamp, id"
    with reporting(path, on_problem):
        for row in rows(db, wanted, (key,)):
            content = decode_or_none(row["content_json"])
            if not isinstance(content, list):
                flaw = flaw_of(row["content_json"], "a JSON list")
                reason = f"the content of message {row['id']} of session {key} {flaw}"
                on_problem(Problem(path=str(path), line=None, reason=reason))
                continue
            metadata = decode_or_none(row.get("metadata_json"))
            rest = without(
                {"id": row.get("message_id"), "tokens": row.get("tokens"), "metadata": metadata}, ()
            )
            yield GooseMessage(str(row["role"]), content, row["created_timestamp"], rest)


def _plain(row: dict[str, Json]) -> dict[str, Json]:
    """Columns that hold JSON texts under the names of what they hold."""
    about: dict[str, Json] = {}
    for name, value in row.items():
        inner = decode_or_none(value) if name.endswith(_JSON_SUFFIX) or name == "extension_data" else None
        about[name.removesuffix(_JSON_SUFFIX) if inner is not None else name] = (
            value if inner is None else inner
        )
    return about


def _entries(messages: Iterable[GooseMessage], *, is_agent: bool) -> Iterator[SourceEntry]:
    parent: str | None = None
    before: GooseMessage | None = None
    for message in messages:
        # Neither ids nor flags: old files have none, and a compaction turns the flags over.
        uid = version(parent, message.role, digest([message.created, message.content]))
        # A compaction hides what was before from the model, and its summary from people.
        hidden = before is not None and before.for_people and not before.for_the_model
        is_summary = hidden and not message.for_people
        yield SourceEntry(
            uid=uid,
            parent=parent,
            message={"text": message.text} if is_summary else converted(message),
            kind="compaction" if is_summary else "message",
            at=when(message.created),
            human=None if message.role != "user" or (message.for_people and not is_agent) else False,
            notes={"source": message.rest} if message.rest else {},
        )
        parent, before = uid, message


def _session(key: str, about: dict[str, Json], messages: Iterable[GooseMessage]) -> SourceSession:
    above = text(about.get("parent_session_id"))
    is_agent = kind(about.get("session_type")) in _AGENTS
    usage = _usage(key, about)
    return SourceSession(
        id=session_id(NAME, key),
        aliases=(key,),
        entries=_entries(messages, is_agent=is_agent),
        title=plain_name(about.get("name")) or text(about.get("description")),
        workspace=plain_name(about.get("working_dir")),
        model=plain_name(mapping(about.get("model_config")).get("model_name")),
        vendor=plain_name(about.get("provider_name")),
        created_at=when(about.get("created_at")),
        metadata=without(about, _TOLD),
        parent=session_id(NAME, above) if above else None,
        is_copy=not is_agent,
        usage=lambda: [usage] if usage else [],
    )


def _usage(key: str, about: dict[str, Json]) -> SourceUsage | None:
    """Only the sum of a session is known; the plain columns are the size of its last prompt."""
    sent, received = (count(about.get(f"accumulated_{side}_tokens")) for side in ("input", "output"))
    if not (sent or received):
        return None
    return SourceUsage(
        id=f"{session_id(NAME, key)}:accumulated",
        model=plain_name(mapping(about.get("model_config")).get("model_name")),
        vendor=plain_name(about.get("provider_name")),
        input_tokens=sent,
        output_tokens=received,
        cost=money(about.get("accumulated_cost")),
        at=when(about.get("updated_at")),
        is_sum=True,
    )


# -- messages, in Anthropic's blocks, which are nearest to goose's own


class GooseMessage(NamedTuple):
    role: str
    content: list[Json]
    created: Json
    rest: dict[str, Json]
    """The id, and who may see it: flags that a later compaction turns over."""

    @property
    def for_people(self) -> bool:
        return mapping(self.rest.get("metadata")).get("userVisible", True) is not False

    @property
    def for_the_model(self) -> bool:
        return mapping(self.rest.get("metadata")).get("agentVisible", True) is not False

    @property
    def text(self) -> str:
        return "\n".join(texts_in(self.content))


def converted(message: GooseMessage) -> dict[str, Json]:
    return {"role": message.role, "content": [_block(block) for block in message.content]}


def _block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "toolRequest":
        call = mapping(mapping(block.get("toolCall")).get("value"))
        asked = {"name": call.get("name"), "input": call.get("arguments")}
        more = without(block, ("type", "id", "toolCall"))
        return {"type": "tool_use", "id": block.get("id"), **asked, **more}
    if block.get("type") == "toolResponse":
        result = mapping(block.get("toolResult"))
        content, failed = _result(result)
        more = without(block, ("type", "id", "toolResult"))
        told = {"type": "tool_result", "tool_use_id": block.get("id"), "content": content, **more}
        return {**told, "is_error": True} if failed else told
    return block


def _result(result: dict[str, Json]) -> tuple[Json, bool]:
    """What came back: a list of contents, in newer versions inside an object of MCP."""
    if "error" in result or result.get("status") == "error":
        return text(result.get("error")) or "", True
    value = result.get("value")
    if isinstance(value, dict):
        return items(value.get("content")), value.get("isError") is True
    return value, False
