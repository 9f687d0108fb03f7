"""S-54: a command that is printed to be pasted means what it says, in every shell, whatever is in it."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click
import pytest

import clew
from clew.cli import cli as clew_cli
from clew.cli.app import described
from clew.core.messages.shell import quoted, typed
from tests.cli.inside import in_pipe
from tests.cli.processes import Clew
from tests.cli.shells import SHELLS
from tests.support.needs import need
from tests.support.rows import each_row

HOSTILE = [
    "x`touch pwned`",
    "x$(touch pwned)",
    "x;touch pwned",
    "x|touch pwned&",
    "x\ntouch pwned\n",
    "it's",
    'a"$(touch pwned)"',
    "'$(touch pwned)'",
    "\\'$(touch pwned)\\'",
    "'\\'\\''$(touch pwned)",
    "end\\",
    "\\",
    "~",
    "~root",
    "=ls",
    "%self",
    "#x",
    "*",
    "{a,b}",
    "!!",
    "-rf",
    "--help",
    "--",
    " ",
    "a  b\t'c",
    "<x>(y)",
    "^x^y",
    "鷺 é",
    "",
]
WRITTEN = ("typed", "quoted")


@pytest.mark.parametrize("shell", ["sh", *SHELLS])
def test_s54_every_shell_hands_over_what_was_quoted(shell: str, tmp_path: Path) -> None:
    if shell in ("zsh", "fish"):
        need(shell)
    words = " ".join(quoted(text) for text in HOSTILE)
    done = subprocess.run(
        [shell, "-c", f"printf '%s\\0' x {words}"], capture_output=True, cwd=tmp_path, check=True
    )
    assert done.stdout.decode().split("\0")[:-1] == ["x", *HOSTILE]
    assert list(tmp_path.iterdir()) == []


@each_row("id", HOSTILE)
def test_s54_an_id_that_looks_like_an_option_is_typed_behind_two_dashes(id: str) -> None:
    assert shlex.split(typed(id)) == (["--", id] if id.startswith("-") else [id])


def sources() -> Iterator[tuple[str, ast.JoinedStr]]:
    """Every text of Clew that is put together of pieces."""
    root = Path(str(resources.files("clew")))
    for path in sorted(root.rglob("*.py")):
        text = path.read_text("utf-8")
        if "testing" not in path.parts and re.search("clew |chmod ", text):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.JoinedStr):
                    yield f"{path.relative_to(root)}:{node.lineno}", node


def commands_with_values() -> Iterator[tuple[str, ast.expr]]:
    """What is put into a command that is printed: `clew show {…}`, `chmod 600 {…}`."""
    names = "|".join(clew_cli.list_commands(click.Context(clew_cli)))
    command = re.compile(rf"\b(?:clew (?:--?[\w-]+ )*(?:{names})|chmod)\b[^;,:.()]*\s$")
    for place, text in sources():
        before = ""
        for piece in text.values:
            if isinstance(piece, ast.Constant):
                before += str(piece.value)
            elif isinstance(piece, ast.FormattedValue):
                if command.search(before):
                    yield place, piece.value
                before += "x"


def test_s54_whatever_is_put_into_a_command_to_be_pasted_is_quoted() -> None:
    found = list(commands_with_values())
    assert len(found) >= 6, "the search does not find the commands any more"
    bare = [
        f"{place}: {ast.unparse(value)}"
        for place, value in found
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in WRITTEN)
        and ast.unparse(value) != "wanted"  # a mode, of two that there are
    ]
    assert bare == []


def all_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(clew_cli)
    for name in clew_cli.list_commands(context):
        command = clew_cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        else:
            yield name, command


def takes_words(command: click.Command) -> bool:
    return any(isinstance(one, click.Argument) for one in command.params)


@each_row(("name", "command"), [one for one in all_commands() if takes_words(one[1])])
def test_s54_behind_two_dashes_nothing_is_an_option_of_any_command(name: str, command: click.Command) -> None:
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    words = ["--", *(["-rf"] * len(arguments))]
    told = "-rf"
    try:
        with command.make_context(name, words) as context:
            given = [context.params[str(one.name)] for one in arguments]
    except click.BadParameter as error:  # no such file, or not one of a choice: but it was taken for one
        given, told = [], error.format_message()
    assert "-rf" in told
    assert all(value in ("-rf", ("-rf",)) for value in given)


@pytest.mark.parametrize("id", ["x;touch pwned", "\\'$(touch pwned)\\'", "-rf *"])
def test_s54_what_rm_prints_brings_the_session_back(cli: Clew, id: str) -> None:
    with clew.open(cli.store) as store:
        store.create(id)
    told = cli("rm", "--", id).out
    cli(*shlex.split(told.rpartition("; clew ")[2].partition(" brings it back")[0]))
    assert cli("ls").out.startswith(id)


def test_s54_doctor_quotes_the_path_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "my $(touch pwned)'s.db"
    clew.open(place).close()
    place.chmod(0o644)
    monkeypatch.setenv("CLEW_STORE", str(place))
    [step] = [
        line.split("\t")[3] for line in in_pipe("doctor").splitlines() if line.startswith("permissions")
    ]
    assert shlex.split(step) == ["chmod", "600", str(place)]


def test_an_error_of_the_library_repeats_a_name_as_python_writes_it() -> None:
    """So it is seen where it begins and ends; it is no command."""
    assert "'x; rm -rf ~'" in described(clew.SessionNotFoundError("x; rm -rf ~"))


def test_a_pager_that_cannot_be_read_is_no_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.cli import output

    for chosen in ("less 'x", "", "   ", "no-such-pager-anywhere"):
        monkeypatch.setenv("PAGER", chosen)
        assert output._pager() is None
    monkeypatch.setenv("PAGER", "sh -c 'cat; exit' $(touch pwned)")
    assert output._pager() == ["sh", "-c", "cat; exit", "$(touch", "pwned)"]
