"""Our server comes into the settings of clients, and goes without a trace."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from clew.errors import InvalidError
from clew.server.mcp.install.clients import CLIENTS, Client
from clew.server.mcp.install.install import install, own_directory, remove, script_of, status
from clew.server.mcp.install.own_files import SKILL
from clew.server.mcp.install.program import Program, Wish
from tests.server.mcp.install.homes import for_each
from tests.support.rows import each_row

pytestmark = pytest.mark.usefixtures("home")

EVERY = for_each()
IN_JSON = for_each(client for client in CLIENTS.values() if not client.is_toml)
WITH_HINT = for_each(client for client in CLIENTS.values() if client.hint is not None)

TOML = """# mine
model = "gpt-5" # fast

[mcp_servers.docs]
command = "npx"
args = [
  "-y", # yes
  "docs",
]

[projects."/srv/x"]
trust_level = "trusted"

[mcp_servers.other]
url = "https://example.com/mcp"
"""


def _settings(client: Client) -> str:
    """As a person has them: two servers of others, odd layout, keys in no order."""
    if client.is_toml:
        return TOML
    servers = (
        '{\n        "docs": {"command": "npx",   "args": []},\n        "alpha": {"url": "https://x"}\n    }'
    )
    return f'{{\n    "zebra": [1, 2,   3],\n    "{client.keys[0]}": {servers},\n    "apple": {{"b": 1}}\n}}'


def _put(client: Client, text: str) -> bytes:
    path = client.path(None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return text.encode()


def _values(client: Client, text: str | None = None) -> Any:
    text = client.path(None).read_text() if text is None else text
    return tomllib.loads(text) if client.is_toml else json.loads(text)


def _files(home: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(home)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() or path.is_symlink()
    }


# -- in and out


@EVERY
def test_where_nothing_was_nothing_stays(client: Client, home: Path) -> None:
    before = {str(path) for path in home.rglob("*")}
    assert status(client).state == "not installed"
    outcome = install(client, Wish(), hint=True if client.hint else None)
    assert outcome.changes[0].path == client.path(None)
    found = status(client)
    assert (found.state, found.skill, found.hint) == ("installed", True, client.hint is not None)
    assert list(found.command) == outcome.command
    assert client.path(None).stat().st_mode & 0o777 == 0o600
    assert remove(client).is_restored
    assert status(client).state == "not installed"
    left = {str(path.relative_to(home)) for path in home.rglob("*") if str(path) not in before}
    assert left == {".local", ".local/share", ".local/share/clew", ".local/share/clew/mcp"}


@EVERY
@each_row("newline", ["\n", "\r\n"])
def test_settings_come_back_byte_for_byte(client: Client, newline: str, home: Path) -> None:
    _put(client, _settings(client).replace("\n", newline))
    before = _files(home)
    outcome = install(client, Wish(), hint=True if client.hint else None)
    assert [backup.read_bytes() for backup in outcome.backups] == [before[_name(client, home)]]
    assert client.path(None).read_bytes().count(b"\r\n") == client.path(None).read_bytes().count(b"\n") * (
        newline == "\r\n"
    )
    assert remove(client).is_restored
    assert _files(home) == before


def _name(client: Client, home: Path) -> str:
    return str(client.path(None).relative_to(home))


@EVERY
@each_row("text", ["", "\n"])
def test_an_empty_file_comes_back(client: Client, text: str) -> None:
    before = _put(client, text)
    install(client, Wish())
    assert status(client).state == "installed"
    assert remove(client).is_restored
    assert client.path(None).read_bytes() == before


@EVERY
def test_servers_of_others_and_everything_else_stay(client: Client) -> None:
    _put(client, _settings(client))
    install(client, Wish())
    was, now = _values(client, _settings(client)), _values(client)
    assert list(now) == list(was)
    assert list(now[client.keys[0]])[-1] == "clew"
    entry = now[client.keys[0]].pop("clew")
    assert now == was
    assert entry == client.entry([str(Path.home() / "bin" / "clew"), *_arguments(client)])
    text = client.path(None).read_text()
    for line in _settings(client).splitlines():
        assert line.strip().rstrip(",") in text


def _arguments(client: Client) -> list[str]:
    return ["mcp", *(["--workspace", client.workspace] if client.workspace else []), "--sync"]


@EVERY
def test_twice_changes_nothing(client: Client, home: Path) -> None:
    _put(client, _settings(client))
    install(client, Wish(), hint=True if client.hint else None)
    stamps = {path: (home / path).stat().st_mtime_ns for path in _files(home)}
    assert install(client, Wish()).changes == []
    assert install(client, Wish(), hint=True if client.hint else None).changes == []
    assert {path: (home / path).stat().st_mtime_ns for path in _files(home)} == stamps


@EVERY
def test_a_dry_run_changes_nothing_and_shows_all(client: Client, home: Path) -> None:
    _put(client, _settings(client))
    files = _files(home)
    hint = True if client.hint else None
    planned = install(client, Wish(), hint=hint, dry_run=True)
    assert _files(home) == files
    done = install(client, Wish(), hint=hint)
    assert planned.changes == done.changes
    now = _files(home)
    assert all(change.path.read_text() == change.after for change in planned.changes)
    gone = remove(client, dry_run=True)
    assert gone.is_restored
    assert gone.changes[0].after == _settings(client)
    assert _files(home) == now


@EVERY
def test_other_options_replace_those_before_and_keep_what_others_added(client: Client) -> None:
    _put(client, _settings(client))
    install(client, Wish())
    path = client.path(None)
    added: dict[str, object]
    if client.is_toml:
        path.write_text(path.read_text() + "startup_timeout_sec = 30 # slow disk\n")
        added = {"startup_timeout_sec": 30}
    else:
        path.write_text(path.read_text().replace('"clew": {', '"clew": {\n"env": {"A": "1"},'))
        added = {"env": {"A": "1"}}
    outcome = install(client, Wish(sees_all=True, writes=True, sync=False))
    assert outcome.command[-3:] == ["--all", "--allow", "write"]
    entry = _values(client)[client.keys[0]]["clew"]
    assert entry == client.entry(outcome.command) | added
    remove(client)
    assert _values(client) == _values(client, _settings(client))


# -- others change the file, too


@EVERY
def test_after_a_change_of_others_only_ours_goes(client: Client) -> None:
    _put(client, _settings(client))
    install(client, Wish())
    path = client.path(None)
    path.write_text(path.read_text().replace("npx", "bunx"))
    outcome = remove(client)
    assert not outcome.is_restored
    assert [backup.read_text() for backup in outcome.backups] == [_settings(client)]
    assert path.read_text() == _settings(client).replace("npx", "bunx")


@EVERY
def test_a_file_that_we_made_goes_unless_others_use_it(client: Client) -> None:
    path = client.path(None)
    install(client, Wish())
    path.write_text(path.read_text() + "\n")
    remove(client)
    assert not path.exists()
    install(client, Wish())
    if client.is_toml:
        path.write_text('mine = "1"\n' + path.read_text())
    else:
        path.write_text(json.dumps(_values(client) | {"mine": "1"}))
    remove(client)
    assert _values(client) == {"mine": "1"}


@EVERY
def test_without_our_records_ours_goes_all_the_same(client: Client) -> None:
    _put(client, _settings(client))
    install(client, Wish())
    for record in own_directory().glob("*.json"):
        record.unlink()
    assert not remove(client).is_restored
    assert client.path(None).read_text() == _settings(client)


@EVERY
def test_a_change_between_reading_and_writing_is_not_lost(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(client, _settings(client))
    path = client.path(None)
    fsync = os.fsync

    def synced(fd: int) -> None:
        fsync(fd)
        if any(f"{path.name}.clew-" in name for name in os.listdir(path.parent)):
            path.write_text("theirs")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synced)
        with pytest.raises(InvalidError, match="another program changed"):
            install(client, Wish())
    assert path.read_text() == "theirs"
    assert not [name for name in os.listdir(path.parent) if "clew-" in name]


@EVERY
def test_a_link_and_permissions_stay(client: Client, home: Path) -> None:
    dotfiles = home / "dotfiles"
    dotfiles.write_text(_settings(client))
    dotfiles.chmod(0o640)
    path = client.path(None)
    path.symlink_to(os.path.relpath(dotfiles, path.parent))
    install(client, Wish())
    assert path.is_symlink()
    assert "clew" in dotfiles.read_text()
    assert dotfiles.stat().st_mode & 0o777 == 0o640
    remove(client)
    assert path.is_symlink()
    assert dotfiles.read_text() == _settings(client)
    assert dotfiles.stat().st_mode & 0o777 == 0o640


# -- settings that cannot be changed


@IN_JSON
@each_row(
    ("text", "reason"),
    [
        ('{\n\n  "a" 1}', r":3: it is not valid JSON"),
        ("[]", r":1: the settings are not an object"),
        ('{\n"KEY": []}', r':2: "\w+" is not an object'),
    ],
)
def test_json_that_is_wrong_is_refused_with_its_line(
    client: Client, text: str, reason: str, home: Path
) -> None:
    _put(client, text.replace("KEY", client.keys[0]))
    before = _files(home)
    with pytest.raises(InvalidError, match=reason):
        install(client, Wish(), hint=True if client.hint else None)
    assert _files(home) == before, "nothing was written, no script and no skill either"
    assert status(client).state == "unreadable"


@each_row(
    ("text", "reason"),
    [
        ("model = ", "it is not valid TOML"),
        ("mcp_servers = 3\n", "mcp_servers is not a table"),
        ('mcp_servers = {a = {command = "x"}}\n', "in a way that this cannot change"),
    ],
)
def test_toml_that_cannot_be_changed_is_refused(text: str, reason: str, home: Path) -> None:
    codex = CLIENTS["codex"]
    _put(codex, text)
    before = _files(home)
    with pytest.raises(InvalidError, match=reason):
        install(codex, Wish(), hint=True)
    assert _files(home) == before


@EVERY
def test_a_server_of_others_with_our_name_stays(client: Client, home: Path) -> None:
    if client.is_toml:
        _put(client, 'a = 1\n[mcp_servers.clew]\ncommand = "other"\n')
    else:
        _put(client, f'{{"a": 1,\n"{client.keys[0]}": {{"clew": {{"command": "other"}}}}}}')
    before = _files(home)
    with pytest.raises(InvalidError, match=r":2: there is a server 'clew' that does not start"):
        install(client, Wish(), hint=True if client.hint else None)
    assert status(client).state == "not installed"
    assert "give it another name" in status(client).notes[0]
    assert remove(client).changes == []
    assert _files(home) == before


def test_hooks_that_cannot_be_read_are_no_obstacle_without_a_hint(home: Path) -> None:
    client = CLIENTS["claude-code"]
    (home / ".claude" / "settings.json").write_text("{ broken")
    install(client, Wish())
    assert _values(client)["mcpServers"]["clew"]
    with pytest.raises(InvalidError, match=r"settings\.json:1: it is not valid JSON"):
        install(client, Wish(), hint=True)


def test_comments_and_last_commas_stay_where_the_client_takes_them() -> None:
    text = '{\n  // mine\n  "KEY": {\n    "a": {"command": "x"}, /* a */\n  },\n}\n'
    for name in ("opencode", "cursor", "vscode"):
        client = CLIENTS[name]
        mine = text.replace("KEY", client.keys[0])
        _put(client, mine)
        install(client, Wish())
        path = client.path(None)
        assert "// mine" in path.read_text()
        path.write_text(path.read_text() + "// later\n")
        remove(client)
        assert path.read_text() == mine + "// later\n"
    _put(CLIENTS["claude-code"], text)
    with pytest.raises(InvalidError, match=r":2: .*comments are not allowed"):
        install(CLIENTS["claude-code"], Wish())


def test_a_file_of_opencode_2_is_changed_in_its_own_shape() -> None:
    client = CLIENTS["opencode"]
    text = '{\n  "mcp": {\n    "servers": {}\n  }\n}\n'
    _put(client, text)
    words = install(client, Wish()).command
    assert _values(client) == {"mcp": {"servers": {"clew": {"type": "local", "command": words}}}}
    client.path(None).write_text(client.path(None).read_text() + "\n")
    remove(client)
    assert _values(client) == {}


# -- places


def test_other_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {
        "claude-code": ".claude.json",
        "codex": ".codex/config.toml",
        "gemini-cli": ".gemini/settings.json",
        "opencode": ".config/opencode/opencode.json",
        "cursor": ".cursor/mcp.json",
        "vscode": ".config/Code/User/mcp.json",
    }
    assert {name: client.path(None) for name, client in CLIENTS.items()} == {
        name: home / file for name, file in usual.items()
    }
    moved = {
        "claude-code": ("CLAUDE_CONFIG_DIR", ".claude.json"),
        "codex": ("CODEX_HOME", "config.toml"),
        "gemini-cli": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
        "opencode": ("OPENCODE_CONFIG_DIR", "opencode.json"),
        "vscode": ("XDG_CONFIG_HOME", "Code/User/mcp.json"),
    }
    for name, (variable, file) in moved.items():
        monkeypatch.setenv(variable, str(home / "moved"))
        assert CLIENTS[name].path(None) == home / "moved" / file
    assert CLIENTS["claude-code"].skill(None) == home / "moved" / "skills" / "clew" / "SKILL.md"
    monkeypatch.setattr("sys.platform", "darwin")
    assert CLIENTS["vscode"].path(None) == home / "Library/Application Support/Code/User/mcp.json"


def test_the_file_of_opencode_is_the_one_that_is_there(home: Path) -> None:
    (home / ".config" / "opencode" / "opencode.jsonc").write_text("{}")
    assert CLIENTS["opencode"].path(None).name == "opencode.jsonc"


@EVERY
def test_the_settings_of_a_project_are_for_all_who_work_there(client: Client, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    outcome = install(client, Wish(), project=project)
    assert outcome.path == project / client.project_files[0]
    assert outcome.path.stat().st_mode & 0o777 == 0o644
    assert {place.stat().st_mode & 0o777 for place in project.rglob("*") if place.is_dir()} == {0o755}
    assert outcome.command[:2] == ["clew", "mcp"], "a path of this machine means nothing to others"
    assert ("${workspaceFolder}" in outcome.command) == (client.name in ("cursor", "vscode"))
    assert client.skill(project).read_text() == SKILL
    assert status(client).state == "not installed"
    assert status(client, project=project).state == "installed"
    with pytest.raises(InvalidError, match=r"a hint is for you alone|has no hook"):
        install(client, Wish(), project=project, hint=True)
    assert remove(client, project=project).is_restored
    assert list(project.iterdir()) == []


def test_a_client_that_is_not_here_is_said_to_be(home: Path) -> None:
    (home / ".cursor").rmdir()
    assert status(CLIENTS["cursor"]).state == "not found"
    with pytest.raises(
        InvalidError, match=r"Cursor was not found: there is no .*\.cursor and no program cursor-agent"
    ):
        install(CLIENTS["cursor"], Wish())


# -- the skill


def test_clients_share_a_skill_and_the_last_takes_it_along() -> None:
    codex, gemini, claude = CLIENTS["codex"], CLIENTS["gemini-cli"], CLIENTS["claude-code"]
    assert codex.skill(None) == gemini.skill(None) != claude.skill(None)
    for client in (codex, gemini, claude):
        install(client, Wish())
    remove(codex)
    assert gemini.skill(None).read_text() == SKILL
    install(codex, Wish(), skill=False)
    assert gemini.skill(None).exists(), "another client reads it"
    remove(codex)
    remove(gemini)
    assert not gemini.skill(None).parent.exists()
    assert claude.skill(None).exists()
    install(claude, Wish(), skill=False)
    assert not claude.skill(None).parent.exists()


def test_a_skill_of_others_with_our_name_stays(home: Path) -> None:
    client = CLIENTS["claude-code"]
    client.skill(None).parent.mkdir(parents=True)
    client.skill(None).write_text("mine")
    before = _files(home)
    with pytest.raises(InvalidError, match="Clew did not write it"):
        install(client, Wish())
    assert _files(home) == before
    install(client, Wish(), skill=False)
    remove(client)
    assert _files(home) == before


def test_a_skill_that_was_changed_is_said_to_be_and_kept_when_it_is_renewed() -> None:
    client = CLIENTS["claude-code"]
    install(client, Wish())
    client.skill(None).write_text(SKILL + "more\n")
    assert "is of another version; clew mcp install claude-code puts it right" in status(client).notes[0]
    [backup] = install(client, Wish()).backups
    assert backup.read_text() == SKILL + "more\n"
    assert status(client).notes == []


def test_the_skill_is_one_that_every_client_takes() -> None:
    """The rules of agentskills.io, and the shortest limits of clients."""
    _, head, body = SKILL.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert set(fields) == {"name", "description"}
    assert fields["name"] == "clew"
    assert len(fields["description"]) < 500
    assert ": " not in fields["description"], "YAML would take it for a key"
    assert len(body) < 1200
    for tool in ("search_sessions", "read_session", "session_overview", "list_sessions"):
        assert tool in body


# -- the hint


@WITH_HINT
def test_a_hint_comes_and_goes_alone(client: Client, home: Path) -> None:
    _put(client, _settings(client))
    install(client, Wish())
    before = _files(home)
    install(client, Wish(), hint=True)
    assert status(client).hint
    assert os.access(script_of(client), os.X_OK)
    assert install(client, Wish()).changes == [], "as before"
    install(client, Wish(), hint=False)
    assert not status(client).hint
    assert not script_of(client).exists()
    assert {name: data for name, data in _files(home).items() if not name.endswith(".json")} == {
        name: data for name, data in before.items() if not name.endswith(".json")
    }
    assert client.path(None).read_bytes() == before[_name(client, home)]


@WITH_HINT
def test_hooks_of_others_stay(client: Client) -> None:
    agent = client.hint
    assert agent is not None
    mine = (
        {"command": "hello"}
        if client.name == "cursor"
        else {"hooks": [{"type": "command", "command": "hello"}]}
    )
    agent.path.write_text(json.dumps({"version": 1, "hooks": {agent.events[0]: [mine]}}, indent=2))
    before = agent.path.read_bytes()
    install(client, Wish(), hint=True)
    handlers = json.loads(agent.path.read_text())["hooks"][agent.events[0]]
    assert handlers[0] == mine
    assert str(script_of(client)) in json.dumps(handlers[1])
    agent.path.write_text(agent.path.read_text() + "\n")
    install(client, Wish(), hint=False)
    assert json.loads(agent.path.read_text())["hooks"] == json.loads(before)["hooks"]


def test_hooks_of_clew_hooks_and_the_hint_do_not_touch_each_other() -> None:
    from clew.importers.hooks import install as waking
    from clew.importers.hooks.agents import AGENTS

    client, agent = CLIENTS["claude-code"], AGENTS["claude-code"]
    waking.install(agent, files=None)
    install(client, Wish(), hint=True)
    assert waking.status(agent).state == "installed"
    waking.remove(agent)
    assert status(client).hint
    waking.install(agent, files=None)
    remove(client)
    assert waking.status(agent).state == "installed"


@each_row("name", ["opencode", "vscode"])
def test_a_client_without_such_a_hook_says_so(name: str) -> None:
    with pytest.raises(InvalidError, match="has no hook that adds text to a new session"):
        install(CLIENTS[name], Wish(), hint=True)


def test_a_hook_that_does_not_run_is_said_to(home: Path) -> None:
    codex, claude = CLIENTS["codex"], CLIENTS["claude-code"]
    install(codex, Wish(), hint=True)
    assert status(codex).notes == ["1 of 1 hooks wait for your trust: type /hooks in Codex, then t"]
    (home / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    install(claude, Wish(), hint=True)
    assert "disableAllHooks is on" in status(claude).notes[0]


def test_a_missing_script_is_said_and_put_right() -> None:
    client = CLIENTS["gemini-cli"]
    install(client, Wish(), hint=True)
    script_of(client).unlink()
    assert "is missing; clew mcp install gemini-cli puts it right" in status(client).notes[0]
    install(client, Wish())
    script_of(client).chmod(0o600)
    assert status(client).notes
    install(client, Wish())
    assert status(client).notes == []


def test_what_is_good_to_know_is_said() -> None:
    def notes(name: str, wish: Wish, **options: Any) -> str:
        return "; ".join(install(CLIENTS[name], wish, **options).notes)

    assert "in your home directory" in notes("vscode", Wish())
    assert notes("vscode", Wish(sees_all=True)) == notes("vscode", Wish(workspace=Path("/srv"))) == ""
    assert "only in folders that you trust" in notes("gemini-cli", Wish())
    assert "asks each person once" in notes("claude-code", Wish(), project=Path.home())
    assert "type /hooks in Codex" in notes("codex", Wish(), hint=True)
    assert notes("codex", Wish()) == ""


# -- what is wrong later


def test_a_program_that_went_away_is_said(home: Path) -> None:
    client = CLIENTS["claude-code"]
    install(client, Wish())
    (home / "bin" / "clew").unlink()
    found = status(client)
    assert found.state == "broken"
    assert found.notes == [f"there is no program {home}/bin/clew; clew mcp install claude-code puts it right"]


@each_row(("name", "word"), [("codex", "enabled = false\n"), ("cursor", '"disabled": true, ')])
def test_a_server_that_is_switched_off_is_said_to_be(name: str, word: str) -> None:
    client = CLIENTS[name]
    install(client, Wish())
    path = client.path(None)
    text = path.read_text()
    path.write_text(text + word if client.is_toml else text.replace('"command"', word + '"command"'))
    assert "is switched off" in status(client).notes[0]


# -- what earlier versions wrote


OLD = ["/srv/venv/bin/python", "-m", "clew", "mcp", "--sync"]


def _as_before(client: Client) -> None:
    """What a version wrote that named `python -m clew`."""
    with pytest.MonkeyPatch.context() as patch:
        old = Program(tuple(OLD[:3]), is_of_environment=True)
        patch.setattr("clew.server.mcp.install.install.find_program", lambda **_: old)
        install(client, Wish(), hint=True if client.hint else None)


@EVERY
def test_an_entry_that_runs_the_current_directory_is_outdated_and_replaced(
    client: Client, home: Path
) -> None:
    _put(client, _settings(client))
    _as_before(client)
    found = status(client)
    assert found.state == "outdated"
    assert any("would run a clew.py of the directory that it works in" in note for note in found.notes)
    assert list(found.command)[:3] == OLD[:3]
    assert install(client, Wish()).changes
    assert status(client).state == "installed"
    assert not [path for path in home.rglob("*") if path.is_file() and _is_old(path)]
    assert remove(client).is_restored


def _is_old(path: Path) -> bool:
    """Whether it starts Clew as before. Records and copies of what was there are not read by clients."""
    return "-m" in path.read_text().replace('"', " ").split() and ".before" not in path.name


@WITH_HINT
def test_a_hint_that_runs_the_current_directory_is_outdated_by_itself(client: Client) -> None:
    _as_before(client)
    script = script_of(client).read_text()
    install(client, Wish())
    script_of(client).write_text(script)
    assert status(client).state == "outdated"
    install(client, Wish())
    assert status(client).state == "installed"
