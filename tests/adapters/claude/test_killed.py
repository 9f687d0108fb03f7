"""A mirror that is killed in the middle loses nothing that was kept, and goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

import clew
from clew.adapters.claude import ClewSessionStore
from tests.adapters.claude.lines import KEY, PROJECT, turn

KEPT = 25


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_after_kill_9_all_batches_are_whole(tmp_path: Path, kind: str) -> None:
    """And they can all be sent again."""
    url = f"jsonl:///{tmp_path}/agents" if kind == "jsonl" else str(tmp_path / "agents.db")
    command = [sys.executable, "-m", "tests.adapters.claude.worker", url]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=paths) as worker:
        assert worker.stdout is not None
        told = [next(worker.stdout) for _ in range(KEPT)]
        worker.kill()
        told += worker.stdout.readlines()
    acknowledged = len([line for line in told if line.endswith("\n")])

    with clew.open(url) as store:
        adapter = ClewSessionStore(store)
        found: Any = asyncio.run(adapter.load(KEY))
        turns = len(found) // 2
        assert found == [line for number in range(turns) for line in turn(number)]
        assert turns >= acknowledged >= KEPT
        for number in range(turns + 2):
            asyncio.run(adapter.append(KEY, turn(number)))

        again: Any = asyncio.run(adapter.load(KEY))
        (summary,) = asyncio.run(adapter.list_session_summaries(PROJECT))
    assert again == [line for number in range(turns + 2) for line in turn(number)]
    assert summary["data"] == sdk.fold_session_summary(None, KEY, again)["data"]
