"""What a hook runs: it says which session, whatever is in its input, and holds no agent up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from clew.importers.hooks.agents import AGENTS, Agent
from clew.importers.hooks.install import install, remove, script_of, status
from clew.importers.wake import Wake, listening, read_wakes, wake_directory
from tests.support.effort import usually
from tests.support.rows import each_row, named

HEAD = {"session_id": "s1", "transcript_path": "", "cwd": "/work", "hook_event_name": "Stop"}
TOLD = Wake("claude-code", "Stop", "s1", None, "/work", files=False)
SHELLS = [name for name in ("dash", "bash", "busybox", "ksh") if shutil.which(name)]


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    with listening() as found:
        yield found


@pytest.fixture
def script(home: Path) -> Path:
    install(AGENTS["claude-code"], files=None)
    return script_of(AGENTS["claude-code"])


@contextmanager
def _left_behind() -> Iterator[int]:
    """A file for a hook to inherit; the block ends when all that the hook left in the background is over."""
    ours, theirs = os.pipe()
    with open(ours, "rb") as reading:
        try:
            yield theirs
        finally:
            os.close(theirs)
        assert reading.read() == b""


def _run(script: Path, said: Any, shell: str | None = None) -> None:
    data = (
        said if isinstance(said, bytes) else json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")
    )
    words = [] if shell is None else [shell, "sh"] if shell == "busybox" else [shell]
    _silent([*words, str(script)], data)


def _silent(command: list[str], data: bytes = b"", environment: Mapping[str, str] | None = None) -> None:
    """It must print nothing, and end well."""
    with _left_behind() as file:
        done = subprocess.run(
            command, input=data, capture_output=True, env=environment, pass_fds=[file], check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


HOSTILE = {
    "keys in a text": '"session_id":"evil","cwd":"/evil","hook_event_name":"SessionEnd"',
    "keys behind a backslash": '\\","session_id":"evil","cwd":"/evil',
    "keys behind two backslashes": '\\\\","session_id":"evil","cwd":"/evil',
    "an end of text": '"},{"session_id":"evil","cwd":"/evil"}',
    "ends of lines": '\n,"session_id":"evil"\n{"cwd":"/evil"\n',
    "codes and letters": '\x00\x1b[31m\u2028\U0001f600 ,"session_id":"evil"',
    "for the shell": "$(touch evil) `touch evil` '; touch evil; ' %s%n \\n",
    "a key that ends like one of ours": 'x"session_id',
    "a longer key": "cwd2",
}
NESTED = {"input": {"session_id": "evil", "cwd": "/evil"}, "list": [{"hook_event_name": "x"}]}


def _hostile(texts: list[str]) -> list[dict[str, Any]]:
    """Texts before and behind the fields of the agent, and as keys."""
    said = {f"message-{number}": text for number, text in enumerate(texts)}
    keys = {text: {text: "/evil"} for text in texts}
    return [
        said | HEAD,
        HEAD | said,
        {"input": keys} | HEAD,
        HEAD | NESTED,
        said | keys | HEAD | NESTED | said,
    ]


def test_s59_a_hook_says_which_session_and_nothing_else(
    home: Path, place: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the background, where no signal that an agent sends at its end is heard."""
    monkeypatch.chdir(home)
    file = home / ".claude" / "projects" / "x" / "s1.jsonl"
    said = _hostile(list(HOSTILE.values()))[-1] | {"transcript_path": str(file), "prompt": "my secret"}
    with _left_behind() as inherited:
        hook = subprocess.Popen(
            [str(script)], stdin=subprocess.PIPE, start_new_session=True, pass_fds=[inherited]
        )
        assert hook.stdin is not None
        assert hook.wait() == 0  # its input still comes
        for number in (1, 2, 15):
            os.killpg(hook.pid, number)
        hook.stdin.write(json.dumps(said).encode())
        hook.stdin.close()
    [word] = place.iterdir()
    assert b"secret" not in word.read_bytes()
    assert word.stat().st_mode & 0o777 == 0o600
    assert read_wakes(place) == [
        Wake("claude-code", "Stop", "s1", os.path.realpath(file), "/work", files=False)
    ]
    assert list(place.iterdir()) == []
    assert not (home / "evil").exists()


@each_row("shell", SHELLS)
def test_every_shell_says_the_same(home: Path, place: Path, script: Path, shell: str) -> None:
    file = home / ".claude" / "projects" / "x" / "s1.jsonl"
    _run(script, HEAD | {"transcript_path": str(file), "last_assistant_message": "hello"}, shell)
    assert read_wakes(place) == [
        Wake("claude-code", "Stop", "s1", os.path.realpath(file), "/work", files=False)
    ]
    assert list(place.iterdir()) == []


