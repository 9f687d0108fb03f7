"""A store as small as it can be: what Clew must do, without a word of how.

An entry points to the one before it, a session to its last one, and every question is answered by
walking the path. Nothing is cached, counted or indexed, so there is little to be wrong. The machine
in clew.testing.machine plays every operation on this and on a real store, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from clew.errors import (
    AliasExistsError,
    CheckpointNotFoundError,
    ClewError,
    HeadMovedError,
    KeyReusedError,
    NothingToUndoError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.model import Entry, Json


class Refused(Exception):
    """The store must refuse this, with an error of this kind."""

    def __init__(self, kind: type[ClewError]) -> None:
        super().__init__(kind.__name__)
        self.kind = kind


@dataclass(eq=False)
class Node:
    """An entry: what it says, and the one before it."""

    parent: Node | None
    kind: str
    body: dict[str, Json]
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


@dataclass(eq=False)
class ModelSession:
    id: str
    tree: int
    active: int
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
    checkpoints: dict[str, tuple[Place, Json] | None] = field(default_factory=dict)
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

    def checkpoint(self, name: str) -> tuple[Place, Json] | None:
        """A checkpoint of this name: its own, or one of its base's that lies before the fork."""
        if name in self.checkpoints:
            return self.checkpoints[name]
        found = self.base.checkpoint(name) if self.base else None
        return found if found and self.origin and lies_on(found[0], self.origin[1]) else None

    def checkpoint_names(self) -> set[str]:
        names = set(self.checkpoints) | (self.base.checkpoint_names() if self.base else set())
        return {name for name in names if self.checkpoint(name)}


