"""What some faults need: root, mounts, strace. In CI its absence is a failure, elsewhere a skip."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])


def _unless(there: bool, reason: str) -> Callable[[F], F]:
    """A mark for tests that need something: with CI in the environment they fail without it."""
    if there:
        return lambda test: test
    if "CI" in os.environ:

        def failing(test: F) -> F:
            def instead() -> None:
                pytest.fail(f"{reason}, and in CI this test must run")

            instead.__name__ = test.__name__
            instead.__doc__ = test.__doc__
            return instead  # type: ignore[return-value]

        return failing
    return pytest.mark.skip(reason=reason)


IS_ROOT = os.geteuid() == 0
needs_strace = _unless(shutil.which("strace") is not None, "strace is not installed")
needs_root = _unless(IS_ROOT, "only root can mount file systems and become somebody else")

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
