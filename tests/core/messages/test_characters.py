"""One table of characters that act: whatever shows text to people makes the same ones visible."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from clew.backends.jsonl.log_file import tell
from clew.cli.text import clean
from clew.core.maintenance import Maintenance, _log
from clew.core.messages.text import escape_json, for_a_log, visible
from clew.exporters.json import _safe
from tests.support.rows import each_row

ACTING = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"]
ACTING += [*"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2064\u2066\u2069\u206a\u206f"]
ACTING += [*"\ufeff\ufff9\ufffb\U000e0001\U000e0020\U000e007f"]
QUIET = "a\tb\né 鷺 \u200d 👩‍🚀 שלום e\u0301\u00a0"

LOGS: dict[str, Callable[[Any], None]] = {
    "sweeping": lambda said: _log("warning", "session %s is left alone", said),
    "sweeps in the background": Maintenance._tell,
    "a damaged JSONL store": lambda said: tell("%s was set aside", said),
}


@each_row("char", ACTING)
def test_a_character_that_acts_is_shown_and_never_sent(char: str) -> None:
    assert char not in clean(f"a{char}b")
    assert char not in visible(f"a{char}b")
    text = json.dumps({"x": f"a{char}b"}, ensure_ascii=False)
    for escaped in (escape_json(text), _safe(text.encode()).decode()):
        assert char not in escaped
        assert json.loads(escaped) == {"x": f"a{char}b"}


def test_other_text_stays_as_it_is() -> None:
    assert clean(QUIET) == visible(QUIET) == escape_json(QUIET) == QUIET


def test_every_mark_of_the_writing_direction_is_in_the_table() -> None:
    turning = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    marks = [chr(code) for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in turning]
    assert len(marks) == 9
    assert [mark for mark in marks if mark in clean(mark) or mark in visible(mark)] == []


@pytest.mark.parametrize("log", LOGS)
def test_s18_what_others_wrote_begins_no_line_of_a_log(log: str, caplog: pytest.LogCaptureFixture) -> None:
    """A session's id may hold line ends: they must not look like lines that we wrote."""
    forged = "a\nWARNING clew.retention: all is well\r\x1b[2J\u2028\u202e"
    with caplog.at_level(logging.DEBUG):
        LOGS[log](ValueError(forged))
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert "all is well" in record.getMessage()


def test_numbers_stay_numbers_in_a_log() -> None:
    assert for_a_log(7) == 7
    assert for_a_log("plain text") == "plain text"
