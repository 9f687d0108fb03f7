"""Hooks come into the settings of agents, and go without a trace."""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from clew.errors import InvalidError
from clew.importers.hooks import install as installing
from clew.importers.hooks.agents import AGENTS, Agent
from clew.importers.hooks.install import hooks_directory, install, remove, script_of, status
from tests.support.rows import each_row

pytestmark = pytest.mark.usefixtures("home")

EVERY = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
WITH_SETTINGS = [agent for agent in AGENTS.values() if agent.handler is not None]
MERGED = pytest.mark.parametrize("agent", WITH_SETTINGS, ids=[agent.name for agent in WITH_SETTINGS])

MINE = """{
    "model": "opus",
    "hooks": {
        "Stop": [
            {"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}
        ],
        "SessionStart": [{"hooks": [{"type": "command", "command": "~/bin/hello", "timeout": 9}]}],
        "PreToolUse": []
    },
    "zebra": [1, 2,   3],
    "apple": {"b": 1, "a": 2}
}
"""


def _put(agent: Agent, text: str) -> bytes:
    agent.path.parent.mkdir(parents=True, exist_ok=True)
    agent.path.write_text(text)
    return text.encode()


def _files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file() or path.is_symlink()}


# -- in and out


@EVERY
def test_where_nothing_was_nothing_stays(agent: Agent, home: Path) -> None:
    before = {str(path) for path in home.rglob("*")}
    assert status(agent).state == "not installed"
    assert install(agent, files=None).changes
    assert (status(agent).state, status(agent).files) == ("installed", False)
    assert agent.path.stat().st_mode & 0o777 == 0o600
    outcome = remove(agent)
    assert outcome.is_restored
    assert status(agent).state == "not installed"
    left = {str(path) for path in home.rglob("*")} - before
    assert left <= {str(home / name) for name in (".local", ".local/share", ".local/share/clew")} | {
        str(hooks_directory())
    }


@MERGED
@each_row("text", [MINE, MINE.rstrip(), "{}", '{"a":1}', "", " \n", '{"hooks": {}}\r\n'])
def test_settings_come_back_byte_for_byte(agent: Agent, text: str) -> None:
    before = _put(agent, text)
    outcome = install(agent, files=None)
    assert outcome.backup is not None
    assert outcome.backup.read_bytes() == before
    assert agent.path.read_bytes() != before
    assert remove(agent).is_restored
    assert agent.path.read_bytes() == before
    assert _files(hooks_directory()) == set()


@MERGED
def test_hooks_of_others_and_everything_else_stay(agent: Agent) -> None:
    _put(agent, MINE)
    install(agent, files=None)
    was, now = json.loads(MINE), json.loads(agent.path.read_text())
    assert list(now) == list(was)
    for event, groups in was["hooks"].items():
        assert now["hooks"][event][: len(groups)] == groups, "ours come last: Codex trusts by place"
    assert {key: value for key, value in now.items() if key != "hooks"} == {
        key: value for key, value in was.items() if key != "hooks"
    }
    lines = [line.strip().rstrip(",") for line in agent.path.read_text().splitlines()]
    assert '"zebra": [1, 2,   3]' in lines
    for event in agent.events:
        [handler] = now["hooks"][event][-1]["hooks"]
        assert handler["command"] == str(script_of(agent))


@EVERY
def test_twice_changes_nothing(agent: Agent, home: Path) -> None:
    if agent.handler is not None:
        _put(agent, MINE)
    install(agent, files=True)
    stamps = {path: (home / path).stat().st_mtime_ns for path in _files(home)}
    assert install(agent, files=None).changes == []
    assert install(agent, files=True).changes == []
    assert {path: (home / path).stat().st_mtime_ns for path in _files(home)} == stamps


@EVERY
def test_a_dry_run_changes_nothing_and_shows_all(agent: Agent, home: Path) -> None:
    before = _put(agent, MINE) if agent.handler is not None else None
    files = _files(home)
    planned = install(agent, files=None, dry_run=True)
    assert planned.changes[0].path == agent.path
    assert planned.changes[0].before == (None if before is None else before.decode())
    assert _files(home) == files
    install(agent, files=None)
    assert agent.path.read_text() == planned.changes[0].after
    now = agent.path.read_bytes()
    gone = remove(agent, dry_run=True)
    assert gone.changes[0].after == (None if before is None else before.decode())
    assert agent.path.read_bytes() == now


