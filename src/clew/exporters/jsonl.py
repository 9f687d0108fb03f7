"""A session as a file in the JSONL format, also without secrets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain as chain_together
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.conversation.annotations import decode_note_record, note_in
from clew.core.log import jsonl
from clew.core.log.digest import ROOT, entry_digest
from clew.core.log.rows import KIND_NAMES, Details, SessionRow, UsageRow
from clew.core.transfer.jsonl_file import export_lines
from clew.exporters.redact import Redactor, redactor_of

if TYPE_CHECKING:
    from clew.store import Store

# ── Secrets out of a file in the JSONL format, which stays one that can be imported ───────────────
# Every entry has a hash over its body and its parent's hash. Hashes of the replaced text would confirm a
# guess at a password, so the chain is computed again. For the same reason the digests of idempotent
# appends are left out.

_LEFT_OUT: Final = frozenset({"document", "key", "line"})
"""Digests of replaced text, bytes whose meaning is not known, and the lines of the file that it came from."""
_NAMED: Final = frozenset({"alias", "checkpoint", "label", "var"})
"""Records whose names are words of people."""


class Chain:
    """The new hashes and sizes of the entries, and which they were."""

    def __init__(self) -> None:
        self._parents: dict[int, tuple[int, int]] = {}
        self._digests: dict[int, bytearray] = {}
        self._sizes: dict[int, list[int]] = {}
        self._old_sizes: dict[int, list[int]] = {}

    def open_branch(self, line: jsonl.BranchLine) -> None:
        row = line.row
        self._parents[row.branch] = (row.parent, row.fork)
        self._digests[row.branch] = bytearray()
        self._sizes[row.branch], self._old_sizes[row.branch] = [], []

    def at(self, branch: int, position: int) -> tuple[bytes, int, int]:
        """Hash, size and former size of the path up to an entry."""
        while branch and position <= self._parents[branch][1]:
            branch = self._parents[branch][0]
        if not branch:
            return ROOT, 0, 0
        at = position - self._parents[branch][1] - 1
        digest = bytes(self._digests[branch][32 * at : 32 * at + 32])
        return digest, self._sizes[branch][at], self._old_sizes[branch][at]

    def add(self, line: jsonl.EntryLine, body: bytes) -> jsonl.EntryLine:
        """The line of an entry with another body."""
        parent, size, old_size = self.at(line.branch, line.position - 1)
        grown = line.size - old_size
        if grown and line.body:
            grown += len(body) - len(jsonl.extract(line.base64, line.body))
        digest = line.digest
        if KIND_NAMES[line.type] != "removed":  # a removed body cannot be hashed again
            digest = entry_digest(parent, line.position, line.type, line.time, line.flags, body)
        self._digests[line.branch] += digest
        self._sizes[line.branch].append(size + grown)
        self._old_sizes[line.branch].append(line.size)
        is_base64, embedded = jsonl.embed(body)
        return msgspec.structs.replace(
            line, digest=digest, size=size + grown, base64=is_base64, body=embedded
        )


def redacted_lines(pieces: Iterator[bytes], redactor: Redactor) -> Iterator[bytes]:
    """The lines of a session's file, each without secrets."""
    session: jsonl.SessionLine | None = None
    first: list[jsonl.AnyLine] = []
    chain = Chain()
    # The session's line comes first and names the hash of the head, which is known last.
    with tempfile.TemporaryFile() as rest:
        for piece in pieces:
            line = jsonl.decode(jsonl.open_line(piece.rstrip(b"\n"))[1])
            if isinstance(line, jsonl.SessionLine):
                session = line
            elif isinstance(line, jsonl.LogLine):
                first.append(msgspec.structs.replace(line, id=redactor.text(line.id, "session: id")))
            elif line is not None and (clean := _clean(line, redactor, chain)) is not None:
                rest.write(jsonl.encode(clean) + b"\n")
        if session is not None:
            first.append(jsonl.SessionLine(_session(session.row, redactor, chain)))
        rest.seek(0)
        yield from _finished(chain_together(map(jsonl.encode, first), (line.rstrip(b"\n") for line in rest)))


def _finished(texts: Iterable[bytes]) -> Iterator[bytes]:
    held: bytes | None = None
    for text in texts:
        if held is not None:
            yield jsonl.finish(held, is_last=False)
        held = text
    if held is not None:
        yield jsonl.finish(held, is_last=True)


