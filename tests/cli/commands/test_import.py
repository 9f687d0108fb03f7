"""`clew import`: what it says on a terminal, into pipes and in JSON; pipes it reads; what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers.reading import seen
from tests.cli.golden import SGR, check_screen
from tests.cli.inside import Done
from tests.cli.processes import COMMAND, Clew
from tests.home.make import make_home
from tests.support.rows import each_row


def _line(uuid: str, parent: str | None, second: int, **message: Any) -> dict[str, Any]:
    return {
        "type": message["role"],
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "0b1c2d3e-0000-4000-8000-000000000001",
        "timestamp": f"2026-01-02T03:04:0{second}.000Z",
        "cwd": "/srv/shop",
        "version": "2.0.0",
        "message": message,
    }


ANSWER = [{"type": "text", "text": "Done, it was a cookie"}]
CLAUDE = [
    _line("u1", None, 5, role="user", content="Fix the login page"),
    _line("a1", "u1", 6, id="msg_1", role="assistant", model="m", content=ANSWER),
]


@pytest.fixture
def claude(cli: Clew) -> Path:
    """A project of Claude Code in its usual place."""
    place = cli.home / ".claude" / "projects" / "-srv-shop"
    place.mkdir(parents=True)
    file = place / "0b1c2d3e-0000-4000-8000-000000000001.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in CLAUDE))
    return file


def test_scan_asks_nothing_imports_and_then_adds_nothing(cli: Clew, claude: Path) -> None:
    [row] = cli("import", "--scan").rows
    assert ["new", "2", "2", "claude-code", str(claude)] == [row[0], row[2], row[3], row[4], row[5]]
    assert "it was a cookie" in cli("show", "0b1c").out
    assert "0 sessions new, 0 grown, 1 unchanged" in cli("import", "--scan", "--yes").err


def test_a_dry_run_writes_nothing_not_even_a_store(cli: Clew, claude: Path) -> None:
    done = cli("import", "--scan", "--dry-run")
    assert "1 session would be new" in done.err
    assert not cli.store.exists()


def test_damaged_lines_are_named_and_the_rest_is_imported(cli: Clew, claude: Path) -> None:
    lines = claude.read_text().splitlines()
    claude.write_text("\n".join([lines[0], '{"type": "assistant", "uuid": BROKEN', lines[1]]) + "\n")
    done = cli("import", str(claude), code=3)
    assert f"clew: {claude}: line 2 is not valid JSON" in done.err
    assert "1 problem" in done.err
    assert "it was a cookie" in cli("show").out


def test_strict_imports_nothing_of_what_is_damaged(cli: Clew, claude: Path) -> None:
    claude.write_text(claude.read_text() + "{not json\n" + json.dumps({"type": "summary"}) + "\n")
    done = cli("import", "--strict", str(claude), code=1)
    assert "line 3" in done.err
    assert not cli.store.exists()


def test_nothing_to_scan_is_said(cli: Clew) -> None:
    assert "no sessions of other agents in their usual places" in cli("import", "--scan", code=1).err


# -- on a terminal


@pytest.fixture
def home(tmp_path: Path) -> Clew:
    """A home directory of real agents."""
    return Clew(make_home(tmp_path / "ana"))


def plain(done: Done) -> str:
    """Without what was drawn while it worked, and with one word for the newest day."""
    text = re.sub("\r[^\n]*\x1b\\[K", "", SGR.sub("", done.out))
    return re.sub(r"(?<= to )(today|yesterday|2026-11-15)$", "LAST", text, flags=re.MULTILINE)


def test_a_table_by_agent_and_what_to_do_next(home: Clew) -> None:
    widths = (60, 80, 120, 200)
    dry = {width: plain(home.on_terminal("import", "--scan", "--dry-run", width=width)) for width in widths}
    assert not home.store.exists()
    check_screen("import-dry", dry)
    new: dict[int, str] = {}
    for width in widths:
        home.store.unlink(missing_ok=True)
        new[width] = plain(home.on_terminal("import", "--scan", width=width))
    check_screen("import", new)
    check_screen("import-again", {80: plain(home.on_terminal("import", "--scan"))})


def test_every_session_is_listed_on_demand(home: Clew) -> None:
    printed = plain(home.on_terminal("import", ".codex", "-v", width=120))
    assert [line.split()[:4] for line in printed.splitlines()[:2]] == [
        ["STATE", "ADDED", "MESSAGES", "ID"],
        ["new", "6", "6", "codex:01a1a1f1-c9a0-7b22-91db-0e32d5bcf867"],
    ]
    assert "~/.codex/sessions" in printed


def test_one_problem_of_each_file_is_shown_and_all_on_demand(cli: Clew, claude: Path) -> None:
    claude.write_text(claude.read_text() + "{\n" * 20)
    for number in range(2, 10):
        other = claude.with_name(claude.name.replace("1.jsonl", f"{number}.jsonl"))
        other.write_text(claude.read_text())
    printed = plain(cli.on_terminal("import", "--scan", width=120))
    assert f"clew: ~/.claude/projects/-srv-shop/{claude.name}: line 3 is not valid JSON (and" in printed
    assert printed.count("is not valid JSON") == 5
    assert "clew: problems in 4 other files; -v lists all 180 problems" in printed
    assert plain(cli.on_terminal("import", "--scan", "--again", "-v")).count("is not valid JSON") == 180


def test_a_session_with_odd_letters_cannot_steer_the_terminal(cli: Clew, claude: Path) -> None:
    odd = claude.with_name("x\x1b[2Jy\n0.jsonl")
    claude.rename(odd)
    for option in ([], ["-v"]):
        assert "\x1b[2J" not in cli.on_terminal("import", "--scan", *option).out


def test_a_copy_of_a_file_adds_nothing_and_this_is_not_called_growth(cli: Clew, claude: Path) -> None:
    cli("import", "--scan")
    shutil.copy(claude, cli.home / claude.name)
    assert "\n1 session changed.\n" in plain(cli.on_terminal("import", claude.name))


# -- for programs


def test_json_has_an_object_for_each_file(cli: Clew, claude: Path) -> None:
    lines = claude.read_text().splitlines()
    claude.write_text("\n".join([lines[0], "{BROKEN", lines[1]]) + "\n")
    (claude.parent / "odd.json").write_text('[{"role": "user", "content": "hi"}]')
    [file, odd] = cli("import", "--json", str(claude.parent), code=1).records
    assert (file["path"], file["format"], file["read"]) == (str(claude), "claude-code", True)
    [session] = file["sessions"]
    assert (session["state"], session["entries"], session["messages"]) == ("new", 2, 2)
    assert session["updated_at"] == "2026-01-02T03:04:06Z"
    assert file["problems"] == [{"path": str(claude), "line": 2, "reason": "not valid JSON"}]
    assert (Path(odd["path"]).name, odd["sessions"]) == ("odd.json", [])


def test_problems_of_unchanged_files_are_told_again_in_short(
    cli: Clew, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.write_text(claude.read_text() + "{\n" * 3)
    monkeypatch.setattr(seen, "RECENT", 0)
    for times in (3, 1):
        done = cli("import", "--scan", code=3)
        assert done.err.count("is not valid JSON") == times
    assert "(and 2 more, as at the last import)" in done.err


# -- pipes


@contextmanager
def descriptor(content: bytes) -> Iterator[str]:
    """The name of a pipe that a shell opens for `<(…)`."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    yield f"/dev/fd/{reading}"
    os.close(reading)


