"""What is mounted where: a mount in a directory changes what is seen there, and nobody gives notice."""

from __future__ import annotations

import re
from typing import Final

_TABLE: Final = "/proc/self/mountinfo"
_LOCAL: Final = frozenset({
    "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs",
    "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
})  # fmt: skip
"""File systems that only this machine writes to; of the others, changes come without notice."""
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def mounts_at(root: bytes) -> tuple[bytes, ...] | None:
    """The lines of the system's table that decide what is seen at and below a directory. None: it can
    not be told, or what is there may change without notice."""
    with open(_TABLE, "rb") as table:
        lines = table.read().splitlines()
    holding, below = b"", list[bytes]()
    longest = -1
    for line in lines:
        point = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4])
        if _is_inside(point, root) and point != root:
            below.append(line)
        elif _is_inside(root, point) and len(point) >= longest:  # of two at one place the later one
            holding, longest = line, len(point)
    if _kind(holding) not in _LOCAL:
        return None
    return (holding, *below)


def _kind(line: bytes) -> str:
    return line.partition(b" - ")[2].split(b" ")[0].decode("ascii", "replace")


def _is_inside(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")
