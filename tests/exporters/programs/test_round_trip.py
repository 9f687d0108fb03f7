"""Whatever another agent can have written: imported and exported it is the same again."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.exporters.programs import ductwork as to_ductwork
from clew.exporters.programs import ggcode as to_ggcode
from clew.exporters.programs import picoclaw as to_picoclaw
from clew.importers.programs import ductwork as from_ductwork
from clew.importers.programs import ggcode as from_ggcode
from clew.importers.programs import picoclaw as from_picoclaw
from tests.importers.landing import bring_one
from tests.support.effort import usually

# Go writes no lone surrogates, and floats in another way: what is left comes back to the byte.
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
SCALAR = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
TIME = st.sampled_from(
    ["0001-01-01T00:00:00Z", "2026-08-01T09:00:00.000000001+08:00", "2026-08-01T09:00:00.5Z"]
)


def go(value: Any, *, html: bool, indent: int | None = None) -> str:
    """As Go writes it; another way than that of the exporter."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=(",", ": " if indent else ":"))
    for letter in "\u2028\u2029" + ("<>&" if html else ""):
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def there_and_back(reader: ModuleType, exporter: ModuleType, name: str, text: str, **beside: str) -> str:
    with TemporaryDirectory() as folder, clew.open("memory:") as store:
        for suffix, content in beside.items():
            Path(folder, f"x.{suffix}.json").write_text(content)
        path = Path(folder, name)
        path.write_bytes(text.encode())
        s = bring_one(store, reader, path)
        return b"".join(exporter.pieces(store, s.id)).decode()


def merged(*fields: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One object with the fields of several. Made once: what is made while it draws is checked each time."""
    return st.tuples(*fields).map(lambda drawn: {name: value for one in drawn for name, value in one.items()})


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def says(content: st.SearchStrategy[Any], *roles: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"role": st.sampled_from(roles), "content": content})


CHAT = merged(says(TEXT, "user", "assistant", "system", "tool"), maybe(reasoning_content=TEXT, x=VALUE))
BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}) | st.fixed_dictionaries(
    {"type": st.just("tool_use"), "tool_name": st.just("f"), "tool_id": TEXT, "input": VALUE}
)
BLOCKS = merged(says(st.lists(BLOCK, max_size=3), "user", "assistant"), maybe(x=VALUE))
OBJECT = st.dictionaries(TEXT, VALUE, max_size=2)
HELD: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "message": ("message", BLOCKS),
    "checkpoint": ("checkpoint_messages", st.lists(BLOCKS, max_size=2)),
    "tunnel_event": ("tunnel_event", OBJECT),
    "cost": ("cost", OBJECT),
    "usage": ("usage_entry", OBJECT),
    "unheard_of": ("unheard_of", OBJECT),
}
"""By type of a record of ggcode: the field that holds what it says."""
RECORD = st.sampled_from(["message", *HELD]).flatmap(
    lambda kind: merged(
        st.just({"type": kind}),
        maybe(session_id=st.just("x")),
        st.fixed_dictionaries({HELD[kind][0]: HELD[kind][1]}),
        maybe(timestamp=TIME),
    )
)


@settings(max_examples=usually(60, quick=20, thorough=1000))
@given(messages=st.lists(CHAT, min_size=1, max_size=6), skip=st.integers(0, 7))
def test_a_log_of_picoclaw(messages: list[dict[str, Any]], skip: int) -> None:
    log = "".join(go(message, html=True) + "\n" for message in messages)
    meta = json.dumps({"key": "x", "summary": "s", "skip": skip})
    assert there_and_back(from_picoclaw, to_picoclaw, "x.jsonl", log, meta=meta) == log


@settings(max_examples=usually(60, quick=20, thorough=1000))
@given(told=st.lists(RECORD, max_size=8))
def test_a_log_of_ggcode(told: list[dict[str, Any]]) -> None:
    meta = {"type": "meta", "session_id": "x", "title": "T"}
    log = "".join(go(record, html=False) + "\n" for record in [meta, *told])
    assert there_and_back(from_ggcode, to_ggcode, "x.jsonl", log) == log


@settings(max_examples=usually(60, quick=20, thorough=1000))
@given(
    said=st.lists(TEXT, max_size=4),
    iteration=st.integers(0, 99),
    more=st.dictionaries(TEXT, VALUE, max_size=2),
)
def test_a_run_of_ductwork(said: list[str], iteration: int, more: dict[str, Any]) -> None:
    messages = [{"content": [{"text": text, "type": "text"}], "role": "user", "x": more} for text in said]
    run = {
        "run_id": "r",
        "task_name": "t",
        "iteration": iteration,
        "messages": messages,
        "system_prompt": "p",
    }
    text = go(run, html=True, indent=2)
    assert there_and_back(from_ductwork, to_ductwork, "r.json", text) == text
