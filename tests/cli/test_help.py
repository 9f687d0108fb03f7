"""Help is quick, has examples, and says the same as the table of commands; completion; versions."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

import click
import pytest

from clew.cli import COMMANDS, app, cli
from tests.cli.processes import Clew
from tests.cli.reference import BEGIN, END, reference
from tests.docs.pages import DOCS


def command_of(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def test_help_lists_every_command_and_needs_no_engine() -> None:
    """What takes long to import is not imported: that, not a clock, keeps help quick."""
    code = (
        "import sys, clew.cli\n"
        "try: clew.cli.main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "slow = {'apsw', 'rich', 'asyncio', 'psycopg', 'pygments', 'sqlite3'} & set(sys.modules)\n"
        "assert not slow, slow\n"
        "loaded = {name for name in sys.modules if name.startswith('clew.cli.')}\n"
        "assert loaded <= {'clew.cli.app'}, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    for name, place in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert place.help.split()[0] in done.stdout


def test_a_listing_for_a_pipe_does_not_wait_for_what_draws_on_terminals(story: Clew) -> None:
    code = (
        "import sys, clew.cli\n"
        "try: clew.cli.main(sys.argv[1:])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "slow = {'rich', 'asyncio', 'psycopg', 'clew.exporters', 'clew.importers'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--store", str(story.store), "ls"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)


def test_clew_alone_shows_the_help(cli: Clew) -> None:
    assert cli().out == cli("--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_help_with_examples_that_begin_with_it(name: str) -> None:
    command = command_of(name)
    assert command.name == name
    assert command.help
    assert command.epilog
    assert f"clew {name}" in command.epilog
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name != "every":
            assert parameter.help or parameter.name == "limit", parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_can_be_parsed(name: str) -> None:
    """Every option in an example exists."""
    command = command_of(name)
    lines = [
        line.strip() for line in str(command.epilog).splitlines() if line.strip().startswith(f"clew {name}")
    ]
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else [])]
    known = {option for one in commands for p in one.params for option in (*p.opts, *p.secondary_opts)}
    for line in lines:
        used = [word for word in line.split() if word.startswith("--")]
        assert set(used) <= known, line


def test_the_reference_says_what_the_commands_say() -> None:
    """`python -m tests.cli.reference` brings the page up to date."""
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    assert reference().strip() == page.split(BEGIN)[1].split(END)[0].strip()


def test_exit_codes_in_the_reference_are_those_of_the_code() -> None:
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    table = page.split("## Exit codes")[1].split("##")[0]
    codes = [int(line.split("|")[1]) for line in table.splitlines() if line[2:3].isdigit()]
    known = (
        app.OK,
        app.ERROR,
        app.USAGE,
        app.PARTLY,
        app.INTERRUPTED,
        app.CLOSED_PIPE,
    )
    assert list(known) == codes


def test_options_may_stand_before_or_behind_the_command(story: Clew) -> None:
    store = str(story.store)
    expected = story("ls", "--json").out
    for args in (["--json", "ls"], ["--store", store, "ls", "--json"], ["ls", "-s", store, "--json"]):
        assert expected == story(*args, env={"CLEW_STORE": "nowhere.db"} if store in args else None).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_those_of_the_shell(cli: Clew, shell: str) -> None:
    assert "_CLEW_COMPLETE" in cli("completion", shell).out


def test_names_are_completed(cli: Clew) -> None:
    env = {"_CLEW_COMPLETE": "bash", "COMP_LINE": "clew che", "COMP_PART": "che"}
    assert ["word\tcheckpoint"] == cli(env=env).lines


def test_ids_are_completed_with_their_titles(story: Clew) -> None:
    done = story(env={"_CLEW_COMPLETE": "fish", "COMP_LINE": "clew show login-bug#"})
    assert "word\tlogin-bug#fork-1\tThe login page" in done.out
    assert "login-bug#fork-1" in done.out
    assert "login-bug\t" not in done.out


def test_completion_without_a_store_offers_nothing(cli: Clew) -> None:
    env = {"_CLEW_COMPLETE": "bash", "COMP_LINE": "clew show x", "COMP_PART": "x"}
    assert "" == cli(env=env, code=1).out.strip()
    assert not cli.store.exists()


def test_versions_are_told(cli: Clew) -> None:
    told = dict(cli("version").rows)
    assert {"clew", "python", "sqlite", "apsw"} <= set(told)
    assert f"clew {told['clew']}\n" == cli("--version").out


def test_modules_of_commands_are_all_there() -> None:
    for name, place in COMMANDS.items():
        assert hasattr(import_module(f"clew.cli.{place.module}"), f"{name}_command")


def test_the_demo_ends_well_and_leaves_nothing(cli: Clew) -> None:
    done = cli("demo", env={"TMPDIR": str(cli.home)})
    assert "the thread is whole" in done.out
    assert [] == os.listdir(cli.home)