def test_the_wish_for_files_rides_along(place: Path, script: Path) -> None:
    install(AGENTS["claude-code"], files=True)
    _run(script, HEAD)
    assert [one.files for one in read_wakes(place)] == [True]


@each_row("what", HOSTILE)
def test_s59_what_a_message_holds_fools_nobody(
    place: Path, script: Path, home: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    for said in _hostile([HOSTILE[what]]):
        with named(str(said)):
            _run(script, said)
            assert read_wakes(place) == [TOLD]
            assert not (home / "evil").exists()


@each_row(
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
        assert [one.cwd for one in read_wakes(place)] == [wanted]


@pytest.mark.parametrize("watched", [True, False])
def test_megabytes_of_input_are_taken_whole(home: Path, script: Path, watched: bool) -> None:
    """An agent that writes to a closed pipe may take it for a failure, so all of it is read."""
    before = set(home.rglob("*"))
    with listening() if watched else nullcontext(home) as place:
        with _left_behind() as inherited:
            hook = subprocess.Popen([str(script)], stdin=subprocess.PIPE, bufsize=0, pass_fds=[inherited])
            assert hook.stdin is not None
            hook.stdin.write(json.dumps(HEAD)[:-1].encode())
            for _ in range(100):
                hook.stdin.write(b" " * 60_000)
            hook.stdin.close()
            assert hook.wait() == 0
        if watched:
            assert [one.session for one in read_wakes(place)] == ["s1"]
        else:
            assert set(home.rglob("*")) == before, "nobody is told"


@each_row("data", [b"", b"\n", b"not json", b"\xff\xfe\x00" * 1000, b'{"session_id":"s'])
def test_other_input_says_nothing(place: Path, script: Path, data: bytes) -> None:
    _run(script, data)
    assert read_wakes(place) == []


def test_an_event_that_is_not_known_is_passed_on(place: Path, script: Path) -> None:
    _run(script, HEAD | {"hook_event_name": "SomethingNew"})
    assert [one.event for one in read_wakes(place)] == ["SomethingNew"]


def test_a_watcher_that_is_dead_is_told_nothing(place: Path, script: Path) -> None:
    dead = place.parent / "0004194305.abcdef01"  # it comes before all that live
    dead.mkdir()
    _run(script, HEAD)
    assert len(read_wakes(place)) == 1
    assert list(dead.iterdir()) == []


def test_every_watcher_is_told(home: Path, script: Path) -> None:
    state = home / ".local" / "state" / "clew" / "wake"
    with listening() as one, listening() as two, listening(state) as three:
        _run(script, HEAD)
        assert [len(read_wakes(place)) for place in (one, two, three)] == [1, 1, 1]


def test_the_environment_of_the_hook_may_be_bare(home: Path, script: Path) -> None:
    with listening(home / ".local" / "state" / "clew" / "wake") as place:
        _silent([str(script)], json.dumps(HEAD).encode(), {})
        assert [one.session for one in read_wakes(place)] == ["s1"]


def test_a_place_that_cannot_be_written_to_holds_nothing_up(home: Path, script: Path) -> None:
    base = wake_directory()
    base.mkdir(parents=True)
    (base / f"{os.getpid()}.abcdef01").write_text("a file")
    (base / f"{os.getpid()}.abcdef02").symlink_to(home / "nothing")
    _run(script, HEAD)


def test_a_full_disk_holds_nothing_up_and_leaves_nothing(place: Path, script: Path) -> None:
    limited = ["sh", "-c", f"trap '' XFSZ; ulimit -f 0; exec '{script}'"]
    _silent(limited, json.dumps(HEAD).encode())
    assert list(place.iterdir()) == []


def test_a_hook_that_waits_for_its_input_can_be_ended(home: Path, script: Path) -> None:
    hook = subprocess.Popen([str(script)], stdin=subprocess.PIPE)
    assert hook.stdin is not None
    os.kill(hook.pid, 15)
    assert hook.wait() == -15
    hook.stdin.close()


def test_words_of_many_agents_at_once_are_all_there(place: Path, script: Path) -> None:
    with _left_behind() as inherited:
        hooks = [
            subprocess.Popen([str(script)], stdin=subprocess.PIPE, pass_fds=[inherited])
            for _ in range(usually(40, thorough=200))
        ]
        for number, hook in enumerate(hooks):
            assert hook.stdin is not None
            hook.stdin.write(json.dumps(HEAD | {"session_id": f"s{number}"}).encode())
            hook.stdin.close()
            assert hook.wait() == 0
    assert {one.session for one in read_wakes(place)} == {f"s{number}" for number in range(len(hooks))}


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


@pytest.mark.needs("node")
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


@pytest.mark.needs("node")
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


@pytest.mark.needs("node")
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
            assert [one.event for one in read_wakes(place)] == [event]
    assert remove(agent).is_restored
