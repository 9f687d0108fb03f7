"""For tests that plant something in a store: how it is done, and how to see that nothing outside changed."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import clew
from clew.backends.jsonl import JsonlBackend
from clew.core.log import jsonl
from clew.errors import ClewError
from clew.testing.backend.base import user
from tests.backends.jsonl.stores import without_index

SECRET: Final = b"export PATH=/usr/bin\n" * 40


def make_store(place: Path) -> None:
    """Three sessions, a pack, and a line of the store itself."""
    with clew.open(f"jsonl:///{place}") as store:
        for name in "abc":
            store.session(name).append(user(f"word {name}"))
        store.get("a").add_alias("alias")
    with closing(JsonlBackend(place)) as backend, backend.write() as tx:
        tx.add_pack(0, b"xy", 2, [(b"n" * 32, 0, 1)])


def make_outside(place: Path) -> Path:
    """A directory of somebody, with a file that everybody would notice to be changed."""
    outside = place / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "bashrc").write_bytes(SECRET)
    (outside / "folder" / "1-0123456789abcdef.pack").write_bytes(SECRET)
    (outside / "folder" / "z.jsonl").write_bytes(SECRET)
    return outside


def state(place: Path) -> dict[str, Any]:
    """All that is below a directory: kinds, contents, modes."""
    found: dict[str, Any] = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(place))] = (status.st_mode, content)
    return found


def link_to_file(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "bashrc")


def link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "new")


def link_to_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "folder")


def hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside / "bashrc")


def folder(path: Path, outside: Path) -> None:
    path.mkdir()
    (path / "something").write_bytes(b"")


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path, outside: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


PLANTS: Final = (link_to_file, link_to_nothing, hard_link, folder, pipe)


def plant(how: Callable[[Path, Path], None], path: Path, outside: Path) -> None:
    """Put something in the place of what is there, if anything is."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.corrupt-before"))
    else:
        path.unlink(missing_ok=True)
    how(path, outside)


def use(place: Path) -> list[ClewError]:
    """Do all that touches files of a store; what was refused. Any other error comes out."""
    refused: list[ClewError] = []

    def attempt(work: Callable[[], object]) -> None:
        try:
            work()
        except ClewError as exc:
            refused.append(exc)

    def used(**options: Any) -> None:
        backend = JsonlBackend(place, timeout=1, **options)
        store = clew.Store(backend)
        try:
            attempt(lambda: store.session("a").append(user("more")))
            attempt(lambda: store.session("new").append(user("first")))
            attempt(lambda: store.get("b").messages())
            attempt(lambda: store.list())
            attempt(lambda: store.delete("c", purge=True))
            attempt(lambda: _drop_packs(backend))
            attempt(backend.scrub)
            attempt(lambda: store.verify(full=False))
            attempt(lambda: store.gc())
        finally:
            attempt(store.close)

    attempt(used)
    attempt(lambda: used(read_only=True))
    return refused


def _drop_packs(backend: JsonlBackend) -> None:
    with backend.write() as tx:
        for info in tx.list_packs(0, 9):
            with suppress(KeyError):
                tx.get_pack(info.pack)
            tx.drop_pack(info.pack)


def forget_index(place: Path) -> None:
    without_index(place)


def rewritten(path: Path, change: Callable[[jsonl.AnyLine], jsonl.AnyLine]) -> None:
    """Forge the lines of a log, with checksums as they have to be."""
    text = b""
    for raw in path.read_bytes().splitlines():
        is_last, inside = jsonl.open_line(raw)
        line = jsonl.decode(inside)
        assert line is not None
        text += jsonl.finish(jsonl.encode(change(line)), is_last=is_last)
    path.write_bytes(text)
