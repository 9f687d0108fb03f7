"""S-31: what would cost much is refused by a limit that is known, with an error of ours that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
from clew.core.log.ids import MAX_ID_BYTES
from clew.core.messages.validate import MAX_DEPTH, MAX_MESSAGE_BYTES


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        store.create("s").append({"role": "user", "content": "word"})
        yield store


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def said(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


REFUSED: dict[str, tuple[Callable[[clew.Store], object], str]] = {
    "the id of a session": (lambda store: store.create("x" * (MAX_ID_BYTES + 1)), "512"),
    "the id of a session, in bytes": (lambda store: store.create("ä" * 257), "512"),
    "an alias": (lambda store: store.get("s").add_alias("x" * 513), "512"),
    "the name of a checkpoint": (lambda store: store.get("s").checkpoint("x" * 513), "512"),
    "a title": (lambda store: store.create("t", title="x" * 501), "500"),
    "a query": (lambda store: store.search("x" * 10_001), "10,?000"),
    "words of a query": (lambda store: store.search(" ".join(f"w{n}" for n in range(65))), "64"),
    "the depth of a message": (lambda store: store.get("s").append(said(nested(MAX_DEPTH))), "200"),
    "the depth of a text": (lambda store: store.get("s").append('{"a":' * 201 + "1" + "}" * 201), "200"),
    "an integer": (lambda store: store.get("s").append('{"a":' + "9" * 4301 + "}"), "4300"),
    "a message": (lambda store: store.get("s").append(said("x" * MAX_MESSAGE_BYTES)), "64|67"),
    "a key of a filter": (lambda store: store.list(where={"k" * 65: 1}), "64"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_s31_what_is_beyond_a_limit_is_refused_and_the_limit_is_named(store: clew.Store, what: str) -> None:
    work, limit = REFUSED[what]
    with pytest.raises(clew.InvalidError, match=limit):
        work(store)
    assert store.get("s").messages() == [said("word")]


def test_s31_what_is_at_a_limit_is_taken(store: clew.Store) -> None:
    session = store.create("x" * MAX_ID_BYTES, title="x" * 500)
    session.append(said(nested(MAX_DEPTH - 2)))
    assert session.messages() == [said(nested(MAX_DEPTH - 2))]
    store.search("x" * 10_000)
    store.search(" ".join(f"w{n}" for n in range(64)))


def test_s31_a_page_has_the_size_that_was_asked_for(store: clew.Store) -> None:
    for number in range(7):
        store.create(f"n{number}").append(said("word"))
    assert len(store.list(limit=5)) == 5
    assert len(store.search("word", limit=5)) == 5
