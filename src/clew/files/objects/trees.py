"""Read the trees of snapshots: their directories, and all objects that they need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from clew.errors import CorruptError
from clew.files.objects.format import (
    CHUNKED,
    FOLDER,
    Directory,
    GetDirectories,
    decode_chunks,
    decode_directory,
)
from clew.files.objects.store import ObjectReader

AT_ONCE: Final = 256


def directories_of(reader: ObjectReader) -> GetDirectories:
    """The directories of trees; one that was read is not read again."""
    read: dict[bytes, Directory] = {}

    def get(names: Collection[bytes]) -> dict[bytes, Directory]:
        missing = [name for name in names if name not in read]
        for name, content in reader.get_many(missing) if missing else ():
            try:
                read[name] = Directory(content)
            except ValueError as exc:
                raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc
        return read

    return get


class Reach:
    """Everything that the trees that were added need. Of no use once `add` has raised: what is missing
    of it would be taken for garbage."""

    def __init__(self, objects: ObjectReader, on_batch: Callable[[int], object] = lambda _: None) -> None:
        """`on_batch`: called from time to time with the number of objects so far."""
        self.names: set[bytes] = set()
        self.new: list[bytes] = []
        """Names that came since the caller emptied it."""
        self._objects = objects
        self._on_batch = on_batch
        # A file may hold the bytes of a directory, and be the same object: so it is not enough that an
        # object was reached, it must have been entered, and as what it is here.
        self._folders: set[bytes] = set()
        self._lists: set[bytes] = set()

    def add(self, tree: bytes) -> None:
        """CorruptError, ObjectMissingError: the objects that this tree needs cannot be told."""
        folders, lists = list[bytes](), list[bytes]()
        self._note(tree, self._folders, folders)
        while folders or lists:
            some, folders[-AT_ONCE:] = folders[-AT_ONCE:], []
            for name, content in self._objects.get_many(some):
                self._enter_folder(name, content, folders, lists)
            some, lists[-AT_ONCE:] = lists[-AT_ONCE:], []
            for name, content in self._objects.get_many(some):
                self._enter_list(name, content)
            self._on_batch(len(self.names))

    def _add_name(self, name: bytes) -> None:
        if name not in self.names:
            self.names.add(name)
            self.new.append(name)

    def _note(self, name: bytes, known: set[bytes], todo: list[bytes]) -> None:
        self._add_name(name)
        if name not in known:
            known.add(name)
            todo.append(name)

    def _enter_folder(self, name: bytes, content: bytes, folders: list[bytes], lists: list[bytes]) -> None:
        try:
            entries = decode_directory(content)
        except ValueError as exc:
            raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc
        for entry in entries:
            if entry.kind == FOLDER:
                self._note(entry.digest, self._folders, folders)
            elif entry.kind & CHUNKED:
                self._note(entry.digest, self._lists, lists)
            else:
                self._add_name(entry.digest)

    def _enter_list(self, name: bytes, content: bytes) -> None:
        try:
            for chunk in decode_chunks(content):
                self._add_name(chunk.digest)
        except ValueError as exc:
            raise CorruptError(f"the object {name.hex()} is no list of chunks: {exc}") from exc