def _clean(line: jsonl.AnyLine, redactor: Redactor, chain: Chain) -> jsonl.AnyLine | None:
    match line:
        case jsonl.BranchLine():
            chain.open_branch(line)
        case jsonl.EntryLine():
            body = jsonl.extract(line.base64, line.body)
            return chain.add(line, redactor.raw(body, f"entry {line.position}") if body else body)
        case jsonl.DetailsLine():
            return msgspec.structs.replace(line, details=_details(line.details, redactor))
        case jsonl.EventLine():
            data = jsonl.extract(line.base64, line.data)
            is_base64, clean = jsonl.embed(redactor.raw(data, f"event {line.number}") if data else data)
            kind = redactor.text(line.type, f"event {line.number}: type")
            return msgspec.structs.replace(line, type=kind, base64=is_base64, data=clean)
        case jsonl.UsageLine():
            return msgspec.structs.replace(line, row=_call(line.row, redactor))
        case jsonl.RecordLine():
            if line.type == "note":
                return _note(line, redactor.uncounted())
            return None if line.type in _LEFT_OUT else _record(line, redactor)
    return line


def _session(row: SessionRow, redactor: Redactor, chain: Chain) -> SessionRow:
    head = row.head
    if head.branch:
        digest, size, _ = chain.at(head.branch, head.position)
        head = msgspec.structs.replace(head, digest=digest, size=size)
    return msgspec.structs.replace(
        row,
        id=redactor.uncounted().text(row.id, ""),
        head=head,
        title=_text(row.title, "session: title", redactor),
        preview=redactor.uncounted().text(row.preview, ""),
        workspace=_text(row.workspace, "session: workspace", redactor),
    )


def _details(details: Details, redactor: Redactor) -> Details:
    metadata = redactor.raw(bytes(details.metadata), "session: metadata")
    return msgspec.structs.replace(
        details,
        workspace_given=_text(details.workspace_given, "session: workspace", redactor.uncounted()),
        endpoint=_text(details.endpoint, "session: endpoint", redactor),
        tags=tuple(redactor.text(tag, "session: tags") for tag in details.tags),
        metadata=details.metadata if metadata == bytes(details.metadata) else msgspec.Raw(metadata),
        aliases=tuple(redactor.text(alias, "session: aliases") for alias in details.aliases),
    )


def _call(row: UsageRow, redactor: Redactor) -> UsageRow:
    return msgspec.structs.replace(row, endpoint=_text(row.endpoint, f"usage {row.number}", redactor))


def _record(line: jsonl.RecordLine, redactor: Redactor) -> jsonl.RecordLine:
    value = jsonl.extract(line.base64, line.value)
    name = line.name
    if line.type in _NAMED:
        # Labels and aliases stand elsewhere too; those places are counted.
        counted = redactor if line.type in ("checkpoint", "var") else redactor.uncounted()
        name = counted.text(name, f"{line.type}: name")
    known_as = line.name if line.type == "var" else ""
    if value:
        value = redactor.raw(value, f"{line.type} {name}", known_as)
    is_base64, embedded = jsonl.embed(value)
    return msgspec.structs.replace(line, name=name, base64=is_base64, value=embedded)


def _note(line: jsonl.RecordLine, redactor: Redactor) -> jsonl.RecordLine:
    """As it is in the annotation, where what is replaced is counted."""
    record = decode_note_record(jsonl.extract(line.base64, line.value))
    clean = note_in(redactor.raw(msgspec.json.encode({"note": record.text}), f"annotation {line.name}"))
    value = msgspec.json.encode(msgspec.structs.replace(record, text=clean or ""))
    is_base64, embedded = jsonl.embed(value)
    return msgspec.structs.replace(line, base64=is_base64, value=embedded)


def _text(text: str | None, place: str, redactor: Redactor) -> str | None:
    return None if text is None else redactor.text(text, place)


# ── A session as a file in the JSONL format ───────────────────────────────────────────────────────


def pieces(store: Store, id: str, *, redact: bool | Redactor = False) -> Iterator[bytes]:
    """The lines.

    Args:
        store: Where the session is.
        id: Its id or alias.
        redact: Without secrets, and with new hashes. A `Redactor` of yours can report what it replaced.
    """
    found = export_lines(store._scope, store.get(id)._access.sid)
    redactor = redactor_of(redact)
    return found if redactor is None else redacted_lines(found, redactor)
