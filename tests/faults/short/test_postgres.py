"""The same campaigns on PostgreSQL: clients that are killed, servers that stop, disks without power."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.kills import kill_cycles
from tests.faults.campaigns.together import fence, fork_with_a_store, start_together, storm
from tests.faults.short.servers import stop_servers
from tests.faults.short.test_power import need_power
from tests.faults.subjects import PostgresSubject


@pytest.fixture
def subject(tmp_path: Path, postgres_url: str) -> PostgresSubject:
    (tmp_path / "server").write_text(postgres_url)
    return PostgresSubject(tmp_path / "subject")


def test_f01_clients_killed_at_any_instant_lose_nothing_that_was_acknowledged(
    subject: PostgresSubject,
) -> None:
    """P1, P2, P3, P12, J1-J11."""
    result = campaign(kill_cycles, subject, cycles=6, seed=1)

    assert result.wrong == []
    assert result.acknowledged > 30


def test_f21_eight_processes_that_open_a_new_store_at_once_all_succeed(subject: PostgresSubject) -> None:
    result = campaign(start_together, subject, rounds=1)

    assert result.wrong == []


def test_f22_f24_a_storm_of_processes_some_of_them_frozen_for_a_moment_loses_nothing(
    subject: PostgresSubject,
) -> None:
    result = campaign(storm, subject, processes=3, count=20, freezes=10)

    assert result.wrong == []


def test_f24_a_frozen_holder_that_comes_back_is_refused(subject: PostgresSubject) -> None:
    """P9, J8."""
    result = campaign(fence, subject)

    assert result.wrong == []


def test_f26_processes_that_are_forked_with_an_open_store_use_it_each_for_itself(
    subject: PostgresSubject,
) -> None:
    result = campaign(fork_with_a_store, subject)

    assert result.wrong == []


@pytest.fixture
def open_place(postgres_url: str) -> Iterator[Path]:
    """A directory that the user who runs the server can reach; there is a PostgreSQL to be run."""
    with tempfile.TemporaryDirectory(prefix="clew-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_f35_a_server_that_stops_at_once_loses_nothing_that_was_acknowledged(open_place: Path) -> None:
    """P1."""
    result = campaign(stop_servers, PostgresSubject(open_place / "subject"), cycles=2, seed=1)

    assert result.wrong == []
    assert result.acknowledged > 2


def test_f35_a_server_whose_disk_loses_its_power_loses_nothing_that_was_acknowledged(
    open_place: Path,
) -> None:
    """P1."""
    need_power("ext4")

    subject = PostgresSubject(open_place / "subject")
    result = campaign(stop_servers, subject, cycles=2, seed=1, filesystem="ext4")

    assert result.wrong == []
    assert result.acknowledged > 2


def test_the_power_cuts_find_a_server_that_does_not_sync(open_place: Path) -> None:
    """A planted bug."""
    need_power("ext4")

    subject = PostgresSubject(open_place / "subject")
    result = campaign(stop_servers, subject, cycles=4, seed=2, filesystem="ext4", fsync="off")

    assert result.wrong != []
