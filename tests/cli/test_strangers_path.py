"""The first two minutes of a person who has never seen Clew, on the files of real agents, screen by screen.

The commands are those of the README, typed on a terminal of 80 columns; `tests/cli/screens/path` holds what
the person sees. `make screens` writes them anew after a change that is meant: look at the difference then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cli.golden import are_written
from tests.cli.terminal import Running, Terminal
from tests.home.make import make_home

ROOT: Final = Path(__file__).parents[2]
SCREENS: Final = Path(__file__).parent / "screens" / "path"
SESSION: Final = "4be70e2a"
_NAMES: Final = re.compile(r"(?<![\w-])[0-9a-f]{4,8}(?=\.\d+\b)")
_HIT: Final = re.compile(r"^(\S+@\S+)", re.MULTILINE)
_COMMAND: Final = re.compile(r"^(clew .*?)(?:\s+#|$)", re.MULTILINE)


def walk(terminal: Terminal) -> Iterator[tuple[str, str, str]]:
    """The names, commands and screens of the path, one after the other."""

    def run(name: str, command: str) -> tuple[str, str, str]:
        return name, command, terminal.run(command)

    yield run("01-help", "clew")
    yield run("02-import", "clew import --scan")
    yield run("03-import-again", "clew import --scan")
    yield run("04-ls", "clew ls")
    found = run("05-search", "clew search login")
    yield found
    yield run("06-show", f"clew show {SESSION}")
    place = _HIT.findall(found[2])[0]  # as it would be pasted
    yield run("07-show-place", f"clew show {place}")
    yield run("08-graph", f"clew log --graph {SESSION}")
    yield run("09-fork", f"clew fork {place}")
    yield run("10-ls-after-fork", "clew ls -n 3")
    yield run("11-export", f"clew export {SESSION} -o session.html")
    yield run("12-usage", "clew usage")
    yield run("13-usage-by-agent", "clew usage --by agent")
    with terminal.start("clew ui") as ui:
        yield from look_around(ui)


def look_around(ui: Running) -> Iterator[tuple[str, str, str]]:
    def seen(name: str, command: str, words: str) -> tuple[str, str, str]:
        kept = _NAMES.sub("NAME", _kept().get(name, ""))
        screen = ui.wait_for(words, lambda shown: _NAMES.sub("NAME", f"$ {command}\n{shown}") == kept)
        return name, command, screen

    yield seen("14-ui", "clew ui", "Fix the logi")
    ui.type("?")
    yield seen("15-ui-help", "clew ui, ?", "help")
    ui.type("\x1b")
    ui.wait(lambda: "Fix the logi" in ui.text)
    ui.type("\r")
    yield seen("16-ui-session", "clew ui, Enter", "capital letters in their")
    ui.type("q")
    ui.wait(lambda: ui.is_over)


def _kept() -> dict[str, str]:
    return {file.stem: file.read_text("utf-8") for file in sorted(SCREENS.glob("*.txt"))}


def settled(screens: dict[str, str]) -> dict[str, str]:
    """With the same letters where every run has others: the names of branches."""
    names = dict.fromkeys(name for screen in screens.values() for name in _NAMES.findall(screen))
    letters = {name: f"{number:0{len(name)}}" for number, name in enumerate(names, 1)}

    def settle(screen: str) -> str:
        return _NAMES.sub(lambda found: letters[found[0]], screen)

    return {name: settle(screen) for name, screen in screens.items()}


def test_every_screen_of_the_path_is_as_it_was(tmp_path: Path) -> None:
    terminal = Terminal(make_home(tmp_path / "ana"))
    screens = settled({name: f"$ {command}\n{screen}" for name, command, screen in walk(terminal)})

    if are_written():
        SCREENS.mkdir(exist_ok=True)
        for old in SCREENS.glob("*.txt"):
            old.unlink()
        for name, screen in screens.items():
            (SCREENS / f"{name}.txt").write_text(screen, "utf-8")
    assert screens == _kept()


def test_no_screen_shows_what_is_of_no_use_to_a_person() -> None:
    """Neither tabs nor escape codes, no whole ids where short ones do, no paths from the root of the disk."""
    foreign = re.compile(r"␛|\t|Traceback|(?<!Id:        )claude-code:[0-9a-f]{8}-|(?<!~)/\.local/share")
    found = {
        file.stem: foreign.findall(text)
        for file in sorted(SCREENS.glob("*.txt"))
        if foreign.search(text := file.read_text("utf-8"))
    }
    assert found == {}


def test_the_path_is_that_of_the_readme() -> None:
    """Every command of its first screen is typed, in its order."""
    first = (ROOT / "README.md").read_text("utf-8").partition("```console")[2].partition("```")[0]
    typed = [file.read_text("utf-8").partition("\n")[0][2:] for file in sorted(SCREENS.glob("*.txt"))]
    wanted = _COMMAND.findall(first)
    assert len(wanted) >= 4
    assert [command for command in dict.fromkeys(typed) if command in wanted] == wanted
