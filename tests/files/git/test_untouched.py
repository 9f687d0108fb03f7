"""P14: the user's repository, however dirty, is byte for byte the same after snapshots, restores, undos."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.faults.requirements import needs_strace
from tests.files.git.repositories import everything_of_git, git, make_dirty, work_with_files
from tests.files.playground import House
from tests.support.children import call

pytestmark = pytest.mark.needs("git")


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> House:
    """To be copied: git takes its time."""
    made = House(tmp_path_factory.mktemp("dirty"))
    make_dirty(made.root, made.outside)
    return made


@pytest.fixture
def home(dirty: House, tmp_path: Path) -> House:
    shutil.copytree(dirty.directory, tmp_path, symlinks=True, dirs_exist_ok=True)
    return House(tmp_path)


def test_p14_every_git_directory_is_the_same_afterwards_with_its_times_and_modes(home: House) -> None:
    """Index, HEAD, refs, objects, stash, hooks, of the root, its submodule and its worktrees."""
    before = everything_of_git(home.root, home.outside)
    stash, staged = git(home.root, "stash", "list"), git(home.root, "diff", "--cached")
    before = everything_of_git(home.root, home.outside)  # git itself refreshes its index

    assert call(work_with_files, str(home.directory)) == []

    assert everything_of_git(home.root, home.outside) == before
    assert len(before) > 50
    assert git(home.root, "stash", "list") == stash != ""
    assert git(home.root, "diff", "--cached") == staged != ""
    assert not (home.root / "hook-was-here").exists()
    assert (home.root / "untracked.txt").read_text() == "untracked\n"
    assert (home.root / "build.log").read_text() == "ignored\n"
    assert (home.root / "staged.txt").read_text() == "and changed since\n"


@needs_strace
def test_p14_no_program_is_started_and_no_git_directory_is_opened(home: House, tmp_path: Path) -> None:
    """No git is needed: nothing is executed but this interpreter, and `.git` is not even listed."""
    trace = tmp_path / "trace"
    under = ["strace", "-f", "-qq", "-y", "-o", str(trace), "-e", "trace=execve,execveat,openat,open"]

    assert call(work_with_files, str(home.directory), under=under) == []

    lines = trace.read_text(errors="replace").splitlines()
    assert len([line for line in lines if "execve" in line]) == 1
    opened = [line for line in lines if re.search(r'[/"]\.git["/>]', line)]
    assert opened == []
    assert [line for line in lines if "kept.txt" in line]  # the trace shows the files of the root


def test_the_comparison_finds_a_repository_that_was_only_touched(home: House) -> None:
    """A planted bug: the same content, written again."""
    before = everything_of_git(home.root)
    head = home.root / ".git/HEAD"
    content = head.read_bytes()
    head.unlink()
    head.write_bytes(content)

    assert everything_of_git(home.root) != before
