"""Exit codes, errors in one line with the next step, Ctrl-C, closed pipes, no colour."""

from __future__ import annotations

import signal
import subprocess

import clew
from tests.cli.processes import COMMAND, Clew
from tests.support.rows import each_row
from tests.support.waiting import until


@each_row(
    ("args", "says"),
    [
        (["show", "nobody"], "no session 'nobody'; clew ls lists the sessions"),
        (["rewind", "login-bug", "nowhere"], "clew log ID lists positions and checkpoints"),
        (["restore", "nothing"], "no snapshot 'nothing'; clew files lists the snapshots"),
        (["undo", "login-bug#fork-1"], "has nothing to undo"),
        (["fork", "login-bug", "login-bug#fork-1"], "exists already; choose another id"),
        (["close", "login-bug", "nobody"], "no session 'nobody'"),
        (["--store", "missing.db", "ls"], "no store at missing.db; clew import"),
        (["--store", "nosuch://x", "ls"], "no backend for nosuch"),
        (["import", "login-bug.txt"], "there is no file login-bug.txt"),
        (["search", '"'], ""),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(story: Clew, args: list[str], says: str) -> None:
    done = story(*args, code=1)
    assert "" == done.out
    assert "Traceback" not in done.err
    if says:
        assert says in done.err
        assert done.err.startswith("clew: ")
        assert 1 == len(done.err.splitlines())


@each_row(
    "args",
    [["shw"], ["ls", "--nonsense"], ["rewind", "login-bug"], ["ls", "-n", "x"], ["export"], ["import"]],
)
def test_what_is_not_understood_ends_with_2_and_leads_to_help(story: Clew, args: list[str]) -> None:
    done = story(*args, code=2)
    assert 1 == len(done.err.splitlines())
    assert "--help" in done.err or "did you mean" in done.err


def test_a_closed_pipe_ends_it_quietly_with_141(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append(*({"role": "user", "content": "x" * 500} for _ in range(2000)))
    command = f'{" ".join(COMMAND)} show s | head -1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command], env=cli.env, capture_output=True, text=True, check=False)
    assert ["session s", "141"] == done.stdout.splitlines()
    assert "" == done.stderr


def test_ctrl_c_ends_it_with_130_and_one_line(story: Clew) -> None:
    with story.start("tail", "-f", "login-bug") as process:
        assert process.stdout is not None
        assert any("Done." in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert 130 == process.returncode
    assert ["clew: interrupted; what was done is kept, nothing is half done"] == err.splitlines()


def test_a_pager_that_is_left_early_is_no_error(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append(*({"role": "user", "content": "x" * 500} for _ in range(1000)))
    done = cli.on_terminal("show", "s", env={"CLEW_PAGER": "head -1"})
    assert 0 == done.code
    assert 1 == len(done.out.splitlines())


def test_a_terminal_without_utf8_gets_escapes_not_an_error(story: Clew) -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert "\\u25cf" in story("log", "--graph", "login-bug", env=env).out
    assert "ID" in story.on_terminal("ls", env=env).out


def test_the_first_import_makes_the_store_of_the_user(story: Clew) -> None:
    story("export", "login-bug", "-o", "login.jsonl")
    story("import", "login.jsonl", env={"CLEW_STORE": ""})
    own = story.home / ".local" / "share" / "clew" / "clew.db"
    assert 0o600 == own.stat().st_mode & 0o777
    assert "login-bug" in story("ls", env={"CLEW_STORE": ""}).out


def test_what_a_killed_import_left_in_the_temporary_directory_goes_with_the_next_command(cli: Clew) -> None:
    place = cli.home / "tmp"
    place.mkdir()
    cli.env["TMPDIR"] = str(place)
    with clew.open(cli.store) as store:
        store.create("s")
    command = [*COMMAND, "import", "-"]
    with subprocess.Popen(command, env=cli.env, cwd=cli.home, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"type": "user"}\n')
        process.stdin.flush()
        until(lambda: any(path.is_file() for path in place.rglob("files/*")))
        cli.process("ls")
        assert [path.name[:12] for path in place.iterdir()] == ["clew-import-"], "it is in use"
        process.kill()
    cli.process("ls")
    assert list(place.iterdir()) == []
