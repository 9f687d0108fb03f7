"""The pictures of the page can be taken again: every view that they show is there, with the demo store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from tools.pictures.demo_store import NOW, make
from tools.pictures.page import VIEWS, demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def show(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Page]]:
    with demo(tmp_path_factory.mktemp("pictures"), browser) as opened:
        yield opened


@pytest.mark.parametrize("name", VIEWS)
def test_a_picture_of_a_view_can_be_taken(show: Callable[[str, str], Page], name: str) -> None:
    page = show(name, "light")
    assert page.locator("[role=alert]").count() == 0


def test_the_demo_store_is_whole_and_has_something_of_everything(tmp_path: Path) -> None:
    with clew.open(str(make(tmp_path, NOW))) as store:
        assert store.verify().ok
        infos = store.list(limit=100)
        assert {"running", "completed", "failed", "interrupted"} == {info.status for info in infos}
        assert len({info.agent for info in infos}) > 6
        assert any(info.parent for info in infos)
        assert len(store.snapshots()) > 4
        assert max(info.updated_at for info in infos) < NOW
