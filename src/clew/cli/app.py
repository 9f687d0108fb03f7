"""What every command shares: options, help, exit codes, and one line for each error."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

import click

from clew import errors

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """What the command line, the environment and the file of settings say, in this order."""

    store: str | None = None
    """None: $CLEW_STORE, else the user's own."""
    json: bool = False
    color: Literal["auto", "always", "never"] | None = None
    pager: bool = True
    pager_command: str | None = None
    """None: $CLEW_PAGER, $PAGER, or less."""
    columns: tuple[str, ...] | None = None
    """Of `clew ls`, where its own --columns says nothing. None: its usual ones."""


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
            help="Use this store: a file, a directory or a URL",
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            default=None,
            expose_value=False,
            callback=_set("json"),
            help="Print JSON, one object per line",
        ),
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            callback=_set("color"),
            metavar="WHEN",
            help="Use colours: auto, always or never",
        ),
        click.Option(
            ["--pager/--no-pager"],
            default=None,
            expose_value=False,
            callback=_set("pager"),
            help="Use a pager for long output on a terminal",
        ),
        click.Option(
            ["-h", "short_help"],
            is_flag=True,
            is_eager=True,
            hidden=True,
            expose_value=False,
            callback=_short_help,
        ),
    ]


def _short_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(help_of(ctx.command, ctx.command_path, short=True))
        ctx.exit()


def help_of(command: click.Command, path: str, *, short: bool = False) -> str:
    """The help of a command that is typed as `path`."""
    from clew.cli.help.pages import help_text, page_of

    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return help_text(page_of(command, path), short=short, bold=bold)


class SessionArgument(click.Argument):
    """It names a session."""


def session_argument(name: str, *, trash: bool = False, **attributes: Any) -> Callable[[F], F]:
    """An argument that names a session; shells complete it. `trash`: it names one in the trash."""
    complete = complete_with("complete_session", trash=trash)
    return click.argument(name, cls=SessionArgument, shell_complete=complete, **attributes)


def complete_with(
    function: str, **options: Any
) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """A function of `clew.cli.completion`, which is imported when a shell asks."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from clew.cli import completion

        found: list[Any] = getattr(completion, function)(ctx, parameter, incomplete, **options)
        return found

    return complete


class Command(click.Command):
    """A command that also takes the options above."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += GLOBAL_OPTIONS()
        self.examples = tuple(examples)

    def get_help(self, ctx: click.Context) -> str:
        return help_of(self, ctx.command_path)

    def invoke(self, ctx: click.Context) -> Any:
        from clew.cli.config import resolve

        resolve(ctx.ensure_object(Settings))
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What looks like options, and is none, may be the id of a session: some begin with a dash."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            at = self._session_at(given, error.option_name)
            if at is None:
                raise self._with_way_out(error, given) from None
            return super().parse_args(ctx, [*given[:at], "--", *given[at:]])

    @property
    def _takes_sessions(self) -> bool:
        return any(isinstance(one, SessionArgument) for one in self.params)

    def _with_way_out(self, error: click.NoSuchOption, args: list[str]) -> click.UsageError:
        """The error, with what to type if an id was meant: `-x` alone looks more like an option."""
        at = next((at for at, word in enumerate(args) if word.startswith(error.option_name)), None)
        if at is None or not self._takes_sessions or error.possibilities or "--" in args:
            return error
        from clew.core.messages.shell import quoted

        way = "put -- before it, and options before that"
        if error.ctx is not None and not any(word.startswith("-") for word in args[at + 1 :]):
            words = [*args[:at], "--", *args[at:]]
            way = f"put -- before it: {error.ctx.command_path} {' '.join(map(quoted, words))}"
        return click.UsageError(f"no option {error.option_name}; if that is an id, {way}", error.ctx)

    def _session_at(self, args: list[str], unknown: str) -> int | None:
        """Where in the arguments the ids begin, if one of them was taken for options."""
        if not self._takes_sessions or unknown.startswith("--") or "--" in args:
            return None
        places = (at for at, word in enumerate(args) if word[:1] == "-" and unknown[1] in word[1:])
        first = next(places, None)
        if first is None or len(args[first]) <= 2 or any(word[:1] == "-" for word in args[first + 1 :]):
            return None
        return first


