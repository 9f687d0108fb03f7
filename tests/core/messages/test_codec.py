"""The door: what is accepted comes back equal, and what is refused is refused with its path."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import math
import sys
import types
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.messages import codec
from clew.core.messages.codec import Prepared, decode_json, encode_json, prepare
from clew.core.messages.validate import MAX_DEPTH, MAX_MESSAGE_BYTES
from clew.errors import InvalidEntryError
from tests.support.rows import each_row

# By number: some tools take all surrogates in a literal for the same character.
HIGH = chr(0xD83D)
LOW = chr(0xDE00)

# What comes from a JSON text or goes into one; -0.0 and 1.0 are told from 0 and 1 by their repr.
big_ints = st.integers(-(10**60), 10**60) | st.sampled_from([2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**4299])
scalars = st.none() | st.booleans() | big_ints | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(st.text(), values, max_size=5)
with_surrogates = st.text(st.sampled_from(f"a{HIGH}{LOW}é\ufffd") | st.characters(exclude_categories=()))


def refused(message: Any, **options: Any) -> InvalidEntryError:
    with pytest.raises(InvalidEntryError) as caught:
        prepare(message, **options)
    return caught.value


def nested(levels: int, leaf: Any = None) -> dict[str, Any]:
    """A message of so many levels: an object, then lists; the innermost is empty or holds `leaf`."""
    value: Any = [] if leaf is None else [leaf]
    for _ in range(levels - 2):
        value = [value]
    return {"a": value} if levels > 1 else {}


def nested_text(levels: int) -> str:
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def assert_kept(prepared: Prepared, value: object) -> None:
    assert repr(value) == repr(prepared.value)
    assert repr(value) == repr(decode_json(prepared.body))
    assert repr(value) == repr(msgspec.json.decode(prepared.body))
    assert not prepared.replaced


# P17: what is accepted comes back


@given(objects)
@example({"": {"": [[], {}]}, "b": -0.0, "a": 1.0, "c": 1, "d": True})
def test_P17_an_accepted_object_comes_back_with_the_same_types_and_key_order(message: dict[str, Any]) -> None:
    """By the fast walk and by the exact one, which agree."""
    exact = prepare(types.MappingProxyType(message))

    assert prepare(message) == exact
    assert_kept(prepare(message), message)
    assert_kept(exact, message)


@given(
    objects, st.booleans(), st.sampled_from([None, 2]), st.sampled_from([None, (",", ":"), (" ,\n", "\t:\r")])
)
def test_P17_json_text_is_kept_byte_for_byte_however_it_is_written(
    message: dict[str, Any], ascii_only: bool, indent: int | None, separators: tuple[str, str] | None
) -> None:
    text = json.dumps(message, ensure_ascii=ascii_only, indent=indent, separators=separators)
    for given_text in (text, text.encode(), bytearray(text.encode()), memoryview(text.encode())):
        prepared = prepare(given_text)

        assert text.encode() == prepared.body
        assert_kept(prepared, message)


@given(values)
@example(-0.0)
@example([[]])
@example("")
def test_P17_any_json_value_comes_back_from_encode_json(value: Any) -> None:
    assert repr(value) == repr(decode_json(encode_json(value)))


@given(
    st.binary(max_size=60)
    | st.text(max_size=60)
    | st.text(alphabet='{}[]":,\\u0dD8eE+-.1 ' + HIGH, max_size=30)
)
def test_any_text_is_kept_mended_or_refused_and_nothing_else_happens(text: str | bytes) -> None:
    try:
        prepared = prepare(text)
    except InvalidEntryError:
        return
    given_body = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text

    assert repr(prepared.value) == repr(decode_json(prepared.body))
    assert given_body == prepared.body or b"\\u" in given_body or b"\xed" in given_body


def test_the_value_of_a_plain_dict_is_the_callers_own_object() -> None:
    message = {"role": "user", "content": "hi"}

    assert message is prepare(message).value


@each_row("empty", [{}, {"content": ""}, {"content": []}, {"content": None}, {"content": " \n"}, {"": 0}])
def test_I10_empty_things_are_accepted(empty: dict[str, Any]) -> None:
    assert_kept(prepare(empty), empty)


def test_I17_escapes_and_spaces_of_a_given_text_are_not_normalised() -> None:
    text = b' {"sig":"\\u0041\\/\\u00e9\xc3\xa9\\ud83d\\ude00", "n":\t1E2 }\n'
    prepared = prepare(text)

    assert text == prepared.body
    assert {"sig": "A/éé😀", "n": 100.0} == prepared.value
    assert not prepared.replaced


# I-01: surrogates


@each_row(
    ("text", "expected"),
    [
        (HIGH, "\ufffd"),
        (f"a{LOW}b", "a\ufffdb"),
        (HIGH + HIGH, "\ufffd\ufffd"),
        (LOW + HIGH, "\ufffd\ufffd"),
        (HIGH + HIGH + LOW, "\ufffd😀"),
    ],
)
@each_row("form", ["dict", "raw text", "escaped text", "escaped bytes"])
def test_I01_a_lone_surrogate_is_replaced_and_flagged(text: str, expected: str, form: str) -> None:
    forms: dict[str, Any] = {
        "dict": {"content": [text]},
        "raw text": json.dumps({"content": [text]}, ensure_ascii=False),
        "escaped text": json.dumps({"content": [text]}),
        "escaped bytes": json.dumps({"content": [text]}).encode(),
    }
    prepared = prepare(forms[form])

    assert {"content": [expected]} == prepared.value == decode_json(prepared.body)
    assert prepared.replaced


@each_row("message", [{f"{LOW}k": 1}, '{"\\ude00k":1}', f'{{"{LOW}k":1}}', b'{"\\uDE00k":1}'])
def test_I01_a_lone_surrogate_in_a_key_is_replaced_too(message: Any) -> None:
    assert Prepared(b'{"\xef\xbf\xbdk":1}', {"\ufffdk": 1}, True) == prepare(message)


@each_row("text", ['{"a":"\\ud83d\\ude00"}', b'{"a":"\\uD83D\\uDE00"}', '{"a":"😀"}'])
@each_row("strict", [False, True])
def test_I01_a_pair_of_surrogate_escapes_is_a_normal_character(text: str | bytes, strict: bool) -> None:
    prepared = prepare(text, strict=strict)

    assert (text if isinstance(text, bytes) else text.encode()) == prepared.body
    assert {"a": "😀"} == prepared.value
    assert not prepared.replaced


@each_row("message", [{"a": f"x{HIGH}{LOW}"}, f'{{"a":"x{HIGH}{LOW}"}}', f'{{"a":"x{HIGH}\\ude00"}}'])
def test_I01_a_pair_of_surrogate_code_points_is_the_character_it_means_and_not_flagged(message: Any) -> None:
    assert Prepared('{"a":"x😀"}'.encode(), {"a": "x😀"}, False) == prepare(message)
    assert "$.a" == refused(message, strict=True).path


@each_row(
    ("message", "path"),
    [
        ({"content": [{"text": "ok"}, {"text": "no" + HIGH}]}, "$.content[1].text"),
        ('{"content":["\\ud83d"]}', "$.content[0]"),
        (b'{"content":["\\ud83d"]}', "$.content[0]"),
        (f'{{"content":["{HIGH}"]}}', "$.content[0]"),
        ({"x": {"k" + HIGH: 1}}, '$.x["k\\ud83d"]'),
    ],
)
def test_I01_strict_refuses_a_lone_surrogate_with_its_path(message: Any, path: str) -> None:
    error = refused(message, strict=True)

    assert path == error.path
    assert "surrogate U+D83D" in error.reason
    str(error).encode()  # an error can be printed and logged


@each_row("message", [{HIGH: 1, LOW: 2}, '{"\\ud800":1,"\\ufffd":2}', {"\ufffd": 1, LOW: 2}])
def test_I01_keys_that_become_equal_by_the_replacement_are_refused(message: Any) -> None:
    assert "two keys equal" in refused(message).reason


@given(with_surrogates, with_surrogates)
def test_I01_each_lone_surrogate_becomes_one_replacement_character(key: str, text: str) -> None:
    message = {key: [text]}
    joined = json.loads(json.dumps(message))  # the escapes of a pair are read as one character
    expected = json.loads(
        json.dumps(joined, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    prepared = prepare(message)

    assert expected == prepared.value == decode_json(prepared.body)
    assert (expected != joined) == prepared.replaced
    assert prepared == prepare(json.dumps(message)) or prepared.body != prepare(json.dumps(message)).body


def test_I01_encode_json_refuses_surrogates_unless_told_to_replace_them() -> None:
    with pytest.raises(InvalidEntryError) as caught:
        encode_json([HIGH], what="state")

    assert "state[0]" == caught.value.path
    assert '["\ufffd"]'.encode() == encode_json([HIGH], strict=False)


# I-03 and I-12: characters that are only dangerous elsewhere


@each_row(
    "text",
    [
        "\0",
        "a\0b",
        "\x1b[31m",
        "\x7f\x80",
        "\u2028\u2029",
        "\u202e\u2066",
        "\u200b\ufeff",
        "e\u0301",
        "\U0010ffff",
        "\ufffe",
    ],
)
def test_I03_I12_nul_control_bidi_and_odd_characters_are_kept(text: str) -> None:
    message = {text: text}

    assert_kept(prepare(message), message)
    assert_kept(prepare(json.dumps(message)), message)


# I-04 to I-06: numbers


@each_row(("number", "name"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_I04_nan_and_infinity_are_refused_with_their_path(number: float, name: str) -> None:
    message = {"content": [{"a": 1.5}, {"score": [0.0, number]}]}
    for form in (message, json.dumps(message), json.dumps(message).encode()):
        error = refused(form)

        assert "$.content[1].score[1]" == error.path
        assert error.reason.startswith(f"{name} is not JSON")


@each_row("number", ["1e400", "-1e400", "1.7976931348623159e308", "1e99999999999"])
def test_I05_a_number_beyond_all_floats_is_refused_with_its_path(number: str) -> None:
    error = refused(f'{{"a":[0,{number}]}}')

    assert "$.a[1]" == error.path
    assert number in error.reason


@each_row("number", ["-0.0", "-0", "1.0", "1", "1e2", "1E+2", "1e-400", "0.1000000000000000055511", "0e999"])
def test_I05_a_number_keeps_the_text_it_was_given_in(number: str) -> None:
    text = f'{{"a":{number}}}'
    prepared = prepare(text)

    assert text.encode() == prepared.body
    assert repr(json.loads(text)) == repr(prepared.value)


@each_row("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**4300 - 1, 1 - 10**4299])
def test_I06_large_integers_are_kept_exactly(number: int) -> None:
    assert_kept(prepare({"a": number}), {"a": number})
    assert_kept(prepare(f'{{"a":{number}}}'), {"a": number})


@pytest.fixture
def int_digits() -> Iterator[Callable[[int], None]]:
    before = sys.get_int_max_str_digits()
    yield sys.set_int_max_str_digits
    sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("limit", [4300, 0, 10_000])
@pytest.mark.parametrize("digits", [4300, 4301, 5000])
def test_I06_integers_beyond_4300_digits_are_refused_whatever_python_allows(
    limit: int, digits: int, int_digits: Callable[[int], None]
) -> None:
    """Of negative ones 4300 digits are too many already: msgspec writes them but cannot read them."""
    int_digits(limit)
    number = -(10**4299) if digits == 4300 else 10 ** (digits - 1)
    for form in ({"a": {"n": number}}, '{"a":{"n":' + "-" * (number < 0) + "1" + "0" * (digits - 1) + "}}"):
        error = refused(form)

        assert "$.a.n" == error.path
        assert "4300 digits" in error.reason


def test_I06_where_python_allows_fewer_digits_the_integer_is_refused_not_lost(
    int_digits: Callable[[int], None],
) -> None:
    int_digits(640)

    assert "640 digits" in refused({"a": 10**1000}).reason
    assert "$.a" == refused(f'{{"a":{"1" * 1000}}}').path


# I-07: keys


@each_row(
    ("text", "path", "key"),
    [
        ('{"a":1,"a":2}', "$", "a"),
        ('{"a":1,"b":{"c":1,"d":2,"c":1}}', "$.b", "c"),
        ('{"a":[{},{"x":1,"\\u0078":1}]}', "$.a[1]", "x"),
        ('{\n  "a": 1,\n  "a": 1\n}', "$", "a"),
        ('{"":0,"":0}', "$", ""),
        ('{"é":0,"\\u00e9":0}', "$", "é"),
        ('{"a":{"k":1,"k":1},"b":"\\ud800"}', "$.a", "k"),
    ],
)
def test_I07_a_key_that_occurs_twice_in_one_object_is_refused(text: str, path: str, key: str) -> None:
    for form in (text, text.encode()):
        error = refused(form)

        assert path == error.path
        assert f'the key "{key}" occurs twice' == error.reason


def test_I07_the_same_key_in_different_objects_is_fine() -> None:
    text = '{"a": {"a": [{"a": "\\u00e9"}, {"a": 1}]}}'

    assert text.encode() == prepare(text).body


class Text(str):
    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


@each_row("key", [1, 1.5, True, None, b"a", (1,), Text("a"), Colour.RED])
def test_I07_a_key_that_is_no_string_is_refused_with_the_path_of_its_object(key: Any) -> None:
    error = refused({"a": [{"b": 1, key: 2}]})

    assert "$.a[0]" == error.path
    assert type(key).__name__ in error.reason


# I-08: depth


@each_row("levels", [1, 2, MAX_DEPTH - 1, MAX_DEPTH])
def test_I08_up_to_200_levels_are_accepted(levels: int) -> None:
    message = nested(levels)

    assert_kept(prepare(message), message)
    assert_kept(prepare(types.MappingProxyType(message)), message)
    assert_kept(prepare(json.dumps(message, indent=1)), message)


@each_row("levels", [MAX_DEPTH + 1, 500, 990, 1100, 9000, 100_000])
def test_I08_deeper_is_refused_with_the_path_and_never_exhausts_the_stack(levels: int) -> None:
    expected = "$.a" + "[0]" * (MAX_DEPTH - 1)
    for form in (nested(levels), nested_text(levels), nested_text(levels).encode()):
        error = refused(form)

        assert "200 levels" in error.reason
        assert expected == error.path


def test_I08_the_path_of_what_lies_too_deep_passes_keys_and_brackets_inside_strings() -> None:
    text = '{"s":"[[[{{\\"]","a":[1,{"b c":' + "[" * 300 + "]" * 300 + "}]}"

    assert '$.a[1]["b c"]' + "[0]" * 197 == refused(text).path
    assert refused(json.loads(text)).path == refused(text).path


def test_I08_brackets_inside_strings_are_not_levels() -> None:
    text = json.dumps({"a": "[{" * 500, "b": '\\"' * 300, "c": ["]}" * 500]})

    assert text.encode() == prepare(text).body


def test_I08_a_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    loop: dict[str, Any] = {"x": {}}
    loop["x"]["again"] = loop
    many: list[Any] = []
    many.extend([many] * 1000)

    assert ("$.a[0]", "this list contains itself") == (refused({"a": ring}).path, refused({"a": ring}).reason)
    assert ("$.x.again", "this dict contains itself") == (refused(loop).path, refused(loop).reason)
    assert "contains itself" in refused({"a": many}).reason


def test_I08_an_object_that_is_used_twice_is_no_ring() -> None:
    shared = {"x": [1]}
    message = {"a": shared, "b": [shared, shared]}

    assert_kept(prepare(message), message)
    assert_kept(prepare(types.MappingProxyType(message)), message)


def test_I08_depth_counts_for_an_object_that_is_met_again_deeper_down() -> None:
    shared: list[Any] = [[[]]]
    message = types.MappingProxyType({"first": shared, "then": nested(MAX_DEPTH - 1, shared)["a"]})

    assert "200 levels" in refused(message).reason
    assert "$.then" + "[0]" * (MAX_DEPTH - 2) == refused(message).path


def test_I08_brackets_that_close_again_are_counted_once() -> None:
    text = '{"a":[' + "[{}]," * 150 + '"\\ud83d\\ude00 \\/"]}'

    assert text.encode() == prepare(text).body
    assert "$.b" == refused(text[:-1] + ',"b":NaN}').path


def test_I08_a_full_stack_of_the_caller_is_not_taken_for_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(_: bytes) -> None:
        raise RecursionError

    monkeypatch.setattr(codec, "_decode", decode)
    with pytest.raises(RecursionError):
        prepare('{"a":[]}')


def test_I08_from_an_almost_full_stack_a_good_message_is_never_called_bad() -> None:
    text = nested_text(150)

    def call_at(depth: int) -> None:
        if depth:
            call_at(depth - 1)
            return
        prepare(text)
        prepare(decode_json(text.encode()))

    for depth in range(50, 1000, 50):
        try:
            call_at(depth)
        except RecursionError:
            break  # the caller's own doing, and said so


# I-09: size


def test_I09_a_message_of_exactly_the_limit_is_accepted_and_one_byte_more_is_refused() -> None:
    text = "x" * (MAX_MESSAGE_BYTES - len('{"a":""}'))

    assert MAX_MESSAGE_BYTES == len(prepare({"a": text}).body)
    for form in ({"a": text + "x"}, f'{{"a":"{text}x"}}', b'{"a":"' + text.encode() + b'x"}'):
        error = refused(form, index=3)

        assert "messages[3]" == error.path
        assert "67108864 bytes" in error.reason


def test_I09_the_limit_is_in_bytes_not_in_characters() -> None:
    assert "67108864 bytes" in refused({"a": "é" * (MAX_MESSAGE_BYTES // 2)}).reason


@each_row("leaf", [1, "x" * 1000])
def test_I09_lists_of_lists_of_the_same_lists_are_refused_before_they_fill_the_memory(leaf: Any) -> None:
    value: Any = [leaf] * 100
    for _ in range(20):
        value = [value] * 100

    assert "67108864 bytes" in refused({"a": value}).reason
    with pytest.raises(InvalidEntryError, match="67108864 bytes"):
        encode_json(value)


def test_I09_a_text_of_very_many_items_is_walked_exactly_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_MANY_ITEMS", 100)
    text = json.dumps({"a": [[1, 2.5, "x"]] * 300})

    assert Prepared(text.encode(), json.loads(text)) == prepare(text)
    assert prepare(prepare(text).value) == Prepared(encode_json(json.loads(text)), json.loads(text))
    assert "$.b" == refused(text[:-1] + ',"b":1e400}').path


def test_I09_encode_json_has_the_same_limit() -> None:
    with pytest.raises(InvalidEntryError, match=r"^state: larger than 67108864 bytes"):
        encode_json("x" * MAX_MESSAGE_BYTES, what="state")


# I-13: other types


class Items(list[Any]):
    pass


class Number(float):
    pass


class Count(int):
    pass


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    A = "a"


class Record(msgspec.Struct):
    a: int = 1


@dataclasses.dataclass
class Data:
    a: int = 1


class generic:  # the base of numpy's scalars
    pass


class float64(generic, float):
    pass


class BaseModel:
    """As pydantic's."""


