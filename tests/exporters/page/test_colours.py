"""The words that get colours, compared with the lexers of Pygments, which Rich brings along."""

from __future__ import annotations

from collections import Counter

from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Keyword, Name, Operator  # type: ignore[import-untyped]

from clew.exporters.page.colours import WORD_LISTS, coloured

LEXERS = [
    get_lexer_by_name(name)
    for name in (
        "python", "bash", "ruby", "perl", "yaml", "javascript", "typescript", "c", "cpp", "java", "kotlin",
        "scala", "csharp", "swift", "php", "dart", "go", "rust", "postgresql", "mysql", "json",
    )
]  # fmt: skip
PLACES = ("{} x", "{}", "x {} x", "[{}]", ": {}\n", "- {}\n", "class A {{ {} x; }}")


def is_known(word: str) -> bool:
    """Whether a lexer takes it for a word of its language."""
    return any(
        text.strip() == word and any(kind in known for known in (Keyword, Operator.Word, Name.Builtin))
        for lexer in LEXERS
        for place in PLACES
        for kind, text in lexer.get_tokens(place.format(word))
    )


def test_every_word_of_every_list_is_one_word_of_a_language_and_listed_once() -> None:
    for name, words in WORD_LISTS.items():
        listed = words.split()
        assert [word for word, count in Counter(listed).items() if count > 1] == [], name
        assert [word for word in listed if not is_known(word)] == [], name


def test_words_at_both_ends_of_a_line_of_the_list_get_their_colour() -> None:
    for word in ("interface", "internal", "class"):
        assert coloured(f"{word} Harbor", "kotlin") == f'<span class="k">{word}</span> Harbor'
