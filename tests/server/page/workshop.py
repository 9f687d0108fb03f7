"""A session with real files on the disk: checkpoints with snapshots, a branch that a rewind left, a fork."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import clew

FIRST = {"auth.py": "def check(token):\n    return True\n", "docs/guide.md": "# Guide\n", "old.txt": "old\n"}
SECOND = {"auth.py": "def check(token):\n    return token.age < 3600\n", "src/guard.py": "LIMIT = 3600\n"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def write(root: Path, files: Mapping[str, str | None]) -> None:
    """Write files; None: there is none of this name."""
    for name, text in files.items():
        path = root / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def content(root: Path) -> dict[str, str]:
    return {str(one.relative_to(root)): one.read_text() for one in root.rglob("*") if one.is_file()}


def make(store: clew.Store, root: Path, id: str = "login") -> clew.Session:
    """Two steps with files: `plan` behind the first answer, `guard` behind the second one."""
    root.mkdir()
    session = store.session(id, title="The login page")
    session.append(user("The login page returns 500"), assistant("I look at auth.py"))
    write(root, FIRST)
    session.checkpoint("plan", files=root)
    session.append(user("Let tokens expire"), assistant("Done, with a guard"))
    write(root, {**SECOND, "old.txt": None})
    session.checkpoint("guard", files=root)
    session.append(user("And the tests?"), assistant("All of them pass"))
    return session
