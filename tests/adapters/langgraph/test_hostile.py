"""S-03, S-04: a thread of LangGraph that somebody else wrote runs nothing of theirs."""

from __future__ import annotations

import enum
import pickle
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.documents import is_data_class
from tests.adapters.langgraph.talk import put, thread, values
from tests.adapters.langgraph.test_state import Bird, Plan


class Colour(enum.Enum):
    RED = "red"


Pair = namedtuple("Pair", ["a", "b"])


class Forged:
    """A value that is kept as these bytes, whatever a serializer would write."""

    def __init__(self, code: int, *parts: Any) -> None:
        self.packed = ormsgpack.Ext(code, ormsgpack.packb(parts))


def stored(store: clew.Store, monkeypatch: pytest.MonkeyPatch, forged: Forged) -> Any:
    """A thread with that value, as a hostile program would write it."""
    really = jsonplus._msgpack_default
    with monkeypatch.context() as patched:
        patched.setattr(
            jsonplus, "_msgpack_default", lambda one: one.packed if isinstance(one, Forged) else really(one)
        )
        return put(ClewSaver(store), thread(), {"value": forged, "list": [forged]})


def attacks(mark: Path) -> dict[str, Forged]:
    command = f": > {mark}"
    return {
        "a function, one argument": Forged(0, "os", "system", command),
        "a function, arguments": Forged(1, "os", "system", [command]),
        "a function, named arguments": Forged(2, "subprocess", "call", {"args": command, "shell": True}),
        "a class that starts a program": Forged(2, "subprocess", "Popen", {"args": command, "shell": True}),
        "a built-in": Forged(0, "builtins", "exec", f"open({str(mark)!r}, 'w')"),
        "a method": Forged(3, "os", "path", command, "system"),
        "a model that is none": Forged(4, "subprocess", "Popen", {"args": command, "shell": True}),
        "another one": Forged(5, "subprocess", "Popen", {"args": command, "shell": True}),
        "through a module of another": Forged(0, "logging", "os.system", command),
        "a module to import": Forged(2, "hostile_module", "Plan", {"steps": []}),
    }


@pytest.mark.parametrize("attack", attacks(Path("x")))
def test_s03_s04_a_value_that_names_a_program_is_only_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "hostile_module.py").write_text(f"open({str(mark)!r}, 'w')\nclass Plan: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with clew.open("memory:") as store:
        config = stored(store, monkeypatch, attacks(mark)[attack])
        found = values(ClewSaver(store), config)
    assert not mark.exists()
    assert "hostile_module" not in sys.modules
    assert isinstance(found["value"], (str, list, dict))


def test_s03_with_langgraphs_own_rule_the_same_value_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above means something."""
    mark = tmp_path / "mark"
    with clew.open("memory:") as store:
        config = stored(store, monkeypatch, attacks(mark)["a function, one argument"])
        values(ClewSaver(store, serde=JsonPlusSerializer(allowed_msgpack_modules=True)), config)
    assert mark.exists()


class Exploit:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return open, (self.mark, "w")


def test_s03_s04_a_pickle_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    pickled = pickle.dumps(Exploit(str(mark)))
    with clew.open("memory:") as store:
        with monkeypatch.context() as patched:
            patched.setattr(JsonPlusSerializer, "dumps_typed", lambda self, value: ("pickle", pickled))
            config = put(ClewSaver(store), thread(), {"value": 1})
        with pytest.raises((clew.ClewError, NotImplementedError)):
            values(ClewSaver(store), config)
    assert not mark.exists()


def test_s03_classes_of_data_that_the_program_has_are_made_again() -> None:
    kept = {"plan": Plan(["look"]), "bird": Bird(name="owl"), "colour": Colour.RED, "pair": Pair(1, 2)}
    with clew.open("memory:") as store:
        assert values(ClewSaver(store), put(ClewSaver(store), thread(), kept)) == kept


def test_s03_a_class_is_one_of_data_only_under_its_own_name() -> None:
    assert is_data_class(Plan, Plan.__module__, "Plan")
    assert not is_data_class(Plan, "elsewhere", "Plan")
    assert not is_data_class(Path, "pathlib", "Path")
    assert not is_data_class(None, "builtins", "nothing")
