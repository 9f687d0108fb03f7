"""S-10: no git, and nothing that a repository tells git to run, is run by snapshots, restores or diffs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.faults.requirements import needs_strace
from tests.files.git.repositories import git, work_with_files
from tests.files.playground import House
from tests.support.children import call

HOOKS = (
    "post-checkout", "pre-commit", "post-commit", "post-index-change", "post-merge", "post-rewrite",
    "fsmonitor", "pre-auto-gc", "reference-transaction", "prepare-commit-msg", "sendemail-validate",
)  # fmt: skip


class Trap:
    """A repository of which every program leaves a mark when it runs, and a `git` that does."""

    def __init__(self, home: House) -> None:
        self.marks = home.directory / "marks"
        self.marks.mkdir()
        self.programs = home.directory / "programs"
        self.programs.mkdir()
        self._fill(home.root)
        for name in ("git", "git-lfs", "hg", "sh-filter", "watchman", "gpg"):
            self._program(self.programs / name, name)

    def run_by(self) -> list[str]:
        """The programs that left a mark."""
        return sorted(path.name for path in self.marks.iterdir())

    def _program(self, path: Path, name: str) -> str:
        path.write_text(f"#!/bin/sh\n: > {self.marks}/{name}\ncat\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def _fill(self, root: Path) -> None:
        git(root, "init", "-q")
        for name in ("kept.txt", "untracked.txt", "big.bin"):
            (root / name).write_text("one\n")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
        hooks = root / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for hook in HOOKS:
            self._program(hooks / hook, f"hook-{hook}")
        (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n*.bin filter=lfs\n")
        (root / ".gitmodules").write_text('[submodule "x"]\n\tpath = kept.txt\n\tupdate = !sh-filter\n')
        settings = {
            "core.fsmonitor": "hook-fsmonitor", "core.hooksPath": str(hooks), "core.pager": "pager",
            "core.editor": "editor", "core.sshCommand": "ssh", "core.askPass": "askpass",
            "filter.evil.clean": "clean", "filter.evil.smudge": "smudge", "filter.evil.process": "process",
            "filter.lfs.clean": "lfs-clean", "diff.evil.textconv": "textconv",
            "diff.evil.command": "diff-command", "diff.external": "diff-external",
            "merge.evil.driver": "merge-driver", "gpg.program": "gpg-program",
            "credential.helper": "credential", "alias.status": "alias-status",
        }  # fmt: skip
        with (root / ".git/config").open("a") as config:
            for key, name in settings.items():
                value = name if key == "core.hooksPath" else self._program(self.programs / f"of-{name}", name)
                section, *middle, last = key.split(".")
                head = f'{section} "{middle[0]}"' if middle else section
                config.write(f'[{head}]\n\t{last} = "{"!" * (section == "alias")}{value}"\n')


pytestmark = pytest.mark.needs("git")


@pytest.fixture
def home(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def trap(home: House, monkeypatch: pytest.MonkeyPatch) -> Trap:
    trap = Trap(home)
    monkeypatch.setenv("PATH", f"{trap.programs}:{os.environ['PATH']}")
    return trap


def test_s10_no_program_that_a_repository_names_is_run(home: House, trap: Trap) -> None:
    assert call(work_with_files, str(home.directory)) == []
    assert trap.run_by() == []


@needs_strace
def test_s10_no_process_is_started_at_all(home: House, trap: Trap, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    under = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=execve,execveat,fork,vfork"]

    assert call(work_with_files, str(home.directory), under=under) == []

    started = [
        line for line in trace.read_text(errors="replace").splitlines() if "exec" in line or "fork(" in line
    ]
    assert len(started) == 1  # this interpreter
    assert trap.run_by() == []


def test_s10_the_trap_works(home: House, trap: Trap) -> None:
    """A git that is asked anything here runs what the repository says: so the tests above mean something."""
    (home.root / "kept.txt").write_text("two\n")
    real = shutil.which("git", path=os.environ["PATH"].partition(":")[2])
    assert real
    for words in (["status"], ["diff"], ["add", "-A"]):
        subprocess.run([real, *words], cwd=home.root, capture_output=True, check=False)
    assert {"hook-fsmonitor", "diff-command"} & set(trap.run_by())
    subprocess.run(
        ["git", "status"], cwd=home.root, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert "git" in trap.run_by()
