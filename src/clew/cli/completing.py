"""Completion of session ids in a shell. Whatever goes wrong, the line that is being typed is left alone."""

from __future__ import annotations

from typing import Any, Final

import click

ENOUGH: Final = 200
"""Newest sessions that are offered: a shell asks at every Tab."""


def complete_session(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Ids that begin with what was typed, with their titles. The store is only read."""
    from click.shell_completion import CompletionItem

    import clew
    from clew.cli.app import Settings
    from clew.cli.store import must_exist

    address = (ctx.find_object(Settings) or Settings()).store
    must_exist(address)
    with clew.open(address, read_only=True) as store:
        found = [info for info in store.list(limit=ENOUGH) if info.id.startswith(incomplete)]
    return [CompletionItem(info.id, help=info.title or "") for info in found]
