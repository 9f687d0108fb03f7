"""The official conformance tool, against a server with all that its scenarios want and against Clew."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.server.conftest import TOKEN, Running
from tests.server.mcp.clients.programs import failures, required

pytestmark = [pytest.mark.needs("node"), pytest.mark.timeout(600)]  # the first one installs from npm

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"

# What the tool has, but requires of nobody yet. Long tasks are left out, and streams that go on where they
# broke off: Clew offers neither.
MORE: Final = {
    OLD: {"json-schema-2020-12", "server-session-lifecycle"},
    NEW: {"json-schema-2020-12", "http-custom-header-server-validation"},
}

# What a server can do only while it answers with a stream or keeps a session. /mcp answers at once and keeps
# nothing: no tool of Clew asks the user, logs or tells of its progress.
NEEDS_A_STREAM: Final = {
    OLD: {
        "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "server-sse-multiple-streams",
        "tools-call-elicitation", "tools-call-sampling", "tools-call-with-logging",
        "tools-call-with-progress",
    },
    NEW: {"tools-call-with-progress"},
}  # fmt: skip

# What can be asked of any server, whatever its tools are.
OF_ANY_SERVER: Final = {
    OLD: {
        "completion-complete", "dns-rebinding-protection", "ping", "prompts-list", "resources-list",
        "server-initialize", "server-session-lifecycle", "tools-list",
    },
    NEW: {
        "caching", "completion-complete", "dns-rebinding-protection", "http-header-validation",
        "input-required-result-unsupported-methods", "prompts-list", "resources-list",
        "sep-2164-resource-not-found", "server-sse-multiple-streams", "server-stateless", "tools-list",
    },
}  # fmt: skip


@contextmanager
def fixture_server(way: str) -> Iterator[str]:
    words = [sys.executable, "-W", "ignore", "-m", "tests.server.mcp.clients.fixture_server", way]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_a_server_that_is_made_as_ours_is_passes_every_scenario(revision: str, tmp_path: Path) -> None:
    with fixture_server("sdk") as url:
        assert failures(url, revision, required(revision) | MORE[revision], tmp_path) == {}


def test_it_passes_in_clew_serve_whatever_needs_no_stream(tmp_path: Path) -> None:
    with fixture_server("clew") as url:
        for revision in (OLD, NEW):
            scenarios = (required(revision) | MORE[revision]) - NEEDS_A_STREAM[revision]
            assert failures(url, revision, scenarios, tmp_path / revision, token=TOKEN) == {}


def test_clew_passes_what_can_be_asked_of_any_server(served: Running, tmp_path: Path) -> None:
    for revision in (OLD, NEW):
        asked, folder = OF_ANY_SERVER[revision], tmp_path / revision
        assert failures(f"{served.url}/mcp", revision, asked, folder, token=TOKEN, has_fixtures=False) == {}
