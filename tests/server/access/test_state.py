"""The own token of a server: made once, kept where only its owner can read it."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import BackendUnavailableError
from clew.server import app
from clew.server.access import state as state_module
from clew.server.access.state import (
    forget_running,
    new_own_token,
    own_token,
    running,
    set_running,
    token_path,
)
from tests.support.rows import each_row


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_it_is_long_random_and_the_same_after_a_restart() -> None:
    token = own_token("/a.db")
    assert re.fullmatch(r"clew_own_[A-Za-z0-9]{43}", token)
    assert own_token("/a.db") == token
    assert own_token("/b.db") != token
    assert Path(token_path("/a.db")).read_text() == token, "which is where another process reads it"


def test_s16_it_is_readable_by_its_owner_only_whatever_the_umask() -> None:
    before = os.umask(0)
    try:
        own_token("/a.db")
        new_own_token("/b.db")
    finally:
        os.umask(before)
    for location in ("/a.db", "/b.db"):
        path = token_path(location)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        assert "a.db" not in path


def test_s16_a_token_that_others_could_have_read_is_not_used() -> None:
    own_token("/a.db")
    os.chmod(token_path("/a.db"), 0o644)
    with pytest.raises(BackendUnavailableError, match="remove it, and a new one is made"):
        own_token("/a.db")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.write_text("clew_own_" + "a" * 43)
    planted.chmod(0o600)
    path = Path(token_path("/a.db"))
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(planted)
    with pytest.raises(BackendUnavailableError):
        own_token("/a.db")
    assert new_own_token("/a.db") != planted.read_text()
    assert not path.is_symlink()
    assert planted.read_text() == "clew_own_" + "a" * 43


@each_row("text", ["", "short", "clew_own_short", "clew_tabcdefghi_" + "a" * 43])
def test_a_damaged_one_is_named_and_not_used(text: str) -> None:
    new_own_token("/a.db")
    Path(token_path("/a.db")).write_text(text)
    with pytest.raises(BackendUnavailableError, match="is damaged: remove it"):
        own_token("/a.db")


def test_all_who_make_one_at_once_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    have_found_none, write = threading.Barrier(4), state_module._write

    def write_together(*args: Any, **options: Any) -> None:
        have_found_none.wait()
        write(*args, **options)

    monkeypatch.setattr(state_module, "_write", write_together)
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(own_token, ["/a.db"] * 4))) == 1


def test_another_one_can_be_made() -> None:
    first = own_token("/a.db")
    second = new_own_token("/a.db")
    assert second != first
    assert own_token("/a.db") == second


def test_an_application_uses_the_one_that_is_kept(tmp_path: Path) -> None:
    with clew.open(tmp_path / "s.db") as store:
        made = app(store)
        made.close()
        assert made.sign_in.credential_of(own_token(store.location)).id == "own"


def test_a_snapshot_leaves_it_out(tmp_path: Path, state: Path) -> None:
    own_token("/a.db")
    (tmp_path / "kept.txt").write_text("kept")
    with clew.open(tmp_path / "s.db") as store:
        snapshot = store.snapshot(tmp_path, force=True)
        store.restore(snapshot, root=tmp_path / "back", force=True)
    names = {path.name for path in (tmp_path / "back").rglob("*")}
    assert "kept.txt" in names
    assert not [name for name in names if name.endswith(".token")]


def test_where_a_server_runs_is_told_to_programs_of_the_same_user() -> None:
    assert running("/a.db") is None
    set_running("/a.db", "http://127.0.0.1:8731")
    found = running("/a.db")
    assert found is not None
    assert (found.url, found.pid) == ("http://127.0.0.1:8731", os.getpid())
    forget_running("/a.db")
    assert running("/a.db") is None


def test_a_server_that_was_killed_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    with monkeypatch.context() as other:
        other.setattr(os, "getpid", lambda: ended.pid)
        set_running("/a.db", "http://127.0.0.1:1")
    assert running("/a.db") is None
    forget_running("/a.db")
    assert running("/a.db", alive=False) is not None, "what another process said stays"
