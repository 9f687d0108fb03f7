"""On PostgreSQL: clients that are killed, a server whose disk loses its power. `tests/faults/long` runs the
other campaigns on it, too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.kills import kill_cycles
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
    result = campaign(kill_cycles, subject, cycles=1, seed=3, longest=80)

    assert result.wrong == []
    assert result.acknowledged > 10


@pytest.fixture
def open_place(postgres_url: str) -> Iterator[Path]:
    """A directory that the user who runs the server can reach; there is a PostgreSQL to be run."""
    with tempfile.TemporaryDirectory(prefix="clew-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_the_power_cuts_find_a_server_that_does_not_sync(open_place: Path) -> None:
    """A planted bug. It takes a second to make a cluster."""
    need_power("ext4")

    subject = PostgresSubject(open_place / "subject")
    result = campaign(stop_servers, subject, cycles=1, seed=2, filesystem="ext4", fsync="off")

    assert result.wrong != []
