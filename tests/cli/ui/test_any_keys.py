"""Keys in any order, on terminals of any size: something is always shown, and nothing fails."""

from __future__ import annotations

import random

import pytest

import clew
from tests.cli.conftest import user
from tests.cli.processes import Clew
from tests.cli.ui.driver import Screen, browse
from tests.support.effort import usually

KEYS = [
    *"abcdefghjklnoprtuvxyFGNT",
    "enter", "enter", "escape", "escape", "escape", "slash", "up", "down", "left", "right", "tab",
    "shift+tab", "space", "backspace", "pagedown", "pageup", "home", "end", "full_stop", "question_mark",
    "delete", "f5", "ctrl+d", "ctrl+u",
]  # fmt: skip
SIZES = [(80, 24), (60, 20), (30, 8), (200, 50), (12, 4)]


@pytest.mark.parametrize("seed", range(usually(4, thorough=40)))
def test_no_order_of_keys_ends_the_browser(
    agents: Clew, story: Clew, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Forty keys, each answered before the next: that takes a second."""
    monkeypatch.chdir(agents.home)
    chosen = random.Random(seed)
    with clew.open(agents.store) as store:
        store.create("empty")
        store.create("odd").append(user(""), {"role": "x", "content": [1, None, {"type": "y"}]})

    async def steps(screen: Screen) -> None:
        for _ in range(4):
            await screen.pilot.resize_terminal(*chosen.choice(SIZES))
            await screen.press(*chosen.choices(KEYS, k=10))
            assert screen.app.is_running
            assert screen.text is not None

    browse(agents, steps)
