"""Those who change a directory while it is looked at or restored (F-44): one at a chosen call, one always."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

CALLS = (
    "open", "stat", "lstat", "fstat", "scandir", "listdir", "readlink", "mkdir", "rmdir", "unlink", "rename",
    "link", "symlink", "fchmod", "fsync", "read", "readv", "write",
)  # fmt: skip
UNIT = 16
OUTSIDE = b"OUTSIDE!"


@contextmanager
def calls_replaced(instead: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Put something in the place of each call to the file system."""
    real = {name: getattr(os, name) for name in CALLS}
    for name, call in real.items():
        setattr(os, name, instead(name, call))
    try:
        yield
    finally:
        for name, call in real.items():
            setattr(os, name, call)


class Ambush:
    """Acts just before the call with the given number (from 1) that the process makes to the file system."""

    def __init__(self, when: int, act: Callable[[], None], *, follows_links: bool = False) -> None:
        """`follows_links`: a planted bug, every file is opened without the flag that forbids it."""
        self.count = 0
        self._when = when
        self._act = act
        self._follows_links = follows_links

    def laid(self) -> AbstractContextManager[None]:
        return calls_replaced(self._instead)

    def _instead(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self._when:
                self._act_alone()
            if name == "open" and self._follows_links:
                return real(args[0], args[1] & ~os.O_NOFOLLOW, *args[2:], **more)
            return real(*args, **more)

        return call

    def _act_alone(self) -> None:
        """Its own calls are not to be counted."""
        count = self.count
        self._act()
        self.count = count


def swap_for_link(directory: Path, elsewhere: Path) -> None:
    """What was a directory is a symlink now; the directory is beside it."""
    os.rename(directory, directory.with_name(directory.name + ".aside"))
    os.symlink(elsewhere, directory)


def swap_back(directory: Path) -> None:
    """A restore may have put a directory in the place of the link by now, or removed what is aside."""
    aside = directory.with_name(directory.name + ".aside")
    if directory.is_symlink():
        os.unlink(directory)  # in any case: whoever writes below it would write elsewhere
    if not aside.exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    os.rename(aside, directory)


def content(number: int, size: int) -> bytes:
    """One number again and again: a mixture of two contents is seen at once."""
    return b"%016d" % number * (size // UNIT)


def is_mixed(found: bytes) -> bool:
    """Whether parts of it are of different moments."""
    return found != found[:UNIT] * (len(found) // UNIT)


class Storm:
    """Rewrites, renames, deletes and swaps below a directory, before one of four calls to the file system."""

    def __init__(self, root: Path, outside: Path, seed: int, largest: int = 6 * 1024 * 1024) -> None:
        self.rounds = 0
        self._root, self._outside = root, outside
        self._random = random.Random(seed)
        self._largest = largest
        self._lock = threading.RLock()
        self._is_at_it = False
        self._calls = calls_replaced(self._instead)
        self._actions = [
            self._rewrite, self._rewrite, self._replace, self._rename, self._delete, self._swap_folder,
            self._swap_file, self._grow, self._make_fifo,
        ]  # fmt: skip

    def __enter__(self) -> Storm:
        self._calls.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.__exit__(None, None, None)
        for name in ("swap/e", "swap"):
            swap_back(self._root / name)

    def _instead(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            with self._lock:
                if not self._is_at_it and self._random.random() < 0.25:
                    self._act()
            return real(*args, **more)

        return call

    def _act(self) -> None:
        self._is_at_it = True
        self.rounds += 1
        try:
            self._random.choice(self._actions)()
        except OSError:
            pass  # the restore was faster
        finally:
            self._is_at_it = False

    def _file(self) -> Path:
        """None that is reached through a link: what lies outside is not touched by the storm itself."""
        names = ["a", "b", "d/a", "d/b", "d/e/a"]
        if not (self._root / "swap").is_symlink():
            names += ["swap/a"] if (self._root / "swap/e").is_symlink() else ["swap/a", "swap/e/a"]
        return self._root / self._random.choice(names)

    def _content(self) -> bytes:
        size = self._random.choice([UNIT, 4096, 200_000, 1_000_000, self._largest])
        return content(self.rounds, size)

    def _rewrite(self) -> None:
        """In place, of the size that it had, if that is small."""
        fd = os.open(self._file(), os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if os.fstat(fd).st_size <= 4096:
                os.pwrite(fd, content(self.rounds, os.fstat(fd).st_size), 0)
        finally:
            os.close(fd)

    def _grow(self) -> None:
        """From empty to full, in one write."""
        path = self._file()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            os.write(fd, self._content())
        finally:
            os.close(fd)

    def _replace(self) -> None:
        path = self._file()
        beside = path.with_name("new.tmp")
        beside.write_bytes(self._content())
        os.replace(beside, path)

    def _rename(self) -> None:
        os.replace(self._file(), self._file())

    def _delete(self) -> None:
        self._file().unlink()

    def _swap_folder(self) -> None:
        """A link now, and a directory again the next time."""
        swap, inner = self._root / "swap", self._root / "swap/e"
        folder = swap if swap.is_symlink() else self._random.choice([swap, inner])
        if folder.is_symlink():
            swap_back(folder)
        else:
            swap_for_link(folder, self._outside)

    def _swap_file(self) -> None:
        path = self._file()
        path.unlink(missing_ok=True)
        path.symlink_to(self._outside / "a")

    def _make_fifo(self) -> None:
        path = self._file()
        path.unlink(missing_ok=True)
        os.mkfifo(path)
