"""What a command writes: tables, lines for pipes, NDJSON, a pager; questions and progress bars."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice, pairwise
from threading import Event, Thread, Timer
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NoReturn

import click
import msgspec

from clew.cli.app import Refused, Settings
from clew.cli.table import STYLES, Column, table_lines
from clew.cli.text import clean, count, one_line, size
from clew.core.messages.text import escape_json

if TYPE_CHECKING:
    from subprocess import Popen

    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text

    from clew.model.files import FileProgress
    from clew.model.transfer import CopyProgress, ImportProgress

LINES_SHOWN: Final = 20

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation")


def agreed(question: str, details: Iterable[str], *, yes: bool) -> None:
    """Show what will be done, and go on only if the user says yes. Without a terminal the answer is no."""
    if yes:
        return
    shown = list(details)
    for line in shown[:LINES_SHOWN]:
        click.echo(f"  {clean(line.replace(chr(10), ' '))}", err=True)
    if len(shown) > LINES_SHOWN:
        click.echo(f"  … and {len(shown) - LINES_SHOWN:,} more", err=True)
    if not sys.stdin.isatty():
        raise Refused(f"{one_line(question)} There is no terminal to ask on: add --yes")
    if not click.confirm(one_line(question), err=True):
        raise Refused("nothing was done")


# -- progress on a terminal, for everything that can take more than a second; standard error, never a pipe

PATIENCE: Final = 0.4
"""Seconds before a bar appears: a shorter operation needs none."""

Report = Callable[[str, int, int | None], None]
"""What is being done, how far it is, and of how much (None: unknown)."""


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """A bar while the block runs; gone when it ends."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    bar = _Bar(title)
    late = Timer(PATIENCE, bar.start)
    late.daemon = True
    late.start()
    try:
        yield bar.report
    finally:
        late.cancel()
        late.join()
        bar.stop()


class _Bar:
    """Is drawn once it is started; what draws it is loaded then."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._said: tuple[str, int, int | None] = ("", 0, None)
        self._drawn: tuple[Progress, TaskID] | None = None

    def start(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
        )
        bar = Progress(*columns, console=errors(), transient=True)
        self._drawn = bar, bar.add_task(one_line(self._title), total=None)
        self.report(*self._said)
        bar.start()

    def report(self, what: str, done: int, total: int | None) -> None:
        self._said = what, done, total
        if self._drawn is not None:
            bar, task = self._drawn
            bar.update(task, description=one_line(f"{self._title}  {what}"), completed=done, total=total)

    def stop(self) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()


def on_files(report: Report) -> Callable[[FileProgress], None]:
    """For `on_progress` of snapshots, restores, gc and verify."""

    def told(at: FileProgress) -> None:
        report(f"{at.phase} {at.files:,} ({size(at.bytes)})", at.files, at.total_files)

    return told


def on_copy(report: Report, total: int | None = None) -> Callable[[CopyProgress], None]:
    """For `on_progress` of copies, backups and repairs."""

    def told(at: CopyProgress) -> None:
        what = f"{count(at.sessions, 'session')}, {count(at.entries, 'entry')} ({size(at.bytes)})"
        report(what if at.phase == "sessions" else f"files ({size(at.bytes)})", at.sessions, total)

    return told


# -- one line while an import works


class ImportLine:
    """One line on the terminal while something goes on, if that takes a while; gone at its end."""

    PATIENCE: Final = 0.4
    AGAIN: Final = 0.1

    def __init__(self, text: str) -> None:
        self._text = text
        self._over = Event()
        self._drawing: Thread | None = None
        self._is_shown = False

    def on_progress(self, at: ImportProgress) -> None:
        part = f", {100 * at.bytes // at.all_bytes} %" if at.all_bytes else ""
        if at.phase == "indexing":
            self._text = f"Indexing {count(at.all_bytes, 'message')} for search, once{part}"
        else:
            self._text = f"Importing {at.format}: {at.files:,} of {count(at.all_files, 'file')}{part}"

    def __enter__(self) -> ImportLine:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._drawing = Thread(target=self._draw, daemon=True)
            self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Before something else is printed. Idempotent."""
        self._over.set()
        if self._drawing is not None:
            self._drawing.join()
        if self._is_shown:
            self._is_shown = False
            _to_terminal("\r\x1b[K")

    def _draw(self) -> None:
        wait = self.PATIENCE
        while not self._over.wait(wait):
            wait = self.AGAIN
            width = terminal_size().columns - 1
            self._is_shown = True
            _to_terminal(f"\r{one_line(self._text)[:width]}\x1b[K")


