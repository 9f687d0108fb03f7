"""The model's sessions and entries: each entry points to the one before it, each session to its last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from clew.model import Entry, Json
from clew.testing.model_runs import Worked


@dataclass(eq=False)
class Node:
    """An entry: what it says, and the one before it."""

    parent: Node | None
    kind: str
    body: dict[str, Json]
    epoch: int = 0
    notes: dict[str, Json] = field(default_factory=dict)
    entry: Entry | None = None
    """The same entry as the real store returned it."""

    @property
    def is_turn(self) -> bool:
        return self.kind == "message" and self.body["role"] == "user" and bool(self.body["content"].strip())


Place = Node | None
"""Where a session stands; None: at the empty beginning."""


def path(place: Place) -> list[Node]:
    """From the first entry to this one."""
    found: list[Node] = []
    while place is not None:
        found.append(place)
        place = place.parent
    return found[::-1]


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
    base: ModelSession | None = None
    """The session that it is a fork of, until that one was purged."""
    origin: tuple[str, Place] | None = None
    """The id of the session that it is a fork of, and the point."""
    undo: list[Place] = field(default_factory=list)
    redo: list[Place] = field(default_factory=list)
    seen: list[Place] = field(default_factory=list)
    """Every place where it ever stood."""
    forks: int = 0
    title: str | None = None
    tags: tuple[str, ...] = ()
    aliases: list[str] = field(default_factory=list)
    variables: dict[str, Json] = field(default_factory=dict)
    checkpoints: dict[str, Point | None] = field(default_factory=dict)
    """None: one of the base's, deleted here."""
    keys: dict[str, list[list[Node]]] = field(default_factory=dict)
    """Every batch that was written under a key."""

    def stand(self, place: Place) -> None:
        self.head = place
        self.seen.append(place)

    def messages(self) -> list[Node]:
        return [node for node in path(self.head) if node.kind == "message"]

    def turns(self) -> int:
        total = 0
        for node in path(self.head):
            total = node.body["user_turns"] if node.kind == "turns" else total + node.is_turn
        return total

    def preview(self) -> str:
        said = [node.body["content"] for node in self.messages() if node.is_turn]
        return said[-1] if said else ""

    def summary(self) -> str | None:
        texts = [node.body["text"] for node in path(self.head) if node.kind == "summary"]
        return texts[-1] if texts else None

    def cut(self) -> tuple[int, list[dict[str, Json]]]:
        """Where the view begins, and what stands for everything before."""
        cuts = [node.body for node in path(self.head) if node.kind in ("compaction", "truncation")]
        return (cuts[-1]["start"], cuts[-1].get("messages", [])) if cuts else (0, [])

    def in_view(self) -> list[Node]:
        start, _ = self.cut()
        return [node for node in path(self.head)[start:] if node.kind == "message"]

    def checkpoint(self, name: str) -> Point | None:
        """A checkpoint of this name: its own, or one of its base's that lies before the fork."""
        if name in self.checkpoints:
            return self.checkpoints[name]
        found = self.base.checkpoint(name) if self.base else None
        return found if found and self.origin and lies_on(found.place, self.origin[1]) else None

    def checkpoint_names(self) -> set[str]:
        names = set(self.checkpoints) | (self.base.checkpoint_names() if self.base else set())
        return {name for name in names if self.checkpoint(name)}

    def resumed(self) -> Point | None:
        """Where a worker would go on: the last that its runs set, else the newest that it sees."""
        own = self.checkpoint(self.resume_name) if self.resume_name else None
        if own and own.run:
            return own
        points = [point for name in self.checkpoint_names() if (point := self.checkpoint(name))]
        return max((point for point in points if point.run), key=lambda point: point.when, default=None)
