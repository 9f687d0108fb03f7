"""The pictures of the page can be taken again: every view that they show is there, with the demo store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import clew
from tests.support.rows import named
from tools.pictures.demo_store import NOW, make
from tools.pictures.page import VIEWS, demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_picture_of_every_view_can_be_taken(browser: Browser, tmp_path: Path) -> None:
    with demo(tmp_path, browser) as show:
        for name in VIEWS:
            with named(name):
                assert show(name, "light").locator("[role=alert]").count() == 0


def test_the_demo_store_is_whole_and_has_something_of_everything(tmp_path: Path) -> None:
    with clew.open(str(make(tmp_path, NOW))) as store:
        assert store.verify().ok
        infos = store.list(limit=100)
        assert {"running", "completed", "failed", "interrupted"} == {info.status for info in infos}
        assert len({info.agent for info in infos}) > 6
        assert any(info.parent for info in infos)
        assert len(store.snapshots()) > 4
        assert max(info.updated_at for info in infos) < NOW
