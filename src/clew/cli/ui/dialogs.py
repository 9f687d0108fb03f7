"""Dialogs: the id of a fork, and a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

import clew
from clew.cli.app import described
from clew.cli.text import clean
from clew.errors import ClewError


def _shown(lines: Iterable[Text]) -> Iterator[Static]:
    for line in lines:
        yield Static(line, markup=False, classes="cut" if line.no_wrap else None)


class ConfirmDialog(ModalScreen[bool]):
    """Shows what will be done, and asks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "dismiss(True)", "yes"),
        Binding("n,escape,q", "dismiss(False)", "no"),
    ]

    def __init__(self, lines: Iterable[Text]) -> None:
        super().__init__()
        self.lines = list(lines)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from _shown(self.lines)
            yield Static("y yes · n no", markup=False, classes="keys")


class ForkDialog(ModalScreen[clew.Session]):
    """Asks for the id of a fork, and makes it. An id that is in use can be corrected."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def __init__(self, lines: Iterable[Text], make: Callable[[str | None], clew.Session]) -> None:
        super().__init__()
        self.lines = list(lines)
        self.make = make

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield from _shown(self.lines)
            yield Input(placeholder="its id; empty: one is generated")
            yield Static("", markup=False, classes="problem")
            yield Static("enter fork · esc cancel", markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            made = self.make(event.value.strip() or None)
        except ClewError as exc:
            self.query_one(".problem", Static).update(Text(clean(described(exc))))
            return
        _ = self.dismiss(made)
