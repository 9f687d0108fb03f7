"""The commands of docs/how-to/use-the-command-line.md, typed one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from tests.cli.golden import settled
from tests.cli.processes import Clew
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "use-the-command-line.md"
NOT_HERE = ("--scan", "-f login", "jq")
"""What needs other programs, files of the user, or a key to be pressed."""


def typed(page: Path) -> list[str]:
    """The lines for a shell, without their comments."""
    lines = [line for block in blocks(page, "bash") for line in block.code.splitlines()]
    return [line.partition("  #")[0] for line in lines if not any(word in line for word in NOT_HERE)]


def test_the_commands_of_the_page_do_what_it_says(cli: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = blocks(PAGE, "python")
    work = cli.home / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("CLEW_STORE", str(cli.store))
    exec(code.code, {"__name__": "page"})  # noqa: S102 (our own page)
    [drawing] = blocks(PAGE, "text")
    for line in typed(PAGE):
        shown = cli.type(line, work).out
        if "--graph" in line:
            assert settled(drawing.code) == settled(shown.rstrip("\n"))


def test_files_of_a_home_directory_are_refused_with_what_to_type(cli: Clew) -> None:
    """A checkpoint has no --force: only what has it is named."""
    with clew.open(cli.store) as store:
        store.session("login-bug").append({"role": "user", "content": "hi"})

    told = cli("checkpoint", "login-bug", "done", "--files", ".", code=1).err

    assert "it is a home directory; name a directory inside of it" in told
    assert "clew snapshot and clew restore take it with --force" in told
    assert "force=True" not in told


def test_the_commands_that_set_it_up_do_what_the_page_says(cli: Clew) -> None:
    page = DOCS / "how-to" / "set-up-the-command-line.md"
    with clew.open(cli.home / "agents.db") as store:
        store.session("here")
    del cli.env["CLEW_STORE"]
    for line in typed(page):
        cli.type(line)
    told = cli("config").out
    assert f"store\t{cli.home}/agents.db\t{cli.home}/.config/clew/config.toml:1" in told
    assert "color\tauto\tdefault" in told
    assert (cli.home / ".local/share/man/man1/clew-rewind.1").exists()
    [toml] = blocks(page, "toml")
    (cli.home / ".config/clew/config.toml").write_text(toml.code)
    assert "color\tnever" in cli("config").out
