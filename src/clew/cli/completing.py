"""Completion of session ids in a shell. Whatever goes wrong, the line that is being typed is left alone."""

from __future__ import annotations

from typing import Any, Final

import click

ENOUGH: Final = 200
"""Newest sessions that are offered: a shell asks at every Tab."""


def complete_session(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Ids that begin with what was typed, with their titles."""
    from click.shell_completion import CompletionItem

    from clew.cli.safe import one_line
    from clew.cli.settings import Settings
    from clew.cli.store import opened
    from clew.errors import ClewError

    try:
        with opened(ctx.find_object(Settings) or Settings()) as store:
            found = [info for info in store.list(limit=ENOUGH) if info.id.startswith(incomplete)]
    except (ClewError, OSError):
        return []
    # An id that a terminal could not show, or a shell would take apart, can not be completed.
    return [
        CompletionItem(info.id, help=one_line(info.title or "")) for info in found if info.id.isprintable()
    ]
