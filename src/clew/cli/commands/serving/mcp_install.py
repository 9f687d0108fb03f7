"""`clew mcp install`, `clew mcp status` and `clew mcp hint`: clients find `clew mcp`, and use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from clew.cli.agents import AgentName
from clew.cli.app import Command, Plain, Refused, Settings
from clew.cli.output import Output
from clew.cli.table import Column
from clew.cli.text import from_home

if TYPE_CHECKING:
    from clew.server.mcp.install.clients import Client
    from clew.server.mcp.install.install import Outcome

PACKAGES: Final = {"mcp": "mcp>=2.1,<3", "tomlkit": "tomlkit>=0.13"}
"""What the extra `mcp` brings, as in pyproject.toml."""
_MOVING: Final = ("CLEW_STORE", "CLEW_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that may lead to another store."""
_COLUMNS: Final = (
    Column("CLIENT"),
    Column("STATE"),
    Column("SKILL", optional=True),
    Column("HINT", optional=True),
    Column("FILE", flexible=True, style="dim"),
)
_HOOK_INPUT: Final = 64 * 1024
_HOOK_WAIT: Final = 1.0
"""Seconds for the next bytes of what a client says: it may leave its end open."""


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from clew.server.mcp.install.clients import CLIENTS

    return [name for name in CLIENTS if name.startswith(incomplete)]


_clients: Final = click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=_complete)
_all: Final = click.option("--all", "every", is_flag=True, help="All clients that are found on this machine")
_dry_run: Final = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing")
_project: Final = click.option(
    "--project", is_flag=True, help="Settings of the current directory, for all who work there"
)
allow_option: Final = click.option(
    "--allow",
    type=click.Choice(["write"]),
    multiple=True,
    metavar="WHAT",
    help="write: let agents set checkpoints and leave notes",
)


@click.command(
    "install",
    cls=Command,
    examples=(
        "clew mcp install claude-code --dry-run   show what would change",
        "clew mcp install claude-code codex       let them search the sessions of their directory",
        "clew mcp install --all --hint            all clients here, with a hint at each start",
        "clew mcp install cursor --project        for all who work in this directory",
        "clew mcp rm --all                        remove it again",
    ),
)
@_clients
@_all
@_project
@click.option("--remove", "removes", is_flag=True, hidden=True)
@_dry_run
@click.option("--skill/--no-skill", default=True, help="Add a skill that says when to look back")
@click.option("--hint/--no-hint", default=None, help="Tell each new session the titles of the last ones")
@click.option(
    "-w",
    "--workspace",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Show the sessions of this directory  [default: where the client works]",
)
@click.option("--all-sessions", is_flag=True, help="Search the sessions of all directories")
@allow_option
@click.option("--sync/--no-sync", default=True, help="Follow the agents of this machine  [default: yes]")
@click.pass_context
def install_command(
    ctx: click.Context,
    clients: tuple[str, ...],
    every: bool,
    project: bool,
    removes: bool,
    dry_run: bool,
    skill: bool,
    hint: bool | None,
    workspace: Path | None,
    all_sessions: bool,
    allow: tuple[str, ...],
    sync: bool,
) -> int:
    """Let clients start `clew mcp`.

    Clients: claude-code, codex, gemini-cli, opencode, cursor, vscode.

    The settings of a client get an entry that starts `clew mcp` with these options. Other settings, comments,
    the order of keys and links stay. Files are saved as they were. To install twice changes nothing; to
    install with other options replaces them. A skill tells the agent when to look back. --hint adds a hook
    that tells each new session titles and places of the last sessions of its directory, in at most 300
    tokens.
    """
    from clew.cli.views.changes import each
    from clew.server.mcp.install.install import install
    from clew.server.mcp.install.program import Wish

    settings: Settings = ctx.obj
    out = Output(settings)
    if removes:
        _refuse_options(ctx)
        return _remove(settings, clients, every, project=project, dry_run=dry_run)
    directory = Path.cwd() if project else None
    chosen = _chosen(clients, every, only_here=True)
    _refuse_missing()
    told: set[str] = set()
    wish = Wish(_store_of(settings), workspace, sees_all=all_sessions, writes="write" in allow, sync=sync)
    return each(
        out,
        "client",
        chosen,
        lambda client: install(
            client, wish, project=directory, skill=skill, hint=_hint(client, hint, every), dry_run=dry_run
        ),
        lambda out, outcome: _print_installed(out, outcome, dry_run, told, hint=hint),
    )


