"""The commands of docs/how-to/use-the-command-line.md, typed one after the other."""

from __future__ import annotations

import shlex
import subprocess
import sys

from tests.cli.processes import Clew
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "use-the-command-line.md"
NOT_HERE = ("--scan", "~", "-f login", "postgresql", "jq", ">>")
"""What needs other programs, files of the user, or a key to be pressed."""


def test_the_commands_of_the_page_do_what_it_says(cli: Clew) -> None:
    [code] = blocks(PAGE, "python")
    work = cli.home / "work"
    work.mkdir()
    subprocess.run([sys.executable, "-c", code.code], env=cli.env, cwd=work, check=True, capture_output=True)
    [drawing] = blocks(PAGE, "text")
    typed = [
        line.split("  # ")[0].split("    #")[0] for b in blocks(PAGE, "bash") for line in b.code.splitlines()
    ]
    for line in typed:
        if any(word in line for word in NOT_HERE):
            continue
        command = line.replace("clew ", f"{shlex.quote(sys.executable)} -m clew ", 1)
        done = subprocess.run(
            ["bash", "-c", command],
            env=cli.env,
            cwd=work,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert 0 == done.returncode, (line, done)
        if "--graph" in line:
            assert drawing.code == done.stdout.rstrip("\n")
