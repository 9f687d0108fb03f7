"""S-51: a value that nobody wrote, in any field of any line, costs the session that it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import clew
from tests.everything import HARMED, Look, build, harm_done, look
from tests.jsonl.harm import Harm, harms, put
from tests.thoroughness import spread, usually

PARTS = usually(1, thorough=80)
"""All cases at once take longer than a test may."""


class Sound(NamedTuple):
    place: Path
    said: Look


@pytest.fixture
def sound(fast_path: Path) -> Sound:
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
    for harm in spread(list(harms(sound.place, HARMED)), 12)[part::PARTS]:
        place = fast_path / "harmed"
        put(sound.place, place, harm)
        wrong += [f"{harm}: {told}" for told in _harm_done(sound, place, fast_path, harm)]
    assert wrong == []


def _harm_done(sound: Sound, place: Path, fast_path: Path, harm: Harm) -> list[str]:
    try:
        store = clew.open(f"jsonl:///{place}")
    except clew.ClewError as error:
        return [f"it can not be opened: {error}"]
    with store:
        now = look(store, fast_path / "out")
    told = harm_done(sound.said, now, is_shared="sessions/" not in harm.file)
    if "sessions/" in harm.file and HARMED not in now.said["list"]:
        told.append("the session is not listed")
    return told
