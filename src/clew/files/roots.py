"""Which directories may be the root of a snapshot."""

from __future__ import annotations

import os
from typing import Final

from clew.errors import RootRefusedError

_DRIVES: Final = ("/mnt", "/media", "/Volumes", "/run/media")
"""Where systems put the roots of further drives."""


def check_root(root: str | os.PathLike[str], *, force: bool) -> str:
    """The one name of a directory: absolute, symlinks resolved. RootRefusedError: it is missing, no
    directory, or too large a part of the machine to be meant (unless `force`)."""
    text = os.fspath(root)
    if not isinstance(text, str):
        raise RootRefusedError(repr(text), f"a path is text, not {type(text).__name__}")
    check_named(text)
    try:
        resolved = os.path.realpath(text, strict=True)
        is_directory = os.path.isdir(resolved)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise RootRefusedError(text, f"it cannot be found ({reason})") from exc
    if not is_directory:
        raise RootRefusedError(resolved, "it is no directory")
    reason = "" if force else _why_too_much(resolved)
    if reason:
        raise RootRefusedError(
            resolved, f"{reason}; store.snapshot and store.restore take it with force=True"
        )
    return resolved


def check_named(root: str | os.PathLike[str]) -> None:
    """The system takes an empty path for the present directory; a caller that gives one may not know it."""
    if not os.fspath(root):
        raise RootRefusedError("", "the path is empty; name a directory, as '.' for the present one")


def _why_too_much(root: str) -> str:
    if os.path.dirname(root) == root:
        return "it is the root of the file system"
    for home in _homes():
        if root == home:
            return "it is a home directory"
        if home.startswith(root + os.sep):
            return f"the home directory {home!r} is inside"
    if _is_drive(root):
        return "it is the root of a drive"
    return ""


def _homes() -> set[str]:
    """The user's home directory, by what the environment says and by what the system says."""
    homes = {os.path.expanduser("~")}
    try:
        import pwd

        homes.add(pwd.getpwuid(os.geteuid()).pw_dir)
    except (ImportError, KeyError):  # no POSIX system, or a user without an entry
        pass
    return {os.path.realpath(home) for home in homes if os.path.isabs(home)} - {os.sep}


def _is_drive(root: str) -> bool:
    parent = os.path.dirname(root)
    is_there = parent in _DRIVES or os.path.dirname(parent) in ("/media", "/run/media")
    return is_there and os.path.ismount(root)