@EVERY
def test_the_wish_for_files_is_kept_until_it_is_taken_back(agent: Agent) -> None:
    for wish, wanted in ((True, True), (None, True), (False, False), (None, False)):
        install(agent, files=wish)
        assert (status(agent).state, status(agent).files) == ("installed", wanted)


@MERGED
def test_the_wish_for_files_leaves_the_settings_alone(agent: Agent) -> None:
    """Codex would ask for trust again."""
    install(agent, files=False)
    before = agent.path.read_bytes()
    install(agent, files=True)
    assert agent.path.read_bytes() == before


# -- others change the file, too


@MERGED
def test_after_a_change_of_others_only_ours_go(agent: Agent) -> None:
    _put(agent, MINE)
    install(agent, files=None)
    changed = agent.path.read_text().replace('"model": "opus"', '"model": "haiku"')
    agent.path.write_text(changed)
    outcome = remove(agent)
    assert not outcome.is_restored
    assert outcome.backup is not None
    assert outcome.backup.read_text() == MINE
    assert agent.path.read_text() == MINE.replace("opus", "haiku")


@MERGED
def test_a_file_that_we_made_goes_unless_others_use_it(agent: Agent) -> None:
    install(agent, files=None)
    agent.path.write_text(agent.path.read_text() + "\n")
    remove(agent)
    assert not agent.path.exists()
    install(agent, files=None)
    settings = json.loads(agent.path.read_text())
    agent.path.write_text(json.dumps(settings | {"mine": 1}))
    remove(agent)
    assert json.loads(agent.path.read_text()) == {"mine": 1}


