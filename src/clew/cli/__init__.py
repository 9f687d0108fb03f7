"""The command line: `clew`.

A command is a function in one of the modules beside this one. It is imported when it is called: help, and
the completion of names, need nothing but the table below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click

from clew.cli.app import GLOBAL_OPTIONS, Settings


class Place(NamedTuple):
    """Where a command is, and what `clew --help` says of it."""

    module: str
    help: str


SECTIONS: Final[dict[str, dict[str, Place]]] = {
    "Look": {
        "ls": Place("commands.list", "List sessions, newest activity first."),
        "show": Place("commands.show", "Read a session, or what was said around one place of it."),
        "log": Place("commands.log", "The entries of a session in one line each; --graph draws its tree."),
        "search": Place("commands.search", "Find messages by their words."),
        "tail": Place("commands.show", "The end of a session; -f goes on as it grows."),
        "stats": Place("commands.stats", "Totals of the store, or of one session."),
        "usage": Place("commands.stats", "Tokens and money, by model, day, workspace and more."),
        "interrupted": Place("commands.list", "Sessions whose run ended without a word."),
        "ui": Place("ui", "Look through sessions on the whole screen, with keys."),
    },
    "Bring and take": {
        "import": Place("commands.transfer", "Bring sessions of files, or of other agents, into the store."),
        "export": Place("commands.transfer", "Write a session as a file."),
        "copy": Place("commands.transfer", "Copy sessions from one store into another."),
        "backup": Place("commands.transfer", "Write the whole store into one file."),
    },
    "Move in a conversation": {
        "checkpoint": Place("commands.move", "Give the present place of a session a name."),
        "rewind": Place("commands.move", "Go back to a place of a session; nothing is removed."),
        "undo": Place("commands.move", "Take back the last rewind, compaction, replacement …"),
        "redo": Place("commands.move", "Take back the last undo."),
        "fork": Place("commands.move", "Begin a second session at a place of the first."),
    },
    "Files": {
        "snapshot": Place("commands.files", "Keep the content of a directory."),
        "files": Place("commands.files", "List snapshots, or how one file changed in a session."),
        "cat": Place("commands.files", "Print a file as it is in a snapshot or a checkpoint."),
        "diff": Place("commands.files", "What differs between a snapshot and another, or a directory."),
        "restore": Place(
            "commands.restore", "Make a directory what it was; --dry-run only says what would be done."
        ),
        "gc": Place("commands.files", "Remove the content of files that nothing needs any more."),
    },
    "Manage": {
        "title": Place("commands.list", "Show or set the title of a session."),
        "tag": Place("commands.list", "Show, add or remove tags of a session."),
        "close": Place("commands.list", "Close a session: no run starts until it is reopened."),
        "reopen": Place("commands.list", "Open a closed or expired session again."),
        "rm": Place("commands.trash", "Put sessions in the trash; --purge removes them for good."),
        "trash": Place("commands.trash", "List, restore or empty the trash."),
        "sweep": Place("commands.maintain", "Do what the retention rules say; --dry-run only says what."),
    },
    "Care": {
        "doctor": Place("commands.doctor", "Check engine, durability, permissions, disk, leases, restores."),
        "verify": Place("commands.maintain", "Check that everything stored is whole."),
        "repair": Place("commands.maintain", "Bring all that can be read into a new store."),
        "vacuum": Place("commands.maintain", "Give unused space back to the system."),
    },
    "More": {
        "demo": Place(
            "commands.about", "A story of an agent that crashes and resumes."
        ),
        "completion": Place("commands.about", "Print the completion script for a shell."),
        "version": Place("commands.about", "Versions of Clew, Python and what they stand on."),
    },
}

COMPLETION: Final = "_CLEW_COMPLETE"
COMMANDS: Final = {name: place for section in SECTIONS.values() for name, place in section.items()}

EXAMPLES: Final = """\b
Examples:
  clew import --scan            bring what other agents keep on this machine
  clew ls                       sessions, newest first
  clew search login 500         messages with both words
  clew show                     the newest session
  clew show login@12            what was said around entry 12 of the session login…
  clew log --graph login        its branches, forks, checkpoints and heads
  clew rewind login plan        go back to the checkpoint plan
  clew ls --json | jq .id       one JSON object a line, for programs
"""


class Commands(click.Group):
    """The commands by name, imported when used."""

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
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean {near[0]}?" if near else "clew --help lists the commands"
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx) from exc

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), place.help) for name, place in commands.items()])


@click.command(
    cls=Commands,
    params=GLOBAL_OPTIONS(),
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="clew", message="clew %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """The session store for AI agents: list, read, search, branch and export conversations."""
    ctx.ensure_object(Settings)


def main(args: Sequence[str] | None = None) -> None:
    """The `clew` command. Ends the process with its exit code: docs/reference/command-line.md."""
    from clew.cli.app import show_mistake

    sys.excepthook = show_mistake
    sys.exit(run(args))


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
        with cli.make_context("clew", given or ["--help"], obj=Settings()) as ctx:
            result = cli.invoke(ctx)
        flush()
    except BaseException as exc:  # noqa: BLE001  # every end of a command is an exit code
        return ending(exc)
    return result if isinstance(result, int) else 0