class Model:
    """The store."""

    def __init__(self) -> None:
        self.live: list[ModelSession] = []
        self.trash: list[tuple[int, ModelSession]] = []
        """With the time of deletion."""
        self.aliases: dict[str, ModelSession] = {}
        self.nodes: dict[int, list[Node]] = {}
        """The entries of each tree that are stored."""
        self.purged: list[Node] = []
        self.now = count(1).__next__

    # -- sessions

    def find(self, id: str) -> ModelSession | None:
        by_id = [session for session in self.live if session.id == id]
        alias = self.aliases.get(id)
        return by_id[0] if by_id else alias if alias in self.live else None

    def create(self, id: str) -> ModelSession:
        if self.find(id):
            raise Refused(SessionExistsError)
        tree = self.now()
        self.nodes[tree] = []
        made = ModelSession(id, tree, tree)
        self.live.append(made)
        return made

    def fork(self, base: ModelSession, id: str | None, at: Place) -> ModelSession:
        if id is None:
            base.forks += 1
            while self.find(f"{base.id}#fork-{base.forks}"):
                base.forks += 1
            id = f"{base.id}#fork-{base.forks}"
        elif self.find(id):
            raise Refused(SessionExistsError)
        made = ModelSession(id, base.tree, self.now(), base=base, origin=(base.id, at))
        made.title, made.tags = base.title, base.tags
        made.variables = dict(base.variables)
        made.stand(at)
        self.live.append(made)
        return made

    def listed(self) -> list[ModelSession]:
        return sorted(self.live, key=lambda session: -session.active)

    def add_alias(self, session: ModelSession, alias: str, *, move: bool) -> None:
        holder = self.find(alias)
        if holder is session:
            return
        if holder:
            if not move or holder.id == alias:
                raise Refused(AliasExistsError)
            holder.aliases.remove(alias)
        self.aliases[alias] = session
        session.aliases.append(alias)

    def remove_alias(self, session: ModelSession, alias: str) -> bool:
        if self.aliases.get(alias) is not session:
            return False
        del self.aliases[alias]
        session.aliases.remove(alias)
        return True

    # -- deleting

    def delete(self, session: ModelSession, when: int) -> None:
        self.live.remove(session)
        self.trash.append((when, session))

    def restore(self, id: str) -> ModelSession:
        found = [session for _, session in self.trash if session.id == id]
        if not found:
            raise Refused(SessionNotFoundError)
        if self.find(id):
            raise Refused(SessionExistsError)
        session = found[-1]
        self.trash = [item for item in self.trash if item[1] is not session]
        # An alias that leads elsewhere by now, as alias or as id of another, stays there.
        for alias in list(session.aliases):
            if self.aliases.get(alias) is not session or self.find(alias):
                session.aliases.remove(alias)
                if self.aliases.get(alias) is session:
                    del self.aliases[alias]
        self.live.append(session)
        return session

    def purge(self, session: ModelSession) -> None:
        """Remove it; its forks keep what they share with it and what they saw of its checkpoints."""
        self.live = [other for other in self.live if other is not session]
        self.trash = [item for item in self.trash if item[1] is not session]
        others = [other for other in (*self.live, *(s for _, s in self.trash)) if other.tree == session.tree]
        for fork in others:
            if fork.base is session:
                seen = {name: fork.checkpoint(name) for name in session.checkpoint_names()}
                fork.checkpoints |= {
                    n: found for n, found in seen.items() if n not in fork.checkpoints and found
                }
                fork.base = None
        self.aliases = {alias: holder for alias, holder in self.aliases.items() if holder is not session}
        needed = {node for other in others for place in other.seen for node in path(place)}
        self.purged += [node for node in self.nodes[session.tree] if node not in needed]
        self.nodes[session.tree] = [node for node in self.nodes[session.tree] if node in needed]

    # -- writing

    def _write(
        self, session: ModelSession, after: Place, kind: str, bodies: list[dict[str, Json]]
    ) -> list[Node]:
        written: list[Node] = []
        for body in bodies:
            after = Node(after, kind, body)
            written.append(after)
            if after.is_turn and session.title is None:
                session.title = body["content"]
        self.nodes[session.tree] += written
        return written

    def append(
        self, session: ModelSession, messages: list[dict[str, Json]], key: str | None, expect: Place | str
    ) -> list[Node]:
        if not messages:
            return []
        for known in session.keys.get(key or "", []):
            if lies_on(known[-1], session.head):
                if repr([node.body for node in known]) != repr(messages):
                    raise Refused(KeyReusedError)
                return known
        if expect != "any" and expect is not session.head:
            raise Refused(HeadMovedError)
        written = self._write(session, session.head, "message", messages)
        session.stand(written[-1])
        session.active = self.now()
        if key:
            session.keys.setdefault(key, []).append(written)
        return written

    def move(self, session: ModelSession, place: Place) -> None:
        session.undo.append(session.head)
        session.redo.clear()
        session.stand(place)
        session.active = self.now()

    def mark(self, session: ModelSession, kind: str, body: dict[str, Json]) -> Node:
        (node,) = self._write(session, session.head, kind, [body])
        self.move(session, node)
        return node

    def replace(self, session: ModelSession, messages: list[dict[str, Json]], turns: int | None) -> None:
        written = self._write(session, None, "message", messages)
        place = written[-1] if written else None
        if turns is not None:
            (place,) = self._write(session, place, "turns", [{"user_turns": turns}])
        self.move(session, place)

    def truncate(self, session: ModelSession, keep: int) -> Node | None:
        view, (_, instead) = session.in_view(), session.cut()
        cut_off = view[: len(view) - keep] if keep else view
        if keep > len(view) or not (cut_off or instead):
            return None
        start = path(session.head).index(view[-keep]) if keep else len(path(session.head))
        return self.mark(session, "truncation", {"start": start})

    def undo(self, session: ModelSession) -> None:
        self._back(session, session.undo, session.redo)

    def redo(self, session: ModelSession) -> None:
        self._back(session, session.redo, session.undo)

    def _back(self, session: ModelSession, source: list[Place], target: list[Place]) -> None:
        if not source:
            raise Refused(NothingToUndoError)
        target.append(session.head)
        session.stand(source.pop())
        session.active = self.now()

    # -- checkpoints

    def set_checkpoint(self, session: ModelSession, name: str, state: Json) -> None:
        session.checkpoints[name] = (session.head, state)

    def delete_checkpoint(self, session: ModelSession, name: str) -> bool:
        if not session.checkpoint(name):
            return False
        session.checkpoints.pop(name, None)
        if session.checkpoint(name):
            session.checkpoints[name] = None
        return True

    def place_named(self, session: ModelSession, name: str) -> Place:
        found = session.checkpoint(name)
        if not found:
            raise Refused(CheckpointNotFoundError)
        return found[0]
