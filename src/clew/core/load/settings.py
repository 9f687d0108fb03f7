"""What stands beside the conversation in another program's session: settings, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.checkpoints import Record, decode_checkpoint
from clew.core.conversation.points import find
from clew.core.conversation.sessions import add_alias, changes_of, update
from clew.core.load.entries import time_of
from clew.core.load.streams import EventWriter, drafts_of
from clew.core.log import checks
from clew.core.log.ids import check_id, is_id
from clew.core.log.records import COPIED_FROM, MAX_TITLE, ORIGIN, PARENT, json_in
from clew.core.log.rows import NEVER, SessionRow
from clew.core.messages.codec import encode_json
from clew.core.redact.incoming import Incoming
from clew.core.redact.markers import count_markers
from clew.core.runs.access import Access
from clew.errors import ClewError
from clew.files.records import give_to_checkpoint
from clew.model import Head, Json
from clew.model.session import utc
from clew.model.source import SourceCheckpoint, SourceEvent, SourceSession

_FIELDS: Final = ("title", "workspace", "model", "vendor", "endpoint", "tags", "expires_at")
_META: Final = "metadata."
_VAR: Final = "var."


# -- settings


def wanted_settings(
    source: SourceSession, updates: Mapping[str, Json], variables: Mapping[str, Json], origin: Json
) -> dict[str, Json]:
    """What the source says of the session, name by name; of metadata each key by itself. Where it comes from
    is not for the source to say."""
    found: dict[str, Json] = {}
    for name in _FIELDS:
        value = updates.get(name) or getattr(source, name, None)
        if value:
            found[name] = _fit(name, value)
    metadata = {**source.metadata, **(updates.get("metadata") or {})}
    if source.parent is not None:
        metadata.setdefault(COPIED_FROM if source.is_copy else PARENT, source.parent)
    if origin is not None:
        metadata[ORIGIN] = origin
    for prefix, values in ((_META, metadata), (_VAR, variables)):
        for key, value in values.items():
            kept = _storable(value)
            if kept is not None and is_id(key):
                found[prefix + key] = msgspec.json.decode(kept)
    return {name: value for name, value in found.items() if value or name not in _FIELDS}


def _storable(value: Json) -> bytes | None:
    """A value as it can be kept, surrogates replaced; None: it cannot."""
    try:
        return encode_json(value, strict=False)
    except ClewError:
        return None


def _fit(name: str, value: Json) -> Json:
    if name == "tags":
        return sorted({tag for tag in value if is_id(tag)})
    if name == "expires_at":
        at = time_of(value, 0) if isinstance(value, datetime) else 0
        return utc(at).isoformat() if at else "never" if value == "never" else None
    text = str(value).encode(errors="replace").decode().replace("\0", "")
    return text.strip()[:MAX_TITLE] if name == "title" else text


def present_settings(reader: Reader, row: SessionRow) -> dict[str, Json]:
    """The same of a session, as it is."""
    details = reader.get_details(row.sid)
    found: dict[str, Json] = {
        "title": row.title if row.has_title else None,
        "workspace": details.workspace_given,
        "model": details.model,
        "vendor": details.vendor,
        "endpoint": details.endpoint,
        "tags": sorted(details.tags),
        "expires_at": _expiry(details.expires),
    }
    for key, value in checks.metadata(row.id, details).items():
        found[_META + key] = value
    for name, raw in reader.scan_records(row.sid, "var"):
        found[_VAR + name] = json_in(raw, f"the variable {name!r}")
    return found


def _expiry(expires: int | None) -> str | None:
    return None if expires is None else "never" if expires == NEVER else utc(expires).isoformat()


def apply_settings(
    tx: Transaction, access: Access, values: Mapping[str, Any], present: Mapping[str, Json]
) -> None:
    """Set these of the settings."""
    given = {name: value for name, value in values.items() if name in _FIELDS}
    if given.get("expires_at", "never") != "never":
        given["expires_at"] = datetime.fromisoformat(given["expires_at"])
    metadata = {name.removeprefix(_META): v for name, v in values.items() if name.startswith(_META)}
    if metadata:
        before = {name.removeprefix(_META): v for name, v in present.items() if name.startswith(_META)}
        given["metadata"] = {**before, **metadata}
    if given:
        update(tx, access, changes_of(given))
    for name, value in values.items():
        if name.startswith(_VAR):
            var = check_id(name.removeprefix(_VAR), "variable name")
            tx.put_record(access.sid, "var", var, encode_json(value, what=var, strict=False))


def add_aliases(tx: Transaction, access: Access, aliases: Iterable[str]) -> list[str]:
    """Add aliases that lead nowhere yet, not even to the trash; an alias of another session stays with it.
    Returns those that lead to this session now."""
    here = []
    for alias in aliases:
        if not is_id(alias):
            continue
        if find(tx, alias) is None and tx.get_record(STORE_WIDE, "alias", alias) is None:
            add_alias(tx, access, alias, move=False)
        holder = find(tx, alias)
        if holder is not None and holder.sid == access.sid:
            here.append(alias)
    return here


def link_to_parent(tx: Transaction, row: SessionRow, parent: str, now: int) -> None:
    """Tell the parent, if it is here, of its child; once."""
    base = tx.find_session(parent)
    if base is not None and base.sid != row.sid:
        told = SourceEvent(id=f"child:{row.id}"[:400], type="child-session", data={"session": row.id})
        EventWriter().add(tx, base.sid, drafts_of([told]), now)


# -- checkpoints


def put_checkpoint(
    tx: Transaction,
    row: SessionRow,
    checkpoint: SourceCheckpoint,
    head: Head,
    now: int,
    redactor: Incoming | None = None,
) -> None:
    """Name a place, unless the name is in use for another one and does not move."""
    if not is_id(checkpoint.name):
        return
    state = encode_json(checkpoint.state, what="state", strict=False)
    time = time_of(checkpoint.at, now)
    files = checkpoint.snapshot
    record = Record(head.branch, head.position, time, msgspec.Raw(state), snapshot=files)
    value = msgspec.json.encode(record)
    before = tx.get_record(row.sid, "checkpoint", checkpoint.name)
    if before is not None:
        kept = decode_checkpoint(before)
        if redactor is not None and count_markers(state) and redactor.body(bytes(kept.state)) == state:
            state = bytes(kept.state)  # kept when fewer secrets were known: what is stored stays
            record = msgspec.structs.replace(record, state=kept.state)
        value = msgspec.json.encode(msgspec.structs.replace(record, run=kept.run))
        if before == value:
            return
        is_same = files is None or bytes(kept.state) == state
        stays = not (checkpoint.moves and kept.time < time)
        if Head(kept.uid, kept.position) != head and stays:
            return
        if kept.snapshot is not None and is_same:
            return
    if files is None or give_to_checkpoint(tx, files, row.tree):
        tx.put_record(row.sid, "checkpoint", checkpoint.name, value)
