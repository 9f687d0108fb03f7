"""S-51: a value that nobody wrote, in any field of any line, costs the session that it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import clew
from clew.core.log import jsonl
from tests.backends.jsonl.damage.lines import Harm, harms, put
from tests.backends.jsonl.stores import said, without_index
from tests.support.effort import spread, usually
from tests.support.everything import HARMED, Look, build, harm_done, look

PARTS = usually(1, thorough=80)
"""All cases at once take longer than a test may."""


class Sound(NamedTuple):
    place: Path
    said: Look


@pytest.fixture
def sound(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sound:
    monkeypatch.setattr("clew.core.transfer.write.PAUSE", 0)  # nobody writes meanwhile
    (fast_path / "files").mkdir()
    place = fast_path / "sound"
    with clew.open(f"jsonl:///{place}") as store:
        build(store, fast_path / "files")
        said = look(store, fast_path / "out")
    assert said.leaks == []
    return Sound(place, said)


@pytest.mark.parametrize("part", range(PARTS))
def test_s51_a_bad_value_in_any_line_costs_its_session_and_no_other(
    sound: Sound, fast_path: Path, part: int
) -> None:
    wrong = []
    for harm in spread(list(harms(sound.place, HARMED)), 12, quick=5)[part::PARTS]:
        place = fast_path / "harmed"
        put(sound.place, place, harm)
        wrong += [f"{harm}: {told}" for told in _harm_done(sound, place, fast_path, harm)]
    assert wrong == []


def _harm_done(sound: Sound, place: Path, fast_path: Path, harm: Harm) -> list[str]:
    try:
        store = clew.open(f"jsonl:///{place}")
    except clew.errors.SchemaTooNewError:
        return [] if harm.file == "store.jsonl" and harm.field == ("format",) else ["it cannot be opened"]
    except clew.ClewError as error:
        return [f"it cannot be opened: {error}"]
    with store:
        now = look(store, fast_path / "out")
    told = harm_done(sound.said, now, is_shared="sessions/" not in harm.file)
    is_of_other_version = harm.kind == "log" and harm.field == ("format",)  # such a log is not read at all
    if "sessions/" in harm.file and HARMED not in now.said["list"] and not is_of_other_version:
        told.append("the session is not listed")
    return told


KINDS = [
    ("details",),
    ("session",),
    ("session", "branch"),
    ("log", "session", "branch"),
    ("log", "session", "branch", "entry"),
]


@pytest.mark.parametrize("id", ["two", "empty"])
@pytest.mark.parametrize("are_gone", [False, True], ids=["bad", "gone"])
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_s51_a_session_without_lines_that_it_needs_is_listed_and_costs_no_other(
    fast_path: Path, kinds: tuple[str, ...], are_gone: bool, id: str
) -> None:
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        for name in ("one", "two", "three"):
            store.session(name, title=name).append({"role": "user", "content": f"said in {name}"})
        store.session("empty").set_summary("not quite")
    _lose(place / "sessions" / f"{id}.jsonl", kinds, are_gone=are_gone)
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert {"one", "three", id} <= {info.id for info in store.list()}
        assert said(store, "one") == ["said in one"]
        assert store.delete(id, purge=True)
        assert id not in {info.id for info in store.list()}


def _lose(log: Path, kinds: tuple[str, ...], *, are_gone: bool) -> None:
    """Make the lines of these kinds such as nobody writes; or remove those that do not end a batch."""
    text = b""
    for raw in log.read_bytes().splitlines():
        is_last, inside = jsonl.open_line(raw)
        if (kind := jsonl.fields_of(inside)["kind"]) in kinds:
            if are_gone and not is_last:
                continue
            inside = b'"kind":"%s","sid":"no"}' % kind.encode()
        text += jsonl.finish(inside, is_last=is_last)
    log.write_bytes(text)


def test_s51_metadata_that_is_none_costs_its_session(fast_path: Path) -> None:
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        for name in ("one", "two"):
            store.session(name, metadata={"of": name}).append({"role": "user", "content": name})
    log = place / "sessions" / "two.jsonl"
    text = b""
    for raw in log.read_bytes().splitlines():
        is_last, inside = jsonl.open_line(raw)
        text += jsonl.finish(inside.replace(b'{"of":"two"}', b"1.5"), is_last=is_last)
    log.write_bytes(text)
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert {"one", "two"} == {info.id for info in store.list()}
        assert store.get("one").info.metadata == {"of": "one"}
        assert any("two.jsonl" in problem for problem in store.verify().problems)


def test_s51_a_log_of_a_newer_version_costs_its_session(fast_path: Path) -> None:
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        for name in ("one", "two"):
            store.session(name).append({"role": "user", "content": name})
    log = place / "sessions" / "two.jsonl"
    first, _, rest = log.read_bytes().partition(b"\n")
    is_last, inside = jsonl.open_line(first)
    newer = inside.replace(b'"format":1', b'"format":2')
    log.write_bytes(jsonl.finish(newer, is_last=is_last) + rest)
    before = log.read_bytes()
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert [info.id for info in store.list()] == ["one"]
        assert any("two.jsonl" in problem and "upgrade" in problem for problem in store.verify().problems)
        with pytest.raises(clew.BackendError, match="may hold session 'two'"):
            store.session("two")
    assert log.read_bytes() == before