class Model(BaseModel):
    pass


Point = collections.namedtuple("Point", "x y")

OTHERS: list[tuple[Any, str]] = [
    ((1, 2), "tuple is not JSON; use a list"),
    (Point(1, 2), "Point is not JSON; use a list"),
    ({1}, "set is not JSON; use a list"),
    (frozenset("a"), "frozenset is not JSON; use a list"),
    (collections.deque([1]), "deque is not JSON; use a list"),
    (b"x", "bytes is not JSON; use text, for example base64"),
    (bytearray(b"x"), "bytearray is not JSON; use text, for example base64"),
    (memoryview(b"x"), "memoryview is not JSON; use text, for example base64"),
    (datetime(2025, 1, 1, tzinfo=UTC), "datetime is not JSON; use .isoformat()"),
    (date(2025, 1, 1), "date is not JSON; use .isoformat()"),
    (timedelta(1), "timedelta is not JSON; use .total_seconds()"),
    (Decimal("1.5"), "Decimal is not JSON; use str() or float()"),
    (UUID(int=0), "UUID is not JSON; use str()"),
    (PurePosixPath("/a"), "PurePosixPath is not JSON; use str()"),
    (Data(), "Data is not JSON; use dataclasses.asdict()"),
    (Plain.A, "Plain is not JSON; use its .value"),
    (Level.HIGH, "Level is not JSON; use its .value"),
    (Colour.RED, "Colour is not JSON; use its .value"),
    (Record(), "Record is not JSON; use msgspec.to_builtins()"),
    (Model(), "Model is not JSON; use .model_dump(mode='json')"),
    (float64(1.5), "float64 is not JSON; use .item()"),
    (Number(1.5), "Number is not JSON; use float()"),
    (Count(1), "Count is not JSON; use int()"),
    (Text("x"), "Text is not JSON; use str()"),
    (msgspec.Raw(b"1"), "Raw is not JSON; use None, bool, int, float, str, list or dict"),
    (range(3), "range is not JSON; use None, bool, int, float, str, list or dict"),
    (1j, "complex is not JSON; use None, bool, int, float, str, list or dict"),
    (int, "type is not JSON; use None, bool, int, float, str, list or dict"),
    (..., "ellipsis is not JSON; use None, bool, int, float, str, list or dict"),
]


