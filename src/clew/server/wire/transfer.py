"""Exports and imports on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clew.model.transfer import ExportFormat


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to export a session."""

    format: ExportFormat
    """`jsonl`: all of it, to be imported again. `json`, `markdown`, `html`: to be read. Others: as these
    agents keep it."""
    redact: bool = False
    """Without secrets."""
    at: str | None = None
    """The path to this point instead of the one to the head: a position, the id of an entry, or the name of a
    checkpoint. For formats of agents."""
    whole: bool = False
    """All branches, not only the path: json, markdown and html."""
    tools: bool = True
    """False: without tool calls and their results: markdown and html."""
    thinking: bool = True
    """False: without what the model thought: markdown and html."""


class ImportQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to import a file."""

    format: str | None = None
    """What it is, as claude-code; its content tells, if this is not given."""
    name: Annotated[str, msgspec.Meta(max_length=255)] = "upload"
    """What the file is called where it comes from. Some formats tell the id of a session by it."""
    dry_run: bool = False
    """Only say what would be imported."""
    rename: bool = False
    """Give a session a new id if the store has another one of that id; else 409."""
    strict: bool = False
    """Import nothing if anything cannot be read."""
