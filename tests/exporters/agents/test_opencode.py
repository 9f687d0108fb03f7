"""OpenCode imports what was written for it, and exports the same again: of other agents, and its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

import clew
from clew.exporters.programs import opencode
from tests.exporters.recorded import HINTS, LOGIN, PASSWORDS, REVIEW, USERS, in_view, whole
from tests.home.make import make_home
from tests.support.npm import installed

pytestmark = [pytest.mark.needs("node"), pytest.mark.timeout(600)]  # the first run installs it

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
def workspace(tmp_path: Path) -> str:
    (tmp_path / "w").mkdir()
    return str(tmp_path / "w")


def run(home: Path, workspace: str, *words: str) -> Any:
    known = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    with tempfile.TemporaryFile() as said:  # into a pipe it writes 64 KiB only
        subprocess.run(
            ["opencode", *words],
            env={**known, "HOME": str(home), "PWD": workspace},
            cwd=workspace,
            stdout=said,
            check=True,
        )
        said.seek(0)
        return json.loads(said.read())


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


class Model(BaseHTTPRequestHandler):
    """A model on this machine that says the same to all."""

    asked: ClassVar[list[list[dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body["messages"])
        told: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello again."}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
        common = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        lines = [json.dumps({**common, **each}) for each in told] + ["[DONE]"]
        answer = "".join(f"data: {line}\n\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def model(workspace: str) -> Iterator[list[list[dict[str, Any]]]]:
    """What a model of OpenCode was asked, in this workspace."""
    Model.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    options = {"baseURL": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
    settings = {"provider": {"here": provider}, "model": "here/m", "small_model": "here/m"}
    Path(workspace, "opencode.json").write_text(json.dumps(settings))
    yield Model.asked
    server.shutdown()
    server.server_close()


def test_the_model_gets_the_summary_and_what_was_kept(
    home: Path, store: clew.Store, workspace: str, model: list[list[dict[str, Any]]]
) -> None:
    """A compacted session of Claude Code goes on in OpenCode."""
    written = opencode.write_session(store, LOGIN, home=home, workspace=workspace)
    known = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    subprocess.run(
        ["opencode", "run", "-s", written.id, "-m", "here/m", "Hello"],
        env={**known, "HOME": str(home), "PWD": workspace},
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    sent = next(messages for messages in model if messages[-1]["content"] == "Hello")
    roles = [message["role"] for message in sent]
    words = [str(message.get("content") or "") for message in sent]
    assert roles[:4] == ["system", "user", "assistant", "assistant"]
    summary, first, *rest = words[2:]
    assert [summary, first] == [text for _, text, *_ in in_view(store, LOGIN)[:2]]
    assert "Write a paragraph for the README about the lock." in rest
    assert not any("Logins fail for users with capital letters" in word for word in words[3:])
    called = [call["id"] for message in sent for call in message.get("tool_calls") or []]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert called == answered == ["toolu_00230", "toolu_00240"]


def test_a_refused_import_keeps_the_file(home: Path, store: clew.Store, tmp_path: Path) -> None:
    with pytest.raises(clew.ClewError, match="waits in"):
        opencode.write_session(store, USERS, home=home, workspace=str(tmp_path / "gone"))
    (file,) = (home / ".local" / "state" / "clew" / "opencode").iterdir()
    assert json.loads(file.read_text())["messages"]
