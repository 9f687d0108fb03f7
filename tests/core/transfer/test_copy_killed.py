"""A copy that is killed (SIGKILL, a process of its own) at any statement goes on when it is called again."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.transfer import source, write
from tests.faults.crash.common import check_file
from tests.support.children import Child
from tests.support.stores import dump, wander, with_files


def copy_until(_: object, src: str, dst: str, deadly: int) -> None:
    """Copy in small steps, and die at a statement of that number."""
    write.AT_ONCE = 10  # type: ignore[misc]
    source.PAGE = 4  # type: ignore[misc]
    left = deadly
    begin = SqliteReader.__init__

    def counted(self: SqliteReader, connection: Any, branches: Any) -> None:
        begin(self, connection, branches)
        if not isinstance(self, SqliteTransaction):
            return
        execute = connection.execute

        def dying(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return execute(*args)

        self._execute = dying  # type: ignore[assignment]

    SqliteReader.__init__ = counted  # type: ignore[method-assign]
    clew.copy(src, dst)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_copy_goes_on_where_it_was(seed: int, tmp_path: Path) -> None:
    """F-01 for copy: killed again and again, each time somewhere else."""
    src, dst = tmp_path / "src.db", tmp_path / "dst.db"
    with clew.open(src) as store:
        wander(store, seed)
        with_files(store, tmp_path / "work")
        expected = dump(store)
    rng = random.Random(seed)
    killed = 0
    for _ in range(40):
        status = Child(copy_until, str(src), str(dst), rng.randint(1, 400)).wait()
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
        with clew.open(dst) as store:
            found = {info.id for info in store.list(limit=1000)}
            assert all(len(store.get(id).messages()) == store.get(id).info.messages for id in found)
        assert check_file(dst) == "ok"

    clew.copy(src, dst)

    assert killed
    with clew.open(dst) as store:
        assert dump(store) == expected
        assert store.verify(full=True).problems == ()
