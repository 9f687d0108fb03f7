"""What there is to say of a command, gathered once: for `--help`, for man pages and for the reference."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

if TYPE_CHECKING:
    from clew.cli import Commands

WIDEST: Final = 80
NARROWEST: Final = 40
INDENT: Final = 2
GAP: Final = 2
TWO_COLUMNS: Final = 50
"""In less there is no room for names beside texts."""
NAMES_WIDTH: Final = 24
"""Longer names of options have their text below them."""
GLOBAL: Final = ("store", "json", "color", "pager", "help", "short_help")
_VALUES: Final = {"since": "WHEN", "until": "WHEN", "by": "FIELD", "on_conflict": "CHOICE"}
_OWN_PARAGRAPH: Final = re.compile(r"(?<=[.!?]) (?=(?:Piped\b[^.:]*:|With --json:|Exit code ))")
_PIPED: Final = re.compile("^Piped")

EXIT_CODES: Final = (
    (0, "Done."),
    (1, "An error, or a file that import or sync left out: the message says what to do next."),
    (2, "The command line is wrong."),
    (3, "Done in part: some data could not be read or changed, as lines of a file; the rest was."),
    (130, "Stopped with Ctrl-C. What was done is kept, and nothing is half done."),
    (141, "The program that reads the output has closed it."),
)
ADDRESSES: Final = (
    ("agents.db", "An SQLite file."),
    ("logs", "A directory: a JSONL store, or empty."),
    (
        "sqlite:///path/agents.db",
        "An SQLite file as a URL, with four slashes before a whole path.",
    ),
    ("jsonl:///path/logs", "A JSONL store, as a URL."),
    ("postgresql://user@host/database", "PostgreSQL; a password here can be seen by others."),
    ("https://host", "The store of a `clew serve` elsewhere; the token is in CLEW_TOKEN."),
    ("http://127.0.0.1:8731", "The store of a `clew serve` on this machine."),
    ("memory:", "In memory, and gone at the end."),
)
"""What --store, $CLEW_STORE and the setting `store` take."""
ENVIRONMENT: Final = (
    ("CLEW_STORE", "The address of the store."),
    ("CLEW_SESSION", "The id of the session of whoever starts clew mcp."),
    ("CLEW_TOKEN", "The token for a store that is served elsewhere."),
    ("CLEW_COLOR", "When to use colours: auto, always or never."),
    ("NO_COLOR", "Any text: no colours."),
    ("CLEW_PAGER, PAGER", "The pager for long output; cat or an empty text means none."),
    ("CLEW_COLUMNS", "The columns of clew ls, separated by commas."),
    ("CLEW_CONFIG", "The file of settings, if it is not in the usual place."),
    ("CLEW_STATE_DIR", "The directory of the key that marks your own snapshots."),
    ("VISUAL, EDITOR", "The editor of clew config --edit."),
    ("COLUMNS", "The width of the output, if it is not the width of the terminal."),
)


class Option(NamedTuple):
    """An option as it is typed, and what it does."""

    names: tuple[str, ...]
    value: str
    text: str

    def __str__(self) -> str:
        names = ", ".join(self.names)
        return f"{names} {self.value}" if self.value else names


class Example(NamedTuple):
    """A command line, and what it does (empty: it speaks for itself)."""

    typed: str
    text: str


class Section(NamedTuple):
    """Commands with their one-line texts, under a title."""

    title: str
    commands: tuple[tuple[str, str], ...]


class Page(NamedTuple):
    """One command."""

    path: str
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    options: tuple[Option, ...]
    shared: tuple[Option, ...]
    """The options that every command takes."""
    sections: tuple[Section, ...]
    examples: tuple[Example, ...]


def page_of(command: click.Command, path: str) -> Page:
    """All that is known of a command; `path` is how it is typed, as `clew trash ls`."""
    told = [" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n")]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    return Page(
        path,
        _usage(command, path),
        told[0].removesuffix("."),
        tuple(_PIPED.sub("In a pipe", piece) for part in told[1:] for piece in _OWN_PARAGRAPH.split(part)),
        tuple(_option(one) for one in options if one.name not in GLOBAL),
        (
            *(_option(one) for one in options if one.name in GLOBAL),
            Option(("-h", "--help"), "", "Show this help; -h shows a short one"),
        ),
        tuple(_sections(command)),
        tuple(_example(one) for one in getattr(command, "examples", ())),
    )


def all_pages(cli: Commands) -> Iterator[Page]:
    """Of `clew` itself, and then of every command, in the order of the table."""
    yield page_of(cli, "clew")
    context = click.Context(cli, info_name="clew")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield page_of(command, f"clew {name}")
        if isinstance(command, click.Group):
            for inner in _shown(command):
                yield page_of(inner, f"clew {name} {inner.name}")


def _shown(group: click.Group) -> list[click.Command]:
    """Its commands, without older names of them."""
    return [one for one in group.commands.values() if not one.hidden]


def _usage(command: click.Command, path: str) -> str:
    if isinstance(command, click.Group):
        return f"{path} {'[COMMAND]' if command.invoke_without_command else 'COMMAND'} [OPTIONS]"
    arguments = (_argument(one) for one in command.params if isinstance(one, click.Argument))
    return " ".join([path, "[OPTIONS]", *arguments])


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or str(argument.name).upper()
    if argument.nargs == -1 and not name.endswith("..."):
        name = f"{name.removesuffix('S') if argument.metavar is None else name}..."
    if argument.required or name.startswith("["):
        return f"({name})" if " | " in name and not name.startswith("[") else name
    return f"[{name}]"


def _option(option: click.Option) -> Option:
    names = sorted(option.opts, key=len)
    if option.secondary_opts:
        names = [f"--[no-]{option.opts[0].removeprefix('--')}"]
    text = (option.help or "").strip()
    text = text.removesuffix(".") if ". " not in text else text
    if isinstance(option.type, click.Choice) and not option.metavar:
        text = f"{text}: {', '.join(map(str, option.type.choices))}"
    if option.show_default and option.default is not None:
        default = option.default
        shown = {True: "yes", False: "no"}.get(default, default) if isinstance(default, bool) else default
        text = f"{text} (default: {shown})".strip()
    return Option(tuple(names), _value(option), text)


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if option.metavar:
        return option.metavar
    kind = option.type
    if isinstance(kind, click.Path):
        return "DIR" if not kind.file_okay else "FILE" if not kind.dir_okay else "PATH"
    if isinstance(kind, (click.types.IntParamType, click.types.FloatParamType)):
        return "N"
    return _VALUES.get(str(option.name), str(option.name).upper())


def _sections(command: click.Command) -> Iterator[Section]:
    by_title: Any = getattr(command, "sections", None)
    if by_title is not None:
        for title, commands in by_title.items():
            yield Section(title, tuple((name, place.help) for name, place in commands.items()))
    elif isinstance(command, click.Group):
        yield Section("Commands", tuple((str(one.name), page_of(one, "").summary) for one in _shown(command)))


def _example(text: str) -> Example:
    typed, _, said = text.strip().partition("  ")
    return Example(typed, said.strip())


# -- on a terminal


def help_text(page: Page, *, short: bool = False, bold: bool = False) -> str:
    """The page as `--help` prints it; `short` for `-h`: usage and options only."""
    return "\n".join(_lines(page, _width(), short=short, bold=bold))


def listed(title: str, items: Sequence[tuple[str, str]]) -> str:
    """A list with a title, for a topic of `clew help`."""
    longest = max(len(name) for name, _ in items)
    return "\n".join([f"{title}:", *_list(items, _width(), longest)])


def _width() -> int:
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def _first_lines(page: Page, width: int, bold: bool) -> Iterator[str]:
    """Of `clew` alone: how to begin, and the names of all commands; less than a screen."""
    yield from textwrap.wrap(f"{page.summary}.", width)
    yield from _heading("Start here", bold)
    yield from _examples(page.examples, width)
    yield ""
    for title, commands in page.sections:
        names = ", ".join(name for name, _ in commands)
        label = f"{title}: "
        shown = textwrap.wrap(label + names, width, subsequent_indent=" " * INDENT)
        yield click.style(f"{title}:", bold=True) + shown[0][len(label) - 1 :] if bold else shown[0]
        yield from shown[1:]
    yield ""
    yield from textwrap.wrap("clew help lists the commands, clew help COMMAND explains one.", width)


def _lines(page: Page, width: int, *, short: bool, bold: bool) -> Iterator[str]:
    if short and page.path == "clew":
        yield from _first_lines(page, width, bold)
        return
    yield from textwrap.wrap(f"{page.summary}.", width)
    yield ""
    yield from textwrap.wrap(
        f"Usage: {page.usage}",
        width,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for part in () if short else page.paragraphs:
        yield ""
        yield from textwrap.wrap(part, width, break_on_hyphens=False)
    longest = max([0, *(len(name) for section in page.sections for name, _ in section.commands)])
    for section in page.sections:
        yield from _heading(section.title, bold)
        yield from _list(section.commands, width, longest)
    shown = [("Options", page.options), *([] if short else [("Global options", page.shared)])]
    names = [len(str(one)) for _, options in shown for one in options]
    longest = max([0, *(length for length in names if length <= NAMES_WIDTH)])
    for title, options in shown:
        if options:
            yield from _heading(title, bold)
            yield from _list([(str(one), one.text) for one in options], width, longest)
    if page.examples and not short:
        yield from _heading("Examples", bold)
        yield from _examples(page.examples, width)
    if short:
        yield from ("", f"{page.path} --help says more, with examples.")
    elif page.sections:
        yield from ("", f"{page.path.replace('clew', 'clew help', 1)} COMMAND explains a command.")


def _heading(title: str, bold: bool) -> Iterator[str]:
    yield ""
    yield click.style(f"{title}:", bold=True) if bold else f"{title}:"


def _list(items: Sequence[tuple[str, str]], width: int, longest: int) -> Iterator[str]:
    """Names on the left, texts on the right, or below a name that is too long."""
    column = INDENT + longest + GAP if width >= TWO_COLUMNS else INDENT + 4
    for name, text in items:
        lines = textwrap.wrap(text, width - column, break_on_hyphens=False) or [""]
        head = " " * INDENT + name
        if len(head) + GAP <= column:
            yield f"{head:<{column}}{lines.pop(0)}".rstrip()
        else:
            yield head
        yield from (" " * column + line for line in lines if line)


def _examples(examples: Sequence[Example], width: int) -> Iterator[str]:
    """Beside each other if all fit, else each text below its command."""
    column = max([0, *(len(one.typed) for one in examples if one.text)]) + GAP
    if all(INDENT + column + len(one.text) <= width for one in examples if one.text):
        for one in examples:
            yield " " * INDENT + (f"{one.typed:<{column}}{one.text}" if one.text else one.typed)
        return
    for one in examples:
        yield from textwrap.wrap(
            one.typed,
            width,
            initial_indent=" " * INDENT,
            subsequent_indent=" " * (INDENT + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
        indent = " " * (INDENT + 4)
        yield from textwrap.wrap(one.text, width, initial_indent=indent, subsequent_indent=indent)
