"""Where a session's work happens."""

from __future__ import annotations

import os

from clew.errors import InvalidError


def normalised(path: str | os.PathLike[str]) -> str:
    """The one name of a directory: absolute, symlinks resolved, whether it exists or not."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidError(f"workspace must be text, not {type(text).__name__}")
    if not text:
        raise InvalidError("a workspace can not be empty: name a directory ('.' is the present one), or None")
    try:
        resolved = os.path.realpath(text)
        resolved.encode()
    except ValueError as exc:  # a NUL, or bytes that are no text
        raise InvalidError(f"{text!r} can not be a workspace: {exc}") from exc
    return resolved
