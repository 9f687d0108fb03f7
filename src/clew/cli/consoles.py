"""The terminal by way of rich: colours, width, and an honest end when nobody reads any more."""

from __future__ import annotations

from typing import IO, NoReturn

from rich.console import Console


class PlainConsole(Console):
    """Prints what it is given: no markup, no emoji, no guessing at colours."""

    def __init__(self, *, file: IO[str] | None = None, stderr: bool = False) -> None:
        size = Console(stderr=stderr).size
        super().__init__(
            file=file,
            stderr=stderr,
            force_terminal=True if file is not None else None,  # a pager, which leads to one
            width=size.width,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def on_broken_pipe(self) -> NoReturn:
        """rich would end the process; but a pager may be left, and a pipe has an exit code of its own."""
        raise BrokenPipeError
