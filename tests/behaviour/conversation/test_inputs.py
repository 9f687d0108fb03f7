"""Bad inputs, I-01 to I-17: one verdict at the door, the same for every backend, with the JSON path."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from clew.errors import (
    CheckpointNotFoundError,
    EntryNotFoundError,
    InvalidEntryError,
    InvalidError,
    InvalidQueryError,
)
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import said, say, texts, user
from clew.testing.chain import check_chain
from tests.behaviour.calls import everything
from tests.behaviour.rows import each_session
from tests.behaviour.values import BAD_IDS, VALUES
from tests.behaviour.views import run_of
from tests.support.rows import each_row, named

NESTED = 200
"""Levels of lists and objects that a message may have."""


@dataclasses.dataclass
class APoint:
    x: int = 0


class AColour(enum.Enum):
    RED = 1


class ANumber(enum.IntEnum):
    ONE = 1


class AStruct(msgspec.Struct):
    x: int = 0


NOT_JSON: dict[str, Any] = {
    "bytes": b"x",
    "datetime": dt.datetime(2025, 1, 1, tzinfo=dt.UTC),
    "date": dt.date(2025, 1, 1),
    "timedelta": dt.timedelta(1),
    "Decimal": decimal.Decimal("1.5"),
    "set": {1},
    "tuple": (1, 2),
    "dataclass": APoint(),
    "Enum": AColour.RED,
    "IntEnum": ANumber.ONE,
    "Struct": AStruct(),
    "UUID": uuid.UUID(int=1),
    "complex": 1j,
    "object": object(),
    "function": len,
    "class": int,
    "generator": iter([1]),
    "str subclass": type("Text", (str,), {})("x"),
    "key that is no text": {1: 2},
}
NOT_JSON_BESIDE: list[Any] = [
    float("nan"), float("inf"), b"x", {1}, 1j, {1: 2}, {"a": object()}, "\ud800", [("a",)]
]  # fmt: skip
PLACES: dict[str, tuple[Callable[[Session, Any], object], Callable[[Session], Any]]] = {
    "annotation": (
        lambda s, value: s.annotate(0, note=value),
        lambda s: next(s.entries()).annotations.get("note"),
    ),
    "checkpoint": (lambda s, value: s.checkpoint("c", state=value), lambda s: s.get_checkpoint("c").state),
    "event": (lambda s, value: s.add_event("e", value), lambda s: s.events()[-1].data),
    "metadata": (lambda s, value: s.update(metadata={"m": value}), lambda s: s.info.metadata["m"]),
    "request": (lambda s, value: s.start(value), lambda s: run_of(s).request),
    "response": (lambda s, value: s.complete(value), lambda s: run_of(s).response),
    "variable": (lambda s, value: s.set_var("v", value), lambda s: s.get_var("v", "default")),
}
"""Where JSON is kept beside the messages: how it gets there, and how it is read."""
REFUSED_TEXTS = {
    "NaN": '{"a":NaN}',
    "Infinity": '{"a":Infinity}',
    "1e400": '{"a":1e400}',
    "huge integer": '{"a":' + "1" * 5000 + "}",
    "duplicate key": '{"a":{"k":1,"k":2}}',
    "too deep": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "list": "[1]",
    "text": '"a"',
    "number": "5",
    "null": "null",
    "empty": "",
    "spaces": "  ",
    "cut off": '{"a":',
    "two objects": "{}{}",
    "two lines": "{}\n{}",
    "trailing comma": '{"a":1,}',
    "single quotes": "{'a':1}",
    "comment": '{"a":1} // x',
    "byte order mark": "\ufeff{}",
    "raw control": '{"a":"\n"}',
}
REFUSED_BYTES = {
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-16 without mark": '{"a":1}'.encode("utf-16-le"),
    "latin-1": '{"a":"ü"}'.encode("latin-1"),
    "surrogate in UTF-8": b'{"a":"\xed\xa0\xbd"}',
    "overlong": b'{"a":"\xc0\x80"}',
    "NUL byte": b'{"a":1}\0',
}
HOSTILE_TEXT = (
    "\0\x01\x1b[31m\x1b]8;;http://x\x07\x7f\u200b\u202e\u2066\u2028\u2029\ufeff\ufffe\U0010ffff'\"\\</script>"
)
LONE = "\ud83d"


class TestInputs:
    """What cannot come back equal is refused before anything is written; all else comes back equal."""

    # -- I-01, I-02: surrogates

    @pytest.mark.parametrize(
        "give", [lambda m: m, json.dumps, lambda m: json.dumps(m).encode()], ids=["dict", "str", "bytes"]
    )
    def test_a_lone_surrogate_is_replaced_and_flagged(self, store: Store, s: Session, give: Any) -> None:
        """I-01: in values and keys; the entry says so; nothing stored is invalid Unicode."""
        (entry, clean) = s.append(give({"content": f"a{LONE}b", LONE: [LONE]}), user("ok"))

        assert (entry.replaced, clean.replaced) == (True, False)
        assert s.messages()[0] == {"content": "a\ufffdb", "\ufffd": ["\ufffd"]}
        assert [found.replaced for found in s.entries()] == [True, False]
        entry.raw.decode()
        check_chain(store, s)

    def test_a_surrogate_pair_is_a_character(self, s: Session) -> None:
        """I-01: two halves in a row are what they mean in JSON, and need no flag."""
        (entry,) = s.append('{"a":"\\ud83d\\ude00"}')
        (joined,) = s.append({"a": "\ud83d\ude00"})

        assert s.messages() == [{"a": "\U0001f600"}] * 2
        assert entry.raw == b'{"a":"\\ud83d\\ude00"}'
        assert (entry.replaced, joined.replaced) == (False, False)

    def test_strict_refuses_surrogates(self, s: Session) -> None:
        """I-01: with the path of the text."""
        for call in (s.append, s.append_nowait, lambda m, strict: s.replace([m], strict=strict)):
            with pytest.raises(InvalidEntryError) as caught:
                call({"a": ["x", LONE]}, strict=True)
            assert caught.value.path.endswith("a[1]")

        assert s.info.entries == 0

    def test_surrogates_never_reach_titles_and_previews(self, s: Session) -> None:
        """I-01, I-02: what is made of a message is as clean as the message."""
        say(s, "x" * 58 + f"{LONE}\U0001f600" * 100)
        info = s.info

        for text in (info.title or "", info.preview):
            text.encode()
            assert not text.rstrip("…").endswith(LONE)

    # -- I-03, I-12: characters

    def test_any_character_comes_back(self, s: Session) -> None:
        """I-03, I-12: NUL, controls, terminal sequences, bidi marks, in messages and all beside."""
        message = {"content": HOSTILE_TEXT, HOSTILE_TEXT: [HOSTILE_TEXT]}
        s.append(message)
        s.set_summary(HOSTILE_TEXT)
        s.set_var("v", HOSTILE_TEXT)
        s.update(title=HOSTILE_TEXT, model=HOSTILE_TEXT, metadata={HOSTILE_TEXT: HOSTILE_TEXT})
        s.checkpoint("c", state=HOSTILE_TEXT)
        s.annotate(0, note=HOSTILE_TEXT)

        assert s.messages() == [message]
        assert (s.summary, s.get_var("v"), s.get_checkpoint("c").state) == (HOSTILE_TEXT,) * 3
        assert (s.info.title, s.info.model) == (HOSTILE_TEXT,) * 2
        assert s.info.metadata == {HOSTILE_TEXT: HOSTILE_TEXT}
        assert next(s.entries()).annotations["note"] == HOSTILE_TEXT

    # -- I-04 to I-08: numbers, keys, depth

    @each_row(
        "number",
        [float("nan"), float("inf"), float("-inf"), 10**4300, -(10**4300)],
        ids=["NaN", "Infinity", "-Infinity", "4301 digits", "-4301 digits"],
    )
    def test_numbers_that_are_no_json_are_refused(self, s: Session, number: Any) -> None:
        """I-04, I-06: with the path of the number."""
        with pytest.raises(InvalidEntryError) as caught:
            s.append({"a": {"b": [0, number]}})

        assert caught.value.path == "$.a.b[1]"
        assert s.info.entries == 0

    def test_numbers_keep_their_value_and_type(self, s: Session) -> None:
        """I-05, I-06: beyond 2^53 and 2^63, negative zero, 1 and 1.0, the smallest and largest floats."""
        numbers = [
            2**53 + 1,
            -(2**63) - 1,
            10**4299,
            0,
            -0.0,
            1,
            1.0,
            1e2,
            5e-324,
            1.7976931348623157e308,
            0.1,
        ]
        s.append({"n": numbers})

        assert repr(s.messages()[0]["n"]) == repr(numbers)

    def test_numbers_in_text_keep_their_spelling(self, s: Session) -> None:
        """I-05: 1e2 is not 100 to those who look at the text."""
        text = '{"n":[1e2,1E2,-0.0,-0,1.10,100000000000000000000]}'
        (entry,) = s.append(text)

        assert entry.raw == text.encode()

    def test_the_order_of_keys_is_kept(self, s: Session) -> None:
        """I-07: at every depth."""
        message = {key: dict.fromkeys("zyx", 0) for key in ("b", "a", "10", "9", "")}
        s.append(message, json.dumps(message))

        assert [json.dumps(found) for found in s.messages()] == [json.dumps(message)] * 2

    def test_depth_has_a_limit(self, s: Session) -> None:
        """I-08: 200 levels are kept, one more is refused, a hundred thousand do not crash."""
        deepest: Any = {}
        for _ in range(NESTED - 2):
            deepest = [deepest]
        s.append({"a": deepest})
        assert s.messages() == [{"a": deepest}]
        endless: Any = []
        for _ in range(100_000):
            endless = [endless]
        itself: dict[str, Any] = {}
        itself["me"] = itself

        for bad in ({"a": [deepest]}, {"a": endless}, itself, '{"a":' + "[" * 200 + "]" * 200 + "}"):
            with pytest.raises(InvalidEntryError):
                s.append(bad)
        assert s.info.entries == 1
        while endless:  # taken apart by hand: Python frees it recursively
            endless = endless.pop()

    # -- I-09: size

    @pytest.mark.parametrize("size", [100_000, 2_000_000])
    def test_large_messages_are_kept(self, store: Store, s: Session, size: int) -> None:
        """I-09: a long line is no problem, alone or among small ones."""
        long = "long \U0001f600 line " * (size // 12)
        s.append(user("a"), user(long), user("b"))

        assert said(s) == ["a", long, "b"]
        assert [entry.message["content"] for entry in s.entries(newest_first=True)] == ["b", long, "a"]
        check_chain(store, s)

    def test_a_message_that_is_too_large_is_refused(self, s: Session) -> None:
        """I-09: above 64 MiB, as a dict or as text, before anything is written."""
        text = "x" * (64 * 1024 * 1024)
        for bad in (user(text), f'{{"a":"{text}"}}'):
            with pytest.raises(InvalidEntryError):
                s.append(bad)

        assert s.info.entries == 0

    # -- I-13: what is no JSON

    @each_row("value", NOT_JSON.values(), ids=NOT_JSON.keys())
    def test_what_is_no_json_is_refused_with_its_path(self, s: Session, value: Any) -> None:
        """I-13: never its repr, never pickle."""
        with pytest.raises(InvalidEntryError) as caught:
            s.append({"content": [{"a b": value}]})

        assert caught.value.path == '$.content[0]["a b"]'
        assert s.info.entries == 0

    @each_row("message", [None, 5, True, [], [user("a")], (user("a"),), {1}, 1j], ids=repr)
    def test_what_is_no_object_is_no_message(self, s: Session, message: Any) -> None:
        """I-13: the error says what a message is."""
        with pytest.raises(InvalidEntryError):
            s.append(message)

        assert s.info.entries == 0

    def test_any_mapping_is_an_object(self, s: Session) -> None:
        """JSON in content though not in type: an OrderedDict, a mapping proxy, at any depth."""
        message = {"a": [{"b": 1}]}
        s.append(MappingProxyType({"a": [OrderedDict(b=1)]}), OrderedDict(a=[MappingProxyType({"b": 1})]))

        assert s.messages() == [message, message]

    @each_row("text", REFUSED_TEXTS.values(), ids=REFUSED_TEXTS.keys())
    def test_text_that_is_no_json_object_is_refused(self, s: Session, text: str) -> None:
        """I-04, I-05, I-07, I-08: as a string and as bytes."""
        for given in (text, text.encode()):
            with pytest.raises(InvalidEntryError):
                s.append(given)

        assert s.info.entries == 0

    @each_row("data", REFUSED_BYTES.values(), ids=REFUSED_BYTES.keys())
    def test_bytes_that_are_no_utf_8_are_refused(self, s: Session, data: bytes) -> None:
        """Nothing is guessed."""
        with pytest.raises(InvalidEntryError):
            s.append(data)

        assert s.info.entries == 0

    # -- I-14: isolation

    def test_what_was_given_may_be_changed_afterwards(self, store: Store, s: Session) -> None:
        """I-14: also before an `append_nowait` was written."""
        message = {"role": "user", "content": [{"text": "a"}]}
        buffer = bytearray(b'{"content":"a"}')
        s.append(message)
        s.append_nowait(message)
        s.append_nowait(buffer)
        s.replace([message, buffer])
        s.compact([message])
        message["content"][0]["text"] = "changed"  # type: ignore[index]
        buffer[:] = b"?" * len(buffer)
        store.flush()

        original = {"role": "user", "content": [{"text": "a"}]}
        assert s.messages()[:2] == [original, {"content": "a"}]
        assert s.context()[0] == original
        s.undo()
        s.undo()
        assert s.messages()[0] == original

    # -- beside the conversation

    @each_session("value", VALUES, ids=repr)
    def test_any_json_comes_back_as_itself(self, s: Session, value: Any) -> None:
        """P17, I-03, I-06: of every type, wherever it is kept."""
        say(s, "a")
        for what, (put, get) in PLACES.items():
            put(s, value)
            assert repr(get(s)) == repr(value), what

    @each_session("what", PLACES)
    def test_what_is_kept_is_a_copy(self, s: Session, what: str) -> None:
        """I-14: whatever the caller does to what it gave or got changes nothing."""
        say(s, "a")
        put, get = PLACES[what]
        given = {"k": ["v"]}
        put(s, given)
        given["k"].append("w")
        get(s)["k"].append("x")

        assert get(s) == {"k": ["v"]}
        assert said(s) == ["a"]

    @each_session("value", NOT_JSON_BESIDE, ids=ascii)
    def test_what_is_no_json_is_refused_beside_messages_too(self, s: Session, value: Any) -> None:
        """I-01, I-04, I-13: nothing of it is kept."""
        say(s, "a")
        before = everything(s)
        for what, (put, _) in PLACES.items():
            with named(what), pytest.raises(InvalidError):
                put(s, value)
        with pytest.raises(InvalidError):
            s.run(value)

        assert everything(s) == before

    # -- numbers

    @each_session("bad", [-1, 0, True, 1.5, "3", -(2**80), None], ids=repr)
    def test_a_number_that_means_nothing_is_refused(self, store: Store, s: Session, bad: Any) -> None:
        """I-25: the error names the parameter and the value, and nothing is changed."""
        say(s, "a", "b")
        from_one: dict[str, Callable[[], object]] = {
            "limit": lambda: store.list(limit=bad),
            "limit of events": lambda: s.events(limit=bad),
            "limit of removals": lambda: store.removals(limit=bad),
            "limit of usage": lambda: s.usage_records(limit=bad),
            "max_messages": lambda: s.context(max_messages=bad),
            "max_tokens": lambda: s.context(max_tokens=bad),
        }
        from_nought: dict[str, Callable[[], object]] = {
            "after": lambda: s.events(after=bad),
            "after a call": lambda: s.usage_records(after=bad),
            "last": lambda: s.messages(last=bad),
            "last entries": lambda: list(s.entries(last=bad)),
        }
        changes: dict[str, Callable[[], object]] = {
            "keep_last": lambda: s.truncate(bad),
            "limit of documents": lambda: s.documents(limit=bad),
            "tokens": lambda: s.compact("short", tokens=bad),
            "user_turns": lambda: s.replace([user("x")], user_turns=bad),
        }
        calls = from_one if bad == 0 else from_one | from_nought | changes
        if bad is None:  # the others mean then that there is no limit
            needed = ("limit", "limit of events", "limit of removals", "limit of usage", "keep_last")
            calls = {what: calls[what] for what in needed}
        before = everything(s)
        for what, call in calls.items():
            error = InvalidError if what in changes else InvalidQueryError
            with named(what), pytest.raises(error, match=what.split()[0]) as caught:
                call()
            assert repr(bad) in str(caught.value) or type(bad).__name__ in str(caught.value), what

        assert everything(s) == before

    @each_session("large", [2**31, 2**63 - 1, 2**63, 2**80])
    def test_a_number_beyond_all_means_all(self, store: Store, s: Session, large: int) -> None:
        """Whatever numbers a database can count to; a count that is kept is refused beyond them."""
        say(s, "a", "b")
        assert s.id in [info.id for info in store.list(limit=large)]
        assert said(s) == texts(s.messages(last=large)) == texts(s.context(max_messages=large))
        assert len(list(s.entries(last=large))) == 2
        assert s.truncate(keep_last=large) is None
        if large >= 2**63:
            with pytest.raises(InvalidError):
                s.replace([user("x")], user_turns=large)
        assert said(s) == ["a", "b"]

    # -- names that cannot be names

    @each_row("bad", BAD_IDS.values(), ids=BAD_IDS.keys())
    def test_every_name_obeys_the_rules_of_ids(self, store: Store, bad: Any) -> None:
        """I-10, I-11: that of a thing that is made, too; the error names the parameter."""
        s = store.session("named")
        s.append(user("a"), key="ü" * 256)
        calls: dict[str, Callable[[], object]] = {
            "alias": lambda: s.add_alias(bad),
            "checkpoint": lambda: s.checkpoint(bad),
            "document": lambda: s.set_document(bad, b""),
            "type": lambda: s.add_event(bad),
        }
        optional: dict[str, Callable[[], object]] = {
            "id": lambda: s.add_event("e", id=bad),
            "key": lambda: s.append(user("b"), key=bad),
            "key, not waited for": lambda: s.append_nowait(user("b"), key=bad),
            "label": lambda: s.annotate(0, label=bad),
            "owner": lambda: s.run(owner=bad),
            "session": lambda: s.fork(bad),
            "task": lambda: s.start(task=bad),
            "task of a run": lambda: s.run(task=bad),
        }
        for name in ("model", "vendor", "endpoint", "source", "id"):
            optional[f"{name} of a call"] = partial(s.add_usage, **{name: bad})
        if bad != "":
            calls["stream"] = lambda: s.add_event("e", stream=bad)
        before = everything(s)
        for what, call in (calls if bad is None else calls | optional).items():
            with named(what), pytest.raises(InvalidError, match=re.split(r"\W", what)[0]):
                call()
        store.flush()

        assert everything(s) == before

    @each_session("name", ["\ud800", "a\0b", "", "x" * 513], ids=["surrogate", "NUL", "empty", "513 bytes"])
    def test_a_name_that_nothing_can_have_is_refused(self, s: Session, name: str) -> None:
        """I-01, S-02: by those who look for it as by those who set it; never with a driver's error."""
        say(s, "a")
        with pytest.raises(InvalidError):
            s.set_var(name, 1)
        for lookup in (s.get_var, s.delete_var, s.delete_checkpoint, s.remove_alias):
            with pytest.raises(InvalidError):
                lookup(name)
        with pytest.raises(InvalidError):
            list(s.entries(label=name))
        for goto in (s.rewind, s.get_checkpoint):
            with pytest.raises((InvalidError, CheckpointNotFoundError)):
                goto(name)
        with pytest.raises((InvalidError, EntryNotFoundError)):
            s.messages(after=name)

        assert said(s) == ["a"]

    def test_what_is_refused_costs_nobody_a_transaction(
        self, store: Store, s: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is checked, and what is good is encoded, before anybody else has to wait for it."""
        say(s, "a")
        bad: Any = object()
        refused: dict[str, Callable[[], object]] = {
            "add_alias": lambda: s.add_alias(bad),
            "add_event": lambda: s.add_event("t", bad),
            "add_events": lambda: s.add_events([{"type": "t", "data": bad}]),
            "add_usage": lambda: s.add_usage(input_tokens=bad),
            "annotate": lambda: s.annotate(0, note=bad),
            "annotate a label": lambda: s.annotate(0, label=bad),
            "append": lambda: s.append(bad),
            "append_nowait": lambda: s.append_nowait(bad),
            "checkpoint": lambda: s.checkpoint("c", state=bad),
            "checkpoint a name": lambda: s.checkpoint(bad),
            "compact": lambda: s.compact([user("x"), {"content": bad}]),
            "compact nothing": lambda: s.compact(" "),
            "compact tokens": lambda: s.compact("x", tokens=bad),
            "complete": lambda: s.complete(bad),
            "create": lambda: store.create(bad),
            "delete": lambda: store.delete(bad),
            "delete_checkpoint": lambda: s.delete_checkpoint(bad),
            "delete_var": lambda: s.delete_var(bad),
            "fail": lambda: s.fail(bad),
            "fork": lambda: s.fork(bad),
            "replace": lambda: s.replace([{"content": bad}]),
            "restore_deleted": lambda: store.restore_deleted(bad),
            "run": lambda: s.run(bad),
            "set_document": lambda: s.set_document("d", bad),
            "set_retention": lambda: store.set_retention(bad),
            "set_summary": lambda: s.set_summary(bad),
            "set_var": lambda: s.set_var("v", bad),
            "start": lambda: s.start(bad),
            "truncate": lambda: s.truncate(bad),
            "update": lambda: s.update(metadata={"m": bad}),
        }
        begun: list[str] = []
        backend = store._engine.backend
        write = backend.write

        def counted(certain: bool = True) -> Any:
            begun.append("one")
            return write(certain)

        monkeypatch.setattr(backend, "write", counted)
        for call in refused.values():
            with pytest.raises(InvalidError):
                call()

        assert begun == []
