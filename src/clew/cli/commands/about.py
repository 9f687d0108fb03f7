"""`clew version`, `completion` and `demo`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

import clew
from clew.cli.app import Settings, command
from clew.cli.completion import SCRIPTS, Shell
from clew.cli.output import Output

PARTS: Final = ("apsw", "msgspec", "blake3", "click", "rich", "psycopg", "obstore", "genai-prices")


@command("version", "clew version", "clew version --json")
@click.pass_obj
def version_command(settings: Settings) -> None:
    """Piped: name and version."""
    out = Output(settings)
    found = versions()
    if out.json:
        out.record(found)
        return
    for name, number in found.items():
        out.line(f"{name:<13} {number}") if out.is_terminal else out.row(name, number)


def versions() -> dict[str, str]:
    import apsw

    found = {
        "clew": clew.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }
    for name in PARTS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@command(
    "completion",
    "clew completion bash >> ~/.bashrc",
    "clew completion zsh >> ~/.zshrc",
    "clew completion fish > ~/.config/fish/completions/clew.fish",
)
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
def completion_command(shell: Shell) -> None:
    """It completes commands, options, their values and the ids of sessions. Ids are inserted as text, quoted
    as the shell needs it; an id that cannot be quoted is not proposed. Scripts of older versions do not
    quote, so they get no answer: print them again.
    """
    click.echo(SCRIPTS[shell], nl=False)


@command("demo", "clew demo")
def demo_command() -> int:
    """It also goes wrong, rewinds and forks. It takes some seconds, in a store of its own that is removed at
    the end, and checks every claim: exit code 1 if one does not hold.
    """
    from clew.cli.demo.story import main

    return main()
