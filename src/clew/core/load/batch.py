"""What of a source goes into one transaction."""

from __future__ import annotations

from clew.core.load.entries import Item
from clew.core.load.events import EventDraft


class Batch:
    """Entries one after the other in the order of the source, and the events between them."""

    __slots__ = ("before", "events", "items", "size")

    def __init__(self, before: str | None) -> None:
        self.before = before
        """The entry before them in the source."""
        self.items: list[Item] = []
        self.events: list[EventDraft] = []
        self.size = 0
        """In bytes."""

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.size += len(item.body) if item.note is None else len(item.body) + len(item.note)

    def add_events(self, events: list[EventDraft]) -> None:
        self.events += events
        self.size += sum(len(event.data) for event in events)
