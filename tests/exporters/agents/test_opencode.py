"""OpenCode imports what was written for it, and exports the same again: of other agents, and its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import opencode
from tests.exporters.agents.recorded import HINTS, LOGIN, PASSWORDS, PLACES, REVIEW, USERS, whole
from tests.home.make import make_home
from tests.support.npm import installed

VERSION = "1.18.33"
OFFLINE = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which OpenCode can be called by its name, and stays offline."""
    programs = installed("opencode-ai", VERSION) / ".bin"
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for what in OFFLINE:
        monkeypatch.setenv(f"OPENCODE_DISABLE_{what}", "1")
    return make_home(tmp_path / "home")


@pytest.fixture
def store(home: Path) -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        for place in PLACES:
            store.import_path(home / place)
        yield store


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    (tmp_path / "w").mkdir()
    return str(tmp_path / "w")


def run(home: Path, workspace: str, *words: str) -> Any:
    known = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        ["opencode", *words],
        env={**known, "HOME": str(home)},
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def said(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for message in document["messages"]:
        texts = [part["text"] for part in message["parts"] if part["type"] == "text"]
        if texts:
            # A summary is an answer there.
            role = "user" if message["info"].get("summary") is True else message["info"]["role"]
            found.append((role, "\n\n".join(texts)))
        for part in message["parts"]:
            if part["type"] == "tool":
                state = part["state"]
                answer = state["error"] if state["status"] == "error" else state["output"]
                found.append(("call", part["tool"], state["input"], answer, state["status"] == "error"))
    return found


def test_sessions_of_other_agents_are_imported_with_their_texts_calls_and_results(
    home: Path, store: clew.Store, workspace: str
) -> None:
    written = {
        id: opencode.write_session(store, id, home=home, workspace=workspace)
        for id in (LOGIN, PASSWORDS, USERS, REVIEW)
    }
    for id, one in written.items():
        document = run(home, workspace, "export", one.id)
        assert said(document) == whole(store, id), id
        assert one.command == ["opencode", "-s", one.id]
        assert document["info"]["directory"] == workspace
        # OpenCode sorts by time and by id: the order is the one that was written.
        ids = [message["info"]["id"] for message in document["messages"]]
        assert ids == sorted(ids)
        prompts = {
            message["info"]["id"] for message in document["messages"] if message["info"]["role"] == "user"
        }
        parents = [m["info"]["parentID"] for m in document["messages"] if m["info"]["role"] == "assistant"]
        assert prompts.issuperset(parents)
    listed = run(home, workspace, "session", "list", "--format", "json")
    titles = {one["id"]: one["title"] for one in listed}
    assert {id: titles[one.id] for id, one in written.items()} == {
        id: store.get(id).info.title for id in written
    }
    # What was written for the import is gone.
    assert list((home / ".local" / "state" / "clew" / "opencode").iterdir()) == []


def test_a_session_of_its_own_is_exported_as_it_does_itself(
    home: Path, store: clew.Store, workspace: str
) -> None:
    theirs = run(home, workspace, "export", HINTS.partition(":")[2])
    assert json.loads(store.export(HINTS, "opencode")) == theirs


def test_a_copy_of_its_own_session_at_a_place_shares_no_id(
    home: Path, store: clew.Store, workspace: str
) -> None:
    place = next(entry for entry in store.get(HINTS).entries() if entry.position == 4)
    written = opencode.write_session(store, HINTS, at=place, home=home, workspace=workspace)
    before = run(home, workspace, "export", HINTS.partition(":")[2])
    copy = run(home, workspace, "export", written.id)
    assert said(copy) == said(before)[: len(said(copy))] == whole(store, HINTS, at=place)
    for one, other in zip(copy["messages"], before["messages"], strict=False):
        kinds = [part["type"] for part in one["parts"]]
        assert kinds == [part["type"] for part in other["parts"]]
        assert one["info"]["id"] != other["info"]["id"]
        assert not {part["id"] for part in one["parts"]} & {part["id"] for part in other["parts"]}


def test_a_refused_import_keeps_the_file(home: Path, store: clew.Store, tmp_path: Path) -> None:
    with pytest.raises(clew.ClewError, match="waits in"):
        opencode.write_session(store, USERS, home=home, workspace=str(tmp_path / "gone"))
    (file,) = (home / ".local" / "state" / "clew" / "opencode").iterdir()
    assert json.loads(file.read_text())["messages"]
