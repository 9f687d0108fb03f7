"""Characters that act are seen."""

from __future__ import annotations

from clew.core.messages.text import visible, visible_line
from tests.support.rows import each_row


@each_row(
    ("text", "seen"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J", "␛[2J"),
        ("\x1b]8;;http://x\x07", "␛]8;;http://x␇"),
        ("a\x00b\x7fc\x9bd", "a␀b␡c⟦U+009B⟧d"),
        ("safe\u202egpj.exe", "safe⟦U+202E⟧gpj.exe"),
        ("\u2066x\u2069\u200f\u200b", "⟦U+2066⟧x⟦U+2069⟧⟦U+200F⟧⟦U+200B⟧"),
        ("hidden\U000e0041", "hidden⟦U+E0041⟧"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("क्‍ष 👨‍👩‍👧 日本語 عربي", "क्‍ष 👨‍👩‍👧 日本語 عربي"),
    ],
)
def test_what_acts_is_a_picture_and_what_is_text_stays(text: str, seen: str) -> None:
    assert visible(text) == seen


def test_a_line_is_one_line() -> None:
    assert visible_line(" a\n b\x1b ") == "a b␛"
