"""What some faults need: root, mounts, strace."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_strace = pytest.mark.needs("strace")
needs_root = pytest.mark.needs("root")

NOBODY = 65534


@contextmanager
def mounted(options: Sequence[str]) -> Iterator[Path]:
    """Mount a file system on a new directory; unmounted whatever happens."""
    with tempfile.TemporaryDirectory(prefix="clew-mount-") as directory:
        subprocess.run(["mount", *options, directory], check=True)
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)
