"""A conversation that is moved about, and the small model that says where it must be."""

from __future__ import annotations

import random
from typing import Any, Final, TypeAlias

import msgspec

import clew


class Move(msgspec.Struct, frozen=True):
    """One operation on one session."""

    kind: str
    session: str
    values: list[str] = []
    at: int = -1
    name: str = ""


class Standing(msgspec.Struct):
    """Where a session stands: its path, marks in brackets, and what it has beside."""

    path: list[str] = []
    points: dict[str, list[str]] = {}
    """The path to each checkpoint."""
    vars: dict[str, int] = {}
    before: list[str] | None = None
    """Where `undo` goes back to, if the last move can be undone by it."""


World: TypeAlias = dict[str, Standing]

FIRST_PURGES: Final = ("create", "append", "create other", "purge", "scrub", "fork", "purge")
"""What a worker that purges does first, in this order. Then it chooses."""


def played(world: World, move: Move) -> World:
    """The world after a move."""
    was = world.get(move.session, Standing())
    path, points, vars, before = list(was.path), dict(was.points), dict(was.vars), None
    match move.kind:
        case "create":
            pass
        case "append":
            path += move.values
        case "compact":
            path, before = [*path, f"(compaction {move.name})"], path
        case "rewind":
            path, before = path[: move.at + 1], path
        case "undo":
            path = was.before or []
        case "checkpoint" | "snapshot":
            points[move.name] = path
            before = was.before
        case "set_var":
            vars[move.name] = move.at
            before = was.before
        case "fork":
            way = path[: move.at + 1]
            taken = {name: point for name, point in points.items() if way[: len(point)] == point}
            fork = Standing(way, taken, vars)
            return {**world, move.name: fork, move.session: msgspec.structs.replace(was)}
        case "purge":
            return {name: standing for name, standing in world.items() if name != move.session}
        case "scrub":
            return world
        case _:
            raise ValueError(move.kind)
    return {**world, move.session: Standing(path, points, vars, before)}


def next_move(world: World, session: str, number: int, chooser: random.Random) -> Move:
    """Something that can be done to a session now."""
    if session not in world:
        return Move("create", session)
    standing = world[session]
    length = len(standing.path)
    kinds = ["append", "append", "append", "set_var"]
    if length > 2:
        kinds += ["rewind", "fork", "compact", "checkpoint", "snapshot"]
    if standing.before is not None:
        kinds += ["undo", "undo"]
    kind = chooser.choice(kinds)
    return Move(
        kind,
        session,
        [f"{session}/{number}.{n}" for n in range(chooser.choice((1, 1, 3)))] if kind == "append" else [],
        number if kind == "set_var" else chooser.randrange(length) if length else -1,
        {"fork": f"{session}/fork-{number}", "set_var": f"v{number % 3}"}.get(kind, f"p{number}"),
    )


def next_purge(world: World, session: str, number: int, chooser: random.Random) -> Move:
    """Something that writes what is stored anew. Values of one length are set in between: what is written
    anew may look like what it replaces, but for them."""
    other = f"{session}/gone"
    kinds = ["set_var", "set_var", "set_var", "checkpoint", "scrub"]
    kinds += ["purge", "purge"] if other in world else ["create other", "fork"]
    kind = FIRST_PURGES[number] if number < len(FIRST_PURGES) else chooser.choice(kinds)
    match kind:
        case "append":
            return Move(kind, session, [f"{session}/{number}"])
        case "set_var":
            return Move(kind, session, at=100_000 + number, name=f"v{number % 3}")
        case "checkpoint":
            return Move(kind, session, at=100_000 + number, name="here")
        case "fork":
            return Move(kind, session, at=0, name=other)
        case "create other":
            return Move("create", other)
        case "purge":
            return Move(kind, other)
    return Move(kind, session)


def make(store: clew.Store, move: Move, files: str) -> str:
    """Do it; of a snapshot, its id. `files` is the directory to take one of."""
    match move.kind:
        case "create":
            store.create(move.session)
            return ""
        case "purge":
            store.delete(move.session, purge=True)
            return ""
        case "scrub":
            store.vacuum()
            return ""
    session = store.get(move.session)
    match move.kind:
        case "append":
            session.append(*({"role": "user", "content": value} for value in move.values))
        case "compact":
            session.compact(move.name)
        case "rewind":
            session.rewind(move.at)
        case "undo":
            session.undo()
        case "checkpoint":
            session.checkpoint(move.name, state={"n": move.at})
        case "snapshot":
            return session.checkpoint(move.name, files=files).snapshot or ""
        case "set_var":
            session.set_var(move.name, move.at)
        case "fork":
            session.fork(move.name, at=move.at)
    return ""


def standing_of(session: clew.Session) -> Standing:
    """Where it really stands."""
    path = [_said(entry) for entry in session.entries()]
    points = {
        each.name: [_said(entry) for entry in session.entries(at=each.head)] for each in session.checkpoints()
    }
    vars: dict[str, Any] = session.vars()
    return Standing(path, points, vars)


def _said(entry: clew.Entry) -> str:
    """What tells an entry from all others of its session."""
    said: Any = entry.message
    if entry.kind == "compaction":
        return f"({entry.kind} {said['messages'][0]['content']})"
    if entry.kind != "message":
        return f"({entry.kind})"
    return str(said["content"])


def difference(expected: World, found: World) -> str:
    """The first thing in which two worlds differ; "" when they are alike."""
    for name in sorted({*expected, *found}):
        want, have = expected.get(name), found.get(name)
        if want is None or have is None:
            return f"{name!r} is {'not ' if have is None else ''}there"
        for what in ("path", "points", "vars"):
            wanted, had = getattr(want, what), getattr(have, what)
            if wanted != had:
                return f"the {what} of {name!r} is {str(had)[-300:]}, not {str(wanted)[-300:]}"
    return ""
