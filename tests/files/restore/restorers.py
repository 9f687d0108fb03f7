"""Programs that restore files and are killed at it, and the scene that they find. See killing.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
import clew.backends.sqlite  # what is imported here need not be imported by every fork
import clew.files.service
from clew.backends.contract import Transaction
from clew.core.conversation.moves import FileMove
from clew.files import journal
from clew.files.restore import restore
from clew.files.restore.job import Restored, RestoreJob, Tools
from tests.faults.crash.common import message
from tests.files.playground import House
from tests.files.restore.kill_points import Executioner, watch

Tell = Callable[[Any], None]

_really_restore = restore.restore


def prepare(tell: Tell, directory: str, threads: bool) -> None:
    """A session with one checkpoint of files, and more messages and changes since."""
    home = House(Path(directory))
    _first_files(home.root, many=threads)
    with home.open() as store:
        session = store.session("s")
        session.append(message("one"))
        session.checkpoint("start", files=home.root)
        session.append(message("two"))
        _change_files(home.root, many=threads)
    tell("ready")


def restore_first(tell: Tell, directory: str) -> None:
    """On top of that, a restore of the files alone, to be undone."""
    home = House(Path(directory))
    with home.open() as store:
        report = store.get("s").restore_files("start")
    (home.directory / "restore").write_text(report.id or "")
    tell("ready")


def _first_files(root: Path, *, many: bool) -> None:
    for folder in ("d/e", "gone", "to-file"):
        (root / folder).mkdir(parents=True)
    (root / "same").write_text("same")
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").write_text("of the user")
    (root / "changed").write_bytes(b"first" * 1000)
    (root / "deleted").write_text("first")
    (root / "d/e/deep").write_text("first")
    (root / "program").write_text("#!")
    (root / "program").chmod(0o755)
    (root / "link").symlink_to("same")
    (root / "to-folder").write_text("first")
    (root / "to-file/inside").write_text("first")
    if many:
        for number in range(20):
            (root / f"many-{number}").write_text(f"first {number}")


def _change_files(root: Path, *, many: bool) -> None:
    (root / ".gitignore").unlink()
    (root / "changed").write_bytes(b"second" * 500)
    (root / "deleted").unlink()
    shutil.rmtree(root / "d")
    (root / "program").chmod(0o640)
    (root / "link").unlink()
    (root / "link").symlink_to("changed")
    (root / "gone").rmdir()
    (root / "to-folder").unlink()
    (root / "to-folder").mkdir()
    (root / "to-folder/inside").write_text("second")
    shutil.rmtree(root / "to-file")
    (root / "to-file").write_text("second")
    (root / "added").write_text("second")
    (root / "added").chmod(0o600)
    (root / "new").mkdir()
    (root / "new/added").write_text("second")
    if many:
        for number in range(20):
            (root / f"many-{number}").write_text(f"second {number}")


def restorer(
    what: str, when: int = -1, planted: str = "", *, is_counted: bool = True
) -> Callable[[Tell, str], None]:
    """A program that restores; killed at the change of that number, or not at all."""

    def program(tell: Tell, directory: str) -> None:
        plant(planted)
        home, executioner = House(Path(directory)), Executioner(when)
        if is_counted:
            watch(executioner)
        with home.open() as store:
            executioner.count = 0  # opening is another test's
            ACTS[what](store, home)
            tell(executioner.count)
            executioner.when = -1

    return program


def _rewind(store: clew.Store, home: House) -> None:
    """Restore the files and move the head."""
    store.get("s").rewind("start", files=True)


def _undo(store: clew.Store, home: House) -> None:
    """Take back a restore that was finished."""
    store.undo_restore((home.directory / "restore").read_text())


def _finish_pending(store: clew.Store, home: House) -> None:
    for one in store.pending_restores():
        store.finish_restore(one.id)


def _undo_pending(store: clew.Store, home: House) -> None:
    for one in store.pending_restores():
        store.undo_restore(one.id)


def _take(store: clew.Store, home: House) -> None:
    (home.root / "large").write_bytes(os.urandom(20_000))
    store.snapshot(home.root)


ACTS = {
    "rewind": _rewind,
    "undo": _undo,
    "finish": _finish_pending,
    "roll back": _undo_pending,
    "snapshot": _take,
}


def plant(planted: str) -> None:
    """Break the code on purpose."""
    if planted == "writes in place":
        os.rename = os.link = _write_in_place  # type: ignore[assignment]
    elif planted == "head moves later":
        setattr(restore, "restore", _move_the_head_later)  # noqa: B010
        setattr(restore, "_close", _close_only)  # noqa: B010
    elif planted:
        raise ValueError(planted)


def _write_in_place(temporary: bytes, name: bytes, *, src_dir_fd: int, dst_dir_fd: int, **_: Any) -> None:
    """Instead of renaming."""
    if os.path.islink(f"/proc/self/fd/{src_dir_fd}/{os.fsdecode(temporary)}"):
        target = os.readlink(temporary, dir_fd=src_dir_fd)
        if os.path.lexists(f"/proc/self/fd/{src_dir_fd}/{os.fsdecode(name)}"):
            os.unlink(name, dir_fd=dst_dir_fd)
        os.symlink(target, name, dir_fd=dst_dir_fd)
        return
    source = os.open(temporary, os.O_RDONLY, dir_fd=src_dir_fd)
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=dst_dir_fd)
    os.write(file, os.read(source, 1 << 20))
    os.fchmod(file, os.fstat(source).st_mode & 0o777)
    os.close(source)
    os.close(file)


def _close_only(tx: Transaction, *, work: Any, whole: bool) -> None:
    journal.close(tx, work.record.id, work.state, whole=whole)


def _move_the_head_later(tools: Tools, job: RestoreJob) -> Restored:
    """Instead of in the transaction that closes the journal."""
    report, head = _really_restore(tools, job).report, job.head
    if head is None:
        return Restored(report)
    files = FileMove(os.fsencode(job.root), report.safety or "", job.snapshot)
    return Restored(report, tools.engine.run(lambda tx: head.carry_out(tx, files)))
