"""A file that a person wrote is changed in one place, and every other byte stays."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.importers.settings.json_text import (
    NotJsonError,
    parse,
    with_item,
    with_member,
    with_value,
    without_item,
    without_member,
)
from tests.support.effort import usually
from tests.support.rows import each_row

NEW = {"Stop": [{"hooks": [{"type": "command", "timeout": 5}]}]}

FILES = {
    "empty object": "{}",
    "empty object with an end of line": "{}\n",
    "nothing in lines": "{\n}\n",
    "four spaces": '{\n    "a": 1,\n    "b": [1, 2]\n}\n',
    "tabs and CRLF": '{\r\n\t"a": {\r\n\t\t"b": 2\r\n\t}\r\n}\r\n',
    "one line": '{"a": 1}',
    "one tight line": '{"a":1,"b":{}}\n',
    "no end of line": '{\n  "a": 1\n}',
    "comment behind the last value": '{\n  "a": 1 // note\n}\n',
    "comments before the end": '{\n  // first\n  "a": 1, /* b */\n  "b": 2\n  // end\n}\n',
    "only a comment": "{\n  // nothing yet\n}\n",
    "a mark at the beginning": '\ufeff{\n  "a": 1\n}\n',
    "letters of all kinds": '{\n  "ä\\u00fc": "\\"//no comment\\" \U0001f600",\n  "n": -1.5e-7\n}\n',
}


@each_row("text", FILES.values(), ids=FILES.keys())
def test_a_member_comes_last_and_nothing_else_changes(text: str) -> None:
    root = parse(text, comments=True)
    after = with_member(text, root, "hooks", NEW)
    assert parse(after, comments=True).plain() == root.plain() | {"hooks": NEW}
    assert list(parse(after, comments=True).value) == [*root.value, "hooks"]
    assert ("\r\n" in after) == ("\r\n" in text)
    assert not re.search(r"(?<!\r)\n", after) if "\r\n" in text else True
    assert after.endswith("\n") == text.endswith("\n")


@each_row("text", FILES.values(), ids=FILES.keys())
def test_what_was_added_can_be_taken_out_again(text: str) -> None:
    after = with_member(text, parse(text, comments=True), "hooks", NEW)
    back = without_member(after, parse(after, comments=True), "hooks")
    assert back == text or back == text.replace("{}", "{\n}")


def test_the_indent_of_the_file_is_used() -> None:
    text = '{\n    "a": 1\n}\n'
    assert with_member(text, parse(text), "b", {"c": []}) == (
        '{\n    "a": 1,\n    "b": {\n        "c": []\n    }\n}\n'
    )


def test_a_list_in_one_line_stays_in_one_line() -> None:
    text = '{\n  "a": [{"x": 1}]\n}\n'
    assert with_item(text, parse(text).value["a"], {"y": 2}) == '{\n  "a": [{"x": 1}, {"y": 2}]\n}\n'


@each_row("gone", [0, 1, 2])
@each_row("text", ["[1, 2, 3]", "[\n  1,\n  2,\n  3\n]", "[1,2,3]", "[ 1 , 2 , 3 ]"])
def test_an_item_goes_with_its_comma(text: str, gone: int) -> None:
    after = without_item(text, parse(text), gone)
    left = [number for number in (1, 2, 3) if number != gone + 1]
    assert parse(after).plain() == left
    if "\n" in text:
        assert after == json.dumps(left, indent=2)


def test_comments_between_items_stay() -> None:
    text = "[\n  // one\n  1, // first\n  // two\n  2 // second\n  // end\n]\n"
    for gone, left in ((0, [2]), (1, [1])):
        after = without_item(text, parse(text, comments=True), gone)
        assert parse(after, comments=True).plain() == left
        assert re.findall("//.*", after) == re.findall("//.*", text)


WRONG = {
    "": (1, "the file ends where a value should be"),
    "{": (1, "the file ends where a key"),
    '{"a": 1,\n}': (1, "a comma stands before the end"),
    '{\n"a": 1\n"b": 2}': (3, "is not a comma or the end"),
    "{\n'a': 1}": (2, "is not a key in double quotes"),
    '{\n\n"a" 1}': (3, "is not a colon"),
    '{"a": nul}': (1, "is not a value"),
    '{"a": 01}': (1, "is not a comma"),
    '{"a": NaN}': (1, "is not a value"),
    '{"a": 1}\n{}': (2, "something follows"),
    '{"a": "\n"}': (1, "is not valid or does not end"),
    '{"a": "\\x"}': (1, "is not valid or does not end"),
    '{"a": 1,\n"a": 2}': (2, "is there twice"),
    '{"a": 1 // x\n}': (1, "comments are not allowed"),
    '{"a": 1 /* x }': (1, "a comment does not end"),
    "[" * 200: (1, "are nested"),
}


@each_row("text", WRONG)
def test_what_is_not_json_is_refused_with_its_line(text: str) -> None:
    line, reason = WRONG[text]
    with pytest.raises(NotJsonError, match=reason) as caught:
        parse(text)
    assert caught.value.line == line


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=usually(settings().max_examples, quick=30, thorough=1000))
@given(
    st.dictionaries(st.text(max_size=5), _values, max_size=4).filter(lambda found: "hooks" not in found),
    st.sampled_from([None, 1, 2, "\t"]),
    st.booleans(),
)
def test_any_file_keeps_its_values_and_comes_back(
    values: dict[str, Any], indent: int | str | None, ascii: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii)
    assert parse(text).plain() == values
    after = with_member(text, parse(text), "hooks", NEW)
    assert json.loads(after) == values | {"hooks": NEW}
    back = without_member(after, parse(after), "hooks")
    assert json.loads(back) == values
    assert back == text or not values
    for key in values:
        assert json.loads(without_member(text, parse(text), key)) == {
            other: value for other, value in values.items() if other != key
        }


@settings(max_examples=usually(settings().max_examples, quick=30, thorough=1000))
@given(st.text(alphabet='{}[]",:/* \n1a\\t', max_size=40))
def test_texts_that_python_takes_are_taken_and_others_are_not(text: str) -> None:
    try:
        wanted = json.loads(text, object_pairs_hook=_no_twins)
    except ValueError:
        with pytest.raises(NotJsonError):
            parse(text)
    else:
        assert parse(text).plain() == wanted


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


LAST_COMMAS = {
    "in lines": '{\n  "a": 1,\n  "b": [1, 2,],\n}\n',
    "in one line": '{"a": 1,}',
    "with a comment": '{\n  "a": 1, // one\n  // end\n}\n',
    "before a comment": '{\n  "a": 1 /* one */ ,\n}\n',
}


@each_row("text", LAST_COMMAS.values(), ids=LAST_COMMAS.keys())
def test_commas_behind_the_last_value_stay_where_they_are_allowed(text: str) -> None:
    root = parse(text, comments=True, last_commas=True)
    after = with_member(text, root, "c", {"d": []})
    changed = parse(after, comments=True, last_commas=True)
    assert changed.plain() == root.plain() | {"c": {"d": []}}
    assert without_member(after, changed, "c").replace(", }", ",}") == text
    with pytest.raises(NotJsonError, match="a comma stands before the end"):
        parse(text, comments=True)


@each_row("text", ["{,}", "[,]", "[1,,]", '{"a": 1,,}', "[1,}"])
def test_a_comma_without_a_value_is_never_allowed(text: str) -> None:
    with pytest.raises(NotJsonError):
        parse(text, comments=True, last_commas=True)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"a": ["x"], "b": 1}', '{"a": ["y", "z"], "b": 1}'),
        (
            '{\r\n\t"a": [\r\n\t\t"x"\r\n\t],\r\n\t"b": 1\r\n}',
            '{\r\n\t"a": [\r\n\t\t"y",\r\n\t\t"z"\r\n\t],\r\n\t"b": 1\r\n}',
        ),
        ('{\n  "a": null // none\n}', '{\n  "a": ["y", "z"] // none\n}'),
    ],
)
def test_a_value_is_replaced_in_its_place(text: str, after: str) -> None:
    assert with_value(text, parse(text, comments=True).value["a"], ["y", "z"]) == after