@MERGED
def test_a_hook_of_others_in_our_group_stays(agent: Agent) -> None:
    install(agent, files=None)
    settings = json.loads(agent.path.read_text())
    event = agent.events[0]
    settings["hooks"][event][0]["hooks"].insert(0, {"type": "command", "command": "mine"})
    agent.path.write_text(json.dumps(settings, indent=1))
    assert status(agent).state == "installed"
    remove(agent)
    left = {"hooks": {event: [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    assert json.loads(agent.path.read_text()) == left


@MERGED
def test_without_our_records_ours_go_all_the_same(agent: Agent) -> None:
    _put(agent, MINE)
    install(agent, files=None)
    shutil.rmtree(hooks_directory())
    assert status(agent).state == "changed"
    outcome = remove(agent)
    assert not outcome.is_restored
    assert agent.path.read_text() == MINE


@MERGED
def test_a_second_install_after_a_change_keeps_what_was_there(agent: Agent) -> None:
    _put(agent, MINE)
    install(agent, files=None)
    settings = json.loads(agent.path.read_text())
    del settings["hooks"][agent.events[-1]]
    agent.path.write_text(json.dumps(settings | {"added": 1}, indent=4))
    assert status(agent).state == "changed"
    assert "1 of" in status(agent).notes[0]
    install(agent, files=None)
    assert status(agent).state == "installed"
    assert not remove(agent).is_restored
    assert json.loads(agent.path.read_text()) == json.loads(MINE) | {"added": 1}


@MERGED
def test_a_damaged_backup_is_not_put_back(agent: Agent) -> None:
    _put(agent, MINE)
    backup = install(agent, files=None).backup
    assert backup is not None
    backup.write_text("{}")
    assert not remove(agent).is_restored
    assert agent.path.read_text() == MINE


@MERGED
@each_row("record", [b"", b"{", b"[]", b'{"path": 3}', b'{"path":"/","existed":true,"after":""}'])
def test_a_damaged_record_is_no_obstacle(agent: Agent, record: bytes) -> None:
    _put(agent, MINE)
    install(agent, files=None)
    (hooks_directory() / f"{agent.name}.json").write_bytes(record)
    assert not remove(agent).is_restored
    assert agent.path.read_text() == MINE


def test_a_record_cannot_name_a_file_elsewhere(home: Path) -> None:
    agent = AGENTS["claude-code"]
    _put(agent, MINE)
    install(agent, files=None)
    other = home / "other.json"
    other.write_text('{"planted": 1}')
    path = hooks_directory() / "claude-code.json"
    record = json.loads(path.read_text())
    record["backup"] = os.path.relpath(other, hooks_directory())
    record["before"] = sha256(other.read_bytes()).hexdigest()
    path.write_text(json.dumps(record))
    assert not remove(agent).is_restored
    assert agent.path.read_text() == MINE
    assert other.exists()


@MERGED
def test_a_change_between_reading_and_writing_is_not_lost(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(agent, MINE)
    fsync = os.fsync

    def synced(fd: int) -> None:
        fsync(fd)
        if any("clew-" in name for name in os.listdir(agent.path.parent)):
            agent.path.write_text('{"theirs": 1}')

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synced)
        with pytest.raises(InvalidError, match="another program changed"):
            install(agent, files=None)
    assert agent.path.read_text() == '{"theirs": 1}'
    assert not [name for name in os.listdir(agent.path.parent) if "clew-" in name]


# -- links, permissions, disks


@EVERY
def test_a_link_stays_a_link(agent: Agent, home: Path) -> None:
    dotfiles = home / "dotfiles" / "settings"
    dotfiles.parent.mkdir()
    text = MINE if agent.handler is not None else installing._extension(agent, True)
    dotfiles.write_text(text)
    dotfiles.chmod(0o640)
    agent.path.parent.mkdir(exist_ok=True)
    agent.path.symlink_to(os.path.relpath(dotfiles, agent.path.parent))
    install(agent, files=False)
    assert agent.path.is_symlink()
    assert dotfiles.read_text() != text
    assert dotfiles.stat().st_mode & 0o777 == 0o640
    if agent.handler is not None:
        remove(agent)
        assert agent.path.is_symlink()
        assert dotfiles.read_text() == text
        assert dotfiles.stat().st_mode & 0o777 == 0o640


@MERGED
def test_a_link_that_leads_nowhere_is_refused(agent: Agent, home: Path) -> None:
    agent.path.symlink_to(home / "nothing")
    with pytest.raises(InvalidError, match=r"is a link, and .* is not there"):
        install(agent, files=None)
    assert status(agent).state == "unreadable"


@MERGED
def test_a_full_disk_leaves_the_settings_as_they_were(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(agent, MINE)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InvalidError, match="No space left on device; it is as it was"):
            install(agent, files=None)
    assert agent.path.read_text() == MINE


@MERGED
def test_a_pipe_in_the_place_of_settings_is_not_waited_for(agent: Agent) -> None:
    os.mkfifo(agent.path)
    with pytest.raises(InvalidError, match="is not a file"):
        install(agent, files=None)


# -- settings that cannot be changed


@MERGED
@each_row(
    ("text", "reason"),
    [
        ('{\n  "a": 1,\n}', r":2: it is not valid JSON: a comma stands before the end"),
        ('{\n\n  "a" 1}', r":3: it is not valid JSON"),
        ("[]", r":1: the settings are not an object"),
        ('{\n"hooks": []}', r':2: "hooks" is not an object'),
        ('{\n"hooks": {\n"Stop": {}}}', r':3: the hooks of "Stop" are not a list'),
    ],
)
def test_settings_that_are_wrong_are_refused_with_their_line(agent: Agent, text: str, reason: str) -> None:
    _put(agent, text)
    with pytest.raises(InvalidError, match=reason):
        install(agent, files=None)
    assert agent.path.read_text() == text
    assert status(agent).state == "unreadable"


def test_what_is_no_text_is_refused() -> None:
    agent = AGENTS["codex"]
    agent.path.write_bytes(b'{\n"a": "\xff"}')
    with pytest.raises(InvalidError, match=":2: it is not UTF-8"):
        install(agent, files=None)


def test_comments_stay_where_the_agent_takes_them_and_are_refused_elsewhere() -> None:
    text = '{\n  // mine\n  "hooks": {\n    // none yet\n  }, /* end */\n  "a": 1 // one\n}\n'
    gemini = AGENTS["gemini-cli"]
    _put(gemini, text)
    install(gemini, files=None)
    changed = gemini.path.read_text()
    assert all(comment in changed for comment in ("// mine", "// none yet", "/* end */", "// one"))
    gemini.path.write_text(changed + "// later\n")
    remove(gemini)
    assert gemini.path.read_text() == text + "// later\n"
    install(gemini, files=None)
    noted = gemini.path.read_text().replace('"name": "clew"', '// of Clew\n"name": "clew"')
    noted = noted.replace('"hooks": [', '"hooks": [ // a group')
    gemini.path.write_text(noted)
    remove(gemini)
    assert gemini.path.read_text().count("// a group") == noted.count("// a group")
    for name in ("claude-code", "codex"):
        _put(AGENTS[name], text)
        with pytest.raises(InvalidError, match=r":2: .*comments are not allowed"):
            install(AGENTS[name], files=None)


@pytest.mark.parametrize("name", ["opencode", "pi"])
def test_a_file_of_others_with_our_name_stays(name: str) -> None:
    agent = AGENTS[name]
    _put(agent, "export default 1")
    with pytest.raises(InvalidError, match="Clew did not write it"):
        install(agent, files=None)
    assert status(agent).state == "not installed"
    assert remove(agent).changes == []
    assert agent.path.read_text() == "export default 1"


# -- what is said


def test_agents_that_are_not_here_are_said_to_be(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    shutil.rmtree(home / ".codex")
    assert status(AGENTS["codex"]).state == "not found"
    with pytest.raises(InvalidError, match=r"Codex was not found: there is no .*codex and no program codex"):
        install(AGENTS["codex"], files=None)


def test_other_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {
        "claude-code": ("CLAUDE_CONFIG_DIR", "settings.json"),
        "codex": ("CODEX_HOME", "hooks.json"),
        "gemini-cli": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
        "opencode": ("OPENCODE_CONFIG_DIR", "plugins/clew.js"),
        "pi": ("PI_CODING_AGENT_DIR", "extensions/clew.ts"),
    }
    for name, (variable, file) in moved.items():
        monkeypatch.setenv(variable, str(home / "moved"))
        assert AGENTS[name].path == home / "moved" / file


def test_a_script_that_is_missing_or_changed_is_noticed() -> None:
    agent = AGENTS["claude-code"]
    install(agent, files=True)
    script_of(agent).write_text(script_of(agent).read_text() + "# more\n")
    assert (status(agent).state, status(agent).files) == ("changed", True)
    install(agent, files=None)
    assert (status(agent).state, status(agent).files) == ("installed", True)
    script_of(agent).unlink()
    assert "is missing" in status(agent).notes[0]
    install(agent, files=None)
    script_of(agent).chmod(0o600)
    assert status(agent).state == "changed"
    install(agent, files=None)
    assert os.access(script_of(agent), os.X_OK)


def test_hooks_that_are_switched_off_are_said_to_be() -> None:
    _put(AGENTS["claude-code"], '{"disableAllHooks": true}')
    _put(AGENTS["gemini-cli"], '{"hooksConfig": {"enabled": false}}')
    for name, word in (("claude-code", "disableAllHooks"), ("gemini-cli", "hooksConfig.enabled")):
        install(AGENTS[name], files=None)
        [note] = status(AGENTS[name]).notes
        assert word in note


def test_hooks_that_codex_does_not_trust_yet_are_counted(home: Path) -> None:
    agent = AGENTS["codex"]
    _put(agent, MINE)
    install(agent, files=None)
    assert "5 of 5 hooks wait for your trust" in status(agent).notes[0]
    config = home / ".codex" / "config.toml"
    places = ["session_start:1:0", "stop:1:0", "subagent_stop:0:0", "pre_compact:0:0", "session_end:0:0"]
    lines = [f'[hooks.state."{agent.path}:{place}"]\ntrusted_hash = "sha256:00"\n' for place in places]
    config.write_text("".join(lines[:3]))
    assert "2 of 5 hooks" in status(agent).notes[0]
    config.write_text("".join(lines))
    assert status(agent).notes == []
    config.write_text("not [ toml")
    assert status(agent).notes == []


def test_timeouts_are_in_the_unit_of_each_agent() -> None:
    seconds = {"claude-code": 5, "codex": 3}
    for name, wanted in (*seconds.items(), ("gemini-cli", 3000)):
        agent = AGENTS[name]
        install(agent, files=None)
        hooks = json.loads(agent.path.read_text())["hooks"]
        assert {group["hooks"][0]["timeout"] for [group] in hooks.values()} == {wanted}


def test_only_codex_is_told_not_to_wait() -> None:
    """Claude Code skips all hooks of SessionEnd while one runs that it does not wait for."""
    for name in ("claude-code", "codex"):
        install(AGENTS[name], files=None)
        hooks = json.loads(AGENTS[name].path.read_text())["hooks"]
        unwaited = {event for event, [group] in hooks.items() if group["hooks"][0].get("async")}
        assert unwaited == (set(hooks) - {"SessionEnd"} if name == "codex" else set())