@each_row(("value", "reason"), OTHERS)
def test_I13_other_types_are_refused_with_path_name_and_advice(value: Any, reason: str) -> None:
    error = refused({"content": [0, {"x": value}]})

    assert ("$.content[1].x", reason) == (error.path, error.reason)
    with pytest.raises(InvalidEntryError, match=r"^config: ") as caught:
        encode_json(value, what="config")
    assert reason == caught.value.reason


@each_row(
    "message",
    [
        collections.OrderedDict(b=1, a=[2]),
        collections.defaultdict(list, b=1, a=[2]),
        types.MappingProxyType({"b": 1, "a": [2]}),
        collections.UserDict({"b": 1, "a": [2]}),
        collections.ChainMap({"b": 1, "a": [2]}),
        collections.Counter(),
        {"x": types.MappingProxyType({"b": collections.OrderedDict(z=1, a=2)})},
        {"x": Items([1, {"a": []}])},
    ],
)
def test_I13_mappings_and_lists_of_other_types_are_copied_when_plain_in_content(message: Any) -> None:
    prepared = prepare(message)

    assert message == prepared.value
    assert dict is type(prepared.value)
    assert list(message) == list(decode_json(prepared.body))
    assert repr(prepared.value) == repr(decode_json(prepared.body))


# What is no message


