"""`clew mcp`: an MCP server over the store, for agents."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from clew.cli.app import Group, Refused, Settings, group
from clew.cli.commands.serving.mcp_install import (
    PACKAGES,
    allow_option,
    hint_command,
    install_command,
    rm_command,
    status_command,
)
from clew.cli.config import resolve


class McpGroup(Group):
    """Serves by itself; other things that it does are commands of it."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, invoke_without_command=True, no_args_is_help=False, **options)  # type: ignore[arg-type]


@group(
    "mcp",
    "clew mcp install claude-code   let Claude Code start it",
    "clew mcp                       what a client starts: sessions of this directory",
    "clew mcp --all                 sessions of all directories",
    "clew mcp --allow write         agents may set checkpoints and leave notes",
    "clew mcp --sync                and follow the agents of this machine",
    kind=McpGroup,
)
@click.option(
    "-w",
    "--workspace",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Show the sessions of this directory  [default: the current one]",
)
@click.option("--all", "sees_all", is_flag=True, help="Search the sessions of all directories")
@allow_option
@click.option("--session", metavar="ID", help="The session of the client: it does not find itself")
@click.option("--sync", is_flag=True, help="Follow the agents of this machine, as clew watch does")
@click.option("--reveal", is_flag=True, help="Show secrets to agents; else they are replaced")
@click.pass_context
def mcp_command(
    ctx: click.Context,
    workspace: Path | None,
    sees_all: bool,
    allow: tuple[str, ...],
    session: str | None,
    sync: bool,
    reveal: bool,
) -> None:
    """An agent that starts this can search and read its own past sessions, and those of other agents: words,
    places, diffs, costs. It can delete, change and rewind nothing. What was recorded is given as data, with
    secrets replaced.

    A client starts it and speaks to it on standard input and output. `clew serve` offers the same at /mcp.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings: Settings = ctx.obj
    resolve(settings)
    try:
        from clew.server.mcp.stdio import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (
            "mcp",
            "mcp_types",
            "anyio",
            "pydantic",
        ):
            raise
        raise Refused(f"a package is missing: {error.name}; pip install '{PACKAGES['mcp']}'") from None
    if sys.stdin.isatty():
        click.echo("clew: this waits for a client on standard input; Ctrl-C ends it", err=True)
    serve(
        settings.store,
        workspace=workspace,
        sees_all=sees_all,
        writes="write" in allow,
        reveals=reveal,
        session=session,
        sync=sync,
    )


for _command in (install_command, rm_command, status_command, hint_command):
    mcp_command.add_command(_command)
