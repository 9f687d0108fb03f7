"""S-50: the key by which a store is known to be one's own: made once, private, never taken on trust."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.files.roots import KEY_SIZE, UserKey, key_path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "state"))
    return Path(key_path())


def test_a_key_is_made_at_the_first_need_for_its_owner_only(path: Path) -> None:
    before = os.umask(0)
    try:
        signature = UserKey().sign("root", b"/w")
    finally:
        os.umask(before)

    assert UserKey().has_signed(signature, "root", b"/w")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (os.listdir(path.parent), path.stat().st_size) == ([path.name], KEY_SIZE)


def test_f03_the_name_of_a_new_key_is_synced_before_anything_is_signed_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could take the key, and leave what it signed."""
    done: list[str] = []
    sync, link = os.fsync, os.link

    def note_sync(fd: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        sync(fd)

    def note_link(*names: str) -> None:
        done.append("name")
        link(*names)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    UserKey().sign("root")

    assert done == ["file", "name", "directory"]


def test_to_compare_makes_no_key(path: Path) -> None:
    assert not UserKey().has_signed(b"", "root")
    assert not path.parent.exists()


@pytest.mark.parametrize("parts", [("root", b"/other"), ("root",), ("root", b"/w", b""), ("roo", b"t/w")])
def test_a_signature_is_of_these_parts_and_no_others(path: Path, parts: tuple[object, ...]) -> None:
    signature = UserKey().sign("root", b"/w")
    assert not UserKey().has_signed(signature, *parts)
    assert not UserKey().has_signed(b"", "root", b"/w")
    assert not UserKey().has_signed(signature[:-1], "root", b"/w")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_may_read_or_change_is_refused(path: Path, mode: int) -> None:
    signature = UserKey().sign("root")
    path.chmod(mode)

    assert UserKey().sign("root") == b""
    assert not UserKey().has_signed(signature, "root")
    assert "other users may read or change" in (UserKey().why_missing() or "")


def test_a_key_in_a_directory_that_others_may_change_is_refused(path: Path) -> None:
    UserKey().sign("root")
    path.parent.chmod(0o777)
    assert "other users may change" in (UserKey().why_missing() or "")


def test_a_key_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a program of root runs with the home directory of somebody else."""
    UserKey().sign("root")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "belongs to another user" in (UserKey().why_missing() or "")


def test_a_link_in_place_of_the_key_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    known = tmp_path / "known"
    known.write_bytes(b"k" * KEY_SIZE)
    known.chmod(0o600)
    path.symlink_to(known)
    assert UserKey().sign("root") == b""


def test_a_pipe_in_place_of_the_key_is_refused_at_once(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path, 0o600)
    assert "no regular file" in (UserKey().why_missing() or "")


@pytest.mark.parametrize("content", [b"", b"short", b"x" * (KEY_SIZE + 1)])
def test_a_damaged_key_is_refused_and_the_next_step_is_told(path: Path, content: bytes) -> None:
    UserKey().sign("root")
    path.write_bytes(content)
    assert "remove it, and a new key is made" in (UserKey().why_missing() or "")


def test_of_many_who_make_the_key_at_once_all_get_the_same(path: Path) -> None:
    code = "from clew.files.roots import UserKey; print(UserKey().sign('root').hex())"
    many = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    signatures = {one.communicate()[0].strip() for one in many}
    assert signatures == {UserKey().sign("root").hex()}


@pytest.mark.parametrize("backend", ["sqlite:///{}/store.db", "jsonl:///{}/store"])
def test_no_snapshot_holds_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    root = tmp_path / "work"
    monkeypatch.setenv("CLEW_STATE_DIR", str(root / "state"))
    root.mkdir()
    (root / "mine").write_text("1")
    UserKey().sign("made before")
    with clew.open(backend.format(root)) as store:
        snapshot = store.snapshot(root)
        paths = [one.path for one in store.diff(snapshot, store.snapshot(_empty(tmp_path)))]
    assert paths == ["mine", "state"]
    assert ("state/key", "store") in [(one.path, one.reason) for one in snapshot.skipped]


def _empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@pytest.mark.parametrize("given", ["relative", "./x"])
def test_a_relative_directory_is_no_place_for_a_key(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("CLEW_STATE_DIR", given)
    assert "no absolute path" in (UserKey().why_missing() or "")


def test_the_usual_place_is_the_state_directory_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CLEW_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    assert key_path() == str(tmp_path / "states" / "clew" / "key")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert key_path() == str(tmp_path / "home" / ".local" / "state" / "clew" / "key")
