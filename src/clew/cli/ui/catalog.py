"""The sessions of a store in memory: subagents and forks below their owners, filters, counts; no widgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import clew
from clew.core.conversation.kin import base_of, may_be_base

NO_AGENT: Final = "(none)"
NO_PROJECT: Final = "(none)"


class Row(NamedTuple):
    """A line of the list: a session, and what lies folded below it."""

    info: clew.SessionInfo
    depth: int
    agents: int
    """How many subagents it has, those of its subagents too."""
    forks: int
    """How many forks and copies, and forks of these."""
    active: datetime
    """When it, or one of these, was active last."""
    is_open: bool

    @property
    def has_below(self) -> bool:
        return bool(self.agents or self.forks)


class Filter(NamedTuple):
    """Which sessions are shown. None: any."""

    agent: str | None = None
    project: str | None = None
    directory: str | None = None

    def fits(self, info: clew.SessionInfo) -> bool:
        return (
            (self.agent is None or agent_of(info) == self.agent)
            and (self.project is None or project_name(info) == self.project)
            and (self.directory is None or is_below(info.workspace, self.directory))
        )


def agent_of(info: clew.SessionInfo) -> str:
    return info.agent or NO_AGENT


def project_name(info: clew.SessionInfo) -> str:
    """The name of the directory where it works."""
    return info.project or NO_PROJECT


def is_below(path: str | None, directory: str) -> bool:
    """Whether a path is this directory, or lies in it."""
    return path is not None and (path == directory or path.startswith(directory.rstrip("/") + "/"))


class Catalog:
    """What is known of the sessions until now."""

    def __init__(self) -> None:
        self.infos: Mapping[str, clew.SessionInfo] = {}
        self.names: Mapping[str, str] = {}
        """Short ones, for people."""
        self._children: dict[str, list[str]] = {}
        """In the order in which they were made."""
        self.filter = Filter()
        self.opened: set[str] = set()
        """The sessions whose subagents and forks are shown."""
        self.is_complete = False

    def set(self, infos: Mapping[str, clew.SessionInfo], names: Mapping[str, str]) -> None:
        """These are the sessions now, and their short names."""
        self.infos, self.names = infos, names
        self._children = {}
        for id, info in infos.items():
            if info.parent is None and base_of(info) is None:
                continue
            if (owner := self.owner_of(id)) is not None:
                self._children.setdefault(owner, []).append(id)
        for ids in self._children.values():
            ids.sort(key=lambda id: (infos[id].created_at, id))

    def remove(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        self.set({id: info for id, info in self.infos.items() if id not in gone}, self.names)

    # -- subagents, forks and copies

    def parent_of(self, id: str) -> str | None:
        """The parent of a subagent, if it is here."""
        return None if self.infos[id].parent is None else self.owner_of(id)

    def owner_of(self, id: str) -> str | None:
        """The session that this one is folded into, if it is here: the parent of a subagent, the base of a
        fork or copy. One that is its own ancestor has none: no text from elsewhere makes a ring here."""
        return next(iter(self._owners(id)), None)

    def _owners(self, id: str) -> list[str]:
        """The owner, its owner and so on."""
        found: list[str] = []
        seen = {id}
        at = self._named_owner(id)
        while at is not None:
            if at in seen:
                return []
            seen.add(at)
            found.append(at)
            at = self._named_owner(at)
        return found

    def _named_owner(self, id: str) -> str | None:
        info = self.infos[id]
        if info.parent is not None:
            return info.parent if info.parent in self.infos else None
        base = self.infos.get(base_of(info) or "")
        return base.id if base is not None and may_be_base(base, info) else None

    def open_to(self, id: str) -> None:
        """Show the line of a session that is folded into others."""
        if id in self.infos:
            self.opened.update(self._owners(id))

    def below(self, id: str) -> list[str]:
        """The subagents of a session and theirs, each after its parent."""
        return self._walk(id, lambda one: self.infos[one].parent is not None)

    def _walk(self, id: str, fits: Callable[[str], bool]) -> list[str]:
        found: list[str] = []
        waiting = [id]
        while waiting:
            at = waiting.pop()
            if at != id:
                found.append(at)
            waiting += filter(fits, reversed(self._children.get(at, [])))
        return found

    # -- the list

    def rows(self) -> list[Row]:
        """The lines that the filter leaves, newest activity first."""
        families = [self._row(info, 0) for info in self.infos.values() if self._is_top(info)]
        families.sort(key=lambda row: row.active, reverse=True)
        return [row for family in families for row in self._with_children(family)]

    def _is_top(self, info: clew.SessionInfo) -> bool:
        """Whether a session has a line of its own. A fork or copy has one if the filter fits it, but none of
        those that it is folded into."""
        if not self.filter.fits(info):
            return False
        if info.parent is None and base_of(info) is None:
            return True
        owners = self._owners(info.id)
        if info.parent is not None:
            return not owners
        return not any(self.filter.fits(self.infos[owner]) for owner in owners)

    def _row(self, info: clew.SessionInfo, depth: int) -> Row:
        is_open = info.id in self.opened
        if info.id not in self._children:
            return Row(info, depth, 0, 0, info.updated_at, is_open)
        family = [self.infos[each] for each in self._walk(info.id, lambda _: True)]
        active = max(info.updated_at, *(one.updated_at for one in family))
        agents = sum(one.parent is not None for one in family)
        return Row(info, depth, agents, len(family) - agents, active, is_open)

    def _with_children(self, row: Row) -> Iterator[Row]:
        waiting = [row]
        while waiting:
            yield (at := waiting.pop())
            if at.is_open:
                below = self._children.get(at.info.id, ())
                waiting += [self._row(self.infos[id], at.depth + 1) for id in reversed(below)]

    # -- what there is to filter by

    def agents(self) -> list[tuple[str, int]]:
        """With how many sessions each, most first."""
        return _counted(agent_of(info) for info in self._roots())

    def projects(self) -> list[tuple[str, int]]:
        return _counted(project_name(info) for info in self._roots())

    def _roots(self) -> Iterator[clew.SessionInfo]:
        return (info for id, info in self.infos.items() if info.parent is None or self.parent_of(id) is None)

    def matching(self, words: list[str], most: int) -> list[clew.SessionInfo]:
        """The newest sessions with all these words in their title, id, directory, agent or tags."""
        wanted = [word.casefold() for word in words]
        found = []
        for info in self.infos.values():  # newest first, as they were read
            parts = (info.id, info.title, info.workspace, info.agent, info.model, *info.tags)
            text = "\n".join(part for part in parts if part).casefold()
            if all(word in text for word in wanted) and self.filter.fits(info):
                found.append(info)
                if len(found) == most:
                    break
        return found


def _counted(names: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))
