"""Real shells on a pseudo-terminal, with somebody who types."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")
PROMPT: Final = "READY>"

# `clew` for a shell: it answers when it is asked for proposals; else it only notes what it was called with.
_CLEW: Final = """\
#!/bin/sh
if [ -n "$_CLEW_COMPLETE" ]; then exec {python} -m clew "$@"; fi
printf '%s\\0' "$@" > "$HOME/called.new"
mv "$HOME/called.new" "$HOME/called"
"""
_SET_UP: Final = {
    "bash": (".bashrc", f"PS1='{PROMPT} '\nset -o histexpand\n"),
    "zsh": (".zshrc", f"PS1='{PROMPT} '\nautoload -Uz compinit\ncompinit -u -D\n"),
    "fish": (".config/fish/config.fish", f"function fish_prompt\n  printf '{PROMPT} '\nend\n"),
}
_COMPLETIONS: Final = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/completions/clew.fish"}
_ARGUMENTS: Final = {"bash": ["--noprofile", "-i"], "zsh": ["-i"], "fish": ["-i"]}


class Typist:
    """Types into one shell, in a home of its own."""

    def __init__(self, shell: str, home: Path, script: str, environment: dict[str, str]) -> None:
        program = shutil.which(shell)
        assert program, f"this test needs {shell}: install it"
        self.home = home
        self.seen = b""
        self._called = home / "called"
        self._write("bin/clew", _CLEW.format(python=sys.executable), mode=0o755)
        self._write(*_SET_UP[shell])
        self._write(_COMPLETIONS[shell], script)
        environment = {
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
            env=environment,
            cwd=home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._until(lambda: PROMPT.encode() in self.seen)

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        path.chmod(mode)

    def enter(self, keys: str) -> list[str]:
        """Type, press Enter, and say with what `clew` was called."""
        self._called.unlink(missing_ok=True)
        os.write(self._ours, f"{keys}\r".encode())
        self._until(self._called.exists)
        return self._called.read_text("utf-8").split("\0")[:-1]

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < deadline, self.seen.decode(errors="replace")
            if select.select([self._ours], [], [], 0.01)[0]:
                self.seen += os.read(self._ours, 65536)

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
