"""What a file of Gemini CLI says when all its updates are applied, and what each of them took away."""

from __future__ import annotations

from typing import NamedTuple

from clew.importers.reading.ids import digest
from clew.importers.reading.jsonlines import Line
from clew.importers.reading.values import items, mapping, text
from clew.model import Json


class Ref(NamedTuple):
    """Where the newest version of a message stands: its bytes are read again when they are wanted."""

    id: str
    offset: int
    within: int | None
    """In the list of messages of its line; None: the line is the message."""
    digest: str


class GeminiFold:
    """Applies one line after the other. Small: of a message it keeps a name and a place."""

    def __init__(self) -> None:
        self.about: dict[str, Json] = {}
        self.abandoned: list[list[Ref]] = []
        """What was there before each rewind, and before each list that left something out."""
        self.unknown: list[Line] = []
        self._current: dict[str, Ref] = {}

    @property
    def current(self) -> list[Ref]:
        return list(self._current.values())

    def apply(self, line: Line) -> None:
        record = line.record
        if "$rewindTo" in record:
            self._rewind(text(record["$rewindTo"]))
        elif "$set" in record:
            self._describe(mapping(record["$set"]), line.offset)
        elif "type" in record and text(record.get("id")):
            self._current[record["id"]] = Ref(record["id"], line.offset, None, digest(record))
        elif "sessionId" in record:
            self._describe(record, line.offset)
        else:
            self.unknown.append(line)

    def _describe(self, fields: dict[str, Json], offset: int) -> None:
        self.about |= {name: value for name, value in fields.items() if name != "messages"}
        if isinstance(fields.get("messages"), list):
            self._replace(_refs(fields["messages"], offset))

    def _rewind(self, target: str | None) -> None:
        """The target goes too. An unknown one clears everything: so does Gemini."""
        ids = list(self._current)
        at = ids.index(target) if target in self._current else 0
        if ids[at:]:
            self.abandoned.append(self.current)
        for gone in ids[at:]:
            del self._current[gone]

    def _replace(self, refs: dict[str, Ref]) -> None:
        # While an answer arrives, its message grows; whatever else is different was taken away.
        before = self.current
        after = list(refs.values())
        settled = [(ref.id, ref.digest) for ref in before[:-1]]
        same = settled == [(ref.id, ref.digest) for ref in after[: len(settled)]]
        last_stays = not before or (len(after) >= len(before) and after[len(before) - 1].id == before[-1].id)
        if not (same and last_stays):
            self.abandoned.append(before)
        self._current = refs


def _refs(messages: Json, offset: int) -> dict[str, Ref]:
    refs: dict[str, Ref] = {}
    for index, message in enumerate(items(messages)):
        if isinstance(message, dict):
            name = text(message.get("id")) or f"#{index}"
            refs[name] = Ref(name, offset, index, digest(message))
    return refs
