"""Places that the system does not tell of."""

from __future__ import annotations

import os
from pathlib import Path

from clew.importers.follow import polling
from clew.importers.follow.polling import Polled


def test_what_changed_since_the_last_look(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.jsonl", "deep/b.jsonl", "logs.db"):
        (tmp_path / name).write_text("x")
    polled = Polled(str(tmp_path))
    assert polled.look() == []
    before = (tmp_path / "a.jsonl").stat()
    (tmp_path / "a.jsonl").write_text("xy")
    os.utime(tmp_path / "a.jsonl", ns=(before.st_atime_ns, before.st_mtime_ns))  # a clock that is not fine
    os.replace(tmp_path / "deep" / "b.jsonl", tmp_path / "deep" / "c.jsonl")
    (tmp_path / "logs.db-wal").write_text("x")
    changed = {str(tmp_path / name) for name in ("a.jsonl", "deep/c.jsonl", "logs.db")}
    assert set(polled.look()) == changed
    assert polled.look() == []
    (tmp_path / "deep" / "c.jsonl").unlink()
    (tmp_path / "logs.db-shm").write_text("x")
    assert polled.look() == []


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    polled = Polled(str(tmp_path / "up" / "logs.db"))
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "logs.db").write_text("x")
    assert polled.look() == [str(tmp_path / "up" / "logs.db")]


def test_a_look_that_takes_long_comes_less_often(tmp_path: Path) -> None:
    times = iter([0.0, 0.0, 10.0, 10.1, 20.0, 29.0])
    polled = Polled(str(tmp_path), lambda: next(times))
    assert polled.due == polling.SHORTEST
    polled.look()
    assert polled.due == 10.1 + (10.1 - 10.0) * 50
    polled.look()
    assert polled.due == 29.0 + polling.LONGEST
