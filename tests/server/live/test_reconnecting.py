"""A client that is killed and comes back, again and again, misses nothing and gets nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.live.reconnecting import campaign
from tests.support.effort import usually

pytestmark = pytest.mark.timeout(900)
CONNECTIONS = usually(60, thorough=1000)


def address(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "postgres":
        url: str = request.getfixturevalue("emptied_postgres")
        return url
    return f"{kind}:///{tmp_path / 'clew'}"


@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "postgres"])
@pytest.mark.parametrize("path", ["/sessions/a/live", "/live?session=a&session=b"])
def test_nothing_is_missed_and_nothing_repeated(
    kind: str, path: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seen = campaign(address(kind, tmp_path, request), CONNECTIONS, 1, path)

    assert seen.connections == CONNECTIONS
    assert seen.moves > 5
    assert seen.servers > 1
