"""Reading a session in `clew ui`."""

from __future__ import annotations

from itertools import count

import pytest
from textual.timer import Timer

import clew
from clew.cli.ui import lines as reading
from clew.cli.ui.dialogs import PickDialog
from tests.cli.conftest import assistant, user
from tests.cli.processes import Clew
from tests.cli.ui.conftest import SHOP
from tests.cli.ui.driver import Screen, browse, browsing

FOLDED = """\
── user · 2025-11-02 09:00
The login page returns 500 for people with an old cookie.

▸ thought: Let me look at the log first.

I will look at the log.

▸ Ran tail -n 40 logs/app.log: Traceback (most recent call last):
▸ Read auth.py (2 lines)
▸ Search “sessions” (1 line)

Line 42 fails.

▸ Edit auth.py +3 −1

Fixed. All tests pass.

── user · 2025-11-02 09:02
Are there other places like this?

▸ Agent Look in the admin pages → 9f3a1b2c/a1 (a): Found one cookie.

Two more: admin.py and api.py.

── user · 2025-11-02 09:04
Fix them too.

Done."""


def plain(screen: Screen) -> str:
    return "\n".join(line.rstrip("─ ") for line in screen.texts)


@browsing("agents", size=(100, 30))
async def test_a_session_is_read_with_its_tools_folded_to_one_line(screen: Screen) -> None:
    await screen.press("enter")
    assert FOLDED == plain(screen)
    assert "claude-code · shop · claude-opus-4-5 · 14 messages · 3 agents (a)" in screen.text


@browsing("agents", size=(100, 30))
async def test_enter_opens_a_tool_call_and_closes_it(screen: Screen) -> None:
    await screen.press("enter")
    await screen.go_to("Edit auth.py")
    await screen.press("enter")
    opened = plain(screen)
    assert "▾ Edit auth.py +3 −1\n" in opened
    assert "\n    -user = sessions[cookie]\n    +user = sessions.get(cookie)\n" in opened
    assert "▾ Edit" in screen.here
    await screen.press("enter")
    assert FOLDED == plain(screen)
    await screen.go_to("Ran tail")
    await screen.press("enter")
    assert "    $ tail -n 40 logs/app.log\n    Traceback (most recent call last):\n    KeyError" in plain(
        screen
    )
    await screen.go_to("thought")
    await screen.press("enter")
    assert "▾ thought:\n    Let me look at the log first." in plain(screen)


@browsing("agents", size=(100, 30))
async def test_v_opens_everything_and_closes_it(screen: Screen) -> None:
    await screen.press("enter", "v")
    assert "▸" not in plain(screen)
    assert "file_path: /w/shop/auth.py" in plain(screen)
    await screen.press("v")
    assert FOLDED == plain(screen)


@browsing("agents")
async def test_tab_jumps_from_prompt_to_prompt(screen: Screen) -> None:
    await screen.press("enter", "tab")
    assert "user · 2025-11-02 09:02" in screen.here
    await screen.press("right_square_bracket")
    assert "user · 2025-11-02 09:04" in screen.here
    await screen.press("tab")
    assert ["no more prompts"] == screen.toasts
    await screen.press("shift+tab", "left_square_bracket")
    assert "user · 2025-11-02 09:00" in screen.here


@browsing("agents")
async def test_the_last_but_one_line_names_the_entry_under_the_cursor(screen: Screen) -> None:
    await screen.press("enter", "G")
    name = screen.text.splitlines()[-2].split()[0]
    shop = screen.store.get(f"claude-code:{SHOP}")
    assert name == f"{shop.head.branch[-4:]}.13"
    assert "assistant · 2025-11-02 09:04 · 14 of 14" in screen.text


@browsing("agents", size=(120, 24))
async def test_one_goes_to_a_subagent_and_back_to_its_parent(screen: Screen) -> None:
    await screen.press("enter", "a")
    assert 3 == len(screen.shown(PickDialog).choices)
    await screen.write("admin")
    await screen.press("enter")
    assert "Look in the admin pages" in screen.text
    assert "a subagent" in screen.text
    await screen.press("a", "enter")
    assert f"claude-code:{SHOP}" == screen.reader.session.id
    await screen.press("escape", "escape")
    assert f"claude-code:{SHOP}" == screen.reader.session.id


@browsing("agents", size=(120, 24))
async def test_a_goes_from_a_call_to_the_subagent_that_it_started(screen: Screen) -> None:
    await screen.press("enter")
    await screen.go_to("Agent Look in the admin pages")
    await screen.press("a")
    assert f"claude-code:{SHOP}/agent-a1" == screen.reader.session.id
    assert "Found one cookie." in screen.text


