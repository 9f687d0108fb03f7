"""Make everything that Clew makes on a disk, and look at its modes. Runs in a process of its own."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import clew
from clew.backends.postgres.blobs import LocalObjects
from tests.faults.crash.common import message

FORMATS = ["jsonl", "json", "markdown", "html", "picoclaw", "ggcode", "tingly-box", "ductwork"]


def modes(root: Path) -> dict[str, str]:
    """Of all that is below a directory."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            place = Path(folder, name)
            if place.is_symlink():
                continue
            found[str(place.relative_to(root))] = oct(stat.S_IMODE(place.lstat().st_mode))
    return found


def make_everything(umask: int, directory: str) -> dict[str, str]:
    """The modes of all that was made; of temporary things, as they were when they were removed."""
    os.umask(umask)
    root = Path(directory)
    work, temporary = root / "work", root / "tmp"
    work.mkdir(mode=0o700)
    temporary.mkdir(mode=0o700)
    (work / "a.txt").write_text("a")
    os.environ |= {"XDG_CACHE_HOME": str(root / "made/cache"), "TMPDIR": str(temporary)}
    os.environ |= {"CLEW_STATE_DIR": str(root / "made/of/state")}
    gone: dict[str, str] = {}
    _note_what_is_removed(gone, temporary)
    made = root / "made"
    for kind, address in {"sqlite": str(made / "a/b/s.db"), "jsonl": f"jsonl:///{made}/c/d"}.items():
        _use(address, made / kind, work, gone)
    _damage(made / "c/d")
    with clew.open(f"jsonl:///{made}/c/d") as store:
        store.list()
        store.repair(to=made / "mended/s.db")
    with clew.open(f"jsonl:///{made}/c/d", read_only=True) as store:
        store.verify(full=True)
        gone |= modes(temporary)
    _import(made, temporary, gone)
    LocalObjects(str(made / "objects/all")).put("store/ab/cd/ef", b"x")
    return {**{f"tmp/{name}": mode for name, mode in gone.items()}, **modes(made)}


def _note_what_is_removed(gone: dict[str, str], temporary: Path) -> None:
    def note(event: str, _: tuple[object, ...]) -> None:
        if event == "shutil.rmtree":
            gone.update(modes(temporary))

    sys.addaudithook(note)


def _use(address: str, beside: Path, work: Path, gone: dict[str, str]) -> None:
    beside.mkdir(mode=0o700, parents=True)
    beside.parent.chmod(0o700)
    beside.chmod(0o700)
    with clew.open(address) as store:
        session = store.session("s", workspace=work)
        session.append(message("x" * 3000))
        session.checkpoint("c", files=work)
        store.create("gone").append(message("z"))
        list(store.search("x"))
        store.delete("gone", purge=True)
        store.gc()
        store.vacuum()
        for format in FORMATS:
            store.export("s", format, path=beside / f"s.{format}")  # type: ignore[arg-type]
        store.export("s", "jsonl", path=beside / "clean.jsonl", redact=True)
        store.backup(beside / "backup.db")
        clew.copy(store, f"jsonl:///{beside}/copy/of/it")
        clew.copy(store, beside / "copy/too/s.db")
        gone.update({f"open {name}": mode for name, mode in modes(beside.parent).items()})
    _run_cli("--store", address, "export", "--all", "-o", str(beside / "all/of/them"))


def _run_cli(*args: str) -> None:
    from clew.cli import main

    sys.argv = ["clew", *args]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise AssertionError(args) from end


def _damage(store: Path) -> None:
    """A torn log goes to quarantine, a broken index is set aside."""
    for log in (store / "sessions").iterdir():
        with log.open("ab") as file:
            file.write(b'{"torn')
    (store / "index.db").write_bytes(b"no database" * 1000)


def _import(made: Path, temporary: Path, gone: dict[str, str]) -> None:
    import sqlite3

    from tests.importers.programs.test_opencode import SCHEMA

    path = made.parent / "opencode.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(SCHEMA)
    db.execute("INSERT INTO session (id, time_created, directory) VALUES ('a', 1, '/w')")
    data = json.dumps({"role": "user", "agent": "build"})
    db.execute("INSERT INTO message VALUES ('m', 'a', 1, ?)", (data,))
    db.commit()
    Path(f"{path}-shm").unlink()  # as after a loss of power: then it is read from a copy
    with clew.open(made / "imported.db") as store:
        store.import_path(path)
        store.import_path(made / "sqlite/s.jsonl")
    db.close()
