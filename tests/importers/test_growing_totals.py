"""Programs that only keep the sum of a session: of one that went on, the difference is counted, once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

import clew
from tests.importers.programs import test_continue_dev as continue_dev
from tests.importers.programs import test_ductwork as ductwork
from tests.importers.programs import test_goose as goose
from tests.importers.readers import write_json

SUMS = [(100, 10, "0.5"), (250, 40, "1.25"), (251, 40, "1.25"), (900, 41, "3")]


def of_goose(folder: Path, sent: int, received: int, cost: str) -> Path:
    path = folder / "sessions.db"
    if not path.exists():
        goose.database(path, [goose.say("user", "x")])
    with closing(sqlite3.connect(path)) as db, db:
        sums = "accumulated_input_tokens = ?, accumulated_output_tokens = ?"
        db.execute(f"UPDATE sessions SET {sums}, input_tokens = 7", (sent, received))  # 7: of the last prompt
    return path


def of_continue(folder: Path, sent: int, received: int, cost: str) -> Path:
    usage = {"totalCost": float(cost), "promptTokens": sent, "completionTokens": received}
    return continue_dev.session_file(folder, [continue_dev.ASKED], usage=usage)


def of_ductwork(folder: Path, sent: int, received: int, cost: str) -> Path:
    return write_json(folder / "r.json", ductwork.run(input_tokens=sent, output_tokens=received))


@pytest.mark.parametrize("write", [of_goose, of_continue, of_ductwork])
def test_each_import_makes_the_sum_what_the_file_says(
    store: clew.Store, tmp_path: Path, write: Callable[[Path, int, int, str], Path]
) -> None:
    for sent, received, cost in SUMS:
        path = write(tmp_path, sent, received, cost)
        for state in ("grown" if sent > SUMS[0][0] else "new", "unchanged"):
            (session,) = store.import_path(path).sessions
            assert session.state == state
            totals = store.usage()
            assert (totals.input_tokens, totals.output_tokens) == (sent, received)
            assert totals.cost == (Decimal(cost) if write is of_continue else 0)
