"""What Tab puts into a line of bash, zsh and fish is text, whatever the ids and titles of a store are."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.cli.completion import read_line, rest_of
from tests.cli.processes import Clew
from tests.cli.shells import SHELLS, Typist
from tests.support.rows import each_row, named

# What is typed, and the id that it stands for. Some would make a file `pwned` if a shell took them apart.
# None has more than 24 letters: of a longer one only the beginning is proposed.
COMMANDS = {
    "x01": "x01`touch pwned`",
    "x02": "x02$(touch pwned)${IFS}",
    "x03": "x03;touch pwned;#",
    "x04": "x04|touch pwned&&a>pwned",
    "x05": "x05 y'z\"w  ",
    "x06": "x06*?[a]{b,c}",
    "x07": "x07!!\\u~^!x",
    "'x08": "x08;touch pwned$(id)!!`",
    '"x09': 'x09;touch pwned`id`"\\',
    "x10:b": "x10:b:$(touch pwned)",
    "x11,a=": "x11,a=b,%s\\n",
    "é12": "é12 ü鷺",
    "-- -": "-rf $(touch pwned)",
    "\\~": "~root",
    "\\#": "#comment",
}
LEFT_OUT = {
    "x20": "x20\n$(touch pwned)",
    "x21": "x21\x1b]0;$(touch pwned)\x07",
    "x22": "x22\u202e;touch pwned",
}
TITLE = "t `touch pwned` $(touch pwned) ; touch pwned %F{red} \x1b[31m\x1b]0;x\x07\t, : \\ '\"\u202e!!"
FILE = "p$(touch pwned)`touch pwned`"


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    cli = Clew(tmp_path_factory.mktemp(request.param))
    (cli.home / "x06zzz").touch()
    (cli.home / FILE).touch()
    place = cli.home / "st $(touch pwned)"
    place.mkdir()
    with clew.open(place / "a.db") as store:
        for id in (*COMMANDS.values(), *LEFT_OUT.values()):
            store.create(id, title=TITLE)
    script = cli("completion", request.param).out
    one = Typist(request.param, cli.home, script, {**cli.env, "CLEW_STORE": str(place / "a.db")})
    yield one
    one.leave()


def pwned(home: Path) -> list[Path]:
    return [path for path in home.rglob("pwned") if path.name == "pwned"]


def test_s54_an_id_is_completed_to_itself_and_nothing_of_it_is_run(shell: Typist) -> None:
    for keys, id in COMMANDS.items():
        called = shell.enter(f"clew rm {keys}\t")
        assert [word for word in called[1:] if word != "--"] == [id]
    for keys in LEFT_OUT:
        assert shell.enter(f"clew show {keys}\t") == ["show", keys]
    assert shell.enter(f"clew import {FILE[0]}\t") == ["import", FILE]
    assert pwned(shell.home) == []


def test_s54_nothing_of_a_store_reaches_the_terminal_unseen(shell: Typist) -> None:
    """Two Tabs list all proposals, with their titles where the shell shows these. fish takes one Enter to
    leave the list."""
    shell.enter("clew show x\t\t\t\r")
    assert b"10:b" in shell.seen
    assert b"\x1b]0;x" not in shell.seen
    assert b"\x1b[31m\x1b]" not in shell.seen
    assert "\u202e".encode() not in shell.seen
    assert pwned(shell.home) == []


def test_s54_an_id_that_a_shell_takes_for_something_else_is_completed_from_nothing(
    shell: Typist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, id in enumerate(["~root", "=ls", "%self", "-rf", "$(touch pwned)"]):
        with clew.open(tmp_path / f"{number}.db") as store:
            store.create(id)
        monkeypatch.setitem(shell.environment, "CLEW_STORE", str(tmp_path / f"{number}.db"))
        # One would be taken for an option, and fish leaves a tilde as it is: these are not proposed.
        is_left_out = id == "-rf" or (shell.shell == "fish" and id == "~root")
        with named(id):
            assert shell.enter("clew show \t") == (["show"] if is_left_out else ["show", id])
    assert pwned(shell.home) == []


def asked(cli: Clew, line: str, *, shell: str = "fish", code: int = 0, **environment: str) -> list[str]:
    done = cli(env={"_CLEW_COMPLETE": shell, "COMP_LINE": line, **environment}, code=code)
    assert done.err == ""
    return done.lines


def test_what_an_older_script_asks_is_not_answered(story: Clew) -> None:
    """It would put the answer into the line as it is."""
    env = {"_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": "clew show x", "COMP_CWORD": "2"}
    assert story(env=env).out == ""


def test_no_more_than_a_page_of_ids_is_proposed(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        for number in range(250):
            store.create(f"id-{number}", title="long " * 100)
    answer = asked(cli, "clew show id")
    assert len(answer) == 200
    assert max(map(len, answer)) < 100


def test_the_store_that_was_typed_is_the_one_that_is_asked(cli: Clew, tmp_path: Path) -> None:
    with clew.open(tmp_path / "it's here.db") as store:
        store.create("there")
    for line in (r"clew --store it\'s\ here.db show ", 'clew show -s "it\'s here.db" t'):
        assert asked(cli, line) == ["word\tthere"]


def test_completion_is_silent_about_everything_that_goes_wrong(cli: Clew) -> None:
    cli.store.write_bytes(b"SQLite format 3\0 and then nothing that makes sense" * 100)
    asked(cli, "clew show x", code=1)
    asked(cli, "clew --store nope://u:secret@host show x", code=1)
    asked(cli, "clew --no-such-option nothing", code=0)
    asked(cli, "", code=0)
    before = cli.store.read_bytes()
    asked(cli, "clew show ", code=1)
    assert cli.store.read_bytes() == before


def test_completion_does_not_wait_for_a_server_that_does_not_answer(cli: Clew) -> None:
    """Nothing but giving up ends it: the address says to wait for an hour."""
    code = "import clew.cli.completion as c; c.PATIENCE = 0.5; import clew.cli; clew.cli.main()"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"postgresql://127.0.0.1:{server.getsockname()[1]}/agents?timeout=3600"
        env = {**cli.env, "_CLEW_COMPLETE": "fish", "COMP_LINE": "clew show x", "CLEW_STORE": address}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@each_row(
    ("text", "words", "last", "quote"),
    [
        ("clew show ", ["clew", "show"], "", ""),
        ("clew  --store 'a b' show x\\ y", ["clew", "--store", "a b", "show"], "x y", ""),
        ("clew show 'it", ["clew", "show"], "it", "'"),
        ('clew show "a\\"b\\c', ["clew", "show"], 'a"b\\c', '"'),
        ("clew show a'b'\"c", ["clew", "show"], "abc", '"'),
        ("clew '' x", ["clew", ""], "x", ""),
        ("clew show x\\", ["clew", "show"], "x", ""),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(text: str, words: list[str], last: str, quote: str) -> None:
    line = read_line(text, "bash")
    assert line is not None
    assert ([*line.words], line.last, line.quote) == (words, last, quote)


@each_row("last", ["$HOME", "a`b", "*", "~", '"$x', '"a`', "a;b", "#a", "{a,b", "!x", '"!x'])
def test_a_word_that_the_shell_will_change_is_left_alone(last: str) -> None:
    assert read_line(f"clew show {last}", "bash") is None


def test_s54_what_cannot_be_said_within_open_quotes_is_left_out() -> None:
    single, double = read_line("clew show 'x", "bash"), read_line('clew show "x', "bash")
    assert single is not None
    assert double is not None
    assert rest_of(single, "xit's") is None
    assert rest_of(double, "x!!") is None
    assert rest_of(single, "other") is None
