"""What a crash left at the end of a log is set aside, never thrown away."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.scan import CHUNK


def set_tail_aside(layout: Layout, name: str, offset: int) -> Path:
    """Copy the bytes of a log from `offset` on to a file of their own, and cut them off.

    The name of the file says from which log and which place they are, and when it was.
    """
    path = layout.path(name)
    handle = disk.open_for_patching(path)
    try:
        aside, copy = _new_file(layout, f"{path.name}.{offset}.{time.time_ns() // 1_000_000}")
        try:
            at = offset
            while chunk := disk.read_at(handle, CHUNK, at):
                disk.write(copy, chunk)
                at += len(chunk)
            disk.sync(copy)
        finally:
            disk.close(copy)
        disk.sync_directory(layout.quarantine)
        disk.truncate(handle, offset)
        disk.sync(handle)
    finally:
        disk.close(handle)
    tell("%d bytes at the end of %s, of a write that never ended, are now in %s", at - offset, path, aside)
    return aside


def copy_aside(layout: Layout, name: str, offset: int, data: bytes) -> Path:
    """Keep bytes of a log that are about to be overwritten."""
    path = layout.path(name)
    aside, copy = _new_file(layout, f"{path.name}.{offset}.{time.time_ns() // 1_000_000}")
    try:
        disk.write(copy, data)
        disk.sync(copy)
    finally:
        disk.close(copy)
    disk.sync_directory(layout.quarantine)
    tell("%d bytes of %s that the journal has otherwise are now in %s", len(data), path, aside)
    return aside


def tell(message: str, *args: object) -> None:
    """Say what was found after a crash, or of damage."""
    import logging  # costs more than opening a store, and is hardly ever needed

    logging.getLogger("clew.jsonl").warning(message, *args)


def _new_file(layout: Layout, stem: str) -> tuple[Path, int]:
    for number in itertools.count():
        path = layout.quarantine / (f"{stem}.torn" if not number else f"{stem}-{number}.torn")
        try:
            return path, disk.create(path)
        except FileExistsError:
            continue
    raise AssertionError
