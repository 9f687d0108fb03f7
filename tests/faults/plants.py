"""Bugs to be planted, each by its name, to see that the campaigns find them.

A test that has never failed proves nothing. `plant(name)` puts a bug into this process, for good: call it
in a process that is to be thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from unittest import mock

from clew.core.engine.commit import BackgroundWriter
from clew.session import Session


def plant(name: str) -> None:
    """Put a bug into this process; "": none."""
    if name:
        PLANTS[name]()


# -- in any backend


def _acknowledge_before_commit() -> None:
    def append(self: Session, *messages: Any, key: str | None = None, **_: Any) -> list[Any]:
        self.append_nowait(*messages, key=key)
        return []

    mock.patch.object(Session, "append", append).start()
    mock.patch.object(BackgroundWriter, "LIMIT", 1 << 60).start()  # nobody waits for the writer, ever


def _commit_batches_in_pieces() -> None:
    really_append = Session.append

    def append(self: Session, *messages: Any, key: str | None = None, **more: Any) -> list[Any]:
        return [
            entry
            for n, each in enumerate(messages)
            for entry in really_append(self, each, key=f"{key} {n}" if key else None, **more)
        ]

    mock.patch.object(Session, "append", append).start()


def _forget_keys() -> None:
    really_append = Session.append

    def append(self: Session, *messages: Any, key: str | None = None, **more: Any) -> list[Any]:
        return really_append(self, *messages, **more)

    mock.patch.object(Session, "append", append).start()


def _compare_no_fence() -> None:
    from clew.core.conversation import append
    from clew.core.runs.access import live

    mock.patch.object(append, "require_write", lambda tx, access: live(tx, access.sid, access.id)).start()


# -- in SQLite


def _synchronous(level: int) -> Callable[[], None]:
    def planted() -> None:
        from clew.backends.sqlite import connection, sql

        mock.patch.dict(connection.SYNCHRONOUS, full=level).start()
        mock.patch.dict(sql.SET_SYNCHRONOUS, {level: f"PRAGMA synchronous = {level}"}).start()

    return planted


def _without_directory_sync() -> None:
    from clew.backends.sqlite import connection

    mock.patch.object(connection, "sync_directory").start()


# -- in JSONL


def _without(name: str) -> Callable[[], None]:
    """Without a function of the layer that all file operations of JSONL pass through."""

    def planted() -> None:
        from clew.backends.jsonl import disk

        mock.patch.object(disk, name).start()

    return planted


def _glue_to_the_tail() -> None:
    from clew.backends.jsonl import recover

    mock.patch.object(recover, "set_tail_aside").start()


def _accept_torn_batches() -> None:
    from clew.core.log import jsonl

    really_open = jsonl.open_line
    mock.patch.object(jsonl, "open_line", lambda line: (True, really_open(line)[1])).start()


def _know_a_log_by_its_end() -> None:
    """As long as another one, and with the same last line: taken for that."""
    from clew.backends.jsonl import log_file

    mock.patch.object(log_file, "is_marked_alike", return_value=True).start()


def _make_the_index_in_place() -> None:
    """A process that fails to make it leaves an empty one, which all others use."""
    from clew.backends.jsonl import index, sql
    from clew.backends.sqlite.connection import open_writer

    def make_index(layout: Any, timeout: float) -> None:
        index.set_index_aside(layout)
        writer = open_writer(layout.index, "process", timeout)
        writer.execute(sql.SCHEMA)
        writer.close()

    def renew(self: Any) -> None:
        self.connections.use(self._sound_writer())
        self._inode = self._layout.index_inode()
        self.is_broken = False
        self.is_behind = False

    mock.patch.object(index, "make_index", make_index).start()
    mock.patch.object(index.Index, "_renew", renew).start()


def _let_errors_of_the_system_out() -> None:
    from clew.backends.jsonl import log_file, reader

    everything = range(1, 200)
    for module in (log_file, reader):
        mock.patch.object(module, "OF_THE_PROCESS", everything).start()
    from clew.backends.jsonl.backend import Reading

    mock.patch.object(
        Reading, "__exit__", lambda self, *_: self._backend._give_reader(self._connection)
    ).start()


# -- in the watcher


def _take_half_a_line() -> None:
    """A line that has no end yet is read as if it had one."""
    from clew.importers.programs import pi
    from clew.importers.programs.claude_code import reader as claude_code
    from clew.importers.programs.codex import reader as codex
    from clew.importers.reading.jsonlines import read_lines

    def read(*given: Any, whole: bool = False, **more: Any) -> Any:
        return read_lines(*given, **more)

    for module in (claude_code, codex, pi):
        mock.patch.object(module, "read_lines", read).start()


def _hear_nothing_during_a_pass() -> None:
    from clew.importers.follow.watcher import Watcher

    really_take_in, really_pass = Watcher._take_in, Watcher._pass
    known: list[Any] = []

    def take_in(self: Watcher, trees: Any) -> None:
        known[:] = [trees]
        really_take_in(self, trees)

    def one_pass(self: Watcher) -> None:
        really_pass(self)
        known[0].read()

    mock.patch.object(Watcher, "_take_in", take_in).start()
    mock.patch.object(Watcher, "_pass", one_pass).start()


def _watch_no_new_directories() -> None:
    from clew.importers.follow.trees import Trees

    mock.patch.object(Trees, "_enter", return_value=()).start()


# -- in the server


def _answer_before_commit() -> None:
    from clew.model import Entry
    from clew.server.call import Call

    async def append(self: Call, id: str, messages: Any, **_: Any) -> list[Entry]:
        self.session(id).append_nowait(*messages, key=self.key)
        return [
            Entry(id=f"{0:032x}.{n}", position=n, kind="message", raw=b"{}", stamp=0, digest=bytes(16))
            for n, _ in enumerate(messages)
        ]

    mock.patch.object(Call, "append", append).start()


def _know_no_keys() -> None:
    from clew.server.call import Call

    mock.patch.object(Call, "key", None).start()


def _begin_streams_anew() -> None:
    from clew.server.live import routes

    mock.patch.object(routes, "_given", return_value="start").start()


PLANTS: Final[dict[str, Callable[[], None]]] = {
    "acknowledge before commit": _acknowledge_before_commit,
    "batch in pieces": _commit_batches_in_pieces,
    "keys forgotten": _forget_keys,
    "no fencing check": _compare_no_fence,
    "sqlite: NORMAL for FULL": _synchronous(1),
    "sqlite: missing fsync": _synchronous(0),
    "sqlite: missing directory fsync": _without_directory_sync,
    "jsonl: missing fsync": _without("sync"),
    "jsonl: missing directory fsync": _without("sync_directory"),
    "jsonl: glued tail": _glue_to_the_tail,
    "jsonl: torn batch accepted": _accept_torn_batches,
    "jsonl: a log known by its end": _know_a_log_by_its_end,
    "jsonl: an index made in its place": _make_the_index_in_place,
    "jsonl: errors of the system let out": _let_errors_of_the_system_out,
    "watch: half a line is a line": _take_half_a_line,
    "watch: deaf during a pass": _hear_nothing_during_a_pass,
    "watch: new directories are not watched": _watch_no_new_directories,
    "server: answers before the commit": _answer_before_commit,
    "server: keys forgotten": _know_no_keys,
    "server: streams begin anew": _begin_streams_anew,
}
