"""Plain lines skip the Markdown parser: what comes out is the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.exporters.page import text

LETTERS = st.sampled_from("ab Z1.,;:?!'\"()/%[]_-=+*#>`~|\n\\&<é\u00a0\u0301٣ß")


def _by_the_parser(words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_PLAIN", re.compile(r"(?!)"))
        return text.prose(words)


@given(st.text(alphabet=st.one_of(LETTERS, st.characters()), max_size=25))
def test_any_text_is_what_the_parser_makes_of_it(words: str) -> None:
    assert text.prose(words) == _by_the_parser(words)
