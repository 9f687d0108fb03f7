"""The model's sessions and entries: each entry points to the one before it, each session to its last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from clew.core.messages.codec import prepare
from clew.model import Entry, Json
from clew.testing.machine.model_runs import Worked


@dataclass(eq=False)
class Node:
    """An entry: what it says, and the one before it."""

    parent: Node | None
    kind: str
    body: dict[str, Json]
    epoch: int = 0
    entry: Entry | None = None
    """The same entry as the real store returned it."""

    @property
    def is_turn(self) -> bool:
        return self.kind == "message" and self.body["role"] == "user" and bool(self.body["content"].strip())

    def says(self, message: dict[str, Json]) -> bool:
        """Whether it says so byte for byte."""
        item = prepare(message)
        return self.entry is not None and (item.body, item.replaced) == (self.entry.raw, self.entry.replaced)


Place = Node | None
"""Where a session stands; None: at the empty beginning."""


def path(place: Place) -> list[Node]:
    """From the first entry to this one."""
    found: list[Node] = []
    while place is not None:
        found.append(place)
        place = place.parent
    return found[::-1]


def latest(place: Place, kind: str) -> Node | None:
    """The last entry of a kind on the path to a place."""
    return next((node for node in reversed(path(place)) if node.kind == kind), None)


def turns_at(place: Place) -> int:
    total = 0
    for node in path(place):
        total = node.body["user_turns"] if node.kind == "turns" else total + node.is_turn
    return total


def lies_on(place: Place, other: Place) -> bool:
    """Whether a place is on the path to another."""
    return place is None or place in path(other)


class Point(NamedTuple):
    """A checkpoint."""

    place: Place
    state: Json
    when: int = 0
    run: tuple[int, int, int | None] | None = None
    """Epoch, number and iteration, if a run set it."""


@dataclass(eq=False)
class ModelSession(Worked):
    id: str
    tree: int
    head: Place = None
    origin: tuple[str, Place] | None = None
    """The id of the session that it is a fork of, and the point."""
    undo: list[Place] = field(default_factory=list)
    redo: list[Place] = field(default_factory=list)
    seen: list[Place] = field(default_factory=list)
    """Every place where it ever stood."""
    forks: int = 0
    title: str | None = None
    has_title: bool = False
    """The title was set by a caller, not derived."""
    tags: tuple[str, ...] = ()
    aliases: list[str] = field(default_factory=list)
    variables: dict[str, Json] = field(default_factory=dict)
    checkpoints: dict[str, Point] = field(default_factory=dict)
    notes: dict[Node, dict[str, Json]] = field(default_factory=dict)
    """What it noted at entries."""
    keys: dict[str, list[list[Node]]] = field(default_factory=dict)
    """Every batch that was written under a key."""

    def stand(self, place: Place) -> None:
        self.head = place
        self.seen.append(place)

    def messages(self) -> list[Node]:
        return [node for node in path(self.head) if node.kind == "message"]

    def turns(self) -> int:
        return turns_at(self.head)

    def preview(self) -> str:
        said = [node.body["content"] for node in self.messages() if node.is_turn]
        return said[-1] if said else ""

    def summary(self) -> str | None:
        found = latest(self.head, "summary")
        return found.body["text"] if found else None

    def cut(self) -> tuple[int, list[dict[str, Json]]]:
        """Where the view begins, and what stands for everything before."""
        cuts = [node.body for node in path(self.head) if node.kind in ("compaction", "truncation")]
        return (cuts[-1]["start"], cuts[-1].get("messages", [])) if cuts else (0, [])

    def in_view(self) -> list[Node]:
        start, _ = self.cut()
        return [node for node in path(self.head)[start:] if node.kind == "message"]

    def resumed(self) -> Point | None:
        """Where a worker would go on: the last that its runs set, else the newest that it has."""
        own = self.checkpoints.get(self.resume_name or "")
        if own and own.run:
            return own
        points = [point for point in self.checkpoints.values() if point.run]
        return max(points, key=lambda point: point.when, default=None)
