"""A store with sessions of real agents, and homes in which others go on with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from tests.exporters.recorded import PLACES
from tests.home.make import make_home


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clew.Store]:
    home = make_home(tmp_path_factory.mktemp("ana") / "home")
    with clew.open("memory:") as store:
        for place in PLACES:
            store.import_path(home / place)
        yield store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    place = tmp_path / "my shop.d"
    place.mkdir()
    return place
