"""Commands that change the settings of other programs: which ones, and what was done or would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import click

from clew.cli.agents import unknown
from clew.cli.app import PARTLY, described
from clew.cli.output import Output
from clew.cli.text import clean, from_home, one_line
from clew.errors import ClewError, InvalidError
from clew.importers import agent_named
from clew.importers.settings.backup import Change


class _Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=_Named)
R = TypeVar("R")


def chosen(
    kind: str,
    names: Sequence[str],
    every: bool,
    known: Mapping[str, P],
    is_here: Callable[[P], bool],
) -> list[P]:
    """The programs that a command is about. `is_here`: of all, only these."""
    listed = ", ".join(known)
    if every and names:
        raise click.UsageError(f"name {kind}s, or give --all, not both")
    if not every and not names:
        raise click.UsageError(f"name {'an' if kind[0] in 'aeiou' else 'a'} {kind} ({listed}), or give --all")
    if not every:
        return named(kind, names, known)
    found = [program for program in known.values() if is_here(program)]
    if not found:
        raise InvalidError(f"none of these {kind}s was found: {listed}")
    return found


def named(kind: str, names: Sequence[str], known: Mapping[str, P]) -> list[P]:
    """The programs of these names, or of short forms of them, each once."""
    whole: dict[str, None] = {}
    for text in names:
        name = agent_named(text, known)
        if name is None:
            raise click.UsageError(unknown(kind, text, known))
        whole[name] = None
    return [known[name] for name in whole]


def each(
    out: Output,
    kind: str,
    programs: Sequence[P],
    act: Callable[[P], R],
    show: Callable[[Output, R], None],
) -> int:
    """One after the other. What fails for one is said, and the others go on. `kind`: what they are called."""
    failed: list[ClewError] = []
    for program in programs:
        try:
            outcome = act(program)
        except ClewError as exc:
            if len(programs) == 1:
                raise
            failed.append(exc)
            if out.json:
                out.record({kind: program.name, "error": str(exc)})
            click.echo(f"clew: {program.name}: {one_line(described(exc))}", err=True)
            continue
        show(out, outcome)
    return PARTLY if failed else 0


def say(out: Output, text: str) -> None:
    """A sentence, which goes on below where the terminal ends."""
    out.texts([one_line(text) if text.strip() == text else "  " + one_line(text.strip())])


def diff(out: Output, changes: Sequence[Change]) -> None:
    """All changes, as `diff -u` writes them."""
    from difflib import unified_diff

    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for change in changes:
        place = from_home(str(change.path))
        names = [place if text is not None else "/dev/null" for text in (change.before, change.after)]
        texts = [(text or "").splitlines() for text in (change.before, change.after)]
        lines = unified_diff(texts[0], texts[1], names[0], names[1], lineterm="")
        out.texts(Text(clean(line), style=styles.get(line[:1], "")) for line in lines)
