"""`clew ui`: the sessions of a store on one screen, with keys.

The screens are made with textual. Nothing here imports it before the command is called.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from clew.cli.app import Refused, Settings, command
from clew.cli.store import opened


@command("ui", "clew ui", "clew ui --store agents.db")
@click.pass_obj
def ui_command(settings: Settings) -> int:
    """List, search as you type, read, export, fork, rewind. The last line of the screen names the main
    keys, and ? lists all of them. A rewind shows what it leaves behind and what happens to files, and asks.
    """
    try:
        import_module("textual")
    except ModuleNotFoundError as exc:
        raise Refused("clew ui needs the package textual: pip install 'textual>=8.2'") from exc
    if settings.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("clew ui needs a terminal to itself; clew ls and clew show print the same")
    from clew.cli.ui.app import Browser

    with opened(settings) as store:
        browser = Browser(store)
        try:
            browser.run()
        finally:
            browser.background.stop()
    return browser.return_code or 0
