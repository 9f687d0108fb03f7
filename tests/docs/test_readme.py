"""The commands of README, typed on the recorded home directory after nothing but the install."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
from pathlib import Path

from tests.cli.processes import COMMAND, Clew
from tests.docs.pages import DOCS, ROOT, blocks
from tests.home.make import environment, make_home

README = ROOT / "README.md"


def typed() -> list[str]:
    """The lines of the first block, without their comments."""
    [first, *_] = blocks(README, "console")
    return [line.partition("#")[0].strip() for line in first.code.splitlines()]


def test_the_first_block_installs_and_has_four_commands() -> None:
    install, *commands = typed()
    assert "pip install ." == install
    assert 4 == len(commands)
    assert all(line.startswith("clew ") for line in commands)


def test_the_commands_work_one_after_the_other(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    clew = Clew(home)
    clew.env = environment(home)
    *commands, last = typed()[1:]
    for line in commands:
        done = clew.on_terminal(*shlex.split(line)[1:], typed="y\n", width=100)
        assert done.code == 0, (line, done.out)
        assert "Traceback" not in done.out
        assert len(done.out.splitlines()) > 3, (line, done.out)
    assert "clew ui" == last
    assert 0 == looked_at(["ui"], clew.env)


def looked_at(args: list[str], env: dict[str, str]) -> int:
    """Start a screen, press q whenever it is silent, and give its exit code."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *args], env={**env, "TERM": "xterm-256color"}, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        while process.poll() is None:
            if select.select([ours], [], [], 0.5)[0]:
                try:
                    os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
            else:
                os.write(ours, b"q")
    os.close(ours)
    return process.returncode


def test_the_first_screen_is_a_sentence_a_picture_commands_and_code() -> None:
    text = README.read_text("utf-8").split("\n## ")[0]
    shape = re.findall(r"^(# |<picture|```console|```python)", text, re.MULTILINE)
    assert ["# ", "<picture", "```console", "```python"] == shape
    assert len(text.splitlines()) < 40


def test_there_are_as_many_promises_as_readme_says() -> None:
    table = (DOCS / "explanation" / "promises.md").read_text("utf-8")
    numbers = [int(number) for number in re.findall(r"^\| P(\d+) \|", table, re.MULTILINE)]
    assert list(range(1, len(numbers) + 1)) == numbers
    assert f"[All {len(numbers)} promises]" in README.read_text("utf-8")
    assert 3 == README.read_text("utf-8").split("## Three promises")[1].split("##")[0].count("\n- **")