class Plain(Command):
    """A command that works whatever the file of settings says."""

    def invoke(self, ctx: click.Context) -> Any:
        return click.Command.invoke(self, ctx)


class Group(click.Group):
    """A command that has commands of its own."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += GLOBAL_OPTIONS()
        self.examples = tuple(examples)

    def get_help(self, ctx: click.Context) -> str:
        return help_of(self, ctx.command_path)


class GroupOrNew(Group):
    """A command whose first word is one of its own commands, or what its command `new` takes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_own = any(word in self.commands or word in ("--help", "-h") for word in args)
        return super().parse_args(ctx, args if is_own or not args else ["new", *args])


def command(
    name: str, *examples: str, kind: type[Command] = Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command. Its help begins with the line of the table in `clew.cli` and goes on with
    the function's docstring; `examples` end it: a command, two or more spaces, what it does."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        return click.command(name, cls=kind, **_texts(name, examples, function))(function)

    return decorate


def group(
    name: str, *examples: str, kind: type[Group] = Group
) -> Callable[[Callable[..., Any]], click.Group]:
    """Make a function a command that has commands of its own."""

    def decorate(function: Callable[..., Any]) -> click.Group:
        return click.command(name, cls=kind, **_texts(name, examples, function))(function)

    return decorate


def _texts(name: str, examples: tuple[str, ...], function: Callable[..., Any]) -> dict[str, Any]:
    from clew.cli import COMMANDS

    summary = COMMANDS[name].help
    details = inspect.getdoc(function)
    return {
        "short_help": summary,
        "help": f"{summary}.\n\n{details}" if details else f"{summary}.",
        "examples": examples,
    }


# -- how a command ends: its exit code, and one line that says what went wrong and what to do next
#
# 0    done
# 1    an error; the line on standard error says which
# 2    the command line is wrong
# 3    partly: a part could not be read or done, the rest was
# 130  Ctrl-C
# 141  the reader of the output has closed it

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
PARTLY: Final = 3
INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141


class Refused(Exception):
    """The user said no, or the command cannot go on. The message is complete."""


def ending(exc: BaseException) -> int:
    """Print why a command ended, if there is a reason to print; its exit code."""
    match exc:
        case SystemExit():
            return exc.code if isinstance(exc.code, int) else ERROR
        case KeyboardInterrupt() | click.Abort():
            _say("interrupted; what was done is kept, nothing is half done")
            return INTERRUPTED
        case BrokenPipeError():
            _forget_output()
            return CLOSED_PIPE
        case click.exceptions.Exit():
            return _flushed(exc.exit_code)
        case click.exceptions.NoArgsIsHelpError():
            click.echo(exc.format_message(), err=True)
            return USAGE
        case click.ClickException():
            _usage(exc)
            return exc.exit_code
        case errors.ClewError() | Refused():
            _say(described(exc))
            return ERROR
        case OSError():
            _say(f"{exc.strerror or exc}: {exc.filename}" if exc.filename else str(exc))
            return ERROR
    raise exc


def described(exc: BaseException) -> str:
    """One line: what happened, and the next step."""
    from clew.cli import wording

    return wording.described(exc)


def show_mistake(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
    """A mistake of ours, with all that helps to find it; what is in its message may come from anywhere."""
    from traceback import format_exception

    from clew.backends.registry import masked_addresses
    from clew.cli.text import clean

    sys.stderr.write(clean(masked_addresses("".join(format_exception(kind, exc, trace)))))


def make_printable() -> None:
    """Escape characters that a terminal without UTF-8 cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Notice here, not at the end of the process, that the reader of the output has closed it."""
    sys.stdout.flush()


def _flushed(code: int) -> int:
    """After --help, which prints and ends."""
    try:
        flush()
    except BrokenPipeError as exc:
        return ending(exc)
    return code


def _usage(exc: click.ClickException) -> None:
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    from clew.cli.wording import usage

    said = usage(exc.format_message())
    has_next = said.endswith("?") or "clew help" in said
    _say(f"{said}; see {context.command_path} --help" if context and not has_next else said)


def _say(text: str) -> None:
    from clew.backends.registry import masked_addresses
    from clew.cli.text import one_line

    try:
        click.echo(f"clew: {one_line(masked_addresses(text))}", err=True)
    except OSError:  # standard error is closed
        pass


def _forget_output() -> None:
    """Python would complain at its end about what it could not write."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
