"""A dirty git repository, and all that can be seen of a `.git`. Imports no pytest."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from tests.files.playground import House, cache_in


def git(where: Path, *words: str) -> str:
    """Run git, with nothing of this machine's settings."""
    nobody = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    nothing = {
        "GIT_COMMITTER_EMAIL": "a@b",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    command = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *words]
    done = subprocess.run(
        command,
        cwd=where,
        env={**os.environ, **nobody, **nothing},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def make_dirty(root: Path, beside: Path) -> None:
    """Commits, a stash, a submodule, another worktree, a hook, a merge half done, staged and not."""
    library = beside / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.txt").write_text("lib")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "lib")
    git(root, "init", "-q")
    (root / "kept.txt").write_text("one\n")
    (root / "staged.txt").write_text("one\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "submodule", "--quiet", "add", str(library), "sub")
    git(root, "commit", "-qm", "submodule")
    git(root, "worktree", "add", "-q", str(beside / "worktree"), "-b", "other")
    git(root, "worktree", "add", "-q", str(root / "inner"), "-b", "inner")
    (root / "kept.txt").write_text("stashed\n")
    git(root, "stash", "-q")
    hook = root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hook-was-here\n")
    hook.chmod(0o755)
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))
    (root / "staged.txt").write_text("staged\n")
    git(root, "add", "staged.txt")
    (root / "staged.txt").write_text("and changed since\n")
    (root / "untracked.txt").write_text("untracked\n")
    (root / ".gitignore").write_text("*.log\n")
    (root / "build.log").write_text("ignored\n")


def everything_of_git(*places: Path) -> dict[str, Any]:
    """Content, permissions, times and inode of every `.git`, be it a directory or a file."""
    found: dict[str, Any] = {}
    for place in places:
        for directory, folders, files in os.walk(place):
            for name in [*folders, *files]:
                path = Path(directory, name)
                if ".git" in path.parts:
                    status = path.lstat()
                    content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
                    found[str(path)] = (
                        content, status.st_mode, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
                    )  # fmt: skip
    return found


def work_with_files(directory: str) -> list[str]:
    """Snapshots, restores and undos in a repository; every program that was started is seen by strace."""
    home = House(Path(directory))
    with cache_in(home.directory), home.open() as store:
        session = store.session("s")
        session.checkpoint("start", files=home.root)
        before = store.snapshot(home.root)
        (home.root / "kept.txt").write_text("changed\n")
        (home.root / "untracked.txt").unlink()
        (home.root / "added.txt").write_text("added\n")
        store.snapshot(home.root)
        report = store.restore(before)
        store.undo_restore(report)
        store.diff(before, home.root, text=True)
        session.rewind("start", files=True)
        session.undo()
        session.redo()
        store.gc()
        problems = [*store.verify().problems]
    return [*problems, *(failure.path for failure in report.failed)]
