"""F-25: processes whose clocks are wrong, or jump, share leases with processes whose clocks are right.

libfaketime changes the time of one process. Unless told otherwise it changes the monotonic clock too,
and then no lock of Python's ever times out, so that no heartbeat comes: what a lease promises without
one must hold all the same.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

import clew
import clew.run
from clew.core.engine.host import machine_clock
from clew.run import Heartbeat
from tests.faults.crash.common import chain_of, message, texts
from tests.faults.leases.tools import DEADLINE, OFTEN, lease_record, plant, statuses, until
from tests.support.children import call
from tests.support.effort import spread
from tests.support.needs import need
from tests.support.waiting import until as wait_until

CLOCKS = {"a day ahead": "+1d", "five minutes ahead": "+5m", "an hour behind": "-1h"}
MONOTONIC_IS_RIGHT = "FAKETIME_DONT_FAKE_MONOTONIC=1"
RIGHT = ("env", "-u", "LD_PRELOAD", "-u", "FAKETIME", "-u", "FAKETIME_TIMESTAMP_FILE")
"""Gives a process the right clock, whatever its parent's is."""
LONG = 600
SECOND = 1_000_000
WALL = "leases are told by the wall clock"


def wrong_clock(offset: str, *, monotonic: bool) -> list[str]:
    """A command to run a process under."""
    need("faketime")
    return ["env", *([] if monotonic else [MONOTONIC_IS_RIGHT]), "faketime", "-f", offset]


@pytest.fixture(params=["a day ahead", "an hour behind"])
def wrong_wall(request: pytest.FixtureRequest) -> list[str]:
    """Only the wall clock is wrong."""
    return wrong_clock(CLOCKS[request.param], monotonic=False)


@pytest.fixture(params=spread([f"{clock}{also}" for clock in CLOCKS for also in ("", ", monotonic too")], 3))
def under(request: pytest.FixtureRequest) -> list[str]:
    clock, _, monotonic = request.param.partition(", ")
    return wrong_clock(CLOCKS[clock], monotonic=bool(monotonic))


# What the processes do


def begin(planted: str = "") -> None:
    """First thing in every process. Where libfaketime leaves the monotonic clock alone, it makes
    time.sleep() fail, which waits for a time of that clock."""
    plant(planted)
    mock.patch.object(clew.run, "BEATS", OFTEN).start()
    if MONOTONIC_IS_RIGHT.partition("=")[0] in os.environ:
        mock.patch.object(time, "sleep", threading.Event().wait).start()


def try_to_take(path: str, planted: str = "") -> dict[str, Any]:
    """Ask for a lease that somebody holds, in every way but by force."""
    begin(planted)
    with clew.open(path) as store:
        session = store.get("s")
        holder = session.lease
        found: dict[str, Any] = {"wall": time.time(), "lease": holder.owner if holder else None, "errors": []}
        for attempt in (lambda: session.run().complete(), lambda: session.append(message("from outside"))):
            try:
                attempt()
            except clew.LeaseHeldError as error:
                found["errors"].append(error.owner)
        found["interrupted"] = [one.id for one in store.interrupted()]
        return found


def take_and_vanish(path: str, planted: str = "") -> None:
    """Take a lease of half a second and end without a word, as on a machine that cannot be looked into."""
    begin(planted)
    store = clew.open(path)
    host = store._engine.host
    host.__dict__["me"] = msgspec.structs.replace(host.me, namespace="pid:[1]")
    store.session("s").run(lease=0.5, owner="wrong").append(message("before"))
    os._exit(0)


def take_when_over(path: str) -> int:
    """Wait for the lease; when it was taken, by the machine's clock."""
    begin()
    with clew.open(path) as store:
        session = store.get("s")
        with session.run(lease=LONG, owner="wrong", wait=DEADLINE) as run:
            run.append(message("taken over"))
            return until(session) - LONG * SECOND


def hold_against(path: str, lease: float, beats: int) -> list[Any]:
    """Hold a lease while another process, whose clock is right, tries to get it."""
    begin()
    with clew.open(path) as store:
        session = store.session("s")
        with session.run(lease=lease, owner="wrong") as run:
            run.append(message("before"))
            _see_renewals(session, beats)
            errors = call(try_to_take, path, under=RIGHT)["errors"]
            run.append(message("after"))
            return [errors, run.lost]


def hold_while_the_clock_jumps(path: str, file: str) -> list[Any]:
    """Hold a lease while the clock is set forwards and back; how far it jumped, and who was refused."""
    begin()
    found: list[Any] = []
    with clew.open(path) as store:
        session = store.session("s")
        with session.run(lease=60, owner="jumping") as run:
            for offset in ("+1d", "-1h", "+0"):
                before = time.time()
                Path(file).write_text(f"{offset}\n")
                jump = round((time.time() - before) / 3600)
                _see_renewals(session, 2)
                errors = call(try_to_take, path, under=RIGHT)["errors"]
                run.append(message(offset))
                found.append([jump, errors, run.lost])
    return found


def _see_renewals(session: clew.Session, count: int) -> None:
    for _ in range(count):
        before = until(session)
        wait_until(partial(_is_later, session, before))


def _is_later(session: clew.Session, moment: int) -> bool:
    return until(session) > moment


def append_some(path: str, name: str) -> list[str]:
    with clew.open(path) as store:
        session = store.session("s")
        entries = session.append(message(f"{name} 1"), message(f"{name} 2"))
        with session.run(owner=name) as run:
            entries += run.append(message(f"{name} 3"))
        return [entry.id for entry in entries]


