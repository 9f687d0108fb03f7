"""What stands beside the conversation in another program's session: settings, events, calls, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.codec import encode_json
from clew.core.ids import check_id, is_id
from clew.core.money import Money, amount_of, units_of
from clew.core.rows import NOWHERE, Details, EventRow, SessionRow, UsageRow
from clew.errors import ClewError, InvalidError
from clew.model import Head, Json, microseconds
from clew.model.loading import SourceCheckpoint, SourceEvent, SourceSession, SourceUsage
from clew.work.access import Access
from clew.work.calls import MOST_TOKENS, Counts, Names, UsageDraft, draft_of
from clew.work.checkpoints import HIDDEN, Record
from clew.work.places import find
from clew.work.sessions import MAX_TITLE, Changes, add_alias, update
from clew.work.snapshots import give_to_checkpoint
from clew.work.usage import row_after

MakeChanges: TypeAlias = Callable[..., Changes]
Place: TypeAlias = Callable[[str | None], Head | None]
"""Where the entry of a name is."""

_FIELDS: Final = ("title", "workspace", "model", "vendor", "tags")
_META: Final = "metadata."
_VAR: Final = "var."
_TOKENS: Final = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"
)  # fmt: skip


def time_of(at: datetime | None, otherwise: int) -> int:
    """Microseconds; a time that no store can hold is none."""
    if at is None or at.tzinfo is None:
        return otherwise
    time = microseconds(at)
    return time if 0 <= time < 2**57 else otherwise


# -- settings


def wanted_settings(
    source: SourceSession, updates: Mapping[str, Json], variables: Mapping[str, Json]
) -> dict[str, Json]:
    """What the source says of the session, name by name; of metadata each key by itself."""
    found: dict[str, Json] = {}
    for name in _FIELDS:
        value = updates.get(name) or getattr(source, name)
        if value:
            found[name] = _fit(name, value)
    metadata = {**source.metadata, **(updates.get("metadata") or {})}
    if source.parent is not None:
        metadata.setdefault("parent", source.parent)
    for prefix, values in ((_META, metadata), (_VAR, variables)):
        for key, value in values.items():
            kept = _storable(value)
            if kept is not None and is_id(key):
                found[prefix + key] = msgspec.json.decode(kept)
    return {name: value for name, value in found.items() if value or name not in _FIELDS}


def _storable(value: Json) -> bytes | None:
    """A value as it can be kept, surrogates replaced; None: it can not."""
    try:
        return encode_json(value, strict=False)
    except ClewError:
        return None


def _fit(name: str, value: Json) -> Json:
    if name == "tags":
        return sorted({tag for tag in value if is_id(tag)})
    text = str(value).encode(errors="replace").decode().replace("\0", "")
    return text.strip()[:MAX_TITLE] if name == "title" else text


def present_settings(reader: Reader, row: SessionRow) -> dict[str, Json]:
    """The same of a session, as it is."""
    details = reader.get_details(row.sid)
    found: dict[str, Json] = {
        "title": row.title if row.titled else None,
        "workspace": details.workspace_given,
        "model": details.model,
        "vendor": details.vendor,
        "tags": sorted(details.tags),
    }
    for key, value in msgspec.json.decode(details.metadata).items():
        found[_META + key] = value
    for name, raw in reader.scan_records(row.sid, "var"):
        found[_VAR + name] = msgspec.json.decode(raw)
    return found


def apply_settings(
    tx: Transaction, access: Access, values: Mapping[str, Any], present: Mapping[str, Json], make: MakeChanges
) -> None:
    """Set these of the settings."""
    given = {name: value for name, value in values.items() if name in _FIELDS}
    metadata = {name.removeprefix(_META): v for name, v in values.items() if name.startswith(_META)}
    if metadata:
        before = {name.removeprefix(_META): v for name, v in present.items() if name.startswith(_META)}
        given["metadata"] = {**before, **metadata}
    if given:
        update(tx, access, make(**given))
    for name, value in values.items():
        if name.startswith(_VAR):
            var = check_id(name.removeprefix(_VAR), "variable name")
            tx.put_record(access.sid, "var", var, encode_json(value, what=var, strict=False))


def add_aliases(tx: Transaction, access: Access, aliases: Iterable[str]) -> None:
    """Those that lead nowhere yet: a name that is somebody else's stays so."""
    for alias in aliases:
        if is_id(alias) and find(tx, alias) is None:
            add_alias(tx, access, alias, move=False)


def link_to_parent(tx: Transaction, row: SessionRow, parent: str, now: int) -> None:
    """Tell the parent, if it is here, of its child; once."""
    base = tx.find_session(parent)
    if base is not None and base.sid != row.sid:
        told = SourceEvent(id=f"child:{row.id}"[:400], type="child-session", data={"session": row.id})
        add_events(tx, base.sid, [told], now)


# -- events


def add_events(tx: Transaction, sid: int, events: Sequence[SourceEvent], now: int) -> int:
    """Add those that are not there, with their own times; how many."""
    number = tx.event_bounds(sid)[1]
    fresh: dict[str, EventRow] = {}
    for event in events:
        if event.id in fresh or tx.find_event(sid, event.id) is not None:
            continue
        data = encode_json(event.data, what="data", strict=False)
        fresh[event.id] = EventRow(
            number + len(fresh) + 1, time_of(event.at, now), event.stream, event.type, event.id, data
        )
    if fresh:
        tx.add_events(sid, list(fresh.values()))
    return len(fresh)