@click.command(
    "rm",
    cls=Command,
    examples=(
        "clew mcp rm claude-code --dry-run   show what would change",
        "clew mcp rm --all                   for all clients",
    ),
)
@_clients
@_all
@_project
@_dry_run
@click.pass_obj
def rm_command(
    settings: Settings, clients: tuple[str, ...], every: bool, project: bool, dry_run: bool
) -> int:
    """Remove what `clew mcp install` added.

    If nothing else was changed since, files are as they were before, byte for byte. Else only what is ours
    goes.
    """
    return _remove(settings, clients, every, project=project, dry_run=dry_run)


def _remove(settings: Settings, clients: Sequence[str], every: bool, *, project: bool, dry_run: bool) -> int:
    from clew.cli.views.changes import each
    from clew.server.mcp.install.install import remove

    directory = Path.cwd() if project else None
    return each(
        Output(settings),
        "client",
        _chosen(clients, every, only_here=False),
        lambda client: remove(client, project=directory, dry_run=dry_run),
        lambda out, outcome: _print_removed(out, outcome, dry_run),
    )


@click.command("status", cls=Command)
@_clients
@_project
@click.pass_obj
def status_command(settings: Settings, clients: tuple[str, ...], project: bool) -> None:
    """Show which clients start `clew mcp`.

    Piped: client, state, yes or no for the skill, yes or no for the hint, settings, notes; separated by tabs.
    """
    from clew.cli.views.changes import named, say
    from clew.server.mcp.install.clients import CLIENTS
    from clew.server.mcp.install.install import status

    out = Output(settings)
    directory = Path.cwd() if project else None
    asked = named("client", clients, CLIENTS) if clients else list(CLIENTS.values())
    found = [status(client, project=directory) for client in asked]
    if out.json:
        for one in found:
            about = {"client": one.client.name, "state": one.state, "skill": one.skill, "hint": one.hint}
            about |= {"path": str(one.path), "command": list(one.command), "notes": list(one.notes)}
            out.record(about)
        return
    rows = [
        (one.client.name, one.state, _yes(one.skill), _yes(one.hint), from_home(str(one.path)))
        for one in found
    ]
    if not out.is_terminal:
        for row, one in zip(rows, found, strict=True):
            out.row(*row, "; ".join(one.notes))
        return
    out.rows(_COLUMNS, rows)
    notes = [f"{one.client.name}: {note}" for one in found for note in one.notes]
    for line in ["", *notes] if notes else []:
        say(out, line)


@click.command("hint", cls=Plain)
@click.option(
    "--client",
    type=AgentName(["claude-code", "codex", "gemini-cli", "cursor"], "client"),
    metavar="NAME",
    help="Write it as the hook of this client has to",
)
@click.pass_obj
def hint_command(settings: Settings, client: str | None) -> int:
    """Print the last sessions of this directory, for a new one.

    Titles and places: a hint for an agent that begins. It has at most 300 tokens, and no contents. Secrets in
    titles are replaced. The hook that `clew mcp install --hint` adds runs this; what the client says of the
    session on standard input is read.
    """
    try:
        _print_hint(settings, client)
    except Exception as exc:  # noqa: BLE001  # whatever is wrong here must not disturb the start of an agent
        from clew.cli.text import one_line

        click.echo(f"clew: no hint: {one_line(str(exc))}", err=True)
    return 0


# -- clients


def _chosen(names: Sequence[str], every: bool, *, only_here: bool) -> list[Client]:
    from clew.cli.views.changes import chosen
    from clew.server.mcp.install.clients import CLIENTS

    return chosen("client", names, every, CLIENTS, lambda client: client.is_here() or not only_here)


def _hint(client: Client, hint: bool | None, every: bool) -> bool | None:
    """With --all, a client without such a hook gets none."""
    return None if every and client.hint is None else hint


def _store_of(settings: Settings) -> str | None:
    """The store to name in the settings of a client; None: `clew mcp` finds it by itself. A client may not
    hand on the environment: Codex hands on little of it."""
    from clew.backends.registry import default_path, masked
    from clew.cli.config import file_setting

    ours = file_setting("store")
    store = settings.store or os.environ.get("CLEW_STORE") or None
    if any(os.environ.get(name) for name in _MOVING):
        store = store or default_path()
        return None if store == ours and masked(store) != store else store
    return None if store == ours else store


def _refuse_missing() -> None:
    """Refused: what `clew mcp` needs is not installed, so that no client could start it."""
    for name, package in PACKAGES.items():
        if find_spec(name) is None:
            raise Refused(f"a package is missing: {name}; pip install '{package}'")


