"""Frames as bytes, and ids as text: what goes out, and what may come back."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.log.ids import MAX_POSITION, is_id
from clew.model import Head
from clew.server.live import sse
from clew.server.live.event_ids import LONGEST, NOWHERE, Vector, place_id, place_of, vector_id
from clew.server.problems import Problem
from tests.server.live.client import Parser

PLACES = st.builds(Head, st.text(min_size=1).filter(is_id), st.integers(0, MAX_POSITION))


def test_a_frame_is_written_exactly() -> None:
    assert sse.frame("entry", {"a": "b\n"}, "x.1") == b'event: entry\nid: x.1\ndata: {"a":"b\\n"}\n\n'
    assert sse.frame("gone", {}) == b"event: gone\ndata: {}\n\n"
    assert sse.farewell("stopping") == b'retry: 1000\nevent: bye\ndata: {"reason":"stopping"}\n\n'
    assert sse.HELLO == b"retry: 1000\n: hello\n\n"


@pytest.mark.parametrize(
    ("event", "id"), [("a\nb", None), ("", None), ("a", "x\ny"), ("a", "x\0"), ("a", "é")]
)
def test_what_would_break_a_frame_is_refused(event: str, id: str | None) -> None:
    with pytest.raises(ValueError, match="event"):
        sse.frame(event, {}, id)


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_any_value_arrives_as_it_was(value: object) -> None:
    parser = Parser()
    (event,) = parser.feed(b": hi\n\n" + sse.frame("entry", value, "a.1"))

    assert (event.event, event.data, event.id) == ("entry", value, "a.1")


@given(PLACES)
def test_a_place_is_found_again_by_its_id(place: Head) -> None:
    """Whatever a branch is called, in a store that came from elsewhere."""
    id = place_id(place)

    assert id.isascii()
    assert id.isprintable()
    assert " " not in id
    assert place_of(id) == place
    assert place_id(NOWHERE) == "start"
    assert place_of("start") == NOWHERE


def test_a_usual_id_is_the_id_of_its_entry() -> None:
    assert place_id(Head("01k-ab_c", 17)) == "01k-ab_c.17"


@given(st.dictionaries(st.text(min_size=1).filter(is_id), PLACES, max_size=8))
def test_places_of_several_sessions_are_found_again(places: dict[str, Head]) -> None:
    vector = Vector(vector_id(places))

    assert {id: vector.place(id) for id in places} == places
    assert vector.place("another \0") is None


ODD = st.text() | st.text("%v1.start0A_-é\n\0", max_size=30) | st.binary().map(lambda b: b.decode("latin-1"))


@given(ODD)
def test_any_text_is_a_place_or_refused(text: str) -> None:
    """S-37: nothing else happens."""
    for read in (place_of, Vector):
        with suppress(Problem):
            read(text)


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(Problem):
        place_of("a" * LONGEST + ".1")
    with pytest.raises(Problem):
        Vector("v1." + "e" * LONGEST)
