"""What one wants to know of a session before reading it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from textwrap import wrap
from typing import Final

from rich.text import Text

import clew
from clew.cli.names import short_ids
from clew.cli.text import count, local, money, one_line
from clew.cli.views.moves import Places
from clew.core.log.records import COPIED_FROM, PARENT
from clew.errors import ClewError

MOST_AGENTS: Final = 20
"""That are named; more are counted."""
MOST_READ: Final = 20_000
"""Entries of a parent that are looked at to find the call that started a subagent."""
LABEL: Final = 11
_QUIET: Final = ("pending", "completed")
"""What most sessions are, and what says nothing."""


class Heading:
    """Title, agent, project, time, cost, and the sessions that this one belongs with."""

    def __init__(
        self,
        store: clew.Store,
        session: clew.Session,
        info: clew.SessionInfo,
        tree: clew.Tree,
        width: int | None = None,
    ) -> None:
        """`width`: of the terminal; None: what is too long stays on its line."""
        self._width = width
        self._store = store
        self._session = session
        self._info = info
        self._tree = tree
        self._agents = agents_of(store, info.id)
        others = [info.parent, info.metadata.get(COPIED_FROM), *tree.forks]
        ids = [info.id, *(each.id for each in self._agents[:MOST_AGENTS]), *(id for id in others if id)]
        self._ids = short_ids(store, ids)

    def agents_by_call(self) -> dict[str, str]:
        """For each call that is known to have started a subagent, a line about it."""
        return {call: self._described(each) for each in self._agents if (call := call_of(each)) is not None}

    def lines(self) -> Iterator[Text]:
        info = self._info
        yield Text.assemble(("session ", "yellow"), (one_line(self._ids[info.id]), "bold yellow"))
        for name, value in self._facts():
            if value:
                yield from _fact(name, value, self._width)

    def _facts(self) -> Iterator[tuple[str, str | None]]:
        info = self._info
        yield "Title", info.title
        yield "Agent", ", ".join(filter(None, (info.agent, info.model)))
        yield "Project", project(info)
        yield "Time", period(info.created_at, info.updated_at)
        prompts = f", {count(info.user_turns, 'prompt')}" if info.user_turns else ""
        yield "Messages", f"{info.messages:,}{prompts}"
        yield "Cost", self._cost()
        yield "Status", None if info.status in _QUIET else info.status
        yield "Tags", ", ".join(info.tags)
        yield "Forked", self._forked()
        yield "Copied", self._copied()
        for id, point in self._tree.forks.items():
            if point.session == info.id:
                yield "Fork", f"{self._ids[id]} at {Places(self._tree).words(point.head)}"
        yield "Subagent", self._parent()
        for number, each in enumerate(self._agents[:MOST_AGENTS]):
            yield "" if number else "Agents", self._described(each)
        if len(self._agents) > MOST_AGENTS:
            yield "", f"… and {len(self._agents) - MOST_AGENTS:,} more"
        if self._ids[info.id] != info.id:
            yield "Id", info.id

    def _described(self, agent: clew.SessionInfo) -> str:
        title = one_line(agent.title or "")
        return f"{self._ids.get(agent.id, agent.id)}  {title} ({count(agent.messages, 'message')})"

    def _cost(self) -> str | None:
        usage = self._session.usage()
        if not usage.cost:
            return None
        notes = ["estimated"] if usage.estimated else []
        if usage.unpriced:
            notes.append(f"without {count(usage.unpriced, 'call')} of unknown price")
        said = f"{money(usage.cost)} ({', '.join(notes)})" if notes else money(usage.cost)
        if self._agents and (family := self._session.usage(subagents=True)).cost > usage.cost:
            said += f", {money(family.cost)} with its agents"
        return said

    def _forked(self) -> str | None:
        point = self._info.forked_from
        if point is None:
            return None
        return f"from {self._ids.get(point.session, point.session)}@{Places(self._tree).name(point.head)}"

    def _copied(self) -> str | None:
        base = self._info.metadata.get(COPIED_FROM)
        return f"from {self._ids[base]}" if isinstance(base, str) and base in self._ids else None

    def _parent(self) -> str | None:
        """The session that started this one, and the place of the call."""
        id = self._info.parent
        if id is None:
            return None
        parent = self._store.find(id)
        if parent is None:
            return f"of {self._ids[id]}, which is not here"
        place = self._call_in(parent)
        at = f"@{place}" if place else ""
        return f"of {self._ids[id]}{at}  {one_line(parent.info.title or '')}"

    def _call_in(self, parent: clew.Session) -> str | None:
        call = call_of(self._info)
        if call is None or parent.info.entries > MOST_READ:
            return None
        from clew.core.log.ids import parse_entry_id

        try:
            entries = parent.entries(damaged="skip")
            found = next((entry for entry in entries if call.encode() in entry.raw), None)
            place = parse_entry_id(found.id) if found is not None else None
            return None if place is None else Places(parent.tree()).name(place)
        except ClewError:
            return None


def _fact(name: str, value: str, width: int | None) -> Iterator[Text]:
    """A label and a value, which goes on below itself. The blanks between an id and a title stay."""
    label = f"{name + ':':<10} " if name else " " * LABEL
    shown = "  ".join(one_line(part) for part in value.split("  "))
    lines = [shown] if width is None else wrap(shown, max(width - LABEL, 20), break_on_hyphens=False)
    for number, line in enumerate(lines):
        lead = (label, "bright_black") if not number else (" " * LABEL, "")
        yield Text.assemble(lead, (line, "bold" if name == "Title" else ""), no_wrap=True)


def agents_of(store: clew.Store, id: str) -> list[clew.SessionInfo]:
    """The subagents of a session, oldest first."""
    found = store.list(where={PARENT: id}, limit=1000)
    return sorted(found, key=lambda each: each.created_at)


def call_of(info: clew.SessionInfo) -> str | None:
    """The id of the call that started a subagent, if its program wrote it down."""
    meta = info.metadata.get("agent_meta")
    call = meta.get("toolUseId") if isinstance(meta, dict) else None
    return call if isinstance(call, str) and call else None


def project(info: clew.SessionInfo) -> str | None:
    """The name of its directory, and where that is."""
    if info.workspace is None:
        return None
    return f"{info.project or info.workspace}  {info.workspace}"


def period(first: datetime, last: datetime) -> str:
    begin, end = local(first), local(last)
    if begin == end:
        return begin
    return f"{begin} to {end[11:] if begin[:10] == end[:10] else end}"