def _refuse_options(ctx: click.Context) -> None:
    """InvalidError would be late: an option that a removal ignores may be a mistake."""
    ours = ("skill", "hint", "workspace", "all_sessions", "allow", "sync")
    given = [
        name for name in ours if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"--remove takes all of it out; leave out --{given[0].replace('_', '-')}")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# -- what was done


def _print_installed(
    out: Output, outcome: Outcome, dry_run: bool, told: set[str], *, hint: bool | None
) -> None:
    """`told`: what was said of other clients already, and is the same for this one."""
    from clew.cli.views.changes import diff, say

    client = outcome.client
    place = from_home(str(outcome.path))
    if out.json:
        _record(out, outcome, dry_run)
        return
    if dry_run:
        diff(out, [change for change in outcome.changes if str(change.path) not in told])
        told |= {str(change.path) for change in outcome.changes}
    elif not outcome.changes:
        say(out, f"{client.name}: {place} starts clew mcp already; nothing was changed")
    else:
        if outcome.changes[0].path == outcome.path:
            say(out, f"{client.name}: {place} starts clew mcp now; start {client.title} again")
        else:
            say(out, f"{client.name}: {place} starts clew mcp, as before")
        for change in outcome.changes[1 if outcome.changes[0].path == outcome.path else 0 :]:
            what = "is new" if change.before is None else "is changed"
            say(out, f"  {from_home(str(change.path))} {'is removed' if change.after is None else what}")
        for backup in outcome.backups:
            say(out, f"  a copy of what was there: {from_home(str(backup))}")
    missing = [f"there is no hint: {client.title} has no settled hook that adds text to a new session"]
    for note in [*outcome.notes, *(missing if hint and client.hint is None else [])]:
        if note not in told and (outcome.changes or dry_run):
            say(out, f"  {note}")
        told.add(note)


def _print_removed(out: Output, outcome: Outcome, dry_run: bool) -> None:
    from clew.cli.views.changes import diff, say

    client = outcome.client
    if out.json:
        _record(out, outcome, dry_run)
    elif not outcome.changes:
        say(out, f"{client.name}: nothing of Clew is there; nothing was changed")
    elif dry_run:
        diff(out, outcome.changes)
    else:
        place = from_home(str(outcome.path))
        how = "all files are as they were before, byte for byte"
        if not outcome.is_restored:
            how = "only what is of Clew was taken out; other changes since then were kept"
        say(out, f"{client.name}: {place} does not start clew mcp any more; {how}")
        for backup in outcome.backups:
            say(out, f"  a copy of what was there before: {from_home(str(backup))}")


def _record(out: Output, outcome: Outcome, dry_run: bool) -> None:
    said: dict[str, Any] = {
        "client": outcome.client.name,
        "path": str(outcome.path),
        "changed": [str(change.path) for change in outcome.changes],
        "dry_run": dry_run,
        "command": outcome.command,
        "backups": [str(backup) for backup in outcome.backups],
        "restored": outcome.is_restored,
        "notes": outcome.notes,
    }
    out.record(said)


# -- the hint


def _print_hint(settings: Settings, client: str | None) -> None:
    import msgspec

    from clew.cli.config import resolve
    from clew.cli.store import exists, opened
    from clew.server.mcp.hint import SESSIONS, directory_in, hint_of, is_needed, said_to

    resolve(settings)
    event = {} if client is None else _event()
    if not is_needed(event) or not exists(settings.store):
        return
    own = event.get("session_id")
    with opened(settings) as store:
        page = store.list(workspace=directory_in(event) or ".", subagents=False, limit=SESSIONS + 1)
    hint = hint_of(page.sessions, own=own if isinstance(own, str) else None)
    said = said_to(client, hint)
    if hint:
        click.echo(said if isinstance(said, str) else msgspec.json.encode(said))


def _event() -> dict[str, Any]:
    """What the client says of the session that begins."""
    from select import select

    import msgspec

    data = b""
    descriptor = sys.stdin.fileno()
    while (
        len(data) < _HOOK_INPUT and not os.isatty(descriptor) and select([descriptor], [], [], _HOOK_WAIT)[0]
    ):
        more = os.read(descriptor, _HOOK_INPUT)
        data += more
        try:
            found = msgspec.json.decode(data)
        except msgspec.DecodeError:
            if not more:
                break
            continue
        return found if isinstance(found, dict) else {}
    return {}
