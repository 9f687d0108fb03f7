"""The official conformance tool, against a server with all that its scenarios want and against Clew."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server.mcp.clients.programs import failures, required

# Scenarios that the tool requires of nobody yet. Left out are two things that Clew does not offer: long
# tasks, and streams that go on where they broke off.
_MORE = {
    "2025-11-25": {"json-schema-2020-12", "server-session-lifecycle"},
    "2026-07-28": {"json-schema-2020-12", "http-custom-header-server-validation"},
}


@contextmanager
def fixture_server() -> Iterator[str]:
    words = [sys.executable, "-W", "ignore", "-m", "tests.server.mcp.clients.fixture_server"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("revision", _MORE)
def test_a_server_that_is_made_as_ours_is_passes_every_scenario(revision: str, tmp_path: Path) -> None:
    with fixture_server() as url:
        assert failures(url, revision, required(revision) | _MORE[revision], tmp_path) == {}
