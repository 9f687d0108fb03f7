"""The part of docs/reference/command-line.md that follows from the code.

`python -m tests.cli.reference` writes it anew, between the two marks of the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from clew.cli import SECTIONS, cli
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "command-line.md"
BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"
EVERYWHERE = ("store", "json", "pager", "help")


def reference() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    context = click.Context(cli, info_name="clew")
    for title, commands in SECTIONS.items():
        yield f"\n## {title}"
        for name in commands:
            command = cli.get_command(context, name)
            assert command is not None
            yield from _command(command, f"clew {name}")
            if isinstance(command, click.Group):
                for inner in command.commands.values():
                    yield from _command(inner, f"clew {name} {inner.name}")


def _command(command: click.Command, path: str) -> Iterator[str]:
    pieces = [] if isinstance(command, click.Group) else [_argument(p) for p in command.params]
    usage = " ".join([path, *(piece for piece in pieces if piece)])
    yield f"\n### `{usage}`\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _sentences(paragraph)
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in EVERYWHERE]
    if options := [option for option in options if not option.hidden]:
        yield ""
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        values = f" `{'|'.join(option.type.choices)}`" if isinstance(option.type, click.Choice) else ""
        yield f"- {names}{values}: {option.help or 'How many at most.'}"
    if command.epilog:
        yield f"\n```text\n{inspect.cleandoc(command.epilog.split('Examples:', 1)[1])}\n```"


def _argument(parameter: click.Parameter) -> str:
    if not isinstance(parameter, click.Argument):
        return ""
    name = parameter.metavar or str(parameter.name).upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _sentences(paragraph: str) -> str:
    """One sentence a line, as all pages have it."""
    return " ".join(paragraph.split()).replace(". ", ".\n")


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{reference()}\n{END}{after}", "utf-8")
