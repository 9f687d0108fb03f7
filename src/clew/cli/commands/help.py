"""`clew help`: the help of a command, topics, and man pages of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from clew.cli.app import Plain, Refused, command

TOPICS: Final = {
    "addresses": "how a store is named",
    "environment": "the variables that Clew reads",
    "exit-codes": "what the exit code of a command says",
}


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from clew.cli import COMMANDS

    words: tuple[str, ...] = ctx.params.get("words") or ()
    if words:
        found = _command(words[:1])
        names = dict.fromkeys(found.commands, "") if isinstance(found, click.Group) else {}
    else:
        names = {**{name: place.help for name, place in COMMANDS.items()}, **TOPICS}
    return [CompletionItem(name, help=text) for name, text in names.items() if name.startswith(incomplete)]


@command(
    "help",
    "clew help import        how to import sessions",
    "clew help trash empty   a command of a command",
    "clew help addresses     how a store is named",
    "clew help environment   the variables that Clew reads",
    "clew help exit-codes    what exit codes say",
    "clew help --man-pages ~/.local/share/man/man1   write pages for man",
    kind=Plain,
)
@click.argument("words", nargs=-1, metavar="[COMMAND | TOPIC]...", shell_complete=_complete)
@click.option(
    "--man-pages",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the man pages of all commands into this directory",
)
def help_command(words: tuple[str, ...], man_pages: Path | None) -> None:
    """It prints what `clew COMMAND --help` prints."""
    from clew.cli import cli

    if man_pages is not None:
        from clew.cli.help.man import write_pages
        from clew.cli.text import one_line

        number = write_pages(cli, man_pages)
        click.echo(one_line(f"{number} man pages in {man_pages}"), err=True)
        return
    if len(words) == 1 and words[0] in TOPICS:
        click.echo(_topic(words[0]))
        return
    from clew.cli.app import help_of

    click.echo(help_of(_command(words), " ".join(["clew", *words])))


def _command(words: tuple[str, ...]) -> click.Command:
    """The command of these words; none: `clew` itself."""
    from clew.cli import cli, no_command

    found: click.Command = cli
    context = click.Context(cli, info_name="clew")
    for number, word in enumerate(words):
        if not isinstance(found, click.Group):
            raise Refused(f"clew {' '.join(words[:number])} has no commands of its own")
        known = [*found.list_commands(context), *(TOPICS if not number else ())]
        inner = found.get_command(context, word)
        if inner is None:
            raise no_command(word, known, None)
        found = inner
    return found


def _topic(name: str) -> str:
    from clew.cli.help.pages import ADDRESSES, ENVIRONMENT, EXIT_CODES, listed

    if name == "addresses":
        return listed("Addresses of stores", ADDRESSES)
    if name == "environment":
        return listed("Variables that Clew reads", ENVIRONMENT)
    return listed("Exit codes", [(str(code), text) for code, text in EXIT_CODES])
