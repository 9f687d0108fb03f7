"""How to go on with a session in an agent, over HTTP. The server starts nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import Running
from tests.server.routes.asking import S, refusal, user


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "0b1c.jsonl"
    path.write_text("{}\n")
    return path


def session_of(store: clew.Store, file: Path, workspace: Path) -> clew.Session:
    """As an importer of Claude Code leaves it."""
    origin = {"format": "claude-code", "path": str(file)}
    made = store.create("claude-code:0b1c", workspace=workspace, metadata={"imported_from": origin})
    made.append(user("fix it"), user("more"))
    return made


def asked(client: httpx.Client, id: str, **query: str) -> Any:
    answer = client.get(f"{S}/{id}/resume-command", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_command_of_its_agent(server: Running, client: httpx.Client, file: Path, tmp_path: Path) -> None:
    session_of(server.store, file, tmp_path)
    found = asked(client, "claude-code:0b1c")
    assert found["command"] == f"cd {tmp_path} && claude --resume 0b1c"
    assert found["directory"] == str(tmp_path)
    assert found["note"] == ""
    commands = {one["agent"]: one["command"] for one in found["agents"]}
    assert commands["codex"] == f"clew --store {server.store.location} resume --in codex claude-code:0b1c"


def test_a_place_goes_on_in_a_copy(server: Running, client: httpx.Client, file: Path, tmp_path: Path) -> None:
    session_of(server.store, file, tmp_path)
    found = asked(client, "claude-code:0b1c", at="0")
    assert found["command"] == f"clew --store {server.store.location} resume claude-code:0b1c@0"
    missing = client.get(f"{S}/claude-code:0b1c/resume-command", params={"at": "nowhere"})
    assert refusal(missing) == (404, "checkpoint_not_found")


def test_a_file_that_is_gone_is_told_to_the_owner_only(
    server: Running, client: httpx.Client, file: Path, tmp_path: Path
) -> None:
    """Whoever writes sessions could else find out which files this machine has."""
    session_of(server.store, file, tmp_path)
    _, token = add_token(server.store, "t", scopes=["admin"])
    with server.client(token) as other:
        before = asked(other, "claude-code:0b1c")
        file.unlink()
        assert asked(other, "claude-code:0b1c") == before
    assert str(server.store.location) not in str(before)
    found = asked(client, "claude-code:0b1c")
    assert found["command"].endswith("resume claude-code:0b1c")
    assert "not there" in found["note"]


def test_a_directory_that_is_gone_is_told_to_the_owner_only_with_a_command_that_works_without_it(
    server: Running, client: httpx.Client, file: Path, tmp_path: Path
) -> None:
    """`clew resume` refuses to go on there, so the command goes on where it is run."""
    place = tmp_path / "shop"
    place.mkdir()
    session_of(server.store, file, place)
    _, token = add_token(server.store, "t", scopes=["admin"])
    with server.client(token) as other:
        before = asked(other, "claude-code:0b1c")
        place.rmdir()
        assert asked(other, "claude-code:0b1c") == before
    found = asked(client, "claude-code:0b1c")
    assert found["command"] == f"clew --store {server.store.location} resume --directory . claude-code:0b1c"
    assert found["note"] == (
        f"The directory of the session is gone: {place}."
        " Run this where it should continue: claude-code gets a copy of it, under an id of its own."
    )
    commands = {one["agent"]: one["command"] for one in found["agents"]}
    assert commands["codex"].endswith("resume --in codex --directory . claude-code:0b1c")
    place.write_text("a file is no directory")
    assert asked(client, "claude-code:0b1c") == found


def test_the_store_of_the_user_need_not_be_named(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("CLEW_STORE", raising=False)
    with clew.open() as store:
        store.create("a", metadata={"agent": "codex"}).append(user("x"))
        running = serve(store)
        with running.client() as client:
            assert asked(client, "a")["agents"][1]["command"] == "clew resume --in codex a"
