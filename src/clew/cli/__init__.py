"""The command line: `clew`.

A command is a function in one of the modules beside this one. It is imported when it is called: help, and
the completion of names, need nothing but the table below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click

from clew.cli.app import Group, Settings


class Place(NamedTuple):
    """Where a command is, and what `clew --help` says of it."""

    module: str
    help: str


SECTIONS: Final[dict[str, dict[str, Place]]] = {
    "Browse": {
        "ls": Place("commands.list", "List sessions, newest first"),
        "show": Place("commands.show", "Show a session, or a part of it"),
        "search": Place("commands.search", "Find messages by their words"),
        "tail": Place("commands.show", "Show the end of a session, and follow it"),
        "ui": Place("ui", "Browse sessions on the full screen"),
        "stats": Place("commands.totals.stats", "Show totals of the store or of a session"),
        "usage": Place("commands.totals.usage", "Show tokens and cost by model, day, project"),
        "interrupted": Place("commands.list", "List sessions whose worker died"),
        "title": Place("commands.list", "Show or set the title of a session"),
        "tag": Place("commands.list", "Show, add or remove the tags of a session"),
    },
    "Import and export": {
        "import": Place("commands.agents.import_", "Import sessions of other agents, or files"),
        "sync": Place("commands.agents.sync", "Import what agents wrote since the last time"),
        "watch": Place("commands.agents.watch", "Follow agents, and bring what they write"),
        "hooks": Place("commands.agents.hooks", "Let other agents wake clew watch"),
        "resume": Place("commands.agents.resume", "Go on with a session in its agent, or another"),
        "export": Place("commands.transfer", "Export sessions as HTML, Markdown or JSON"),
        "copy": Place("commands.transfer", "Copy sessions and snapshots to another store"),
        "backup": Place("commands.transfer", "Save the whole store in one file"),
    },
    "Serve": {
        "serve": Place("commands.serving.serve", "Serve the store over HTTP"),
        "mcp": Place("commands.serving.mcp", "Let agents search their past, over MCP"),
        "token": Place("commands.serving.token", "Make, list and remove tokens for a server"),
        "share": Place("commands.serving.share", "Share a session by a link that only reads"),
    },
    "History": {
        "log": Place("commands.log", "List the entries of a session, or its tree"),
        "fork": Place("commands.move", "Start a new session from a point of another"),
        "checkpoint": Place("commands.move", "Name the current point of a session"),
        "rewind": Place("commands.move", "Go back to an earlier point of a session"),
        "undo": Place("commands.move", "Undo the last move, such as a rewind"),
        "redo": Place("commands.move", "Redo what was undone last"),
        "follow": Place("commands.move", "Go to where the agent of a session stands"),
    },
    "Files": {
        "snapshot": Place("commands.files", "Save the files of a directory"),
        "files": Place("commands.files", "List snapshots, or the versions of one file"),
        "cat": Place("commands.files", "Print a file as it was in a snapshot"),
        "diff": Place("commands.files", "Show what changed between two snapshots"),
        "restore": Place("commands.files", "Restore the files of a snapshot"),
    },
    "Maintenance": {
        "rm": Place("commands.trash", "Move sessions to the trash"),
        "trash": Place("commands.trash", "List, restore or empty the trash"),
        "close": Place("commands.list", "Close sessions, so that no run continues"),
        "reopen": Place("commands.list", "Reopen closed or expired sessions"),
        "sweep": Place("commands.maintain", "Remove old sessions by rules"),
        "gc": Place("commands.files", "Remove saved files that no snapshot needs"),
        "doctor": Place("commands.maintain", "Check the store and its surroundings"),
        "secrets": Place("commands.secrets", "Find secrets, and set what happens to them"),
        "verify": Place("commands.maintain", "Check that all stored data is undamaged"),
        "repair": Place("commands.maintain", "Copy all readable data to a new store"),
        "vacuum": Place("commands.maintain", "Return unused disk space to the system"),
        "config": Place("commands.config", "Show and change settings"),
        "completion": Place("commands.maintain", "Print the completion script for a shell"),
        "demo": Place("commands.maintain", "Play the story of a crash and a resume"),
        "version": Place("commands.maintain", "Show the versions of Clew and its libraries"),
        "help": Place("commands.help", "Show the help of a command"),
    },
}

COMPLETION: Final = "_CLEW_COMPLETE"
COMMANDS: Final = {name: place for section in SECTIONS.values() for name, place in section.items()}

EXAMPLES: Final = (
    "clew import --scan       import sessions of other agents",
    "clew watch               follow them, as they write",
    "clew ls                  list sessions, newest first",
    "clew search login 500    find messages with both words",
    "clew show login@12       show what is around entry 12",
    "clew log --graph login   draw its branches and forks",
    "clew rewind login plan   go back to the checkpoint plan",
    "clew resume login@12     go on from there, in any agent",
    "clew ls --json | jq .id  print JSON for programs",
)


class Commands(Group):
    """The commands by name, imported when used."""

    sections = SECTIONS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"clew.cli.{COMMANDS[name].module}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            raise no_command(args[0], COMMANDS, ctx) from exc


def no_command(name: str, known: Iterable[str], ctx: click.Context | None) -> click.UsageError:
    """The error that names the nearest command."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else "clew help lists the commands"
    return click.UsageError(f"no command {name!r}; {hint}", ctx)


@click.command(cls=Commands, examples=EXAMPLES)
@click.version_option(package_name="clew", message="clew %(version)s", help="Show the version")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keep, read, search, branch and export the sessions of AI agents.

    The store is your own, unless --store, $CLEW_STORE or `clew config store` names another one.
    """
    ctx.ensure_object(Settings)


def main(args: Sequence[str] | None = None) -> None:
    """The `clew` command. Ends the process with its exit code: docs/reference/command-line.md."""
    import gc

    from clew.cli.app import show_mistake

    sys.excepthook = show_mistake
    gc.set_threshold(100_000, 20, 20)  # a short command makes little garbage: looking for it takes longer
    code = run(args)
    gc.freeze()  # nor is it looked for at the end of the process
    sys.exit(code)


def run(args: Sequence[str] | None = None) -> int:
    """One command; its exit code."""
    from clew.cli.app import ending, flush, make_printable

    make_printable()
    try:
        if COMPLETION in os.environ:
            from clew.cli.completion import answer

            return answer(cli, os.environ[COMPLETION], os.environ)
        given = sys.argv[1:] if args is None else list(args)
        # Not `cli.main`: it has its own ideas of Ctrl-C and closed pipes.
        with cli.make_context("clew", given or ["-h"], obj=Settings()) as ctx:
            result = cli.invoke(ctx)
        flush()
    except BaseException as exc:  # noqa: BLE001  # every end of a command is an exit code
        return ending(exc)
    return result if isinstance(result, int) else 0