def is_good(event: SourceEvent) -> bool:
    """Whether an event can be kept: a name that is too long must not cost a whole batch."""
    names = is_id(event.id) and is_id(event.type) and (not event.stream or is_id(event.stream))
    return names and _storable(event.data) is not None


# -- calls


def larger(a: SourceUsage | None, b: SourceUsage) -> SourceUsage:
    """A call is told of again and again while it goes on: the one that counts most is the whole."""
    return b if a is None or _all_tokens(b) > _all_tokens(a) else a


def _all_tokens(call: SourceUsage) -> int:
    return sum(_counts(call))


_counts = attrgetter(*_TOKENS)


def add_calls(
    tx: Transaction,
    row: SessionRow,
    calls: Sequence[tuple[SourceUsage, tuple[int, int] | None]],
    parent: str | None,
    on_refused: Callable[[str, InvalidError], None],
) -> bool:
    """Write calls down with the places of their entries, each once; whether there was a new one.

    What the parent session has counted is not counted again.
    """
    base = None if parent is None else tx.find_session(parent)
    details = tx.get_details(row.sid)
    before = last = tx.last_usage(row.sid)
    fresh: set[str | None] = set()
    for call, place in calls:
        if base is not None and tx.find_usage(base.sid, call.id) is not None:
            continue
        try:
            draft = _draft(call, details, [] if before is None else _counted(tx, row.sid, call.id))
        except InvalidError as error:
            on_refused(call.id, error)
            continue
        if draft is None or draft.id in fresh:
            continue
        if before is None or tx.find_usage(row.sid, draft.id or "") is None:
            fresh.add(draft.id)
            last = row_after(last, draft, None, draft.names, place or (0, NOWHERE), row.updated)
            tx.add_usage(row.sid, last)
    return last is not before


def _is_plain(call: SourceUsage) -> bool:
    for name in (call.id, call.model, call.vendor):
        if name is not None and not (name.isascii() and name.isprintable() and len(name) < 200):
            return False
    return bool(call.id) and all(type(n) is int and 0 <= n <= MOST_TOKENS for n in _counts(call))


def _counted(reader: Reader, sid: int, id: str) -> list[UsageRow]:
    """What was written down of a call so far, part by part."""
    found: list[UsageRow] = []
    while (part := reader.find_usage(sid, _part(id, len(found)))) is not None:
        found.append(part)
    return found


def _part(id: str, number: int) -> str:
    return id if number == 0 else f"{id}+rest" if number == 1 else f"{id}+rest{number}"


def _draft(call: SourceUsage, details: Details, known: Sequence[UsageRow]) -> UsageDraft | None:
    """A call that is not known yet, or what is lacking of one: it was going on when it was loaded, or it is
    the sum of all calls of a session that went on since."""
    if not known and call.cost is None and _is_plain(call):
        # What passes `draft_of` anyway: most calls do, and there are many.
        names = Names(call.model or details.model, call.vendor or details.vendor, details.endpoint)
        return UsageDraft(names, Counts(*_counts(call)), None, None, time_of(call.at, 0) or None, call.id)
    tokens = {name: getattr(call, name) for name in _TOKENS}
    cost: Money | None = call.cost
    if known:
        for row in known:
            had = (row.input, row.output, row.cache_read, row.cache_write, row.reasoning)
            tokens = {name: tokens[name] - number for name, number in zip(_TOKENS, had, strict=True)}
        tokens = {name: max(0, number) for name, number in tokens.items()}
        if cost is not None:
            cost = amount_of(max(0, units_of(cost) - sum(row.cost or 0 for row in known)))
        if not any(tokens.values()) and not cost:
            return None
    return draft_of(
        names={
            "model": call.model or details.model,
            "vendor": call.vendor or details.vendor,
            "endpoint": details.endpoint,
        },
        tokens=tokens,
        source=None,
        cost=cost,
        at=call.at,
        id=_part(call.id, len(known)),
    )


# -- checkpoints


def put_checkpoint(
    tx: Transaction, row: SessionRow, checkpoint: SourceCheckpoint, place: Place, now: int
) -> None:
    """Name a place, unless the name is in use for another one."""
    head = Head("", NOWHERE) if checkpoint.entry is None else place(checkpoint.entry)
    if head is None or not is_id(checkpoint.name):
        return
    state = encode_json(checkpoint.state, what="state", strict=False)
    time = time_of(checkpoint.at, now)
    files = checkpoint.snapshot
    record = Record(head.branch, head.position, time, msgspec.Raw(state), snapshot=files)
    value = msgspec.json.encode(record)
    before = tx.get_record(row.sid, "checkpoint", checkpoint.name)
    if before is not None:
        if before in (HIDDEN, value):
            return
        kept = msgspec.json.decode(before, type=Record)
        is_same = files is None or bytes(kept.state) == state
        if Head(kept.uid, kept.position) != head or (kept.snapshot is not None and is_same):
            return
    if files is None or give_to_checkpoint(tx, files, row.tree):
        tx.put_record(row.sid, "checkpoint", checkpoint.name, value)