@each_row(
    "text", ["hello", "", " ", "12", '"quoted"', "[1, 2]", "null", "hello {}", b"hi", b"[]", "[" * 5000, HIGH]
)
def test_a_text_that_is_no_json_object_gets_the_advice_for_plain_text(text: str | bytes) -> None:
    error = refused(text)

    assert ("$", "not a JSON object; for plain text append {'role': 'user', 'content': ...}") == (
        error.path,
        error.reason,
    )


@each_row(
    ("message", "reason"),
    [
        (None, "not NoneType"),
        (5, "not int"),
        ([{"role": "user"}], r"append\(\*messages\)"),
        (({"role": "user"},), r"append\(\*messages\)"),
        (Record(), r"msgspec\.to_builtins"),
        (Data(), r"dataclasses\.asdict"),
        (Model(), r"\.model_dump"),
        ({"a"}, "use a list"),
    ],
)
def test_a_message_of_another_type_is_refused_with_advice(message: Any, reason: str) -> None:
    with pytest.raises(InvalidEntryError, match=reason) as caught:
        prepare(message)

    assert "$" == caught.value.path


@each_row(
    "text",
    [
        '{"a":1,}',
        '{"a":1',
        "{a:1}",
        '{"a":01}',
        '{"a":.5}',
        '{"a":+1}',
        '{"a":1}{"b":2}',
        '{"a":1} x',
        '{"a":1}]',
        "{'a':1}",
        '{"a":tru}',
        '{"a":"\n"}',
        '{"a":"\\x"}',
        '{"a":"\\ud8"}',
        "{}\0",
        '{"a":1 /**/}',
        '{"a":"\0"}',
        "{" * 5000,
    ],
)
def test_invalid_json_and_garbage_behind_it_are_refused(text: str) -> None:
    for form in (text, text.encode()):
        error = refused(form)

        assert "$" == error.path
        assert error.reason.startswith("not valid JSON: ")


