"""A client that is killed and comes back, again and again, misses nothing and gets nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from tests.server.live.reconnecting import RESTART, campaign, short_campaign
from tests.support.effort import usually

CONNECTIONS = usually(200, thorough=5000)
PATHS = ("/sessions/a/live", "/live?session=a&session=b")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_missed_and_nothing_repeated_in_one_process(path: str, tmp_path: Path) -> None:
    """Eighty connections: that takes a second."""
    with clew.open(tmp_path / "clew.db", durability="process") as store:
        seen = short_campaign(store, 2 * RESTART, path)

    assert (seen.connections, seen.servers) == (2 * RESTART, 2)
    assert seen.moves > 5


def address(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "postgres":
        url: str = request.getfixturevalue("emptied_postgres")
        return url
    return f"{kind}:///{tmp_path / 'clew'}"


@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "postgres"])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_missed_and_nothing_repeated(
    kind: str, path: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """While other processes write, and the server is killed."""
    seen = campaign(address(kind, tmp_path, request), CONNECTIONS, 1, path)

    assert seen.connections == CONNECTIONS
    assert seen.moves > 5
    assert seen.servers > 1
