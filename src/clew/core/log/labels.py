"""What people read instead of the name of a checkpoint that a program set by itself.

Claude Code records files at each prompt, and the import names these checkpoints after the record:
`file-history:<uuid>`, with `:outside` behind it for files outside of the workspace.
"""

from __future__ import annotations

from typing import Final

_RECORDED: Final = "file-history:"
_OUTSIDE: Final = ":outside"


def mark_of(name: str) -> str | None:
    """Return the mark to show beside the prompt of such a checkpoint: `files`, or `other files` for those
    outside of the workspace. None: the name says something, so show it."""
    if not name.startswith(_RECORDED):
        return None
    return "other files" if is_outside(name) else "files"


def is_outside(name: str) -> bool:
    """Whether a checkpoint has the files outside of the workspace that an agent recorded."""
    return name.startswith(_RECORDED) and name.endswith(_OUTSIDE)
