"""Printing: a table for a terminal, tab-separated lines for a pipe, NDJSON for programs.

Everything printed passes through `clew.cli.text`, here or where lines are put together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import msgspec

from clew.cli.app import Settings
from clew.cli.text import clean, one_line
from clew.core.messages.characters import escape_json

if TYPE_CHECKING:
    from subprocess import Popen

    from rich.console import Console
    from rich.text import Text

    from clew.cli.terminal import Column


class Output:
    """Where a command prints to."""

    def __init__(self, settings: Settings) -> None:
        self.json = settings.json
        self._pages = settings.pager
        self.is_terminal = not settings.json and sys.stdout.isatty()

    # -- for programs

    def record(self, value: Any) -> None:
        """One line of NDJSON."""
        _write(escape_json(_encoded(value)) + "\n")

    def row(self, *cells: object) -> None:
        """One line of tab-separated fields."""
        _write("\t".join(one_line(_cell(cell)) for cell in cells) + "\n")

    # -- for people

    def line(self, text: str = "") -> None:
        """What was done, in a sentence. In JSON there is no room for it. It is one line, whatever the names
        in it are: no text of others may look like a line of ours."""
        if not self.json:
            _write(clean(text).replace("\n", "␊") + "\n")

    def rows(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """A listing: a table on a terminal, else tab-separated without a heading."""
        if not self.is_terminal:
            for cells in rows:
                self.row(*cells)
            return
        from clew.cli.terminal import table_lines

        with self.paged() as console:
            for line in table_lines(columns, list(rows), console.width):
                print_line(console, line)

    def texts(self, lines: Iterable[Text | str]) -> None:
        """Lines that were made for reading, with their colours on a terminal."""
        if not self.is_terminal:
            for line in lines:
                _write(str(line).rstrip() + "\n")
            return
        with self.paged() as console:
            for line in lines:
                print_line(console, line)

    @contextmanager
    def paged(self) -> Iterator[Console]:
        """The terminal, through a pager if that is wanted and there is one."""
        pager = _pager() if self._pages else None
        if pager is None:
            yield terminal()
            return
        from subprocess import PIPE, Popen

        # The options of git: colours, and no pager for what fits on the screen.
        env = {"LESS": "FRX", "LV": "-c", **os.environ}
        process = Popen(pager, stdin=PIPE, env=env, text=True, encoding="utf-8")
        assert process.stdin is not None
        try:
            yield terminal(process.stdin)
        except BrokenPipeError:  # the reader has seen enough
            pass
        finally:
            _left(process)


def _left(process: Popen[str]) -> None:
    """Wait until the reader has left the pager. Ctrl-C is the pager's, as long as it runs."""
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        pass
    while True:
        try:
            process.wait()
            return
        except KeyboardInterrupt:
            continue


def terminal(file: IO[str] | None = None) -> Console:
    """The terminal, or what leads to it. $NO_COLOR and $COLUMNS hold for both."""
    from clew.cli.terminal import PlainConsole

    return PlainConsole(file=file)


def print_line(console: Console, line: Text | str) -> None:
    """Cut to the terminal if the line says so; else what is too long goes on below its beginning, or behind
    it where a line of ours could begin: a name that is long enough must not end in one."""
    from rich.cells import cell_len
    from rich.text import Text

    text = Text(line) if isinstance(line, str) else line
    if text.no_wrap or cell_len(text.plain) <= console.width:
        console.print(text, no_wrap=True, overflow=text.overflow or "fold", crop=bool(text.no_wrap))
        return
    indent = min(len(text.plain) - len(text.plain.lstrip(" ")), console.width // 2)
    behind = 2 if isinstance(line, Text) and not indent else 0
    for number, part in enumerate(
        text[indent:].wrap(console, console.width - indent - behind, overflow="fold")
    ):
        part.rstrip()
        before = Text(" " * (indent + behind if number else indent))
        console.print(before.append_text(part), no_wrap=True, overflow="fold", crop=False)


def errors() -> Console:
    from clew.cli.terminal import PlainConsole

    return PlainConsole(stderr=True)


def _pager() -> list[str] | None:
    import shlex
    import shutil

    if os.environ.get("TERM") == "dumb":
        return None
    chosen = os.environ.get("CLEW_PAGER", os.environ.get("PAGER", "less"))
    try:
        words = shlex.split(chosen)
    except ValueError:  # a quotation in it is not closed
        return None
    return words if words and words != ["cat"] and shutil.which(words[0]) else None


def _encoded(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a file name that is not UTF-8: its bytes as lone surrogates
        from json import dumps

        return dumps(msgspec.to_builtins(value), separators=(",", ":"))


def _cell(cell: object) -> str:
    return "" if cell is None else str(cell)


def _write(text: str) -> None:
    sys.stdout.write(text)
