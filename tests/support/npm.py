"""Programs of other people, from npm: installed once for all runs, outside of the tree.

In continuous integration they must be there; elsewhere a test that needs one is skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.needs import need


def installed(package: str, version: str) -> Path:
    """The folder `node_modules` with this package in it."""
    return _once(package, f"{package.rpartition('/')[2]}-{version}", f"{package}@{version}")


def installed_for(folder: Path) -> Path:
    """The folder `node_modules` with what a project needs, in the versions of its lock."""
    given = {name: (folder / name).read_bytes() for name in ("package.json", "package-lock.json")}
    digest = hashlib.sha256(b"".join(given.values())).hexdigest()[:16]
    return _once(folder.name, f"{folder.name}-{digest}", files=given)


def _once(what: str, name: str, *packages: str, files: Mapping[str, bytes] | None = None) -> Path:
    need("node")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = caches / "clew-tests" / name
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / "installed"
        if not done.exists():
            for file, content in (files or {}).items():
                (place / file).write_bytes(content)
            _install(what, place, packages)
            done.touch()
    return place / "node_modules"


def _install(package: str, place: Path, packages: Sequence[str]) -> None:
    # Not `npm ci`: it wants the programs of all systems in the lock, and not every registry has them.
    command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(place), *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        missing(package, "npm did not come to an end")
    if done.returncode:
        missing(package, f"npm cannot install it: {done.stderr[-500:]}")


def missing(package: str, why: str) -> None:
    need("node", f"for {package}: {why}")
