"""Programs of other people, from npm: installed once for all runs, outside of the tree.

In continuous integration they must be there; elsewhere a test that needs one is skipped.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest


def installed(package: str, version: str) -> Path:
    """The folder `node_modules` with this package in it."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing(package, "there is no node with npm")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = caches / "clew-tests" / f"{package.rpartition('/')[2]}-{version}"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / "installed"
        if not done.exists():
            _install(package, version, place)
            done.touch()
    return place / "node_modules"


def _install(package: str, version: str, place: Path) -> None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), f"{package}@{version}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    except subprocess.TimeoutExpired:
        missing(package, "npm did not come to an end")
    if done.returncode:
        missing(package, f"npm cannot install it: {done.stderr[-500:]}")


def missing(package: str, why: str) -> None:
    if os.environ.get("CI", "") not in ("", "0", "false"):
        pytest.fail(f"{package} is needed here: {why}")
    pytest.skip(why)
