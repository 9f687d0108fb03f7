"""Dialogs: a question, a text to type, a choice, an export, a text to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Click
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from clew.cli.app import Refused, described
from clew.cli.text import clean, one_line
from clew.cli.ui.keys import HELP
from clew.cli.ui.view import CursorView, Rows
from clew.errors import ClewError

T = TypeVar("T")


def _shown(lines: Iterable[Text]) -> Iterator[Static]:
    for line in lines:
        yield Static(line, markup=False, classes="cut" if line.no_wrap else None)


class Dialog(ModalScreen[T]):
    """A box above a screen. A click beside it closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def on_click(self, event: Click) -> None:
        if event.widget is self:
            _ = self.dismiss(None)

    def problem(self, text: str) -> None:
        self.query_one(".problem", Static).update(Text(clean(text)))


class ConfirmDialog(Dialog[str]):
    """Shows what will be done, and asks. The answer is the key that was pressed; None: no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer('y')"),
        Binding("n,q", "dismiss(None)"),
        Binding("f", "answer('f')"),
    ]

    def __init__(self, lines: Iterable[Text], keys: str = "y yes · n no") -> None:
        super().__init__()
        self.lines, self.keys = list(lines), keys

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield from _shown(self.lines)
            yield Static(self.keys, markup=False, classes="keys")

    def action_answer(self, key: str) -> None:
        if f"{key} " in self.keys:
            _ = self.dismiss(key)


class AskDialog(Dialog[T]):
    """Asks for a text, and does something with it. What is refused can be corrected."""

    def __init__(
        self, lines: Iterable[Text], make: Callable[[str], T], *, keys: str, value: str = "", hint: str = ""
    ) -> None:
        super().__init__()
        self.lines, self.make, self.keys, self.value, self.hint = list(lines), make, keys, value, hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from _shown(self.lines)
            yield Input(self.value, placeholder=self.hint, select_on_focus=False)
            yield Static("", markup=False, classes="problem")
            yield Static(self.keys, markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            made = self.make(event.value.strip())
        except (ClewError, Refused, OSError) as exc:
            self.problem(described(exc))
            return
        _ = self.dismiss(made)


class Choice(NamedTuple, Generic[T]):
    value: T
    name: str
    note: str = ""


class PickDialog(Dialog[Choice[T]]):
    """A list to choose from; letters narrow it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", priority=True),
        Binding("up", "move(-1)", priority=True),
        Binding("pagedown", "move(10)", priority=True),
        Binding("pageup", "move(-10)", priority=True),
    ]

    def __init__(self, question: str, choices: Sequence[Choice[T]], *, at: int = 0) -> None:
        super().__init__()
        self.question, self.choices, self.at = question, choices, at

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog picker"):
            yield Static(Text(self.question, "bold"), markup=False)
            yield Input(placeholder="type to narrow", select_on_focus=False)
            yield Rows[Choice[T]](_choice_line)
            yield Static("⏎ choose · esc cancel", markup=False, classes="keys")

    def on_mount(self) -> None:
        self.rows.styles.height = max(1, min(len(self.choices), 12))
        self.rows.can_focus = False
        self.rows.show(self.choices, self.at)

    @property
    def rows(self) -> Rows[Choice[T]]:
        return self.query_one(Rows)

    def action_move(self, by: int) -> None:
        self.rows.action_move(by)

    def on_input_changed(self, event: Input.Changed) -> None:
        words = event.value.casefold().split()
        found = [one for one in self.choices if all(word in one.name.casefold() for word in words)]
        if words:  # those that begin so come first
            found.sort(key=lambda one: not one.name.casefold().startswith(words[0]))
        self.rows.show(found, 0 if words else self.at)

    def on_input_submitted(self) -> None:
        self._choose()

    def on_cursor_view_chosen(self, event: CursorView.Chosen) -> None:
        self._choose()

    def _choose(self) -> None:
        if self.rows.value is not None:
            _ = self.dismiss(self.rows.value)


