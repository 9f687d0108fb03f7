"""`clew hooks`: hooks in other agents that wake `clew watch`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

import click

from clew.cli.app import Command, Settings, group
from clew.cli.output import Output
from clew.cli.table import Column
from clew.cli.text import from_home
from clew.cli.views.changes import chosen, diff, each, named, say
from clew.importers.hooks.agents import AGENTS, Agent
from clew.importers.hooks.install import Outcome, install, remove, status
from clew.importers.wake import listeners

_COLUMNS: Final = (
    Column("AGENT"),
    Column("HOOKS"),
    Column("FILES", optional=True),
    Column("SETTINGS", flexible=True, style="dim"),
)
_NO_WATCHER: Final = "no clew watch is running: hooks do nothing until one is; clew watch starts it"


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in AGENTS if name.startswith(incomplete)]


_agents: Final = click.argument("agents", nargs=-1, metavar="[AGENT]...", shell_complete=_complete)
_all: Final = click.option("--all", "every", is_flag=True, help="All agents that are found on this machine")
_dry_run: Final = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing")


@group(
    "hooks",
    "clew hooks status                          list agents, and whether hooks are there",
    "clew hooks install claude-code --dry-run   show what would change",
    "clew hooks install claude-code codex       install them",
    "clew hooks install --all --files           with snapshots at the end of each turn",
    "clew hooks rm --all                        remove them again",
)
def hooks_command() -> None:
    """A hook tells a running `clew watch` that a turn, a session or a subagent has ended. It says which
    session, and never what is in it. It adds about two milliseconds, and does nothing while nothing watches.

    Agents: claude-code, codex, gemini-cli, opencode, pi.
    """


@hooks_command.command("install", cls=Command)
@_agents
@_all
@click.option(
    "--files/--no-files",
    default=None,
    help="Ask for a snapshot of the workspace's files at the end of each turn",
)
@_dry_run
@click.pass_obj
def hooks_install(
    settings: Settings, agents: tuple[str, ...], every: bool, files: bool | None, dry_run: bool
) -> int:
    """Install hooks in the settings of agents.

    Hooks of others, comments, the order of keys and links stay. The settings are saved as they were.
    To install twice changes nothing. --files takes snapshots while `clew watch` runs: `clew rewind --files`
    can bring them back.
    """
    out = Output(settings)
    code = each(
        out,
        "agent",
        _chosen(agents, every, only_here=True),
        lambda agent: install(agent, files=files, dry_run=dry_run),
        lambda out, outcome: _print_installed(out, outcome, dry_run),
    )
    if out.is_terminal and not dry_run and not listeners():
        say(out, _NO_WATCHER)
    return code


@hooks_command.command("rm", cls=Command)
@_agents
@_all
@_dry_run
@click.pass_obj
def hooks_rm(settings: Settings, agents: tuple[str, ...], every: bool, dry_run: bool) -> int:
    """Remove the hooks from the settings of agents.

    If nothing else was changed since they came, the settings are as they were before, byte for byte. Else
    only our hooks are taken out.
    """
    return each(
        Output(settings),
        "agent",
        _chosen(agents, every, only_here=False),
        lambda agent: remove(agent, dry_run=dry_run),
        lambda out, outcome: _print_removed(out, outcome, dry_run),
    )


# Scripts that older versions installed name it so.
_remove = copy(hooks_rm)
_remove.name, _remove.hidden = "remove", True
hooks_command.add_command(_remove)


@hooks_command.command("status", cls=Command)
@_agents
@click.pass_obj
def hooks_status(settings: Settings, agents: tuple[str, ...]) -> None:
    """Show where hooks are installed, and whether clew watch runs.

    Piped: agent, state, yes or no for snapshots of files, settings, notes; separated by tabs.
    """
    out = Output(settings)
    watchers = listeners()
    found = [status(agent) for agent in (named("agent", agents, AGENTS) if agents else AGENTS.values())]
    if out.json:
        for one in found:
            about = {"agent": one.agent.name, "state": one.state, "files": one.files}
            out.record(about | {"path": str(one.agent.path), "notes": one.notes, "watchers": watchers})
        return
    rows = [
        (one.agent.name, one.state, "yes" if one.files else "no", from_home(str(one.agent.path)))
        for one in found
    ]
    if not out.is_terminal:
        for row, one in zip(rows, found, strict=True):
            out.row(*row, "; ".join(one.notes))
        return
    out.rows(_COLUMNS, [(*row[:2], row[2] if _has_hooks(row[1]) else "", row[3]) for row in rows])
    say(out, "")
    for one in found:
        for note in one.notes:
            say(out, f"{one.agent.name}: {note}")
    if watchers:
        pids = ", ".join(map(str, watchers))
        say(out, f"clew watch is running (process {pids}): hooks wake it")
    else:
        say(out, _NO_WATCHER)


def _has_hooks(state: str) -> bool:
    return state in ("installed", "changed")


def _chosen(names: Sequence[str], every: bool, *, only_here: bool) -> list[Agent]:
    return chosen("agent", names, every, AGENTS, lambda agent: agent.is_here() or not only_here)


# -- what was done


def _print_installed(out: Output, outcome: Outcome, dry_run: bool) -> None:
    agent = outcome.agent
    if out.json:
        _record(out, outcome, dry_run)
    elif not outcome.changes:
        say(out, f"{agent.name}: the hooks are there already; nothing was changed")
    elif dry_run:
        diff(out, outcome.changes)
    elif outcome.changes[0].path != agent.path:
        script = from_home(str(outcome.changes[0].path))
        say(out, f"{agent.name}: {script} was renewed; the settings are unchanged")
    else:
        say(out, f"{agent.name}: hooks are installed in {from_home(str(agent.path))}")
        if outcome.backup is not None:
            say(out, f"  the settings as they were: {from_home(str(outcome.backup))}")
        if agent.note:
            say(out, f"  {agent.note}")


def _print_removed(out: Output, outcome: Outcome, dry_run: bool) -> None:
    agent = outcome.agent
    if out.json:
        _record(out, outcome, dry_run)
    elif not outcome.changes:
        say(out, f"{agent.name}: no hooks of Clew are there; nothing was changed")
    elif dry_run:
        diff(out, outcome.changes)
    else:
        first = outcome.changes[0]
        if first.path != agent.path:
            out.line(
                f"{agent.name}: {from_home(str(first.path))} is removed; the settings had no hooks of Clew"
            )
            return
        gone = "is gone, as before" if first.after is None else "is as it was before, byte for byte"
        rest = "lost only the hooks of Clew; other changes since then were kept"
        place = from_home(str(first.path))
        how = gone if outcome.is_restored or first.after is None else rest
        say(out, f"{agent.name}: hooks are removed; {place} {how}")
        if outcome.backup is not None:
            say(out, f"  the settings before the hooks came: {from_home(str(outcome.backup))}")


def _record(out: Output, outcome: Outcome, dry_run: bool) -> None:
    said: dict[str, object] = {
        "agent": outcome.agent.name,
        "changed": [str(change.path) for change in outcome.changes],
        "dry_run": dry_run,
        "backup": None if outcome.backup is None else str(outcome.backup),
        "restored": outcome.is_restored,
    }
    if outcome.agent.note:
        said["note"] = outcome.agent.note
    out.record(said)
