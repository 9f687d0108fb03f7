"""What is said once for every command: the store, and how to print. Before or behind the command's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

F = TypeVar("F", bound=Callable[..., Any])


class Settings(msgspec.Struct):
    store: str | None = None
    """None: $CLEW_STORE, else the user's own."""
    json: bool = False
    pager: bool = True


def _set(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            setattr(ctx.ensure_object(Settings), field, value)

    return keep


def GLOBAL_OPTIONS() -> list[click.Parameter]:
    """Fresh ones: each command has its own."""
    return [
        click.Option(
            ["--store", "-s"],
            metavar="ADDRESS",
            expose_value=False,
            callback=_set("store"),
            help="A file, a directory or a URL; else $CLEW_STORE, else your own store.",
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            default=None,
            expose_value=False,
            callback=_set("json"),
            help="One JSON object a line.",
        ),
        click.Option(
            ["--pager/--no-pager"],
            default=None,
            expose_value=False,
            callback=_set("pager"),
            help="Page long output on a terminal (the default), or not.",
        ),
    ]


class SessionArgument(click.Argument):
    """It names a session."""


def session_argument(name: str, **attributes: Any) -> Callable[[F], F]:
    """An argument that names a session; shells complete it."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from clew.cli.completing import complete_session

        return complete_session(ctx, parameter, incomplete)

    return click.argument(name, cls=SessionArgument, shell_complete=complete, **attributes)


class Command(click.Command):
    """A command that also takes the options above."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += GLOBAL_OPTIONS()
        self.context_settings = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What looks like options, and is none, may be the id of a session: some begin with a dash."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            at = self._session_at(given, error.option_name)
            if at is None:
                raise
            return super().parse_args(ctx, [*given[:at], "--", *given[at:]])

    def _session_at(self, args: list[str], unknown: str) -> int | None:
        """Where in the arguments the ids begin, if one of them was taken for options."""
        takes_sessions = any(isinstance(one, SessionArgument) for one in self.params)
        if not takes_sessions or unknown.startswith("--") or "--" in args:
            return None
        places = (at for at, word in enumerate(args) if word[:1] == "-" and unknown[1] in word[1:])
        first = next(places, None)
        if first is None or len(args[first]) <= 2 or any(word[:1] == "-" for word in args[first + 1 :]):
            return None
        return first


def command(
    name: str, *examples: str, kind: type[Command] = Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command. `examples` end its help: a command, then what it does."""
    from clew.cli import COMMANDS

    text = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples) if examples else None
    short = COMMANDS[name].help if name in COMMANDS else None
    return click.command(name, cls=kind, epilog=text, short_help=short)
