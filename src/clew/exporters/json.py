"""A session as one JSON document. Its fields are told in docs/reference/exported-json.md.

For other programs to read. What can be imported again with everything is the JSONL format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.messages.dialects import speaker_of
from clew.core.messages.text import escape_json
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.transcript import Transcript
from clew.model import Entry, Head, Json

if TYPE_CHECKING:
    from clew.store import Store

VERSION: Final = 1
"""Fields may be added. When one changes its meaning, this number does."""


def pieces(store: Store, id: str, *, whole: bool = False, redact: bool | Redactor = False) -> Iterator[bytes]:
    """The document, entry by entry.

    Args:
        store: Where the session is.
        id: Its id or alias.
        whole: With the entries of all branches; else those on the path to the head.
        redact: Without secrets. A `Redactor` of yours can report what it replaced.
    """
    transcript = Transcript(store, id, whole=whole, redactor=redactor_of(redact))
    head = {
        "format": "clew-session",
        "version": VERSION,
        "whole": whole,
        "session": _session(transcript),
        "usage": _usage(transcript),
        "checkpoints": _checkpoints(transcript),
        "branches": _branches(transcript),
    }
    yield _safe(msgspec.json.encode(head))[:-1] + b',"entries":['
    mark = b"\n"
    for _, entry in transcript.entries():
        yield mark + _safe(_entry(entry, with_hash=transcript.redactor is None))
        mark = b",\n"
    yield b'\n],"redaction":' + msgspec.json.encode(_redaction(transcript)) + b"}\n"


def _safe(text: bytes) -> bytes:
    """The same document without raw characters that act on a terminal or on the direction of writing."""
    # Outside of texts JSON is ASCII, so each of these stands inside one.
    return text if text.isascii() and b"\x7f" not in text else escape_json(text.decode()).encode()


def _session(transcript: Transcript) -> dict[str, Json]:
    info = transcript.info
    base = info.forked_from
    return {
        "id": info.id,
        "title": info.title,
        "status": info.status,
        "workspace": info.workspace,
        "tags": info.tags,
        "vendor": info.vendor,
        "endpoint": info.endpoint,
        "model": info.model,
        "metadata": info.metadata,
        "aliases": info.aliases,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "messages": info.messages,
        "user_turns": info.user_turns,
        "head": _place(info.head),
        "hash": info.hash if transcript.redactor is None else None,
        "forked_from": None if base is None else {"session": base.session, **_place(base.head)},
    }


def _place(head: Head) -> dict[str, Json]:
    return {"branch": head.branch, "position": head.position}


def _usage(transcript: Transcript) -> Json:
    return msgspec.to_builtins(transcript.session.usage())


def _checkpoints(transcript: Transcript) -> list[Json]:
    return [
        {
            "name": one.name,
            **_place(one.head),
            "created_at": one.created_at,
            "state": one.state,
            "snapshot": one.snapshot,
        }
        for one in transcript.checkpoints
    ]


def _branches(transcript: Transcript) -> list[Json]:
    """Those of the entries that follow."""
    return [
        {
            "id": branch.uid,
            "parent": None if branch.parent is None else {"branch": branch.parent, "position": branch.fork},
            "first": branch.fork + 1,
            "last": branch.last,
        }
        for branch in transcript.outline.branches
    ]


def _entry(entry: Entry, *, with_hash: bool) -> bytes:
    is_message = entry.kind == "message"
    fields = {
        "id": entry.id,
        "branch": entry.id.rpartition(".")[0],
        "position": entry.position,
        "kind": entry.kind,
        "role": speaker_of(entry.message, injected=entry.injected) if is_message else None,
        "time": entry.time,
        # A hash of the replaced text would confirm a guess at it.
        "hash": entry.hash if with_hash else None,
        "redacted": entry.redacted,
        "annotations": dict(entry.annotations),
        "message": msgspec.Raw(entry.raw or b"null"),
    }
    return msgspec.json.encode(fields)


def _redaction(transcript: Transcript) -> Json:
    if transcript.redactor is None:
        return None
    report = transcript.redactor.report()
    return {"total": report.total, "by_kind": report.by_kind, "possible": report.possible}