def _choice_line(choice: Choice[T], width: int) -> Text:
    name, note = one_line(choice.name), one_line(choice.note)
    line = Text(f" {name}", no_wrap=True)
    line.truncate(max(1, width - len(note) - 2), overflow="ellipsis", pad=True)
    return line.append(f" {note}", "dim")


FORMATS: Final = ("html", "markdown", "json", "jsonl")
SUFFIXES: Final = {"html": ".html", "markdown": ".md", "json": ".json", "jsonl": ".jsonl"}
FOR: Final = {
    "html": "a page for any browser",
    "markdown": "text for notes and reviews",
    "json": "for programs",
    "jsonl": "everything, to be imported again",
}


class ExportChoice(NamedTuple):
    format: str
    path: Path


class ExportDialog(Dialog[ExportChoice]):
    """The format and the place of an export. A file that is there is replaced after a second ⏎."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,tab", "format(1)", priority=True),
        Binding("up,shift+tab", "format(-1)", priority=True),
    ]

    def __init__(self, what: str, name: str) -> None:
        super().__init__()
        self.what, self.format, self.value = what, FORMATS[0], f"{name}{SUFFIXES[FORMATS[0]]}"
        self.agreed: Path | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(f"Export {one_line(self.what)}", "bold", no_wrap=True), classes="cut")
            for format in FORMATS:
                yield Static("", markup=False, id=f"as-{format}")
            yield Input(self.value, select_on_focus=False)
            yield Static("", markup=False, classes="problem")
            yield Static("↑ ↓ format · ⏎ write · esc cancel", markup=False, classes="keys")

    def on_mount(self) -> None:
        self._draw()

    def _draw(self) -> None:
        for format in FORMATS:
            here = format == self.format
            line = Text(f" {'●' if here else '○'} {format:<9} ", "bold" if here else "")
            self.query_one(f"#as-{format}", Static).update(line.append(FOR[format], "dim"))

    def action_format(self, by: int) -> None:
        self._choose(FORMATS[(FORMATS.index(self.format) + by) % len(FORMATS)])

    def _choose(self, format: str) -> None:
        typed = self.query_one(Input)
        if typed.value.endswith(SUFFIXES[self.format]):
            typed.value = typed.value.removesuffix(SUFFIXES[self.format]) + SUFFIXES[format]
        self.format = format
        self._draw()

    def on_click(self, event: Click) -> None:
        id = event.widget.id if event.widget else None
        if id is not None and id.startswith("as-"):
            self._choose(id.removeprefix("as-"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not event.value.strip():
            self.problem("name a file")
            return
        path = Path(event.value.strip()).expanduser()
        if path.is_dir():
            self.problem(f"{path} is a directory: name a file in it")
        elif not path.parent.is_dir():
            self.problem(f"there is no directory {path.parent}")
        elif path.exists() and self.agreed != path:
            self.agreed = path
            self.problem(f"{path} exists; ⏎ again replaces it")
        else:
            _ = self.dismiss(ExportChoice(self.format, path))


class TextDialog(Dialog[None]):
    """Something to read; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q,question_mark", "dismiss(None)")]

    def __init__(self, lines: Iterable[Text], keys: str = "⏎ close") -> None:
        super().__init__()
        self.lines, self.keys = list(lines), keys

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield from _shown(self.lines)
            yield Static(self.keys, markup=False, classes="keys")


class HelpDialog(Dialog[None]):
    """All keys, by where they work."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q,question_mark,f1", "dismiss(None)"),
        Binding("j,down", "scroll(1)"),
        Binding("k,up", "scroll(-1)"),
        Binding("space,pagedown", "scroll(10)"),
        Binding("b,pageup", "scroll(-10)"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog help"):
            with VerticalScroll():
                yield from _shown(help_lines())
            yield Static("↑ ↓ scroll · esc close", markup=False, classes="keys")

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def help_lines() -> Iterator[Text]:
    for number, (title, keys) in enumerate(HELP):
        if number:
            yield Text("")
        yield Text(title, "bold")
        for key in keys:
            yield Text.assemble((f"  {key.shown:<11}", "cyan"), key.help)
