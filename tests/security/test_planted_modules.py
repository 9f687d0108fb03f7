"""A repository may hold modules of the names that Clew imports: to start Clew inside it runs none of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import clew
from clew.cli.demo.worker import worker
from clew.core.own_program import own_module, own_program
from clew.importers.follow import service
from clew.server.mcp.install.clients import CLIENTS
from clew.server.mcp.install.install import install, script_of
from clew.server.mcp.install.program import Wish
from tests.server.mcp.install.homes import make_home
from tests.support.rows import each_row

PLANTED = ("clew.py", "click.py", "apsw.py", "msgspec.py", "mcp.py", "sitecustomize.py")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user whose only `clew` is that of the environment of the tests."""
    place = make_home(tmp_path / "home", monkeypatch)
    (place / "bin" / "clew").unlink()
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", os.defpath)
    return place


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody else's, cloned; the current directory."""
    place = tmp_path / "cloned"
    place.mkdir()
    for name in PLANTED:
        (place / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + chr(10))\n")
    monkeypatch.chdir(place)
    return place


def _ran(repository: Path) -> str:
    place = repository.parent / "ran"
    return place.read_text() if place.exists() else ""


def _run(words: Sequence[str | Path], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=given, capture_output=True, text=True, check=False)


@each_row("words", [own_program(), own_module("clew")])
def test_the_words_that_start_clew_run_nothing_of_the_current_directory(
    words: tuple[str, ...], home: Path, repository: Path
) -> None:
    done = _run([*words, "--version"])
    assert (done.returncode, _ran(repository)) == (0, ""), done
    assert clew.__version__ in done.stdout


def test_what_a_client_starts_runs_nothing_of_the_current_directory(home: Path, repository: Path) -> None:
    entry = install(CLIENTS["claude-code"], Wish(sync=False), hint=True).command
    done = _run(entry, json.dumps(HELLO) + "\n")
    assert '"serverInfo"' in done.stdout, done
    hint = _run([script_of(CLIENTS["claude-code"])], "{}")
    assert hint.returncode == 0
    assert _ran(repository) == ""


def test_the_worker_of_the_demo_runs_nothing_of_the_current_directory(home: Path, repository: Path) -> None:
    path = home / "agents.db"
    with clew.open(path) as store:
        store.create("story")
    with worker(path, "story") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("0 ")
    assert _ran(repository) == ""


def test_what_a_service_starts_runs_nothing_of_the_current_directory(home: Path, repository: Path) -> None:
    made = service.service([*own_program(), "--version"], os.environ, home=home, platform="linux")
    made.path.parent.mkdir(parents=True)
    made.path.write_text(made.text)
    done = _run(service.command_of(made.path))
    assert (done.returncode, _ran(repository)) == (0, ""), done
