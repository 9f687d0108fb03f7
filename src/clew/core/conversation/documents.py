"""Documents: bytes under a name beside a conversation, any number of them, in the order of their names."""

from __future__ import annotations

from clew.backends.contract import Reader, Transaction
from clew.core.log.ids import MAX_POSITION, check_count, check_id
from clew.core.runs.access import Access, require_write
from clew.errors import InvalidError, InvalidQueryError

_END = "\U0010ffff"
"""The last character: as many of them as fit into a name are behind whatever else follows a prefix."""


def set_document(tx: Transaction, access: Access, name: str, content: bytes) -> None:
    tx.put_record(require_write(tx, access).sid, "document", name, content)


def delete_document(tx: Transaction, access: Access, name: str) -> bool:
    return tx.drop_record(require_write(tx, access).sid, "document", name)


def content_of(content: object) -> bytes:
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InvalidError(f"a document is bytes, not {type(content).__name__}")
    return bytes(content)


def scan_documents(
    reader: Reader, sid: int, prefix: str, after: str | None, limit: int | None, *, newest_first: bool = False
) -> list[tuple[str, bytes]]:
    """Those whose names begin with a prefix, behind `after` in the direction of reading."""
    if prefix:
        check_id(prefix, "prefix")
    if after is not None:
        check_id(after, "after")
    if limit is not None and check_count(limit, "limit", error=InvalidQueryError) == 0:
        return []
    more = None if limit is None else min(limit, MAX_POSITION) + (after is not None)
    first, last = prefix, prefix + _END * 128 if prefix else None
    if after is not None and not newest_first:
        first = max(first, after, key=str.encode)
    if after is not None and newest_first:
        last = after if last is None else min(last, after, key=str.encode)
    found = reader.scan_records(sid, "document", first, last, reverse=newest_first, limit=more)
    kept = [(name, content) for name, content in found if name != after and name.startswith(prefix)]
    return kept if limit is None else kept[:limit]
