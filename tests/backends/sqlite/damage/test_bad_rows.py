"""S-51: a value that nobody wrote, in any column of any table, costs the session that it belongs to."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import clew
from tests.backends.sqlite.damage.rows import Harm, copy, harms, loosened, put
from tests.support.effort import spread, usually
from tests.support.everything import HARMED, OTHERS, Look, build, harm_done, look

SHARED = ("objects", "packs", "search_branches", "search_entries", "search_sessions")
"""Tables whose rows belong to no session."""


PARTS = usually(1, thorough=40)
"""All cases at once take longer than a test may."""


class Sound(NamedTuple):
    place: Path
    loose: Path
    schema: dict[str, str]
    said: Look


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    place = tmp_path_factory.mktemp("sound")
    (place / "files").mkdir()
    with clew.open(place / "store.db") as store:
        build(store, place / "files")
        said = look(store, place / "out")
    assert said.leaks == []
    schema = loosened(place / "store.db", place / "loose.db")
    return Sound(place / "store.db", place / "loose.db", schema, said)


def _is_shared(harm: Harm) -> bool:
    return harm.table in SHARED or (harm.table == "records" and harm.row[0] == 0)


@pytest.mark.parametrize("part", range(PARTS))
def test_s51_a_bad_value_in_any_column_costs_its_session_and_no_other(
    sound: Sound, tmp_path: Path, part: int
) -> None:
    wrong = []
    for harm in spread(list(harms(sound.place, HARMED)), 12, quick=6)[part::PARTS]:
        place = tmp_path / "harmed.db"
        if put(sound.loose, sound.schema, place, harm):
            wrong += [f"{harm}: {told}" for told in _harm_done(sound, place, tmp_path, harm)]
    assert wrong == []


def _harm_done(sound: Sound, place: Path, tmp_path: Path, harm: Harm) -> list[str]:
    try:
        store = clew.open(place)
    except clew.ClewError:
        return [] if harm.table == "meta" else ["it cannot be opened"]
    with store:
        told = harm_done(sound.said, look(store, tmp_path / "out"), is_shared=_is_shared(harm))
    if harm.table.startswith("search_"):  # it is made of the entries: what it lacks is not found, not lost
        told = [one for one in told if not one.startswith("search ")]
    return told


ROWS = {
    "a status that does not exist": "UPDATE sessions SET status = 99 WHERE sid = :sid",
    "a time that no calendar knows": "UPDATE sessions SET created = 9223372036854775807 WHERE sid = :sid",
    "a head that is nowhere": "UPDATE sessions SET branch = 123456 WHERE sid = :sid",
    "no settings": "DELETE FROM details WHERE sid = :sid",
    "settings that are none": "UPDATE details SET value = x'00' WHERE sid = :sid",
    "metadata that is no object": """UPDATE details SET value = CAST('{"metadata":[1]}' AS BLOB)
                                     WHERE sid = :sid""",
    "a run that is none": "UPDATE records SET value = x'7b7d' WHERE kind = 'run' AND sid = :sid",
}


@pytest.fixture
def place(sound: Sound, tmp_path: Path) -> Path:
    """A copy of the sound store."""
    copy(sound.place, tmp_path / "harmed.db")
    return tmp_path / "harmed.db"


def change(place: Path, statement: str) -> None:
    """`:id` and `:sid` in it are those of the harmed session."""
    with closing(apsw.Connection(str(place))) as connection:
        sid = connection.execute("SELECT sid FROM sessions WHERE id = ?", (HARMED,)).get
        connection.execute(statement, {"id": HARMED, "sid": sid})


@pytest.fixture(params=ROWS)
def harmed(request: pytest.FixtureRequest, place: Path) -> Path:
    change(place, ROWS[request.param])
    return place


def test_s51_p6_a_damaged_session_is_listed_as_such_among_the_others(harmed: Path) -> None:
    with clew.open(harmed) as store:
        found = {info.id: info for info in store.list(limit=500)}
        assert found[HARMED].damaged
        assert [found[id].damaged for id in OTHERS] == [None, None]
        assert [store.get(id).info.id for id in OTHERS] == list(OTHERS)
        with pytest.raises(clew.CorruptError):
            assert store.get(HARMED).info


def test_s51_a_damaged_session_is_named_by_verify_and_copied_by_nobody(harmed: Path) -> None:
    with clew.open(harmed) as store, clew.open("memory:") as copied:
        assert any(repr(HARMED) in problem for problem in store.verify().problems)
        with pytest.raises(clew.CorruptError, match="all others are copied"):
            clew.copy(store, copied)
        assert set(OTHERS) <= {info.id for info in copied.list(limit=500)}


def test_s51_a_damaged_session_is_saved_by_repair(harmed: Path, tmp_path: Path) -> None:
    with clew.open(harmed) as store:
        report = store.repair(to=tmp_path / "whole.db")
    assert any(lost.session == HARMED for lost in report.lost)
    with clew.open(tmp_path / "whole.db") as whole:
        assert whole.verify().problems == ()
        told = [message["content"] for message in whole.get(HARMED).messages()]
        assert f"question 0 of {HARMED}" in told


def test_s51_a_damaged_session_can_be_removed_for_good(harmed: Path) -> None:
    with clew.open(harmed) as store:
        assert store.delete(HARMED, purge=True)
        assert store.find(HARMED) is None
        assert HARMED not in {info.id for info in store.list(limit=500)}
        assert [store.get(id).info.damaged for id in OTHERS] == [None, None]


def test_s51_a_session_whose_id_is_none_can_be_removed_by_what_stands_for_it(place: Path) -> None:
    change(place, "UPDATE sessions SET id = '' WHERE id = :id")
    with clew.open(place) as store:
        (bad,) = [info for info in store.list(limit=500) if info.damaged]
        assert bad.id.startswith("(damaged session ")
        assert store.delete(bad.id, purge=True)
        assert [info.id for info in store.list(limit=500) if info.damaged] == []


def test_s51_gc_keeps_the_files_of_a_session_that_can_not_be_read(place: Path) -> None:
    change(place, "UPDATE sessions SET tree = -5 WHERE id = :id")
    with clew.open(place) as store:
        before = len(store.snapshots())
        store.gc()
        assert len(store.snapshots()) == before


def test_s51_a_cost_that_is_none_is_not_added_up(place: Path) -> None:
    change(place, "UPDATE usage SET cost = -9223372036854775808 WHERE id = 'u-' || :id")
    with clew.open(place) as store:
        assert store.usage().calls == 5


def test_s51_a_session_of_no_tree_stays_behind_alone(place: Path) -> None:
    change(place, "UPDATE sessions SET tree = 0 WHERE id = :id")
    with clew.open(place) as store, clew.open("memory:") as copied:
        with pytest.raises(clew.CorruptError):
            clew.copy(store, copied)
        assert set(OTHERS) <= {info.id for info in copied.list(limit=500)}


def test_s51_a_name_of_a_record_that_is_no_text_costs_that_record(place: Path) -> None:
    with clew.open(place) as store:
        for name in ("a", "m", "z"):
            store.get(HARMED).set_var(name, 1)
    change(place, "UPDATE records SET name = CAST(x'6dff' AS TEXT) WHERE name = 'm' AND sid = :sid")
    with clew.open(place) as store:
        assert set(store.get(HARMED).vars()) == {"a", "var", "z"}
        assert any("a name that is no text" in problem for problem in store.verify(full=True).problems)
