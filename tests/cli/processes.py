"""The command line with a store of its own: inside the test's process, or as one of its own."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cli.inside import Done, run_in_pipes, run_on_terminal

COMMAND = [sys.executable, "-m", "clew"]


class Clew:
    """`clew` with a store of its own, and nothing of the user's settings."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home / "agents.db"
        kept = {
            name: os.environ[name]
            for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "CLEW_STATE_DIR")
            if name in os.environ
        }
        self.env = {**kept, "HOME": str(home), "CLEW_STORE": str(self.store), "TZ": "UTC", "LANG": "C.UTF-8"}

    def __call__(
        self,
        *args: str,
        code: int = 0,
        env: Mapping[str, str] | None = None,
        given: bytes | Path | None = None,
    ) -> Done:
        """Run it with pipes on all sides; `code` is how it must end."""
        done = run_in_pipes(args, {**self.env, **(env or {})}, self.home, given)
        assert done.code == code, done
        return done

    def on_terminal(
        self, *args: str, width: int = 80, typed: str = "", env: Mapping[str, str | None] | None = None
    ) -> Done:
        """Run it on a terminal; standard output and error come together. None removes a variable."""
        return run_on_terminal(args, {**self.env, **(env or {})}, self.home, width=width, typed=typed)

    def type(self, line: str, directory: Path | None = None) -> Done:
        """A line of a page, as a shell takes it: only `clew` runs in here, and its output goes on into files
        and other programs."""
        done = Done(0, "", "")
        for part in line.split("; "):
            words = [re.sub(r"^(\w+=)?~/", rf"\1{self.home}/", word) for word in shlex.split(part)]
            given = list(itertools.takewhile(lambda word: "=" in word, words))
            command, behind = _parted(words[len(given) :])
            if command[0] == "clew":
                env = {**self.env, **dict(word.split("=", 1) for word in given)}
                done = run_in_pipes(tuple(command[1:]), env, directory or self.home)
            else:
                behind = command
            if behind[:1] in ([">"], [">>"]):
                with open(behind[1], "a" if behind[0] == ">>" else "w", encoding="utf-8") as file:
                    file.write(done.out)
            elif behind and done.code == 0:
                script = shlex.join(behind).replace("'|'", "|").removeprefix("| ")
                ran = subprocess.run(
                    ["sh", "-c", script], input=done.out, capture_output=True, text=True, check=False
                )
                done = Done(ran.returncode, ran.stdout, ran.stderr)
            assert done.code == 0, (line, done)
        return done

    # -- as a process of its own

    def process(self, *args: str, code: int = 0, env: Mapping[str, str] | None = None) -> Done:
        """The same as a call, for what ends, replaces or outlives a process."""
        done = subprocess.run(
            [*COMMAND, *args],
            env={**self.env, **(env or {})},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.code == code, result
        return result

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *args],
            env={**self.env, "PYTHONUNBUFFERED": "1"},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """A command, and where its output goes."""
    at = next((at for at, word in enumerate(words) if word in ("|", ">", ">>")), len(words))
    return words[:at], words[at:]
