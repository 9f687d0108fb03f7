"""Man pages: `clew(1)`, and one for each command, from the texts of `--help`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.cli.help.pages import ADDRESSES, ENVIRONMENT, EXIT_CODES, Example, Option, Page, all_pages

if TYPE_CHECKING:
    from clew.cli import Commands

_COMMAND: Final = re.compile(r"`([^`]+)`")
_PLACEHOLDER: Final = re.compile(r"[A-Z]{2,}")


def write_pages(cli: Commands, directory: Path) -> int:
    """Write them all; how many there are. A command of a command is part of the page of the outer one."""
    directory.mkdir(parents=True, exist_ok=True)
    found = man_pages(cli)
    for name, text in found.items():
        (directory / name).write_text(text, "utf-8")
    return len(found)


def man_pages(cli: Commands) -> dict[str, str]:
    """The text of each page, by the name of its file."""
    pages = list(all_pages(cli))
    outer = [page for page in pages if len(page.path.split()) <= 2]
    found = {}
    for page in outer:
        inner = [one for one in pages if one.path.startswith(f"{page.path} ") and page.path != "clew"]
        found[f"{page.path.replace(' ', '-')}.1"] = "\n".join(_page(page, inner)) + "\n"
    return found


def _page(page: Page, inner: list[Page]) -> Iterator[str]:
    from clew import __version__

    name = page.path.replace(" ", "-")
    made = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()))
    date = time.strftime("%Y-%m-%d", made)
    yield f'.TH {_text(name.upper())} 1 "{date}" "Clew {__version__}" "Clew Manual"'
    yield ".nh"
    yield ".ad l"
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(page.summary[:1].lower() + page.summary[1:])}"
    yield ".SH SYNOPSIS"
    yield "\n.br\n".join(_synopsis(one) for one in inner or [page])
    yield ".SH DESCRIPTION"
    yield _line(f"{page.summary}.")
    for part in page.paragraphs:
        yield from (".PP", _line(part))
    for section in page.sections if not inner else ():
        yield f'.SS "{_text(section.title)}"'
        for command, text in section.commands:
            yield from (".TP", f".BR clew\\-{_text(command)} (1)", _line(f"{text}."))
    if inner:
        yield ".SH COMMANDS"
    for one in inner:
        yield f'.SS "{_text(one.path)}"'
        yield _line(f"{one.summary}.")
        for part in one.paragraphs:
            yield from (".PP", _line(part))
        yield from _options(one.options)
    yield ".SH OPTIONS"
    yield from _options((*page.options, *page.shared))
    if page.examples:
        yield ".SH EXAMPLES"
        for number, example in enumerate(page.examples):
            yield from _example(example, first=not number)
    yield from _end(page)


def _end(page: Page) -> Iterator[str]:
    if page.path != "clew":
        yield from (".SH SEE ALSO", ".BR clew (1)")
        return
    from clew.cli.config import KEYS

    yield ".SH CONFIGURATION"
    yield _line("`clew config` shows and changes these settings.")
    for key in KEYS.values():
        yield from (".TP", f"\\fB{_text(key.name)}\\fR", _line(f"{key.text}."))
    yield ".SH STORE ADDRESSES"
    for address, text in ADDRESSES:
        yield from (".TP", f"\\fB{_text(address)}\\fR", _line(text))
    yield ".SH ENVIRONMENT"
    for names, text in ENVIRONMENT:
        yield from (".TP", ", ".join(f"\\fB{_text(one)}\\fR" for one in names.split(", ")), _line(text))
    yield ".SH EXIT STATUS"
    for code, text in EXIT_CODES:
        yield from (".TP", f"\\fB{code}\\fR", _line(text))


def _synopsis(page: Page) -> str:
    rest = page.usage.removeprefix(page.path)
    return f"\\fB{_text(page.path)}\\fR{_PLACEHOLDER.sub(_italic, _text(rest))}"


def _italic(found: re.Match[str]) -> str:
    return f"\\fI{found[0]}\\fR"


def _options(options: tuple[Option, ...]) -> Iterator[str]:
    for one in options:
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in one.names)
        yield from (
            ".TP",
            f"{names} \\fI{_text(one.value)}\\fR" if one.value else names,
            _line(f"{one.text}."),
        )


def _example(example: Example, *, first: bool) -> Iterator[str]:
    if example.text:
        yield from (".TP", f"\\fB{_text(example.typed)}\\fR", _line(f"{_capital(example.text)}."))
    else:
        yield from (*([] if first else [".PP"]), f"\\fB{_text(example.typed)}\\fR")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    """A line of text, in which `code` is bold; nothing in it is a request of roff."""
    pieces = _COMMAND.split(text.replace("..", ".") if text.endswith("..") else text)
    marked = "".join(f"\\fB{_text(one)}\\fR" if at % 2 else _text(one) for at, one in enumerate(pieces))
    return f"\\&{marked}" if marked[:1] in (".", "'") else marked


def _text(text: str) -> str:
    """Literal text: no letter of it is roff's."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    escaped = escaped.replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    return "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in escaped)
