"""The columns of the list of sessions: those of `clew ls`, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.text import Text

import clew
from clew.cli.text import ago, count, one_line
from clew.cli.ui.catalog import Row, project_of

ACTIVE = 11
MSGS = 5
ID = 8
GAP = 2
WITH_AGENT = 70
WITH_PROJECT = 88
"""Columns of the terminal from which on there is room for these."""


class Layout(NamedTuple):
    """How wide the columns are; 0: there is no such column."""

    agent: int
    project: int
    title: int
    id: int


def layout(width: int, longest_agent: int, longest_project: int, longest_id: int) -> Layout:
    """The title has what the others leave."""
    agent = min(longest_agent, 12 if width < 120 else 16) if width >= WITH_AGENT else 0
    most = 12 if width < 100 else 16 if width < 140 else 28
    project = min(longest_project, most) if width >= WITH_PROJECT else 0
    ids = ((WITH_AGENT, ID), (WITH_PROJECT, 10), (120, 13))
    id = min(longest_id, next((most for below, most in ids if width < below), 24))
    used = ACTIVE + MSGS + id + 3 * GAP + sum(one + GAP for one in (agent, project) if one)
    return Layout(agent, project, max(8, width - used), id)


def heading(sizes: Layout) -> Text:
    line = Text("ACTIVE".rjust(ACTIVE) + " " * GAP, "dim bold", no_wrap=True)
    if sizes.agent:
        line.append(_cell("AGENT", sizes.agent))
    if sizes.project:
        line.append(_cell("PROJECT", sizes.project))
    line.append("MSGS".rjust(MSGS) + " " * GAP)
    return line.append(_cell("TITLE", sizes.title)).append("ID")


def session_line(row: Row, name: str, sizes: Layout) -> Text:
    info = row.info
    line = Text(no_wrap=True).append(f"{ago(row.active):>{ACTIVE}}{' ' * GAP}", "dim")
    if sizes.agent:
        line.append(_cell(info.agent or "", sizes.agent))
    if sizes.project:
        line.append(_cell(project_of(info) if info.workspace else "", sizes.project), "blue")
    line.append(f"{row.messages:>{MSGS},}{' ' * GAP}", "dim")
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
    if info.damaged:
        before.append("damaged ", "bold red")
    elif info.status not in ("pending", "completed"):
        before.append(f"{info.status} ", "red" if info.status == "failed" else "yellow")
    after = Text()
    if row.agents:
        after.append(f" {'▾' if row.is_open else '▸'} +{count(row.agents, 'agent')}", "magenta")
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


def _cell(text: str, width: int) -> str:
    cell = Text(one_line(text))
    cell.truncate(width, overflow="ellipsis", pad=True)
    return cell.plain + " " * GAP


def longest(infos: Iterable[clew.SessionInfo], names: Iterable[str]) -> tuple[int, int, int]:
    """How wide agents, projects and ids are."""
    agents, projects = {"AGENT"}, {"PROJECT"}
    for info in infos:
        agents.add(info.agent or "")
        projects.add(project_of(info) if info.workspace else "")
    return max(map(len, agents)), max(map(len, projects)), max(map(len, names), default=ID)