def check_piped(cli: Clew, done: Done, source: str) -> None:
    [row] = done.rows
    assert row[:4] == ["new", "claude-code:0b1c2d3e-0000-4000-8000-000000000001", "2", "2"]
    assert row[5] == source
    assert "it was a cookie" in cli("show").out
    cli.store.unlink()


def test_what_comes_through_a_pipe_is_read(cli: Clew, claude: Path) -> None:
    for path in ("-", "/dev/stdin"):
        check_piped(cli, cli("import", path, given=claude.read_bytes()), "-")
    check_piped(cli, cli("import", "-", given=claude), "-")
    check_piped(cli, cli("import", "/dev/stdin", given=claude), str(claude))
    with descriptor(claude.read_bytes()) as name:
        check_piped(cli, cli("import", name), "-")


def test_what_a_shell_opens_is_read(cli: Clew, claude: Path) -> None:
    script = f"cat {claude} | {' '.join(COMMAND)} import - <(cat {claude})"
    done = subprocess.run(["bash", "-c", script], env=cli.env, capture_output=True, text=True, check=False)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["new", "unchanged"], done
    assert "it was a cookie" in cli("show").out


def test_databases_and_packed_files_come_through_pipes_too(home: Clew) -> None:
    database = next(home.home.rglob("logs.db"))
    assert home("import", "-", given=database).rows[0][4] == "llm"
    cli_file = next((home.home / ".gemini").rglob("session-*.json*"))
    assert home("import", "-", given=cli_file).rows[0][4] == "gemini-cli"


def test_a_pipe_is_no_source_that_could_be_unchanged(cli: Clew, claude: Path) -> None:
    for state in ("new", "unchanged"):
        assert cli("import", "-", given=claude.read_bytes()).rows[0][0] == state


@each_row(
    ("given", "said"),
    [
        (None, "there is nothing in standard input"),
        (b"", "there is nothing in standard input"),
        (b"hello\n", "is of no format that can be imported"),
        (b'[{"role": "user", "content": "hi"}]\n', "--format"),
    ],
)
def test_what_is_no_session_in_a_pipe_is_refused(cli: Clew, given: bytes | None, said: str) -> None:
    done = cli("import", "-", given=given, code=1)
    assert (said in done.err, "clew-import-" in done.err) == (True, False), done
    assert list(cli.home.iterdir()) == []