@browsing("agents", size=(100, 24))
async def test_words_are_found_in_the_session_with_n_in_turn(screen: Screen) -> None:
    await screen.press("enter", "n")
    assert ["search first: /"] == screen.toasts
    await screen.press("slash")
    await screen.write("cookie")
    await screen.press("enter")
    assert "cookie: hit 1 of 3 (n N)" in screen.text
    assert "user · 2025-11-02 09:00" in screen.here
    await screen.press("n")
    assert "▾ Edit auth.py" in screen.here
    assert "-user = sessions[cookie]" in plain(screen)
    await screen.press("n")
    assert "▾ Agent Look in the admin pages" in screen.here
    await screen.press("n")
    assert "user · 2025-11-02 09:00" in screen.here
    await screen.press("N", "N")
    assert "▾ Edit auth.py" in screen.here


@browsing("agents")
async def test_a_word_that_is_nowhere_is_said_to_be_so(screen: Screen) -> None:
    await screen.press("enter", "slash")
    await screen.write("zebra")
    await screen.press("enter", "n")
    assert ["nothing found: zebra"] * 2 == screen.toasts
    await screen.press("slash", "escape")
    assert screen.reader.lines.has_focus
    await screen.press("escape")
    assert screen.sessions


@browsing("cli", size=(60, 20))
async def test_a_long_session_is_read_as_it_is_scrolled_and_wraps_to_the_width(screen: Screen) -> None:
    screen.store.session("long").append(
        *(user(f"Question {number} " + "word " * 40) for number in range(500))
    )
    await screen.press("f5", "enter")
    few = len(screen.texts)
    assert few < 300
    assert all(len(line) <= 60 for line in screen.text.splitlines())
    await screen.press("end")
    assert "Question 499" in "\n".join(screen.texts)
    assert "500 of 500" in screen.text
    await screen.press("home")
    assert 0 == screen.lines.cursor


@browsing("cli")
async def test_a_growing_session_is_shown_and_followed(screen: Screen) -> None:
    screen.store.session("live").append(user("Count"), assistant("1"))
    await screen.press("f5", "enter", "F")
    assert "following the end" in screen.text
    screen.store.get("live").append(assistant("2"))
    screen.reader._look_again()
    await screen.settle()
    assert ["2"] == screen.texts[-1:]
    assert screen.lines.cursor == len(screen.texts) - 1
    assert "3 messages" in screen.text
    await screen.press("F", "home")
    screen.store.get("live").append(assistant("3"))
    screen.reader._look_again()
    await screen.settle()
    assert ["3"] == screen.texts[-1:]
    assert screen.lines.cursor == 0
    screen.store.get("live").rewind(1)
    screen.reader._look_again()
    await screen.settle()
    assert ["1"] == screen.texts[-1:]


@browsing("cli")
async def test_a_session_without_messages_says_so(screen: Screen) -> None:
    screen.store.create("empty")
    await screen.press("f5", "enter", "enter", "v", "tab", "r", "F")
    assert "This session has no messages yet." in screen.text
    await screen.press("escape")
    assert screen.sessions


@browsing("cli")
async def test_results_without_calls_and_calls_without_results_are_shown(screen: Screen) -> None:
    s = screen.store.session("odd")
    s.append(user("Go"), {"role": "tool", "tool_call_id": "c9", "content": "a stray result"})
    calls = [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]
    s.append({"role": "assistant", "content": None, "tool_calls": calls}, user("Stop"))
    await screen.press("f5", "enter")
    lines = plain(screen)
    assert "result of" in lines
    assert "▸ Ran ls" in lines
    assert lines.endswith("Stop")


@browsing("cli")
async def test_a_huge_result_is_cut_when_it_is_opened(screen: Screen) -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "seq"}'}}
    ]
    result = "\n".join(str(number) for number in range(10_000))
    screen.store.session("big").append(
        user("Go"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    )
    await screen.press("f5", "enter")
    await screen.go_to("Ran seq")
    await screen.press("enter")
    assert len(screen.texts) < 2_100
    assert "an export (x) has all" in screen.texts[-1]


@pytest.mark.parametrize("place", [1, 2, 40])
def test_a_place_is_found_however_slowly_entries_are_read(
    cli: Clew, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    with clew.open(cli.store) as store:
        store.session("long").append(*(assistant(f"Answer {number}") for number in range(60)))
    ticks = count()
    monkeypatch.setattr(reading, "monotonic", lambda: next(ticks) * reading.AT_ONCE * 0.3)
    run = Timer._run

    async def is_late(self: Timer) -> None:
        """Textual leaves out what it comes to too late: what is to be called once is never called then."""
        if self._repeat != 0:
            await run(self)

    monkeypatch.setattr(Timer, "_run", is_late)

    async def steps(screen: Screen) -> None:
        await screen.press("slash")
        await screen.write(f'"Answer {place}"')
        await screen.press("enter")
        assert f"Answer {place}" == screen.here

    browse(cli, steps)
