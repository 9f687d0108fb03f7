"""One follower for a store: who it is can be asked, and one that was killed is taken over at once."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.importers.follow import lease as module
from clew.importers.follow.lease import Following, HeldError, Lease, holder_of, path_of
from tests.support.children import Child


def _hold(tell: Callable[[str], None], address: str) -> None:
    lease = Lease(address)
    lease.tell(Following(pid=os.getpid(), since=12.5, store="somewhere", polled={"/a": "because"}))
    tell("held")
    signal.pause()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_second_one_is_told_who_holds_it_and_takes_over_once_that_is_killed(tmp_path: Path) -> None:
    address = str(tmp_path / "s.db")
    assert holder_of(address) is None
    with Child(_hold, address) as child:
        assert child.hear() == "held"
        for place in (address, f"{tmp_path}/../{tmp_path.name}/s.db"):
            with pytest.raises(HeldError) as refused:
                Lease(place)
            assert refused.value.holder is not None
            assert refused.value.holder.pid == child.pid
        assert holder_of(address) == Following(
            pid=child.pid, since=12.5, store="somewhere", polled={"/a": "because"}
        )
        Lease(str(tmp_path / "other.db")).end()
        child.kill()
        assert child.wait() == -signal.SIGKILL
    assert holder_of(address) is None
    lease = Lease(address)
    lease.tell(Following(pid=1, since=0.0, store=""))
    with pytest.raises(HeldError):
        Lease(address)
    found = holder_of(address)
    assert found is not None
    assert found.pid == 1
    lease.end()


def test_at_the_end_nothing_is_left(tmp_path: Path, state: Path) -> None:
    lease = Lease(str(tmp_path / "s.db"))
    [file] = (state / "clew").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    lease.end()
    assert list((state / "clew").iterdir()) == []


def test_a_shorter_state_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    address = str(tmp_path / "s.db")
    lease = Lease(address)
    lease.tell(Following(pid=1, since=0.0, store="x" * 1000))
    lease.tell(Following(pid=2, since=0.0, store="y"))
    found = holder_of(address)
    assert found is not None
    assert (found.pid, found.store) == (2, "y")
    lease.end()


def test_damage_in_the_file_of_a_holder_is_no_error(tmp_path: Path) -> None:
    address = str(tmp_path / "s.db")
    lease = Lease(address)
    path_of(address).write_bytes(b"\xff{")
    found = holder_of(address)
    assert found is not None
    assert found.pid == 0
    with pytest.raises(HeldError) as refused:
        Lease(address)
    assert refused.value.holder is None
    lease.end()


def test_a_file_that_its_holder_removes_while_we_take_it_is_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "s.db")
    really_open, ending = module._opened, [Lease(address)]

    def opened(path: Path) -> int:
        fd = really_open(path)
        while ending:
            ending.pop().end()
        return fd

    monkeypatch.setattr(module, "_opened", opened)
    lease = Lease(address)
    assert holder_of(address) is not None
    with pytest.raises(HeldError):
        Lease(address)
    lease.end()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    address, victim = str(tmp_path / "s.db"), tmp_path / "victim"
    victim.write_text("mine")
    path_of(address).parent.mkdir(parents=True)
    path_of(address).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        Lease(address)
    assert victim.read_text() == "mine"
