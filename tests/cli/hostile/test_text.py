"""What makes text safe for a terminal; test_commands.py shows that every command uses it."""

from __future__ import annotations

import re

import pytest

import clew
from clew.cli.app import show_mistake
from clew.cli.text import clean, flat, one_line
from tests.cli.processes import Clew

ATTACKS = (
    "\x1b[2J\x1b]0;title\x07"  # clears the screen, sets its title
    "\x1b]52;c;cm0gLXJmIH4K\x07"  # fills the clipboard
    "\x9b31m\x90q\x9c"  # the same in eight bits
    "over\rwritten\x08\x08\x7f\x00"
    "\u202eexe.txt\u2066\u200f\u061c"  # turns the writing direction
    "a\u2028b\u2029c\U000e0041\ufff9"
)
NAME = "evil\x1b[31m\u202e"
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f]"
)


@pytest.fixture
def hostile(cli: Clew) -> Clew:
    with clew.open(cli.store) as store:
        store.session(NAME).append({"role": "user", "content": f"needle {ATTACKS}"})
    return cli


def test_an_error_shows_a_hostile_id_in_one_line(hostile: Clew) -> None:
    printed = hostile("show", f"nobody{NAME}\n\x07", code=1)
    assert 1 == len(printed.err.splitlines())
    assert UNSAFE.search(printed.err.rstrip("\n")) is None


def test_s17_a_mistake_of_ours_is_told_without_what_acts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python would print the message of an error as it is."""
    error = ValueError(f"no {ATTACKS} in postgresql://u:hunter2@host/db")
    show_mistake(ValueError, error, error.__traceback__)
    told = capsys.readouterr().err
    assert "ValueError: no ␛[2J" in told
    assert UNSAFE.search(told) is None
    assert "hunter2" not in told


def test_json_loses_nothing_by_being_safe(hostile: Clew) -> None:
    [first, *_] = hostile("show", NAME, "--json").records
    assert f"needle {ATTACKS}" == first["message"]["content"]
    assert NAME == first["session"]


def test_controls_become_visible() -> None:
    assert "␛[31m␀␇␡<U+009B><U+202E>" == clean("\x1b[31m\x00\x07\x7f\x9b\u202e")
    assert "zero<U+200B>width" == clean("zero\u200bwidth")  # as in an export: nobody sees that it is there
    assert "\ufffd" == clean("\ud800")
    assert "a b c" == one_line(" a\n\tb\r\n c ")
    assert " a b " == flat("\n a\n b\t")
