"""A quick first look at a log of ggcode: what must be known of a session before its messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from clew.importers.reading.jsonlines import object_of
from clew.model import Json

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"
_KEPT_ELSEWHERE: Final = frozenset({"type", "title", "workspace", "vendor", "model"})


class Ahead(msgspec.Struct, kw_only=True):
    meta: dict[str, Json] = {}
    """All meta records as one: later ones win, but not with nothing."""
    envelope: dict[str, Json] | None = None
    """What is around the first message; most have the same."""
    named: dict[str, int] = {}
    """The ids of messages that checkpoints speak of, and how many of them."""

    def session_id(self) -> str | None:
        """As the meta records say; in a log without one, as its first message does."""
        told = (places.get("session_id") for places in (self.meta, self.envelope or {}))
        return next((id for id in told if isinstance(id, str) and id), None)

    def metadata(self) -> dict[str, Json]:
        kept = {name: value for name, value in self.meta.items() if name not in _KEPT_ELSEWHERE}
        return {**kept, "envelope": self.envelope} if self.envelope else kept


def look_ahead(path: Path) -> Ahead:
    messages = (record for record in _lines_with(path, b'"message"') if record.get("type") == "message")
    first = next(messages, None)
    ahead = Ahead(envelope=envelope_of(first) if first else None)
    for record in _lines_with(path, b'"meta"', b'"checkpoint"'):
        if record.get("type") == "meta":
            ahead.meta |= {
                name: value for name, value in record.items() if name not in ahead.meta or _says(value)
            }
        elif record.get("type") == "checkpoint":
            names = (record.get("checkpoint_summary_msg_id"), record.get("checkpoint_last_msg_id"))
            for name in {name for name in names if isinstance(name, str)}:
                ahead.named[name] = ahead.named.get(name, 0) + 1
    return ahead


def envelope_of(record: dict[str, Json]) -> dict[str, Json]:
    """A record with an empty place where its message was."""
    return {name: None if name == "message" else value for name, value in record.items()}


def _says(value: Json) -> bool:
    """Whether it is more than nothing; a switch that is off says something."""
    return value is False or (bool(value) and value != _ZERO_TIME)


def _lines_with(path: Path, *words: bytes) -> Iterator[dict[str, Json]]:
    """The records whose line holds one of these words; they may also stand in a text."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if any(word in line for word in words):
                record = object_of(line, number, path, _silent)
                if record is not None:
                    yield record


def _silent(_: object) -> None:
    """For another look at a file: what there was to tell is told when it is read as a whole."""
