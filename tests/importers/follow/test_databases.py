"""A database that its program writes to is followed row by row: its log changes each time, and is no reason
to read all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.importers.sync import Sync
from tests.support.agents import OpenCode, differences, said_in


def test_only_the_session_that_got_something_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = OpenCode(tmp_path, 1, longest=5)
    while len(agent.said) < 5:
        agent.say()
    with clew.open(tmp_path / "s.db") as store:
        sync = Sync(lambda *, writes: store, None)
        assert len(sync.all().sessions) == 5
        for again in range(4):
            agent.say()
            if again == 2:  # as after a restart
                sync = Sync(lambda *, writes: store, None)
            report = sync.some([f"{agent.path}-wal"])
            assert report.entries == 2
            assert len(report.sessions) == 1
        assert differences([agent], said_in(store), is_all=True) == []
