"""Real shells on a pseudo-terminal, with somebody who types.

What such a shell asks `clew` when Tab is pressed is answered by the test's own process, in a tenth of the
time that a new one takes.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cli.inside import run_in_pipes
from tests.support.needs import need

SHELLS: Final = ("bash", "zsh", "fish")
PROMPT: Final = "READY>"

CALLED: Final = "CALLED>"

# `clew` for a shell: it hands on what is asked when Tab was pressed; else it notes what it was called with.
_CLEW: Final = """\
#!/bin/sh
if [ -n "$_CLEW_COMPLETE" ]; then
    printf '%s\\0' "$_CLEW_COMPLETE" "$COMP_LINE" "$COMP_PART" > "$HOME/asked"
    exec cat "$HOME/answer"
fi
printf '%s\\0' "$@" > "$HOME/called"
echo '{called}'
"""
# One that answers by itself, however slow this machine is.
_PROGRAM: Final = """\
#!{python}
import clew.cli.completion
clew.cli.completion.PATIENCE = 1e6
clew.cli.main()
"""
_SET_UP: Final = {
    "bash": (".bashrc", f"PS1='{PROMPT} '\nset -o histexpand\n"),
    "zsh": (".zshrc", f"PS1='{PROMPT} '\nautoload -Uz compinit\ncompinit -u -D\n"),
    "fish": (".config/fish/config.fish", f"function fish_prompt\n  printf '{PROMPT} '\nend\n"),
}
_COMPLETIONS: Final = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/completions/clew.fish"}
_ARGUMENTS: Final = {"bash": ["--noprofile", "-i"], "zsh": ["-i"], "fish": ["-i"]}


class Typist:
    """Types into one shell, in a home of its own. `environment` is what `clew` is asked with."""

    def __init__(self, shell: str, home: Path, script: str, environment: dict[str, str]) -> None:
        if shell != "bash":
            need(shell)
        program = shutil.which(shell)
        assert program is not None
        self.shell = shell
        self.home = home
        self.seen = b""
        """What was on the terminal since something was entered."""
        for name in ("asked", "answer"):
            os.mkfifo(home / name)
        self._asked = os.open(home / "asked", os.O_RDWR)  # so it is never closed on the other side
        self._write("bin/clew", _CLEW.format(called=CALLED), mode=0o755)
        self._write(*_SET_UP[shell])
        self._write(_COMPLETIONS[shell], script)
        self.environment = {
            **environment,
            "HOME": str(home),
            "ZDOTDIR": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local"),
            "PATH": f"{home / 'bin'}:{environment['PATH']}",
            "TERM": "xterm",
        }
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", program, *_ARGUMENTS[shell]],  # fish wants the terminal for itself
            env=self.environment,
            cwd=home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._until(lambda: PROMPT in self._text())

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        path.chmod(mode)

    @contextmanager
    def asking_a_process(self) -> Iterator[None]:
        """Let a `clew` of its own answer, not the test's process."""
        self._write("bin/program", _PROGRAM.format(python=sys.executable), mode=0o755)
        stub = self.home / "bin" / "clew"
        text = stub.read_text()
        stub.write_text(text.replace("printf", 'exec "$HOME/bin/program"; printf', 1))
        yield
        stub.write_text(text)

    def enter(self, keys: str) -> list[str]:
        """Type, press Enter, and say with what `clew` was called."""
        self.seen = b""
        os.write(self._ours, f"{keys}\r".encode())
        # Keys that are pressed before a shell asks for them reach some shells as other keys.
        self._until(lambda: PROMPT in self._text().partition(CALLED)[2])
        return (self.home / "called").read_text("utf-8").split("\0")[:-1]

    def _text(self) -> str:
        return self.seen.decode(errors="replace")

    def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            ready = select.select([self._ours, self._asked], [], [])[0]
            if self._asked in ready:
                self._answer()
            if self._ours in ready:
                self.seen += os.read(self._ours, 65536)

    def _answer(self) -> None:
        asked = b""
        while asked.count(b"\0") < 3:
            asked += os.read(self._asked, 65536)
        names = ("_CLEW_COMPLETE", "COMP_LINE", "COMP_PART")
        said = dict(zip(names, asked.decode().split("\0"), strict=False))
        done = run_in_pipes((), {**self.environment, **said}, self.home)
        (self.home / "answer").write_text(done.out, "utf-8")

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._asked)
