"""Whether all of a store of an earlier format can be read, before it is given that of today."""

from __future__ import annotations

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.log_file import cleaned, read_lines
from clew.core.log import jsonl
from clew.errors import SchemaTooOldError


def refuse_unknown_lines(layout: Layout) -> None:
    """Raise SchemaTooOldError if a store of an earlier format has lines with fields that are not known.

    Read without them, its sessions would lack messages. Damaged lines are no reason to refuse it."""
    if layout.check() and layout.format == jsonl.FORMAT:
        return
    for name in layout.log_names():
        try:
            handle = disk.open_for_reading(layout.file(name))
        except OSError:  # said when it is read
            continue
        try:
            _check(layout, handle)
        finally:
            disk.close(handle)


def _check(layout: Layout, handle: int) -> None:
    for offset, raw, _, _ in read_lines(handle):
        try:
            jsonl.decode(jsonl.open_line(cleaned(offset, raw))[1], jsonl.FIRST_FORMAT)
        except jsonl.OtherVersionError as exc:
            raise SchemaTooOldError(str(layout.root), layout.format or jsonl.FIRST_FORMAT) from exc
        except jsonl.BadLineError:
            pass