def test_a_keyboard_is_not_waited_for(cli: Clew) -> None:
    done = cli.on_terminal("import", "-")
    assert (done.code, "standard input is the keyboard" in done.out) == (1, True)


def test_named_pipes_sockets_and_devices_are_refused(cli: Clew) -> None:
    os.mkfifo(cli.home / "pipe")
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(cli.home / "bound"))
    for path, kind in {"pipe": "a pipe", "bound": "a socket", "/dev/zero": "a device"}.items():
        assert f"{path} is {kind}" in cli("import", path, code=1).err
    cli("import", str(cli.home), code=1)
    assert not cli.store.exists()


# -- what is refused


def test_a_format_that_is_not_there_is_named_once_with_all_there_are(cli: Clew, claude: Path) -> None:
    done = cli("import", str(claude), str(claude.parent), "--format", "nano", code=2)
    assert "'nano' is not a format that Clew knows; there are jsonl, claude-code, codex" in done.err
    assert len(done.err.splitlines()) == 1
    assert (
        "its format is claude-code, not codex" in cli("import", str(claude), "--format", "codex", code=1).err
    )


def test_a_failed_import_leaves_nothing_behind(cli: Clew, claude: Path) -> None:
    claude.write_text("{BROKEN\n" * 3)
    with closing(sqlite3.connect(cli.home / "logs.db")) as db, db:
        db.execute("CREATE TABLE x (y)")
    raw = bytearray((cli.home / "logs.db").read_bytes())
    raw[100:] = b"\xff" * (len(raw) - 100)
    (cli.home / "logs.db").write_bytes(raw)
    store = cli.home / "new" / "deep" / "s.db"
    for arguments in (["--scan"], [str(claude)], ["logs.db"], ["logs.db", str(claude)], ["absent"]):
        done = cli("--store", str(store), "import", *arguments, code=1)
        assert done.err
        assert not (cli.home / "new").exists()


def test_what_cannot_be_read_of_several_paths_is_named_and_the_rest_imported(cli: Clew, claude: Path) -> None:
    done = cli("import", "absent", str(claude), code=1)
    assert "there is no file absent" in done.err
    assert [row[0] for row in done.rows] == ["new"]


def test_strict_refuses_one_path_and_takes_the_other(cli: Clew, claude: Path) -> None:
    other = cli.home / "other.jsonl"
    other.write_text(claude.read_text().replace("000000000001", "000000000002") + "{\n")
    done = cli("import", "--strict", "other.jsonl", str(claude), code=1)
    assert [row[1][-1] for row in done.rows] == ["1"]
    assert "nothing was imported" in done.err


# -- search, and Ctrl-C


def test_what_was_imported_is_indexed(home: Clew) -> None:
    home("import", "--scan")
    with clew.open(home.store) as store, store._engine.read() as reader:
        assert reader.unsearched_trees() == []


STOPPED = """
import os, signal, sys
from clew.core.search import index
put = index.Parcel.put

def stopped(self, tx):
    os.kill(os.getpid(), signal.SIGINT)
    return put(self, tx)

index.Parcel.put = stopped
import clew.cli
clew.cli.main(sys.argv[1:])
"""


def test_ctrl_c_while_it_indexes_loses_nothing(home: Clew) -> None:
    whole = shutil.copytree(home.home, home.home.with_name("whole"))
    other = Clew(whole)
    other("import", "--scan")
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, "import", "--scan"],
        env=home.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (130, -signal.SIGINT), done
    with clew.open(home.store) as store, clew.open(other.store) as expected:
        assert {info.id: info.hash for info in store.list()} == {
            info.id: info.hash for info in expected.list()
        }
        assert len(store.search("the")) == len(expected.search("the")) > 0


def without_rights(cli: Clew, *args: str) -> Done:
    """As a user who may read only what the modes of files allow, which root need not care about."""
    before = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*before, *COMMAND, *args]
    done = subprocess.run(command, env=cli.env, cwd=cli.home, capture_output=True, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_file_that_may_not_be_read_is_named_and_the_others_are_imported(cli: Clew, claude: Path) -> None:
    secret = claude.with_name("secret.jsonl")
    shutil.copy(claude, secret)
    secret.chmod(0)

    alone = without_rights(cli, "import", str(secret))
    assert alone.code == 1
    assert "secret.jsonl: it cannot be read: Permission denied" in alone.err
    assert not cli.store.exists()

    both = without_rights(cli, "import", str(claude), str(secret))
    assert both.code == 1
    assert "secret.jsonl: it cannot be read: Permission denied" in both.err
    with clew.open(cli.store) as store:
        assert len(store.list()) == 1
