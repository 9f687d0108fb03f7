"""The columns of the list of sessions: those of `clew ls`, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from rich.text import Text

import clew
from clew.cli.text import ago, count, one_line
from clew.cli.ui.catalog import Row
from clew.cli.views.sessions import mark_of, new_words
from clew.core.conversation.kin import kind_of

ACTIVE: Final = 11
ID: Final = 8
GAP: Final = 2
WITH_AGENT: Final = 72
"""Columns of the terminal from which on there is room for the agent and the number of messages."""
WITH_NEW: Final = 60
"""Columns of the title from which on there is room for the words about the agent's branch."""


class Widths(NamedTuple):
    """How wide the longest texts of some columns are."""

    agent: int = 5
    project: int = 7
    messages: int = 4
    id: int = ID


class Layout(NamedTuple):
    """How wide the columns are; 0: there is no such column."""

    agent: int
    project: int
    messages: int
    title: int
    id: int


def layout(width: int, longest: Widths) -> Layout:
    """The title has what the others leave."""
    is_narrow = width < WITH_AGENT
    agent = 0 if is_narrow else min(longest.agent, 12 if width < 120 else 16)
    project = min(longest.project, 8 if width < 88 else 16 if width < 140 else 28)
    messages = 0 if is_narrow else longest.messages
    id = min(longest.id, 10 if width < 88 else 13 if width < 120 else 24)
    used = ACTIVE + GAP + id + GAP + sum(one + GAP for one in (agent, project, messages) if one)
    return Layout(agent, project, messages, max(8, width - used), id)


def heading(sizes: Layout) -> Text:
    line = Text(_cell("ACTIVE", ACTIVE), "dim bold", no_wrap=True)
    if sizes.agent:
        line.append(_cell("AGENT", sizes.agent))
    line.append(_cell("PROJECT", sizes.project))
    if sizes.messages:
        line.append("MSGS".rjust(sizes.messages) + " " * GAP)
    return line.append(_cell("TITLE", sizes.title)).append("ID")


def session_line(row: Row, name: str, sizes: Layout) -> Text:
    info = row.info
    line = Text(no_wrap=True).append(_cell(ago(row.active), ACTIVE), "dim")
    if sizes.agent:
        line.append(_cell(info.agent or "", sizes.agent))
    line.append(_cell(info.project, sizes.project), "blue")
    if sizes.messages:
        line.append(f"{row.info.messages:>{sizes.messages},}{' ' * GAP}", "dim")
    line.append_text(_title(row, sizes.title)).append(" " * GAP)
    if row.depth and "/" in name:  # the parent above it has the rest
        name = f"/{name.rpartition('/')[2]}"
    return line.append(one_line(name)[: sizes.id], "cyan")


def _title(row: Row, width: int) -> Text:
    """The title is cut, not what follows it."""
    info = row.info
    before = Text()
    if row.depth:
        before.append("  " * (row.depth - 1) + "└ ", "dim")
    word, colour = mark_of(info)
    if word:
        before.append(f"{word} ", f"bold {colour}" if info.damaged else colour)
    if (kind := kind_of(info)) is not None:
        before.append(f"{kind} ", "dim")
    after = Text()
    if info.agent_branch is not None and info.agent_branch.new:
        words = new_words(info)
        after.append(f" {words if width >= WITH_NEW else words.partition(' on ')[0]}", "yellow")
    if row.has_below:
        # Words for both would leave no room for the title.
        number = row.agents + row.forks if row.agents and row.forks else folded(row.agents, row.forks)
        after.append(f" {'▾' if row.is_open else '▸'} +{number}", "magenta")
    if info.tags:
        after.append("".join(f" #{one_line(tag)}" for tag in info.tags), "green")
        after.truncate(max(12, width // 2), overflow="ellipsis")
    title = Text(one_line(info.title or info.preview or "(empty)"))
    room = width - before.cell_len - after.cell_len
    if title.cell_len > room:
        title.truncate(max(1, room), overflow="ellipsis")
    line = before.append_text(title).append_text(after)
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


def folded(agents: int, forks: int) -> str:
    """ "2 agents, 1 fork": what is folded into a session."""
    parts = [(agents, "agent"), (forks, "fork")]
    return ", ".join(count(number, noun) for number, noun in parts if number)


def _cell(text: str, width: int) -> str:
    cell = Text(one_line(text))
    cell.truncate(width, overflow="ellipsis", pad=True)
    return cell.plain + " " * GAP


def widths(infos: Iterable[clew.SessionInfo], names: Iterable[str]) -> Widths:
    agents, projects, messages = {"AGENT"}, {"PROJECT"}, 0
    for info in infos:
        agents.add(info.agent or "")
        projects.add(info.project)
        messages = max(messages, info.messages)
    return Widths(
        agent=max(map(len, agents)),
        project=max(map(len, projects)),
        messages=max(4, len(f"{messages:,}")),
        id=max(map(len, names), default=ID),
    )