def _to_terminal(text: str) -> None:
    stream: IO[str] = sys.stderr
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        pass  # the terminal is gone, the work goes on


# ── Printing: a table for a terminal, tab-separated lines for a pipe, NDJSON for programs ─────────
# Everything printed passes through `clew.cli.text`, here or where lines are put together. rich is
# imported where it is used: a command that prints to a pipe does not wait for it.


class Output:
    """Where a command prints to."""

    def __init__(self, settings: Settings) -> None:
        self.json = settings.json
        self._pages = settings.pager
        self._pager = settings.pager_command
        self.is_terminal = not settings.json and sys.stdout.isatty()
        _look.colours = settings.color or "auto"

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

        size = terminal_size()
        lines = list(table_lines(columns, list(rows), size.columns, has_colours=has_colours()))
        with self.paged_file(len(lines) >= size.lines) as file:
            file.writelines(f"{line}\n" for line in lines)

    def texts(self, lines: Iterable[Text | str]) -> None:
        """Lines that were made for reading, with their colours on a terminal."""
        if not self.is_terminal and _look.colours == "always":
            console = _plain_console()(file=sys.stdout, width=UNCUT)
            for line in lines:
                print_line(console, line)
            return
        if not self.is_terminal:
            for line in lines:
                _write(str(line).rstrip() + "\n")
            return
        screen, coloured = terminal_size(), has_colours()
        parts = (part for line in lines for part in fitted(line, screen.columns))
        first = list(islice(parts, screen.lines))
        with self.paged_file(is_long=len(first) == screen.lines) as file:
            for part in chain(first, parts):
                shown = ansi(part) if coloured else part.plain
                if shown is None:
                    terminal(None if file is sys.stdout else file).print(part, no_wrap=True, crop=False)
                else:
                    file.write(f"{shown}\n")

    @contextmanager
    def paged(self) -> Iterator[Console]:
        """The terminal, through a pager if that is wanted and there is one."""
        with self.paged_file() as file:
            yield terminal(None if file is sys.stdout else file)

    @contextmanager
    def paged_file(self, is_long: bool = True) -> Iterator[IO[str]]:
        """The same as a file, for lines that are made already. What is not long needs no pager."""
        pager = _pager(self._pager) if self._pages and is_long else None
        if pager is None:
            yield sys.stdout
            return
        from subprocess import PIPE, Popen

        # The options of git: colours, and no pager for what fits on the screen.
        env = {"LESS": "FRX", "LV": "-c", **os.environ}
        process = Popen(pager, stdin=PIPE, env=env, text=True, encoding="utf-8")
        assert process.stdin is not None
        try:
            yield process.stdin
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


UNCUT: Final = 1_000_000
"""The width of what is no terminal."""


class Look:
    """How everything is printed in this process."""

    colours: Literal["auto", "always", "never"] = "auto"
    """As --color, the environment or the file of settings says."""


_look: Final = Look()


def _color_system() -> Literal["auto", "standard"] | None:
    if _look.colours == "never":
        return None
    is_dumb = os.environ.get("TERM") in ("dumb", "unknown")
    return "standard" if _look.colours == "always" and is_dumb else "auto"


def has_colours() -> bool:
    """Whether a terminal that is printed to gets colours; for lines that are made without rich."""
    if _look.colours != "auto":
        return _look.colours == "always"
    is_dumb = os.environ.get("TERM") in (None, "dumb", "unknown") and sys.platform != "win32"
    is_old = sys.platform == "win32" and not ({"WT_SESSION", "TERM"} & os.environ.keys())
    return not (os.environ.get("NO_COLOR") or is_dumb or is_old)


