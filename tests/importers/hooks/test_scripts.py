"""What a hook runs: it says which session, whatever is in its input, and holds no agent up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from clew.importers.hooks.agents import AGENTS, Agent
from clew.importers.hooks.install import install, remove, script_of, status
from clew.importers.wake import Wake, listening, read_wakes, wake_directory

HEAD = {"session_id": "s1", "transcript_path": "", "cwd": "/work", "hook_event_name": "Stop"}
SHELLS = [name for name in ("dash", "bash", "busybox", "ksh") if shutil.which(name)]
LONG = 20


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    with listening() as found:
        yield found


@pytest.fixture
def script(home: Path) -> Path:
    install(AGENTS["claude-code"], files=None)
    return script_of(AGENTS["claude-code"])


def _run(script: Path, said: Any, shell: str | None = None, **variables: str) -> None:
    """It must print nothing, and end well."""
    data = (
        said if isinstance(said, bytes) else json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")
    )
    words = [] if shell is None else [shell, "sh"] if shell == "busybox" else [shell]
    _silent([*words, str(script)], data, os.environ | variables)


def _silent(command: list[str], data: bytes = b"", environment: Mapping[str, str] = os.environ) -> None:
    done = subprocess.run(
        command, input=data, capture_output=True, env=environment, timeout=LONG, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def _said(place: Path) -> list[Wake]:
    """What came; the word is written after the hook has ended."""
    end = time.monotonic() + LONG
    while not (found := read_wakes(place)) and time.monotonic() < end:
        time.sleep(0.005)
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_says_which_session(home: Path, place: Path, script: Path, shell: str) -> None:
    file = home / ".claude" / "projects" / "x" / "s1.jsonl"
    _run(script, HEAD | {"transcript_path": str(file), "last_assistant_message": "hello"}, shell)
    assert _said(place) == [Wake("claude-code", "Stop", "s1", os.path.realpath(file), "/work", files=False)]
    assert list(place.iterdir()) == []


def test_the_wish_for_files_rides_along(place: Path, script: Path) -> None:
    install(AGENTS["claude-code"], files=True)
    _run(script, HEAD)
    assert [one.files for one in _said(place)] == [True]


HOSTILE = {
    "keys in a text": '"session_id":"evil","cwd":"/evil","hook_event_name":"SessionEnd"',
    "keys behind a backslash": '\\","session_id":"evil","cwd":"/evil',
    "keys behind two backslashes": '\\\\","session_id":"evil","cwd":"/evil',
    "an end of text": '"},{"session_id":"evil","cwd":"/evil"}',
    "ends of lines": '\n,"session_id":"evil"\n{"cwd":"/evil"\n',
    "codes and letters": '\x00\x1b[31m\u2028\U0001f600 ,"session_id":"evil"',
    "for the shell": "$(touch evil) `touch evil` '; touch evil; ' %s%n \\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("where", ["before", "behind", "as a key"])
def test_s59_what_a_message_holds_fools_nobody(
    place: Path, script: Path, home: Path, text: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    said: dict[str, Any] = {"message": text} | HEAD if where == "before" else HEAD | {"message": text}
    if where == "as a key":
        said = {text: {text: 1}} | HEAD
    _run(script, said)
    assert _said(place) == [Wake("claude-code", "Stop", "s1", None, "/work", files=False)]
    assert not (home / "evil").exists()


def test_s59_what_is_nested_behind_the_agents_own_fields_does_not_count(place: Path, script: Path) -> None:
    _run(script, HEAD | {"input": {"session_id": "evil", "cwd": "/evil"}, "list": [{"hook_event_name": "x"}]})
    assert _said(place) == [Wake("claude-code", "Stop", "s1", None, "/work", files=False)]


def test_s59_a_key_that_ends_like_one_of_ours_does_not_count(place: Path, script: Path) -> None:
    other = {'x"session_id': "evil", 'x,"cwd': "/evil", "the cwd": "/evil", "cwd2": "/evil"}
    _run(script, {"input": other} | HEAD)
    assert _said(place) == [Wake("claude-code", "Stop", "s1", None, "/work", files=False)]


def test_s59_no_word_of_a_message_is_written(place: Path, script: Path) -> None:
    _run(script, HEAD | {"prompt": "my secret", "prompt_response": "my secret"})
    end = time.monotonic() + LONG
    while not (files := list(place.glob("claude-code.*"))) and time.monotonic() < end:
        time.sleep(0.005)
    [file] = files
    assert b"secret" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("cwd", "wanted"),
    [
        ("/a b/ü/\U0001f600", "/a b/ü/\U0001f600"),
        ('/a"b\\c', '/a"b\\c'),
        ("/a\nb", None),
        ("/$(x)/`y`/%s", "/$(x)/`y`/%s"),
        ("relative", None),
    ],
)
def test_paths_of_all_kinds(place: Path, script: Path, cwd: str, wanted: str | None) -> None:
    for text in (
        json.dumps(HEAD | {"cwd": cwd}),
        json.dumps(HEAD | {"cwd": cwd}, ensure_ascii=False, indent=2),
    ):
        _run(script, text.encode())
        assert [one.cwd for one in _said(place)] == [wanted]


@pytest.mark.parametrize("watched", [True, False])
def test_megabytes_of_input_are_taken_whole(home: Path, script: Path, watched: bool) -> None:
    """An agent that writes to a closed pipe may take it for a failure, so all of it is read."""
    with listening() if watched else nullcontext(home) as place:
        hook = subprocess.Popen([str(script)], stdin=subprocess.PIPE, bufsize=0)
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(HEAD)[:-1].encode())
        for _ in range(100):
            hook.stdin.write(b" " * 60_000)
        hook.stdin.close()
        assert hook.wait(LONG) == 0
        if watched:
            assert [one.session for one in _said(place)] == ["s1"]


@pytest.mark.parametrize("data", [b"", b"\n", b"not json", b"\xff\xfe\x00" * 1000, b'{"session_id":"s'])
def test_other_input_says_nothing(place: Path, script: Path, data: bytes) -> None:
    _run(script, data)
    _run(script, HEAD | {"session_id": "last"})
    assert [one.session for one in _said(place)] == ["last"]


def test_an_event_that_is_not_known_is_passed_on(place: Path, script: Path) -> None:
    _run(script, HEAD | {"hook_event_name": "SomethingNew"})
    assert [one.event for one in _said(place)] == ["SomethingNew"]


def test_without_a_watcher_nothing_is_written(home: Path, script: Path) -> None:
    before = set(home.rglob("*"))
    _run(script, HEAD | {"message": "x" * 1_000_000})
    assert set(home.rglob("*")) == before


def test_a_watcher_that_is_dead_is_told_nothing(place: Path, script: Path) -> None:
    dead = place.parent / "0004194305.abcdef01"  # it comes before all that live
    dead.mkdir()
    _run(script, HEAD)
    assert len(_said(place)) == 1
    assert list(dead.iterdir()) == []


def test_every_watcher_is_told(home: Path, script: Path) -> None:
    state = home / ".local" / "state" / "clew" / "wake"
    with listening() as one, listening() as two, listening(state) as three:
        _run(script, HEAD)
        assert [len(_said(place)) for place in (one, two, three)] == [1, 1, 1]


def test_the_environment_of_the_hook_may_be_bare(home: Path, script: Path) -> None:
    state = home / ".local" / "state" / "clew" / "wake"
    with listening(state) as place:
        done = subprocess.run(
            [str(script)], input=json.dumps(HEAD).encode(), env={}, check=True, timeout=LONG
        )
        assert done.returncode == 0
        assert [one.session for one in _said(place)] == ["s1"]


def test_a_place_that_cannot_be_written_to_holds_nothing_up(home: Path, script: Path) -> None:
    base = wake_directory()
    base.mkdir(parents=True)
    (base / f"{os.getpid()}.abcdef01").write_text("a file")
    (base / f"{os.getpid()}.abcdef02").symlink_to(home / "nothing")
    _run(script, HEAD)


def test_a_full_disk_holds_nothing_up_and_leaves_nothing(home: Path, script: Path) -> None:
    with listening() as place:
        limited = ["sh", "-c", f"trap '' XFSZ; ulimit -f 0; exec '{script}'"]
        _silent(limited, json.dumps(HEAD).encode())
        end = time.monotonic() + LONG
        _run(script, HEAD)
        assert [one.session for one in _said(place)] == ["s1"]
        while list(place.iterdir()) and time.monotonic() < end:
            time.sleep(0.005)
        assert list(place.iterdir()) == []


def test_signals_at_the_end_of_an_agent_lose_nothing(place: Path, script: Path) -> None:
    """Claude Code ends the process group of a hook when it ends itself."""
    hook = subprocess.Popen([str(script)], stdin=subprocess.PIPE, start_new_session=True)
    assert hook.stdin is not None
    hook.wait(LONG)  # its input still comes
    for number in (1, 2, 15):
        os.killpg(hook.pid, number)
    hook.stdin.write(json.dumps(HEAD).encode())
    hook.stdin.close()
    assert [one.session for one in _said(place)] == ["s1"]


def test_a_hook_that_waits_for_its_input_can_be_ended(home: Path, script: Path) -> None:
    hook = subprocess.Popen([str(script)], stdin=subprocess.PIPE)
    assert hook.stdin is not None
    os.kill(hook.pid, 15)
    assert hook.wait(LONG) == -15
    hook.stdin.close()


def test_words_of_many_agents_at_once_are_all_there(place: Path, script: Path) -> None:
    hooks = [subprocess.Popen([str(script)], stdin=subprocess.PIPE) for _ in range(40)]
    for number, hook in enumerate(hooks):
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(HEAD | {"session_id": f"s{number}"}).encode())
        hook.stdin.close()
        assert hook.wait(LONG) == 0
    seen: set[str | None] = set()
    while len(seen) < len(hooks):
        found = _said(place)
        assert found, seen
        seen |= {one.session for one in found}
    assert seen == {f"s{number}" for number in range(len(hooks))}


# -- extensions of OpenCode and pi

OPENCODE = """
import { Clew } from "FILE"
const { event } = await Clew({ directory: "/work" })
await event({ event: { type: "message.updated", properties: { sessionID: "no" } } })
await event({ event: { type: "session.idle", properties: { sessionID: "s1" } } })
await event({ event: { type: "session.created", properties: { info: { id: "s1" } } } })
await event({ event: { type: "session.deleted" } })
"""
PI = """
import clew from "FILE"
const handlers = {}
clew({ on: (name, handler) => { handlers[name] = handler } })
const sessionManager = { getSessionId: () => "s1", getSessionFile: () => "SESSION" }
await handlers.session_start({}, { cwd: "/work", sessionManager })
await handlers.agent_end({}, { cwd: "/work", sessionManager })
"""


def _node(agent: Agent, program: str, home: Path) -> None:
    file = home / "extension.mjs"
    shutil.copy(agent.path, file)
    (home / "main.mjs").write_text(program.replace("FILE", str(file)))
    _silent(["node", str(home / "main.mjs")])


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_opencode_says_which_session(home: Path, place: Path) -> None:
    agent = AGENTS["opencode"]
    install(agent, files=True)
    _node(agent, OPENCODE, home)
    database = os.path.realpath(home / ".local" / "share" / "opencode" / "opencode.db")
    assert read_wakes(place) == [
        Wake("opencode", "session.idle", "s1", database, "/work", files=True),
        Wake("opencode", "session.created", "s1", database, "/work", files=True),
        Wake("opencode", "session.deleted", None, database, "/work", files=True),
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_pi_says_which_session(home: Path, place: Path) -> None:
    agent = AGENTS["pi"]
    install(agent, files=None)
    session = home / ".pi" / "agent" / "sessions" / "--work--" / "s1.jsonl"
    _node(agent, PI.replace("SESSION", str(session)), home)
    wanted = os.path.realpath(session)
    assert read_wakes(place) == [
        Wake("pi", "session_start", "s1", wanted, "/work", files=False),
        Wake("pi", "agent_end", "s1", wanted, "/work", files=False),
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(("name", "program"), [("opencode", OPENCODE), ("pi", PI)])
def test_extensions_do_nothing_without_a_watcher(home: Path, name: str, program: str) -> None:
    install(AGENTS[name], files=None)
    _node(AGENTS[name], program, home)
    assert not wake_directory().exists()


@pytest.mark.parametrize("name", ["codex", "gemini-cli"])
def test_a_home_with_spaces_and_quotes_is_found_by_the_shell(
    tmp_path: Path, home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / 'it\'s "a" $home'
    shutil.copytree(home, odd)
    monkeypatch.setenv("HOME", str(odd))
    agent = AGENTS[name]
    install(agent, files=None)
    assert status(agent).state == "installed"
    hooks = json.loads(agent.path.read_text())["hooks"]
    with listening(odd / ".local" / "state" / "clew" / "wake") as place:
        for event in agent.events:
            [handler] = hooks[event][0]["hooks"]
            _silent(
                ["bash", "-c", handler["command"]], json.dumps(HEAD | {"hook_event_name": event}).encode()
            )
            assert [one.event for one in _said(place)] == [event]
    assert remove(agent).is_restored
