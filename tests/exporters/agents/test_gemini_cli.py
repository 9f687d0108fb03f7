"""The loader of Gemini CLI reads what was written for it: sessions of other agents, forks, compactions."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import gemini_cli
from clew.exporters.programs.resuming import Written
from tests.exporters.recorded import HINTS, LOGIN, PASSWORDS, REVIEW, USERS, in_view
from tests.home.make import make_home
from tests.support.npm import installed

pytestmark = [pytest.mark.needs("node"), pytest.mark.timeout(600)]  # the first run installs it

VERSION = "0.61.0"
LOADER = Path(__file__).with_name("load_gemini.mjs")


@pytest.fixture(scope="session")
def core() -> Path:
    return installed("@google/gemini-cli-core", VERSION) / "@google" / "gemini-cli-core"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


def loaded(core: Path, home: Path, workspace: str, id: str) -> dict[str, Any]:
    """The chat of this id, as Gemini CLI finds and loads it in a directory."""
    known = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        ["node", str(LOADER), str(core), workspace, id],
        env={**known, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def said(history: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What the model gets, in the order in which turns tell it."""
    results = {
        part["functionResponse"]["id"]: part["functionResponse"]["response"]
        for turn in history
        for part in turn["content"]["parts"]
        if "functionResponse" in part
    }
    found: list[tuple[Any, ...]] = []
    for turn in history:
        role = "assistant" if turn["content"]["role"] == "model" else "user"
        parts = turn["content"]["parts"]
        if text := "\n\n".join(part["text"] for part in parts if "text" in part and not part.get("thought")):
            found.append((role, text))
        for part in parts:
            if call := part.get("functionCall"):
                (kind, text), *_ = results[call["id"]].items()
                found.append(("call", call["name"], call["args"], text, kind == "error"))
    return found


def resumed(store: clew.Store, home: Path, id: str, **more: Any) -> Written:
    return gemini_cli.write_session(store, id, home=home, workspace="/home/ana/shop", **more)


@pytest.mark.parametrize("id", [LOGIN, PASSWORDS, USERS, HINTS])
def test_a_session_of_another_agent_is_loaded_with_its_texts_calls_and_results(
    core: Path, home: Path, store: clew.Store, id: str
) -> None:
    written = resumed(store, home, id)
    found = loaded(core, home, written.directory, written.id)
    expected = in_view(store, id)
    assert [
        one for one in said(found["history"]) if one[1] != "Got it. Thanks for the additional context!"
    ] == [
        (*one[:1], f"> {one[1]}", *one[2:]) if str(one[1]).startswith(("/", "?")) else one for one in expected
    ]
    assert found["listed"]["hasResumableContent"]
    assert found["name"].endswith(f"-{written.id[:8]}.jsonl")
    assert written.command == ["gemini", "--resume", written.id]
    # A call and its result stand behind each other, and no turn is empty.
    roles = [turn["content"]["role"] for turn in found["history"]]
    for at, turn in enumerate(found["history"]):
        assert turn["content"]["parts"]
        if any("functionCall" in part for part in turn["content"]["parts"]):
            assert roles[at + 1] == "user"


def test_its_own_session_goes_on_at_an_earlier_place(core: Path, home: Path, store: clew.Store) -> None:
    session = store.get(REVIEW)
    place = next(entry for entry in session.entries() if entry.position == 6)
    written = resumed(store, home, REVIEW, at=place)
    found = loaded(core, home, written.directory, written.id)
    whole = loaded(core, home, written.directory, REVIEW.partition(":")[2])
    ids = [message["id"] for message in found["record"]["messages"]]
    assert ids == [message["id"] for message in whole["record"]["messages"]][: len(ids)]
    assert said(found["history"])[-1] == ("user", "Fix the first one.")
    assert found["record"]["projectHash"] == whole["record"]["projectHash"]


def test_a_copy_of_its_own_session_says_the_same(core: Path, home: Path, store: clew.Store) -> None:
    written = resumed(store, home, REVIEW)
    copy = loaded(core, home, written.directory, written.id)
    whole = loaded(core, home, written.directory, REVIEW.partition(":")[2])
    assert copy["history"] == whole["history"]


def test_a_new_project_is_found_by_its_directory(core: Path, home: Path, store: clew.Store) -> None:
    """Gemini CLI finds the folder, and lists it itself."""
    written = gemini_cli.write_session(store, LOGIN, home=home, workspace="/home/other/Shop")
    assert written.paths[0].parent == home / ".gemini" / "tmp" / "shop-1" / "chats"
    before = json.loads((home / ".gemini" / "projects.json").read_text())
    assert loaded(core, home, "/home/other/Shop", written.id)["record"]["sessionId"] == written.id
    after = json.loads((home / ".gemini" / "projects.json").read_text())
    assert after["projects"] == {**before["projects"], "/home/other/Shop": "shop-1"}


def test_an_export_of_another_agent_is_loaded(core: Path, home: Path, store: clew.Store) -> None:
    chats = home / ".gemini" / "tmp" / "shop" / "chats"
    store.export(PASSWORDS, "gemini-cli", path=chats / "session-2026-11-16T10-00-00000000.jsonl")
    line = (chats / "session-2026-11-16T10-00-00000000.jsonl").read_text().partition("\n")[0]
    found = loaded(core, home, "/home/ana/shop", json.loads(line)["sessionId"])
    assert said(found["history"]) == in_view(store, PASSWORDS)
