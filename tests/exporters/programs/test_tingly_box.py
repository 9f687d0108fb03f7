"""Export to tingly-box: the rows of its tables, as they were."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import tingly_box as exporter
from clew.exporters.programs.shapes import go_time
from clew.importers.programs import tingly_box as reader
from tests.importers.landing import bring

TIME = "2026-02-10T09:15:04+08:00"
ROWS = [
    ("s1", "completed", "fix it", "done", "", TIME, TIME, "0001-01-01T00:00:00Z", '{"project_path":"/w"}'),
    ("s2", "failed", "", "", "no", TIME, "2026-02-11T09:15:04+08:00", "2026-02-12T09:15:04+08:00", ""),
]
SAID = [
    (3, "s1", "user", "hi", "", TIME),
    (4, "s2", "user", "other <b>", "", TIME),
    (7, "s1", "assistant", "long", "short", "2026-02-10T09:15:03+08:00"),
    (9, "lost", "user", "nobody's", "", TIME),
]


def content(path: Path) -> tuple[list[Any], list[Any]]:
    with closing(sqlite3.connect(path)) as db:
        sessions = list(db.execute("SELECT * FROM remote_cc_sessions ORDER BY id"))
        return sessions, list(db.execute("SELECT * FROM remote_cc_messages ORDER BY id"))


def empty(folder: Path) -> Path:
    """The export of nothing has the tables."""
    with clew.open("memory:") as store:
        return Path(exporter.write(store, [], folder / "in.db"))


def source(folder: Path, rows: list[Any] = ROWS, said: list[Any] = SAID) -> Path:
    path = empty(folder)
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany("INSERT INTO remote_cc_sessions VALUES (?,?,?,?,?,?,?,?,?)", rows)
        db.executemany("INSERT INTO remote_cc_messages VALUES (?,?,?,?,?,?)", said)
    return path


def test_every_row_comes_back_with_its_number(store: clew.Store, tmp_path: Path) -> None:
    ids = [loaded.id for loaded in bring(store, reader, source(tmp_path))]
    out = Path(exporter.write(store, ids, tmp_path / "out.db"))
    assert content(out) == (ROWS, SAID)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize("times", [(5, 9, 6), (5, 6, 9), (9, 9, 9)])
def test_a_message_that_is_younger_than_the_last_activity_does_not_change_it(
    store: clew.Store, tmp_path: Path, times: tuple[int, ...]
) -> None:
    said = [
        (number, "s1", "user", "hi", "", f"2026-02-10T09:15:0{second}+08:00")
        for number, second in enumerate(times, start=1)
    ]
    ids = [loaded.id for loaded in bring(store, reader, source(tmp_path, ROWS, said))]
    out = Path(exporter.write(store, ids, tmp_path / "out.db"))
    assert content(out) == (ROWS, said)
    store.get("tingly-box:s1").append({"role": "user", "content": "new"})
    ((session,), _) = content(Path(exporter.write(store, ["tingly-box:s1"], tmp_path / "out.db")))
    assert session[6] == go_time(store.get("tingly-box:s1").info.updated_at)


def test_what_was_said_and_done_since_is_in_the_export(store: clew.Store, tmp_path: Path) -> None:
    bring(store, reader, source(tmp_path))
    s = store.get("tingly-box:s1")
    with s.run(request="again") as run:
        run.append({"role": "assistant", "content": [{"type": "text", "text": "new"}]})
        run.set_var("k", 1)
        run.complete({"ok": True})
    ((session,), messages) = content(Path(exporter.write(store, [s.id], tmp_path / "out.db")))
    assert session[:5] == ("s1", "completed", "again", '{"ok":true}', "")
    assert session[6] > TIME
    assert session[8] == '{"k":1,"project_path":"/w"}'
    assert [message[3] for message in messages] == ["hi", "long", "new"]


def test_numbers_that_two_sessions_claim_never_change_the_order_within_one(
    store: clew.Store, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    taken = [(number, "s9", "user", str(number), "", TIME) for number in (3, 20)]
    bring(store, reader, source(tmp_path), source(other, [("s9", *ROWS[0][1:])], taken))
    ids = ["tingly-box:s9", "tingly-box:s1"]
    _, messages = content(Path(exporter.write(store, ids, tmp_path / "out.db")))
    assert [message[3] for message in messages if message[1] == "s9"] == ["3", "20"]
    assert [message[3] for message in messages if message[1] == "s1"] == ["hi", "long"]


def test_a_status_that_tingly_box_does_not_know_is_failed(store: clew.Store, tmp_path: Path) -> None:
    store.create("x").start("r")
    store.get("x").fail("broke")
    ((session,), _) = content(Path(exporter.write(store, ["x"], tmp_path / "out.db")))
    assert session[1:5] == ("failed", "r", "", "broke")


def test_a_missing_session_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.db"
    target.write_text("precious")
    with clew.open("memory:") as store, pytest.raises(clew.SessionNotFoundError):
        exporter.write(store, ["nobody"], target)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["precious"]
