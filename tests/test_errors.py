"""An error names the thing that it is about, and the value that caused it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends import registry
from clew.backends.sqlite import SqliteBackend
from clew.testing.backend.base import user


@pytest.fixture
def store() -> clew.Store:
    """A session with a checkpoint, an alias, an event and a call."""
    store = clew.open("memory:")
    s = store.session("s")
    s.append(user("a"))
    s.checkpoint("cp")
    s.add_alias("alias")
    s.add_event("t", 1, id="e")
    s.add_usage(input_tokens=1, id="u")
    return store


WORDS: dict[str, tuple[Callable[[clew.Store], object], str]] = {
    "files of a checkpoint": (
        lambda store: store.get("s").rewind("cp", files=True),
        (
            "checkpoint 'cp' of session 's' has no files"
            " (an export holds no files: those of an imported session stayed behind)"
        ),
    ),
    "files before a position": (
        lambda store: store.get("s").restore_files(0),
        (
            "session 's' has no checkpoint with files at or before 0"
            " (an export holds no files: those of an imported session stayed behind)"
        ),
    ),
    "resume": (lambda store: store.get("s").resume(), "session 's' has no checkpoint that a run set"),
    "get_checkpoint": (lambda store: store.get("s").get_checkpoint("x"), "session 's' has no checkpoint 'x'"),
    "rewind to a name": (
        lambda store: store.get("s").rewind("x"),
        "session 's' has no checkpoint or entry 'x'",
    ),
    "rewind to a position": (lambda store: store.get("s").rewind(9), "session 's' has no position 9"),
    "create": (
        lambda store: store.create("alias"),
        "session 'alias' cannot be made: this is an alias of 's'",
    ),
    "fork": (
        lambda store: store.get("s").fork("alias"),
        "session 'alias' cannot be made: this is an alias of 's'",
    ),
    "fork to an id": (lambda store: store.get("s").fork("s"), "session 's' exists already"),
    "event": (
        lambda store: store.get("s").add_event("t", 2, id="e"),
        "event id 'e' of session 's' was used for something else; nothing was written",
    ),
    "usage": (
        lambda store: store.get("s").add_usage(input_tokens=2, id="u"),
        "usage id 'u' of session 's' was used for something else; nothing was written",
    ),
}


@pytest.mark.parametrize("what", WORDS)
def test_the_message_has_the_real_noun_and_value(store: clew.Store, what: str) -> None:
    call, message = WORDS[what]
    with pytest.raises(clew.ClewError) as raised:
        call(store)
    assert message == str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nope": 1, "timeout": 2.0}, "a sqlite store has no option 'nope'; there is durability, read_only"),
        ({"timeout": "x"}, "timeout of a sqlite store is a number of seconds, not 'x'"),
        ({"timeout": -1}, "timeout of a sqlite store is a number of seconds from 0 on, not -1"),
        ({"timeout": None}, "timeout of a sqlite store is a number of seconds, not None"),
        ({"read_only": "no"}, "read_only of a sqlite store is True or False, not 'no'"),
        ({"durability": 3}, "durability of a sqlite store is a text, not 3"),
    ],
)
def test_only_an_unknown_option_is_called_unknown(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """And one of the wrong kind is told what it should be. Nothing is made."""
    with pytest.raises(clew.errors.InvalidUrlError) as raised:
        clew.open(tmp_path / "a.db", **options)
    assert str(raised.value).startswith(message)
    assert [] == list(tmp_path.iterdir())


def test_a_mistake_in_a_backend_is_not_taken_for_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks for it needs the real error."""

    def mistaken(self: SqliteBackend) -> None:
        raise TypeError("unsupported operand")

    monkeypatch.setattr(SqliteBackend, "_open", mistaken)
    with pytest.raises(TypeError, match="unsupported operand"):
        registry.connect(tmp_path / "a.db", timeout=1.0)