def terminal_size() -> os.terminal_size:
    """$COLUMNS and $LINES, or what the terminal says. As in shutil, which is slow to import."""
    said = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    columns, lines = (int(text) if text.isascii() and text.isdigit() else 0 for text in said)
    if columns and lines:
        return os.terminal_size((columns, lines))
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (OSError, ValueError):  # it is no terminal, or closed
        size = os.terminal_size((80, 24))
    return os.terminal_size((columns or size.columns or 80, lines or size.lines or 24))


def terminal(file: IO[str] | None = None) -> Console:
    """The terminal, or what leads to it. $NO_COLOR and $COLUMNS hold for both."""

    return _plain_console()(file=file)


def print_line(console: Console, line: Text | str) -> None:
    """A line that was made for reading, as `fitted` makes it fit."""
    for part in fitted(line, console.width):
        console.print(part, no_wrap=True, overflow="fold", crop=False)


def fitted(line: Text | str, width: int) -> Iterator[Text]:
    """Cut to the terminal if the line says so; else what is too long goes on below its beginning, or behind
    it where a line of ours could begin: a name that is long enough must not end in one."""
    from rich.cells import cell_len
    from rich.text import Text

    text = Text(line) if isinstance(line, str) else line
    if cell_len(text.plain) <= width:
        yield text
        return
    if text.no_wrap:
        text = text.copy()
        text.truncate(width, overflow="ellipsis" if text.overflow == "ellipsis" else "crop")
        yield text
        return
    indent = min(len(text.plain) - len(text.plain.lstrip(" ")), width // 2)
    behind = 2 if isinstance(line, Text) and not indent else 0
    nowhere: Any = None  # where it is printed matters only for justified texts
    for number, part in enumerate(text[indent:].wrap(nowhere, width - indent - behind, overflow="fold")):
        part.rstrip()
        yield Text(" " * (indent + behind if number else indent)).append_text(part)


def ansi(text: Text) -> str | None:
    """The text with the codes for its colours. None: it has some that only rich knows. To ask rich first
    would take longer than most commands take to find what they print."""
    plain, spans = text.plain, [(0, len(text.plain), text.style), *text.spans]
    places = sorted({0, len(plain), *(min(place, len(plain)) for span in spans for place in span[:2])})
    shown = []
    for start, end in pairwise(places):
        codes: dict[str, str] = {}
        for first, last, style in spans:
            if not first <= start < last:
                continue
            for word in style.split() if isinstance(style, str) else ("unknown",):
                code = STYLES.get(word)
                if code is None:
                    return None
                codes["colour" if len(code) > 1 else code] = code
        part = plain[start:end]
        order = sorted(codes.values(), key=int)
        shown.append(f"\x1b[{';'.join(order)}m{part}\x1b[0m" if order else part)
    return "".join(shown)


def errors() -> Console:

    return _plain_console()(stderr=True)


@cache
def _plain_console() -> type[Console]:
    from rich.console import Console

    class PlainConsole(Console):
        """Prints what it is given: no markup, no emoji, no guessing at colours."""

        def __init__(
            self, *, file: IO[str] | None = None, stderr: bool = False, width: int | None = None
        ) -> None:
            is_wanted = file is not None or _look.colours == "always"
            super().__init__(
                file=file,
                stderr=stderr,
                force_terminal=True if is_wanted else None,  # a file is a pager, which leads to a terminal
                color_system=_color_system(),
                no_color=None if _look.colours == "auto" else False,
                width=width or Console(stderr=stderr).size.width,
                highlight=False,
                markup=False,
                emoji=False,
            )

        def on_broken_pipe(self) -> NoReturn:
            """rich would end the process; but a pager may be left, and a pipe has an exit code of its own."""
            raise BrokenPipeError

    return PlainConsole


def _pager(command: str | None = None) -> list[str] | None:
    import shlex

    if os.environ.get("TERM") == "dumb":
        return None
    chosen = os.environ.get("CLEW_PAGER", os.environ.get("PAGER", "less")) if command is None else command
    try:
        words = shlex.split(chosen)
    except ValueError:  # a quotation in it is not closed
        return None
    if not words or words == ["cat"]:
        return None
    from shutil import which

    return words if which(words[0]) else None


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
