"""The main screens, letter by letter, on terminals of three sizes."""

from __future__ import annotations

import pytest

from tests.cli.golden import check_screen
from tests.cli.processes import Clew
from tests.cli.ui.driver import Screen, browse

SIZES = ((60, 20), (80, 24), (120, 30))
KEYS: dict[str, list[str]] = {
    "list": ["right"],
    "agents": ["a"],
    "search": ["slash"],
    "session": ["enter"],
    "tool": ["enter", *["j"] * 13, "enter"],
    "tree": ["t"],
    "resume": ["c"],
    "export": ["x"],
    "help": ["question_mark"],
}


WORDS = {"search": "cookie"}
"""What is typed then."""


@pytest.mark.parametrize("name", KEYS)
def test_a_screen_is_as_it_was_looked_at(agents: Clew, name: str) -> None:
    shown: dict[int, str] = {}

    async def steps(screen: Screen) -> None:
        await screen.press(*KEYS[name])
        await screen.write(WORDS.get(name, ""))
        text = "\n".join(line.rstrip() for line in screen.text.replace(str(agents.store), "").splitlines())
        shown[screen.app.size.width] = f"{text}\n"

    for size in SIZES:
        browse(agents, steps, size=size)
    check_screen(f"ui-{name}", shown)