def test_what_only_msgspec_refuses_is_refused_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(_: bytes) -> None:
        raise msgspec.DecodeError("some new rule")

    monkeypatch.setattr(codec, "_decode", decode)

    assert "not valid JSON: some new rule" == refused("{}").reason


@each_row(
    ("text", "reason"),
    [
        (b'{"a":"\xff"}', "not valid UTF-8 at byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8 at byte 6"),
        (b'{"\xc0\x80":1}', "not valid UTF-8 at byte 2"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark"),
        ("\ufeff{}", "begins with a byte order mark"),
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-16-le"), "UTF-16"),
        ("{}".encode("utf-16-be"), "UTF-16"),
        ("{}".encode("utf-32"), "UTF-32"),
        ("{}".encode("utf-32-be"), "UTF-32"),
    ],
)
def test_I18_text_that_is_not_utf8_without_a_mark_is_refused(text: str | bytes, reason: str) -> None:
    assert reason in refused(text).reason


# Paths


@each_row(
    ("key", "step"),
    [
        ("text", ".text"),
        ("größe", ".größe"),
        ("we ird", '["we ird"]'),
        ("a-b", '["a-b"]'),
        ("0", '["0"]'),
        ("", '[""]'),
        ('say "hi"', '["say \\"hi\\""]'),
        ("\x1b[31m", '["\\u001b[31m"]'),
        ("k" * 500, "." + "k" * 59 + "…"),
    ],
)
def test_paths_quote_keys_that_are_no_identifiers(key: str, step: str) -> None:
    assert f"$.a{step}[1]" == refused({"a": {key: [0, math.nan]}}).path


def test_a_path_begins_with_the_index_of_the_message_or_with_the_name_of_the_value() -> None:
    error = refused({"content": [math.nan]}, index=2)

    assert "messages[2].content[0]" == error.path
    assert "messages[2].content[0]: NaN is not JSON; use null (None) or a string" == str(error)
    assert "messages[0]" == refused("hello", index=0).path
    with pytest.raises(InvalidEntryError, match=r"^value\.a: "):
        encode_json({"a": math.nan})
    with pytest.raises(InvalidEntryError, match=r"^limit: "):
        encode_json(math.nan, what="limit")


def put(value: Any, bad: object, data: st.DataObject) -> tuple[Any, str]:
    """`value` with `bad` put somewhere into it, and the path of the place."""
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(list(value)))
        inner, path = put(value[key], bad, data)
        return {**value, key: inner}, f".{key}{path}"
    if isinstance(value, list) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        inner, path = put(value[at], bad, data)
        return [*value[:at], inner, *value[at + 1 :]], f"[{at}]{path}"
    return bad, ""


names = st.text("abc", min_size=1, max_size=3)
trees = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(names, trees, min_size=1, max_size=3), st.data())
def test_the_path_leads_to_the_offender_wherever_it_is(message: dict[str, Any], data: st.DataObject) -> None:
    broken, path = put(message, math.nan, data)

    assert "$" + path == refused(broken).path
    assert "$" + path == refused(json.dumps(broken)).path
    assert "$" + path == refused(collections.OrderedDict(broken)).path


# encode_json


def test_I08_encode_json_counts_levels_as_prepare_does() -> None:
    encode_json(nested(MAX_DEPTH))
    with pytest.raises(InvalidEntryError, match="200 levels"):
        encode_json(nested(MAX_DEPTH + 1))
    with pytest.raises(InvalidEntryError, match="200 levels"):
        encode_json(nested(100_000))


def test_I14_decode_json_makes_a_new_value_at_every_call() -> None:
    body = prepare({"a": []}).body
    decode_json(body)["a"].append(1)

    assert {"a": []} == decode_json(body)
