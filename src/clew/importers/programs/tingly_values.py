"""What tingly-box calls a session and a message, in all its forms, as ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from clew.importers.contract import SourceEntry, SourceSession
from clew.importers.reading import values
from clew.importers.reading.chain import link, session_id
from clew.model import Json

NAME: Final = "tingly-box"
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def source_of(row: dict[str, Json], entries: Iterable[SourceEntry]) -> SourceSession:
    """A session. The context, which its users set and read by key, becomes variables."""
    fields = {_snake(name): value for name, value in row.items() if value is not None}
    context = fields.pop("context", "")
    variables = values.mapping(values.decode_or_none(context) if isinstance(context, str) else context)
    if context and not variables:
        fields["context"] = context
    own = str(fields.get("id", ""))
    return SourceSession(
        id=session_id(NAME, own),
        aliases=(own,),
        entries=entries,
        workspace=values.text(fields.get("project")) or values.text(variables.get("project_path")),
        created_at=values.when(fields.get("created_at")),
        metadata=fields,
        vars=lambda: variables,
    )


def numbered(rows: Iterable[dict[str, Json]]) -> Iterator[SourceEntry]:
    """Messages of a table: they have numbers, which are never used again."""
    parent = None
    for row in rows:
        fields = {name: value for name, value in row.items() if name != "session_id"}
        uid = f"m{fields.get('id')}"
        yield _entry(uid, parent, fields)
        parent = uid


def chained(records: Iterable[dict[str, Json]]) -> Iterator[SourceEntry]:
    """Messages of a document or a log: they have nothing but their order."""
    parent = None
    for record in records:
        fields = {_snake(name): value for name, value in record.items()}
        uid = link(parent, fields)
        yield _entry(uid, parent, fields)
        parent = uid


def _entry(uid: str, parent: str | None, fields: dict[str, Json]) -> SourceEntry:
    """The words are the message; its summary and all else are beside it."""
    role, content = fields.get("role"), fields.get("content")
    message: dict[str, Json] = {
        "role": role if isinstance(role, str) and role else "unknown",
        "content": "" if content is None else content,
    }
    notes = {name: value for name, value in fields.items() if name not in message and value not in (None, "")}
    return SourceEntry(
        uid=uid, parent=parent, message=message, at=values.when(fields.get("timestamp")), notes=notes
    )


def _snake(name: str) -> str:
    """ChatID is chat_id, LastActivity is last_activity; the names of columns are so already."""
    return _HUMP.sub("_", name).lower()
