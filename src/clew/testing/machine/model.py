"""A store as small as it can be: what Clew must do, without a word of how.

An entry points to the one before it, a session to its last one, and every question is answered by
walking the path. Nothing is cached, counted or indexed, so there is little to be wrong. The machine
in clew.testing.machine plays every operation on this and on a real store, and compares.
"""

from __future__ import annotations

from itertools import count

from clew.errors import (
    AliasExistsError,
    CheckpointNotFoundError,
    EntryNotFoundError,
    HeadMovedError,
    KeyReusedError,
    NothingToUndoError,
    SessionExistsError,
    SessionNotFoundError,
)
from clew.model import Json
from clew.testing.machine.model_runs import By, ModelRun, Refused, Working
from clew.testing.machine.model_session import (
    ModelSession,
    Node,
    Place,
    Point,
    latest,
    lies_on,
    path,
    turns_at,
)


class Model(Working):
    """The store."""

    def __init__(self, me: str) -> None:
        self.me = me
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
        made = ModelSession(id, tree, active=tree)
        self.live.append(made)
        return made

    def fork(self, base: ModelSession, id: str | None, at: Place, by: By) -> ModelSession:
        self.beside(base, by)
        if id is None:
            base.forks += 1
            while self.find(f"{base.id}#fork-{base.forks}"):
                base.forks += 1
            id = f"{base.id}#fork-{base.forks}"
        elif self.find(id):
            raise Refused(SessionExistsError)
        made = ModelSession(id, base.tree, active=self.now(), origin=(base.id, at))
        made.title, made.has_title, made.tags = base.title, base.has_title, base.tags
        if made.title is not None and not made.has_title:
            made.title = next((node.body["content"] for node in path(at) if node.is_turn), None)
        made.variables = dict(base.variables)
        made.checkpoints = {n: point for n, point in base.checkpoints.items() if lies_on(point.place, at)}
        made.notes = {node: base.notes[node] for node in path(at) if node in base.notes}
        made.stand(at)
        self.live.append(made)
        return made

    def listed(self) -> list[ModelSession]:
        return sorted(self.live, key=lambda session: -session.active)

    def add_alias(self, session: ModelSession, alias: str, by: By, *, move: bool) -> None:
        self.beside(session, by)
        holder = self.find(alias)
        if holder is session:
            return
        if holder:
            if not move or holder.id == alias:
                raise Refused(AliasExistsError)
            holder.aliases.remove(alias)
        self.aliases[alias] = session
        session.aliases.append(alias)

    def remove_alias(self, session: ModelSession, alias: str, by: By) -> bool:
        self.beside(session, by)
        if self.aliases.get(alias) is not session:
            return False
        del self.aliases[alias]
        session.aliases.remove(alias)
        return True

    # -- deleting

    def delete(self, session: ModelSession, when: int, *, force: bool) -> None:
        if not force:
            self.refuse_if_held(session)
        if session.holder:
            self.end_lease(session, self.me)
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
        """Remove it; its forks keep what they share with it."""
        self.live = [other for other in self.live if other is not session]
        self.trash = [item for item in self.trash if item[1] is not session]
        others = [other for other in (*self.live, *(s for _, s in self.trash)) if other.tree == session.tree]
        self.aliases = {alias: holder for alias, holder in self.aliases.items() if holder is not session}
        needed = {node for other in others for place in other.seen for node in path(place)}
        self.purged += [node for node in self.nodes[session.tree] if node not in needed]
        self.nodes[session.tree] = [node for node in self.nodes[session.tree] if node in needed]

    # -- writing

    def _write(
        self, session: ModelSession, after: Place, kind: str, bodies: list[dict[str, Json]], by: By
    ) -> list[Node]:
        written: list[Node] = []
        epoch = by.epoch if isinstance(by, ModelRun) else 0
        for body in bodies:
            after = Node(after, kind, body, epoch)
            written.append(after)
            if after.is_turn and session.title is None:
                session.title = body["content"]
        self.nodes[session.tree] += written
        return written

    def append(
        self,
        session: ModelSession,
        messages: list[dict[str, Json]],
        key: str | None = None,
        expect: Place | str = "any",
        by: By = None,
    ) -> list[Node]:
        with self.admitted(session, by):
            for known in session.keys.get(key or "", []):
                if lies_on(known[-1], session.head):
                    if repr([node.body for node in known]) != repr(messages):
                        raise Refused(KeyReusedError)
                    return known
            if expect != "any" and expect is not session.head:
                raise Refused(HeadMovedError)
            written = self._write(session, session.head, "message", messages, by)
            session.stand(written[-1])
            session.active = self.now()
            if key:
                session.keys.setdefault(key, []).append(written)
            return written

    def _step(self, session: ModelSession, place: Place) -> None:
        session.undo.append(session.head)
        session.redo.clear()
        session.stand(place)
        session.active = self.now()

    def move(self, session: ModelSession, place: Place, by: By) -> None:
        with self.admitted(session, by):
            self._step(session, place)

    def abort(self, session: ModelSession, began: Place, by: By) -> None:
        """A turn that failed: back to where it began."""
        with self.admitted(session, by):
            if session.head is not began:
                self._step(session, began)

    def mark(self, session: ModelSession, kind: str, body: dict[str, Json], by: By) -> Node:
        with self.admitted(session, by):
            (node,) = self._write(session, session.head, kind, [body], by)
            self._step(session, node)
            return node

    def replace(
        self, session: ModelSession, messages: list[dict[str, Json]], turns: int | None, by: By
    ) -> None:
        with self.admitted(session, by):
            if session.title is None:
                said = [message["content"] for message in messages if Node(None, "message", message).is_turn]
                session.title = said[0] if said else None
            place: Place = None
            left = list(messages)
            for node in path(session.head):
                if node.kind == "message" and left and node.says(left[0]):
                    del left[0]
                elif node.kind not in ("summary", "turns"):
                    break
                place = node
            if turns is None:
                turns = sum(Node(None, "message", message).is_turn for message in messages)
            place = [place, *self._write(session, place, "message", left, by)][-1]
            if turns_at(place) != turns:
                (place,) = self._write(session, place, "turns", [{"user_turns": turns}], by)
            old, kept = latest(session.head, "summary"), latest(place, "summary")
            if old and old is not kept and (kept or old.body["text"] is not None):
                (place,) = self._write(session, place, "summary", [old.body], by)
            if place is not session.head:
                self._step(session, place)

    def truncate(self, session: ModelSession, keep: int, by: By) -> Node | None:
        with self.admitted(session, by):
            view, (_, instead) = session.in_view(), session.cut()
            cut_off = view[: len(view) - keep] if keep else view
            if keep > len(view) or not (cut_off or instead):
                return None
            start = path(session.head).index(view[-keep]) if keep else len(path(session.head))
            return self.mark(session, "truncation", {"start": start}, by)

    def undo(self, session: ModelSession, by: By) -> None:
        self._back(session, session.undo, session.redo, by)

    def redo(self, session: ModelSession, by: By) -> None:
        self._back(session, session.redo, session.undo, by)

    def _back(self, session: ModelSession, source: list[Place], target: list[Place], by: By) -> None:
        with self.admitted(session, by):
            if not source:
                raise Refused(NothingToUndoError)
            target.append(session.head)
            session.stand(source.pop())
            session.active = self.now()

    def annotate(self, session: ModelSession, place: Place, fields: dict[str, Json], by: By) -> Node:
        self.beside(session, by)
        if place is None:
            raise Refused(EntryNotFoundError)
        noted = {**session.notes.get(place, {}), **fields}
        session.notes[place] = {name: value for name, value in noted.items() if value is not None}
        return place

    def update(self, session: ModelSession, title: str | None, tags: tuple[str, ...], by: By) -> None:
        self.beside(session, by)
        session.title, session.has_title, session.tags = title, title is not None, tags
        if title is None:
            session.title = next((node.body["content"] for node in path(session.head) if node.is_turn), None)

    def set_var(self, session: ModelSession, name: str, value: Json, by: By) -> None:
        with self.admitted(session, by):
            session.variables[name] = value

    def delete_var(self, session: ModelSession, name: str, by: By) -> bool:
        with self.admitted(session, by):
            return session.variables.pop(name, self) is not self

    # -- checkpoints

    def set_checkpoint(self, session: ModelSession, name: str, state: Json, by: By) -> None:
        with self.admitted(session, by):
            session.checkpoints[name] = Point(session.head, state, self.now())

    def set_progress(
        self, session: ModelSession, name: str | None, state: Json, iteration: int | None, by: ModelRun
    ) -> str:
        """A checkpoint to resume from; its name."""
        with self.admitted(session, by):
            session.points += 1
            while name is None and f"run-{by.epoch}-{session.points}" in session.checkpoints:
                session.points += 1
            session.resume_name = name or f"run-{by.epoch}-{session.points}"
            progress = by.epoch, session.points, iteration
            session.checkpoints[session.resume_name] = Point(session.head, state, self.now(), progress)
            return session.resume_name

    def delete_checkpoint(self, session: ModelSession, name: str, by: By) -> bool:
        with self.admitted(session, by):
            return session.checkpoints.pop(name, None) is not None

    def place_named(self, session: ModelSession, name: str) -> Place:
        if name not in session.checkpoints:
            raise Refused(CheckpointNotFoundError)
        return session.checkpoints[name].place

    def go(self, session: ModelSession, name: str, by: By) -> None:
        """Back to a checkpoint."""
        with self.admitted(session, by):
            self._step(session, self.place_named(session, name))
