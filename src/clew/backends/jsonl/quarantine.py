"""What a crash left at the end of a log is set aside, never thrown away."""

from __future__ import annotations

import os
import time

from clew.backends.jsonl import disk
from clew.backends.jsonl.directory import File
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.names import shortened
from clew.backends.jsonl.scan import CHUNK
from clew.core.messages.characters import for_a_log


def set_tail_aside(layout: Layout, name: str, offset: int) -> File:
    """Copy the bytes of a log from `offset` on to a file of their own, and cut them off.

    The name of the file says from which log and which place they are, and when it was.
    """
    file = layout.file(name)
    handle = disk.open_for_patching(file)
    try:
        aside, copy = _new_file(layout, file.name, offset)
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
    tell("%d bytes at the end of %s, of a write that never ended, are now in %s", at - offset, file, aside)
    return aside


def copy_aside(layout: Layout, name: str, offset: int, data: bytes) -> File:
    """Keep bytes of a log that are about to be overwritten."""
    file = layout.file(name)
    aside, copy = _new_file(layout, file.name, offset)
    try:
        disk.write(copy, data)
        disk.sync(copy)
    finally:
        disk.close(copy)
    disk.sync_directory(layout.quarantine)
    tell("%d bytes of %s that the journal has otherwise are now in %s", len(data), file, aside)
    return aside


def tell(message: str, *args: object) -> None:
    """Say what was found after a crash, or of damage."""
    import logging  # costs more than opening a store, and is hardly ever needed

    logging.getLogger("clew.jsonl").warning(message, *map(for_a_log, args))


def _new_file(layout: Layout, log: str, offset: int) -> tuple[File, int]:
    stamp = f"{time.time_ns() // 1_000_000}-{os.urandom(8).hex()}"
    file = layout.quarantine.file(f"{shortened(log)}.{offset}.{stamp}.torn")
    return file, disk.create(file)
