"""A copy in a process of its own that kills itself at a chosen statement. Run as a module."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import clew
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.transfer import source, write


def main(src: str, dst: str, deadly: int) -> None:
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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
