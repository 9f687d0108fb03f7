"""Lines on a terminal without rich's console: the same as with it."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style
from rich.text import Span, Text

from clew.cli.output import ansi, fitted, print_line

WIDTH = 20
STYLES = st.sampled_from(["", "bold", "bright_black", "bold bright_red", "green", "italic bright_black"])
WORDS = st.text("ab é漢 -", max_size=60)


@st.composite
def texts(draw: st.DrawFn) -> Text:
    words = draw(WORDS)
    places = st.integers(0, len(words))
    spans = [
        Span(min(a, b), max(a, b), style)
        for a, b, style in draw(st.lists(st.tuples(places, places, STYLES), max_size=4))
    ]
    no_wrap = draw(st.booleans())
    return Text(words, draw(STYLES), spans=spans, no_wrap=no_wrap, overflow="crop" if no_wrap else None)


def by_rich(text: Text) -> str:
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, force_terminal=True, color_system="standard", _environ={})
    print_line(console, text)
    return out.getvalue()


@given(texts())
def test_a_line_looks_as_rich_would_print_it(text: Text) -> None:
    shown = "".join(f"{ansi(part)}\n" for part in fitted(text, WIDTH))
    assert Text.from_ansi(shown) == Text.from_ansi(by_rich(text))
    assert all(part.cell_len <= WIDTH for part in fitted(text, WIDTH))


def test_colours_that_are_not_known_by_name_are_left_to_rich() -> None:
    assert ansi(Text("a", Style(color="#ff0000"))) is None
    assert ansi(Text("a", "on blue")) is None
    assert ansi(Text("a", "bold cyan")) == "\x1b[1;36ma\x1b[0m"