# What comes of it


def test_f25_a_process_with_a_wrong_clock_does_not_get_a_lease_that_is_held(
    tmp_path: Path, under: list[str]
) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        session = store.session("s")
        with session.run(lease=LONG, owner="right") as run:
            found = call(try_to_take, str(path), under=under)
            run.append(message("still mine"))

        assert abs(found["wall"] - time.time()) > 200
        assert (found["lease"], found["errors"], found["interrupted"]) == ("right", ["right"] * 2, [])
        assert statuses(session) == [["running", "right"], ["completed", "right"]]
        assert texts(session) == ["still mine"]


def test_f25_finds_leases_that_are_measured_by_the_wall_clock(tmp_path: Path) -> None:
    """A planted bug: stolen by a clock ahead, kept for ever by a holder with such a clock. Three interpreters
    have to be started for it, which takes a second."""
    under = wrong_clock("+1d", monotonic=False)
    with clew.open(tmp_path / "stolen.db") as store:
        session = store.session("s")
        run = session.run(lease=LONG, owner="right")

        assert call(try_to_take, str(tmp_path / "stolen.db"), under=under)["errors"] == ["right"] * 2
        assert call(try_to_take, str(tmp_path / "stolen.db"), WALL, under=under)["errors"] == []
        with pytest.raises(clew.LeaseLostError):
            run.append(message("lost"))

    call(take_and_vanish, str(tmp_path / "kept.db"), WALL, under=under)
    with clew.open(tmp_path / "kept.db") as store:
        assert until(store.get("s")) > machine_clock() + SECOND


def test_f25_a_process_with_a_wrong_clock_does_not_keep_a_lease_longer_than_its_time(
    tmp_path: Path, under: list[str]
) -> None:
    """Nor shorter: who takes over does so when it is over by the machine's clock."""
    path = tmp_path / "a.db"
    call(take_and_vanish, str(path), under=under)

    with clew.open(path) as store:
        session = store.get("s")
        over = until(session)
        assert over <= machine_clock() + SECOND // 2
        with session.run(lease=LONG, owner="right", wait=DEADLINE) as run:
            assert until(session) - LONG * SECOND > over
            assert run.epoch == 2
        assert [status for status, _ in statuses(session)] == [
            "running",
            "interrupted",
            "running",
            "completed",
        ]


def test_f25_a_process_with_a_wrong_clock_takes_over_when_the_lease_is_over_and_not_before(
    tmp_path: Path, under: list[str]
) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store, mock.patch.object(Heartbeat, "watch"):
        session = store.session("s")
        run = session.run(lease=0.5, owner="right")
        over = until(session)

        taken = call(take_when_over, str(path), under=under)

        assert taken > over
        with pytest.raises(clew.LeaseLostError):
            run.append(message("late"))
        assert texts(session) == ["taken over"]


def test_f25_the_lease_of_a_holder_with_a_wrong_clock_is_respected(tmp_path: Path, under: list[str]) -> None:
    path = tmp_path / "a.db"

    assert call(hold_against, str(path), LONG, 0, under=under) == [["wrong", "wrong"], False]
    with clew.open(path) as store:
        assert texts(store.get("s")) == ["before", "after"]
        assert lease_record(store.get("s")) is None


def test_f25_a_holder_with_a_wrong_clock_renews_its_lease(tmp_path: Path, wrong_wall: list[str]) -> None:
    """Again and again."""
    path = tmp_path / "a.db"

    assert call(hold_against, str(path), 60, 4, under=wrong_wall) == [["wrong", "wrong"], False]
    with clew.open(path) as store:
        assert texts(store.get("s")) == ["before", "after"]


def test_f25_a_holder_whose_clock_jumps_keeps_its_lease(tmp_path: Path) -> None:
    """A day forwards, then more than a day back, then right again."""
    library = subprocess.run(
        [*wrong_clock("+0", monotonic=False), "printenv", "LD_PRELOAD"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    file = tmp_path / "offset"
    file.write_text("+0\n")
    jumping = [f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_NO_CACHE=1"]
    under = ["env", *jumping, MONOTONIC_IS_RIGHT]

    found = call(hold_while_the_clock_jumps, str(tmp_path / "a.db"), str(file), under=under)

    refused = ["jumping", "jumping"]
    assert found == [[24, refused, False], [-25, refused, False], [1, refused, False]]
    with clew.open(tmp_path / "a.db") as store:
        assert texts(store.get("s")) == ["+1d", "-1h", "+0"]
        assert [status for status, _ in statuses(store.get("s"))] == ["running", "completed"]


def test_f25_ids_are_unique_and_order_is_that_of_positions_whatever_the_clocks_say(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    expected, ids = [], []
    for number, offset in enumerate(("+0", "+1d", "-1h", "+0", "+5m", "-1h", "+1d", "+0")):
        under = wrong_clock(offset, monotonic=bool(number % 2))
        ids += call(append_some, str(path), f"{number}", under=under)
        expected += [f"{number} {part}" for part in (1, 2, 3)]

    with clew.open(path) as store:
        session = store.get("s")
        assert texts(session) == expected
        assert [entry.id for entry in session.entries()] == ids
        assert len(set(ids)) == len(ids)
        assert [entry.position for entry in session.entries()] == list(range(len(ids)))
        assert chain_of(session) == []
        assert sorted({entry.epoch for entry in session.entries()}) == list(range(9))
