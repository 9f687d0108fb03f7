"""Folders in the temporary directory: private, removed by whoever made them, or by the next process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core import work_folder as module
from clew.core.work_folder import make_work_folder, remove_abandoned, remove_work_folder, work_folder
from tests.support.children import Child

CALLS = ("mkdir", "open", "stat", "unlink", "rmdir", "listdir", "close")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_looked_at", set())
    return tmp_path


def _fill(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("x")
    (folder / "link").symlink_to(folder)


def test_a_folder_is_private_and_goes_with_its_block(temporary: Path) -> None:
    with work_folder("import") as folder:
        assert folder.is_relative_to(temporary)
        assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
        assert list(folder.iterdir()) == []
        _fill(folder)
    assert list(temporary.iterdir()) == []


def stay(say: Callable[..., None]) -> None:
    """Keep a folder until a signal comes."""
    folder = make_work_folder("serve")
    _fill(folder)
    say(str(folder))
    signal.pause()


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(temporary: Path) -> None:
    with Child(stay) as killed, Child(stay) as living:
        gone, there = Path(killed.hear()), Path(living.hear())
        os.utime(there.parent, (0, 0))
        remove_abandoned()
        assert (gone.exists(), there.exists()) == (True, True)
        killed.kill()
        killed.wait()
        with work_folder("copy"):
            assert (gone.parent.exists(), (there / "inner" / "file").exists()) == (False, True)
    remove_abandoned()
    assert list(temporary.iterdir()) == []


def test_a_child_that_lives_longer_keeps_the_folder_and_does_not_remove_it(temporary: Path) -> None:
    folder = make_work_folder("serve")
    child = os.fork()
    if child == 0:
        remove_work_folder(folder)
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.exists()
    remove_abandoned()
    assert folder.exists()
    remove_work_folder(folder)
    assert list(temporary.iterdir()) == []


def test_what_others_made_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = temporary / "outside"
    outside.mkdir()
    (outside / module.LOCK).touch()
    (outside / module.FILES).mkdir()
    (temporary / f"clew-import-{'0' * 16}").symlink_to(outside)
    for name in ("clew-abcd1234", "clew-import-abcd1234", f"clew-import-{'1' * 15}", f"other-{'2' * 16}"):
        (temporary / name / module.FILES).mkdir(parents=True)
        (temporary / name / module.LOCK).touch()
    (temporary / f"clew-import-{'3' * 16}").mkdir()
    (temporary / f"clew-import-{'3' * 16}" / "a file of somebody").touch()
    foreign = temporary / f"clew-import-{'4' * 16}"
    foreign.mkdir()
    os.link(outside / module.LOCK, foreign / "other")
    os.symlink(outside / module.LOCK, foreign / module.LOCK)
    before = sorted(str(path) for path in temporary.rglob("*"))
    remove_abandoned()
    assert sorted(str(path) for path in temporary.rglob("*")) == before
    mine = make_work_folder("import")
    held = module._held.pop(mine)
    os.close(held.lock)
    with monkeypatch.context() as patch:
        user = os.geteuid() + 1
        patch.setattr(os, "geteuid", lambda: user)
        remove_abandoned()
    assert mine.exists(), "it belongs to another user"
    remove_abandoned()
    assert not mine.parent.exists()


def test_links_in_a_folder_are_not_followed(temporary: Path) -> None:
    outside = temporary / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    folder = make_work_folder("import")
    (folder / "way").symlink_to(outside)
    os.close(module._held.pop(folder).lock)
    os.rename(folder, folder.with_name("before"))
    folder.symlink_to(outside)
    remove_abandoned()
    assert (outside / "mine").read_text() == "mine"


def make_and_die(_: object, call: str, number: int, abandoned: bool) -> None:
    """Die at a call of that number; nothing, if there are fewer."""
    real, left = getattr(os, call), number

    def dying(*args: object, **options: object) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)

    if abandoned:
        os.close(module._held.pop(make_work_folder("import")).lock)
    setattr(os, call, dying)
    if abandoned:
        remove_abandoned()
    with work_folder("import") as folder:
        os.mkdir(folder / "inner")
        (folder / "inner" / "file").touch()


@pytest.mark.parametrize("abandoned", [False, True])
def test_nothing_is_left_wherever_a_process_was_killed(temporary: Path, abandoned: bool) -> None:
    """SIGKILL at every call of the system that makes or removes a folder."""
    killed = 0
    for call in CALLS:
        number = 1
        while Child(make_and_die, call, number, abandoned).wait() == -signal.SIGKILL:
            number += 1
            killed += 1
            remove_abandoned()
            assert list(temporary.iterdir()) == [], (call, number)
    assert killed > 10
