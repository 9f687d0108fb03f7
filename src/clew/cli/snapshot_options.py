"""What a snapshot takes: the options that say it, and what is told of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from clew.cli.safe import one_line

if TYPE_CHECKING:
    from clew.model.files import Skipped

include_option = click.option(
    "--include", multiple=True, metavar="PATTERN", help="Take what would be left out: ignored files, secrets."
)
exclude_option = click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out more.")

_NAMED: Final = 5
"""Of secrets: the rest is counted."""


def say_left_out(skipped: Sequence[Skipped]) -> None:
    """One line for all that may hold secrets, and one for each of the others."""
    secrets = [one_line(one.path) for one in skipped if one.reason == "secret"]
    if secrets:
        more = f" and {len(secrets) - _NAMED:,} more" if len(secrets) > _NAMED else ""
        click.echo(
            f"left out {len(secrets):,} that may hold secrets: {', '.join(secrets[:_NAMED])}{more};"
            f" --include takes {'it' if len(secrets) == 1 else 'them'}",
            err=True,
        )
    for one in skipped:
        if one.reason != "secret":
            click.echo(f"left out: {one_line(one.path)} ({one.reason})", err=True)
