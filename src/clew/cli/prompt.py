"""Asking before something is done that is not easily taken back."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import click

from clew.cli.endings import Refused
from clew.cli.safe import clean, one_line

SHOWN: Final = 20

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def agreed(question: str, details: Iterable[str], *, yes: bool) -> None:
    """Show what will be done, and go on only if the user says yes. Nobody there to be asked is a no."""
    if yes:
        return
    shown = list(details)
    for line in shown[:SHOWN]:
        click.echo(f"  {clean(line.replace(chr(10), ' '))}", err=True)
    if len(shown) > SHOWN:
        click.echo(f"  … and {len(shown) - SHOWN:,} more", err=True)
    if not sys.stdin.isatty():
        raise Refused(f"{one_line(question)} Nobody is here to be asked: add --yes")
    if not click.confirm(one_line(question), err=True):
        raise Refused("nothing was done")
