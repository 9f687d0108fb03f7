"""Words, queries and excerpts: pure, for any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.backends.memory import MemoryBackend
from clew.backends.sqlite import SqliteBackend
from clew.core.messages.search_text import searched_text
from clew.core.messages.words import flat, is_plain, parse, run_together, words_in
from clew.core.search.excerpt import LONGEST, beginning, excerpt
from clew.core.search.search import Cursor, make_cursor, read_cursor, score
from clew.errors import InvalidQueryError
from clew.store import Store
from tests.faults.crash.common import quick_directory
from tests.support.rows import each_row

PIECES = [
    "a",
    "b",
    "ab",
    "aB",
    "A",
    "AB",
    "ABa",
    "x1",
    "登",
    "录",
    "é",
    "e\u0301",
    "ß",
    "\0",
    "가",
    "ก",
    "¼",
    "⑴",
    "ﷺ",
]
BETWEEN = [" ", "", "_", ".", "-", '"', "*", "\n", "\u202e"]
FIELDS = [
    "role", "content", "parts", "type", "text", "tool_calls", "function_call", "functionCall", "output"
]  # fmt: skip
shapes = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
)
texts = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(BETWEEN)), max_size=8).map(
    lambda pairs: "".join(piece + between for piece, between in pairs)
)


@given(st.text() | texts)
def test_the_flat_form_is_the_words_which_stand_where_they_say(text: str) -> None:
    """A word is its own word: what is compared is in one form, however often it is brought into it."""
    words = list(words_in(text))
    assert flat(text).split(" ") == ([word.word for word in words] + run_together(text) or [""])
    end = 0
    for word in words:
        assert end <= word.start < word.end <= len(text)
        assert word.word
        assert not any(letter.isspace() or letter == '"' for letter in word.word)
        assert [again.word for again in words_in(word.word)] in ([word.word], list(word.word))
        end = word.end


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_a_plain_text_is_parted_at_all_that_is_no_letter_and_no_digit(text: str) -> None:
    """As the tokenizer of SQLite does: such a text is given to it as it is."""
    if is_plain(text):
        parted = "".join(char.lower() if char.isalnum() else " " for char in text).split()
        assert flat(text) == " ".join(parted)


@given(st.text() | texts, st.data())
def test_every_stretch_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    words = list(words_in(text))
    if not words:
        return
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    stretch = text[words[first].start : words[last].end].replace('"', " ")
    query = parse(f'"{stretch}"')

    if query.wanted[0].words == tuple(word.word for word in words[first : last + 1]):
        assert query.matches(flat(text))
        assert score(query, text) > 0


@given(texts | st.text(alphabet="aAbB1_. ", max_size=20), texts)
@example("getUserName", '"user name"')
@example("x" * 1000, "x" * 1000)
def test_a_text_matches_as_its_flat_form_does(text: str, asked: str) -> None:
    try:
        query = parse(asked)
    except InvalidQueryError:
        return
    assert query.matches_text(text) == query.matches(flat(text))


@given(st.text() | texts, texts)
@example("A0A", "a_a*")
def test_what_matches_has_an_excerpt_with_marks_inside_it(text: str, asked: str) -> None:
    try:
        query = parse(asked)
    except InvalidQueryError:
        return
    found = excerpt(text, query.wanted)
    if query.matches(flat(text)) and found is None:
        # A phrase may begin with the last part of an identifier and end with all of it run together.
        assert any(len(term.words) > 1 for term in query.wanted)
        assert run_together(text)
        assert beginning(text).text in text
        assert beginning(text).text
    if found is not None:
        assert found.text in text
        assert len(found.text) <= LONGEST + 16
        assert found.marks
        ends = [place for mark in found.marks for place in mark]
        assert ends == sorted(ends)
        assert ends[0] >= 0
        assert ends[-1] <= len(found.text)


@each_row("between", [" ", "\n", " \u2014 "])
def test_a_hit_far_inside_a_long_text_is_shown_with_what_surrounds_it(between: str) -> None:
    text = between.join(["blast"] * 3000 + ["here", "is", "getLastName", "now"] + ["else"] * 3000)

    for asked in ("last", "lastname", "getlastname", '"is get"', "now -nothing"):
        found = excerpt(text, parse(asked).wanted)
        if asked == "lastname":
            assert found is None
        else:
            assert found is not None
            assert between.join(["here", "is", "getLastName", "now", "else"]) in found.text
            assert found.text.startswith("blast")


@given(st.text())
def test_a_query_is_understood_or_refused(text: str) -> None:
    try:
        query = parse(text)
    except InvalidQueryError:
        return
    assert all(term.words for term in (*query.wanted, *query.unwanted))


@given(shapes)
def test_no_shape_is_too_odd_to_be_searched(value: object) -> None:
    message = value if isinstance(value, dict) else {"role": "user", "content": value}
    text = searched_text(message, 0)
    assert isinstance(text.said, str)
    assert isinstance(text.tool, str)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=8),
    st.lists(texts, min_size=1, max_size=8),
    st.booleans(),
)
def test_sqlite_finds_what_reading_everything_finds(
    messages: list[tuple[str, str]], queries: list[str], tools: bool
) -> None:
    """The index against the words themselves."""
    with (
        quick_directory() as place,
        Store(MemoryBackend()) as memory,
        Store(SqliteBackend(place / "a.db")) as store,
    ):
        for said, answered in messages:
            for each in (memory, store):
                answer = {"role": "tool", "tool_call_id": "c", "content": answered}
                each.session("s").append({"role": "user", "content": said}, answer)
        for query in queries:
            for form in (query, f'"{query}"', f"{query}*", f"a -{query}"):
                assert _answer(store, form, tools) == _answer(memory, form, tools), form


def _answer(store: Store, query: str, tools: bool) -> object:
    try:
        return [(hit.position, hit.snippet, hit.marks) for hit in store.search(query, tools=tools)]
    except InvalidQueryError as error:
        return str(error)


def test_a_cursor_says_where_a_page_ended() -> None:
    for cursor in (Cursor(5, "uid", 3, None), Cursor(-5, "ü", 0, 1.25)):
        assert read_cursor(make_cursor(cursor), is_ranked=cursor.score is not None) == cursor
    with pytest.raises(InvalidQueryError, match="no cursor"):
        read_cursor(make_cursor(Cursor(2**70, "u", 0, None)), is_ranked=False)


@given(st.text(st.sampled_from("abyzAZ09 _.-\0\x7f\né"), max_size=12), st.sampled_from([0, 199, 200, 201]))
def test_a_text_is_plain_if_no_word_of_it_is_camel_case_or_too_long(text: str, more: int) -> None:
    text += "x" * more
    odd = re.search("[a-z0-9][A-Z]|[A-Z][A-Z][a-z]|\0|[A-Za-z0-9]{201}", text)
    assert is_plain(text) == (text.isascii() and odd is None)
