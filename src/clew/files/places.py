"""Where this machine keeps what can be made again at any time."""

from __future__ import annotations

import os
import sys

from blake3 import blake3


def cache_directory(location: str) -> str | None:
    """A directory for the caches of a store; None: there is no home for it, or the store is in memory."""
    base = os.environ.get("XDG_CACHE_HOME") or _usual_place()
    if not base or not os.path.isabs(base) or location == "memory:":
        return None
    return os.path.join(base, "clew", blake3(os.fsencode(location)).hexdigest()[:32])


def _usual_place() -> str:
    home = os.path.expanduser("~")
    if home == "~":
        return ""
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches")
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA", "")
    return os.path.join(home, ".cache")
