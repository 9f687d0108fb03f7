"""What this process has open below a directory.

A count of all descriptors would also count what other threads, and tests that ended before, open and close.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def open_below(root: Path) -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(path for path in found if path == str(root) or path.startswith(f"{root}/"))
