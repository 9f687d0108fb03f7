"""S-55: no regular expression of the package goes back and forth over a text that somebody else wrote."""

from __future__ import annotations

import re
from re._parser import SubPattern, parse  # type: ignore[import-not-found]
from typing import Any

import pytest

from tests.security.patterns import Known, known_patterns, made_elsewhere
from tests.security.slow_texts import hard_texts
from tests.support.effort import usually
from tests.support.rows import named

SIZE = usually(150_000, thorough=1_000_000)
"""An expression that reads a text by the square of its length takes minutes for one text of this size."""

PARTS = 16
"""In which all expressions are tried, because together they take too long for one test."""

MADE_OF_DATA = {
    ("cli/config.py", "line_of"),  # of the name of a key, for one line of a small file
    ("cli/ui/reader.py", "words_of"),  # of the words that the reader typed
    ("core/messages/words.py", "_any_word"),  # made late, because it takes long; kept, and found
    ("core/messages/text.py", "_unprintable"),  # likewise
    ("core/streams/price_list.py", "find"),  # of the price list, for texts of at most 300 characters
    ("core/streams/price_list.py", "fits"),
    ("exporters/page/colours.py", "_parts"),  # of constants, and kept in the table of languages
    ("core/redact/redactor.py", "_own_rule"),  # a rule of the caller
    ("core/redact/rules.py", "_shape"),  # of constants, and kept in the list of rules
    ("files/snapshot/ignore.py", "_regex"),  # of rule files: test_texts
}


@pytest.mark.parametrize("part", range(PARTS))
def test_s55_an_expression_reads_a_text_once(part: int) -> None:
    """The first part takes longer, because it loads the whole package."""
    for known in known_patterns()[part::PARTS]:
        for text in hard_texts(known.pattern, SIZE):
            with named(known.place):
                _use(known, text if isinstance(known.pattern.pattern, str) else text.encode())


def _use(known: Known, text: Any) -> None:
    if known.only_once:
        known.pattern.match(text)
        known.pattern.fullmatch(text)
    else:
        known.pattern.sub(text[:0], text)


def test_s55_expressions_have_names_so_that_they_are_tested() -> None:
    assert set(made_elsewhere()) == MADE_OF_DATA


def test_no_possessive_repeat_looks_ahead_inside() -> None:
    """Python before 3.11.5, as in Debian 12, matches such a repeat wrongly, and an atomic group rightly."""
    wrong = [known.place for known in known_patterns() if _looks_ahead_in_a_repeat(known.pattern)]
    assert wrong == []
    assert _looks_ahead_in_a_repeat(re.compile(r"x(?:[^-]|(-(?!-)))*+"))
    assert not _looks_ahead_in_a_repeat(re.compile(r"x(?>(?:[^-]|-(?!-))*)\d*+"))


def _looks_ahead_in_a_repeat(pattern: re.Pattern[Any]) -> bool:
    def looks(parsed: Any, *, is_inside: bool) -> bool:
        if isinstance(parsed, tuple) and parsed and str(parsed[0]) == "POSSESSIVE_REPEAT":
            is_inside = True
        if isinstance(parsed, tuple) and parsed and str(parsed[0]) in ("ASSERT", "ASSERT_NOT") and is_inside:
            return True
        parts = parsed if isinstance(parsed, (tuple, list, SubPattern)) else ()
        return any(looks(part, is_inside=is_inside) for part in parts)

    return looks(parse(pattern.pattern, pattern.flags), is_inside=False)


def test_the_search_for_slow_expressions_would_find_one() -> None:
    # Too slow to be tried at full size: what is asked for is the text that makes it slow.
    texts = list(hard_texts(re.compile(r"<task>\s*(.*?)\s*</task>", re.DOTALL), 100))
    assert any(text.count("<task>") > 3 and "</task>" not in text for text in texts)
    assert any(text.startswith("aaaa") for text in hard_texts(re.compile(r"[0-9a-f-]{20,}\Z"), 100))
