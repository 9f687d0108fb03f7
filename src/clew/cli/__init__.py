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
        "show": Place("commands.show", "Read a session, or the entries around one place of it."),
        "log": Place("commands.log", "List a session's entries, a line each; --graph draws its tree."),
        "search": Place("commands.search", 'Find messages by words, "a phrase", prefix* and -without.'),
        "tail": Place("commands.show", "Print the end of a session; -f follows it as it grows."),
        "stats": Place("commands.stats", "Show totals of the store, or of one session."),
        "usage": Place("commands.stats", "Show tokens and money by model, day, workspace and more."),
        "interrupted": Place("commands.list", "List sessions whose worker was killed or stopped responding."),
        "ui": Place("ui", "Browse sessions on the whole screen, with keys."),
    },
    "Import and export": {
        "import": Place("commands.transfer", "Import sessions of files, or of other agents on this machine."),
        "export": Place("commands.transfer", "Write sessions as files."),
        "copy": Place("commands.transfer", "Copy sessions and snapshots from one store into another."),
        "backup": Place(
            "commands.transfer", "Write the whole store, as of one moment, into one SQLite file."
        ),
    },
    "Go back and branch": {
        "checkpoint": Place("commands.move", "Name the present place of a session, or list the names."),
        "rewind": Place("commands.move", "Go back to a place of a session; nothing is removed."),
        "undo": Place("commands.move", "Take back the last operation that was not an append."),
        "redo": Place("commands.move", "Take back the last undo."),
        "fork": Place("commands.move", "Start a new session at a place of another one."),
    },
    "Files": {
        "snapshot": Place("commands.files", "Store the content of a directory."),
        "files": Place("commands.files", "List snapshots, or how one file changed in a session."),
        "cat": Place("commands.files", "Print a file as it is in a snapshot or a checkpoint."),
        "diff": Place("commands.files", "Compare a snapshot with another one, or with a directory."),
        "restore": Place("commands.files", "Make a directory what it was at a snapshot or checkpoint."),
        "gc": Place("commands.files", "Remove stored files that no snapshot or checkpoint needs."),
    },
    "Manage": {
        "title": Place("commands.list", "Show or set the title of a session."),
        "tag": Place("commands.list", "Show, add or remove tags of a session."),
        "close": Place("commands.list", "Close sessions: no run starts until they are reopened."),
        "reopen": Place("commands.list", "Open closed or expired sessions again."),
        "rm": Place("commands.trash", "Put sessions in the trash; --purge removes them for good."),
        "trash": Place("commands.trash", "List, restore or empty the trash."),
        "sweep": Place("commands.maintain", "Apply the retention rules of the store."),
    },
    "Maintain": {
        "doctor": Place("commands.maintain", "Check the store and everything around it."),
        "verify": Place("commands.maintain", "Check that all conversations and snapshots are undamaged."),
        "repair": Place("commands.maintain", "Copy everything that can be read into a new store."),
        "vacuum": Place("commands.maintain", "Give unused space back to the system."),
    },
    "More": {
        "demo": Place("commands.maintain", "Tell the story of an agent that crashes and resumes."),
        "completion": Place("commands.maintain", "Print the completion script for a shell."),
        "version": Place("commands.maintain", "Show the versions of Clew, Python and the libraries."),
    },
}

COMPLETION: Final = "_CLEW_COMPLETE"
COMMANDS: Final = {name: place for section in SECTIONS.values() for name, place in section.items()}

EXAMPLES: Final = """\b
Examples:
  clew import --scan            import what other agents keep on this machine
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
