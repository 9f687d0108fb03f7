"""What a program tells the file system, call by call, as strace sees it: of any backend, in any language."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tests.faults.disk.strace import traced

TRACED: Final = (
    "openat", "close", "lseek", "write", "writev", "pwrite64", "ftruncate", "fsync", "fdatasync",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "link", "linkat",
)  # fmt: skip
LONGEST: Final = 2**24

FileEventKind = Literal["create", "mkdir", "write", "truncate", "sync", "rename", "link", "remove", "mark"]


class FileEvent(msgspec.Struct, frozen=True):
    """Something that the file system was told about a path, or a mark that the program made."""

    kind: FileEventKind
    path: str = ""
    """Below the directory that is watched; of a mark, what the program told."""
    offset: int = 0
    """Of a write, -1: at the end; of a truncation, the new size."""
    data: bytes = b""
    target: str = ""
    """Of a rename or a link."""


class _Open:
    """An open file."""

    def __init__(self, path: str, flags: str) -> None:
        self.path = path
        self.offset = -1 if "O_APPEND" in flags else 0


def record(place: Path, trace: Path, program: Callable[..., None], *args: Any) -> list[FileEvent]:
    """Run a program and give what it told the file system below `place`; what it tells are marks."""
    strace = ("-xx", "-s", str(LONGEST), "-o", str(trace), "-e", f"trace={','.join(TRACED)}")
    with traced(program, *args, strace=strace) as child:
        child.hear_all()
    reader = _Reader(place)
    return [event for line in _whole_lines(trace) for event in reader.read(line)]


def _whole_lines(trace: Path) -> Iterator[str]:
    """The calls, without the numbers of the threads; those that were interrupted, put together again."""
    begun: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>").rstrip()
        elif (resumed := re.match(r"<\.\.\. \w+ resumed>,?\s*(.*)", call)) is not None:
            yield begun.pop(thread, "") + resumed.group(1)
        else:
            yield call


class _Reader:
    """Follows descriptors, to know which file a call is about."""

    def __init__(self, place: Path) -> None:
        self._place = f"{place}/"
        self._open: dict[str, _Open] = {}
        self._known: set[str] = set()

    def read(self, line: str) -> Iterator[FileEvent]:
        parts = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", line)
        if parts is None or parts.group(3).startswith("-"):
            return
        call, arguments, answer = parts.groups()
        given = [each.strip() for each in arguments.split(", ")]
        match call:
            case "openat":
                yield from self._opened(given, answer)
            case "close":
                self._open.pop(given[0], None)
            case "lseek" if (file := self._open.get(given[0])) and file.offset >= 0:
                file.offset = int(answer)
            case "writev" if (told := re.search(r'iov_base=("[^"]*")', arguments)) is not None:
                yield from self._written([given[0], told.group(1)], int(answer))
            case "write":
                yield from self._written(given, int(answer))
            case "pwrite64" if path := self._path(given[0]):
                yield FileEvent("write", path, int(given[3]), _bytes(given[1])[: int(answer)])
            case "ftruncate" if path := self._path(given[0]):
                yield FileEvent("truncate", path, int(given[1]))
            case "fsync" | "fdatasync" if (path := self._path(given[0])) is not None:
                yield FileEvent("sync", path)
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                yield from self._two_names(call, given)
            case "unlink" | "unlinkat":
                if path := self._below(given[0]) if call == "unlink" else self._at(*given[:2]):
                    yield FileEvent("remove", path)
            case "mkdir" | "mkdirat":
                if path := self._below(given[0]) if call == "mkdir" else self._at(*given[:2]):
                    yield FileEvent("mkdir", path)

    def _opened(self, given: list[str], answer: str) -> Iterator[FileEvent]:
        path = self._at(given[0], given[1])
        if path is None:
            self._open.pop(answer, None)
            return
        flags = given[2]
        self._open[answer] = _Open(path, flags)
        if "O_CREAT" in flags:
            yield FileEvent("create", path)
        if "O_TRUNC" in flags:
            yield FileEvent("truncate", path)

    def _written(self, given: list[str], count: int) -> Iterator[FileEvent]:
        file = self._open.get(given[0])
        data = _bytes(given[1])[:count]
        if file is None:
            if data[:1] == b'"':
                yield FileEvent("mark", data.decode().strip('"\n'))
            return
        yield FileEvent("write", file.path, file.offset, data)
        if file.offset >= 0:
            file.offset += count

    def _two_names(self, call: str, given: list[str]) -> Iterator[FileEvent]:
        if call in ("rename", "link"):
            first, second = self._below(given[0]), self._below(given[1])
        else:
            first, second = self._at(given[0], given[1]), self._at(given[2], given[3])
        if first and second:
            yield FileEvent("link" if "link" in call else "rename", first, target=second)
            if "link" not in call:
                for file in self._open.values():
                    file.path = second if file.path == first else file.path

    def _path(self, descriptor: str) -> str | None:
        file = self._open.get(descriptor)
        return file.path if file is not None else None

    def _at(self, descriptor: str, quoted: str) -> str | None:
        """A path that may be one from an open directory on."""
        above = self._path(descriptor)
        if above is None or _text(quoted).startswith("/"):
            return self._below(quoted)
        return os.path.normpath(os.path.join(above, _text(quoted)))

    def _below(self, quoted: str) -> str | None:
        """A path relative to the place; None: it is elsewhere. The place itself is "."."""
        path = os.path.normpath(_text(quoted))
        if f"{path}/" == self._place:
            return "."
        return path.removeprefix(self._place) if path.startswith(self._place) else None


def _bytes(quoted: str) -> bytes:
    return bytes.fromhex(quoted.strip('".').replace("\\x", ""))


def _text(quoted: str) -> str:
    return os.fsdecode(_bytes(quoted)) if quoted.startswith('"') else ""
