"""`clew ui`: keys pressed in a browser on a real store, and the command as a process on a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from textual import app as textual_app
from textual.pilot import Pilot
from textual.widgets import Input

import clew
from clew.cli import run
from clew.cli.ui.app import Browser
from clew.cli.ui.dialogs import ConfirmDialog, ForkDialog
from clew.cli.ui.lines import Lines
from clew.cli.ui.reader import GraphScreen, ReaderScreen
from clew.cli.ui.sessions import SessionsScreen
from tests.cli.conftest import user
from tests.cli.processes import COMMAND, Clew

HOSTILE = "\x1b]0;owned\x07 \x1b[31mred \u202egnp.exe [bold]loud[/bold] [@click=app.quit]here[/]"


@pytest.fixture(autouse=True)
def wait_once_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual waits until it is idle, 20 ms or more, twice after each key; `Screen.settle` waits anyhow."""
    monkeypatch.setattr(textual_app, "wait_for_idle", lambda _: asyncio.sleep(0))


class Screen:
    """The browser of a test, its keys and what it shows."""

    def __init__(self, store: clew.Store, app: Browser, pilot: Pilot[None]) -> None:
        self.store, self.app, self.pilot = store, app, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Until everything was read that the screen needs."""
        await self.pilot.pause()
        for lines in self.app.screen.query(Lines):
            while lines.is_reading:
                await self.pilot.pause()

    @property
    def lines(self) -> Lines[str]:
        return self.app.screen.query_one(Lines)

    @property
    def text(self) -> str:
        """What is on the screen, without its colours."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    @property
    def toasts(self) -> list[str]:
        return [toast.message for toast in self.app._notifications]

    def head(self, id: str = "login-bug") -> int:
        return self.store.get(id).head.position


Steps = Callable[[Screen], Awaitable[None]]


def browse(cli: Clew, steps: Steps, size: tuple[int, int] = (80, 24)) -> None:
    async def drive() -> None:
        with clew.open(cli.store) as store:
            app = Browser(store)
            async with app.run_test(size=size, notifications=True) as pilot:
                screen = Screen(store, app, pilot)
                await screen.settle()
                await steps(screen)

    asyncio.run(drive())


def fill(cli: Clew, count: int) -> None:
    with clew.open(cli.store) as store:
        for number in range(count):
            store.session(f"chat-{number:03}").append(user(f"Talk {number}"))


def test_sessions_are_listed_and_the_footer_names_the_keys_in_80_columns(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        assert "login-bug#fork-1" in screen.text
        assert "2 sessions" in screen.text
        *_, footer = screen.text.splitlines()
        assert "/ filter ⏎ read g graph f fork r rewind u undo q quit" in " ".join(footer.split())
        assert len(footer) <= 80

    browse(story, steps)


def test_arrows_and_letters_move_the_cursor_and_stop_at_the_ends(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        first = screen.lines.value
        await screen.press("j")
        second = screen.lines.value
        assert {first, second} == {"login-bug", "login-bug#fork-1"}
        await screen.press("down")
        assert second == screen.lines.value
        await screen.press("k", "up")
        assert first == screen.lines.value

    browse(story, steps)


def test_a_long_list_is_read_as_it_is_scrolled(cli: Clew) -> None:
    fill(cli, 450)

    async def steps(screen: Screen) -> None:
        sessions = screen.app.screen
        assert isinstance(sessions, SessionsScreen)
        assert 200 == len(sessions.known)
        assert "+ sessions" in screen.text
        await screen.press("end")
        assert "chat-000" == screen.lines.value
        assert "chat-000" in screen.text
        assert "450 sessions" in screen.text
        await screen.press("home")
        assert "chat-449" in screen.text

    browse(cli, steps)


def test_the_list_is_filtered_as_one_types(story: Clew) -> None:
    fill(story, 30)

    async def steps(screen: Screen) -> None:
        await screen.press("slash", *"tal")
        assert 30 == screen.lines.count
        await screen.press("space", *"27")
        assert ["chat-027"] == [line.split()[3] for line in screen.lines.texts]
        await screen.press("enter", "enter")
        assert isinstance(screen.app.screen, ReaderScreen)
        await screen.press("escape", "escape")
        assert 32 == screen.lines.count

    browse(story, steps)


def test_letters_in_the_filter_are_no_commands(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("slash", *"gruq")
        assert "gruq" == screen.app.screen.query_one(Input).value
        assert 0 == screen.lines.count
        await screen.press("enter", "f", "r", "u", "enter")
        assert isinstance(screen.app.screen, SessionsScreen)

    browse(story, steps)


def test_a_session_is_read_with_its_tools_or_without(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await go_to(screen, " login-bug ")
        await screen.press("enter")
        assert "The login page returns 500." in screen.text
        assert "→ Read auth.py" in screen.text
        assert "42: user = sessions[cookie]" in screen.text
        await screen.press("t")
        assert "read_file" not in screen.text
        assert "Line 42 fails on an old cookie." in screen.text

    browse(story, steps)


def test_a_long_session_is_read_as_it_is_scrolled_and_wraps_to_the_width(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("long").append(*(user(f"Question {number} " + "word " * 40) for number in range(500)))

    async def steps(screen: Screen) -> None:
        await screen.press("enter")
        few = len(screen.lines.texts)
        assert few < 200
        assert all(len(line) <= 60 for line in screen.lines.texts)
        await screen.press("n", "n")
        assert "2  user" in screen.lines.texts[screen.lines.cursor]
        await screen.press("p")
        assert "1  user" in screen.lines.texts[screen.lines.cursor]
        await screen.press("end")
        assert "Question 499" in "\n".join(screen.lines.texts)
        assert len(screen.lines.texts) > few

    browse(cli, steps, size=(60, 24))


async def open_graph(screen: Screen) -> None:
    """Of login-bug, newest entry first."""
    await go_to(screen, " login-bug ")
    await screen.press("g")
    assert isinstance(screen.app.screen, GraphScreen)


async def go_to(screen: Screen, words: str) -> None:
    """As many arrows would."""
    [line] = [at for at, text in enumerate(screen.lines.texts) if words in text]
    screen.lines.go_to(line)
    await screen.settle()


def test_the_graph_is_that_of_clew_log(story: Clew) -> None:
    expected = story("log", "--graph", "login-bug").lines

    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        assert expected == screen.lines.texts

    browse(story, steps, size=(120, 24))


def test_the_cursor_of_the_graph_begins_where_the_session_stands(story: Clew) -> None:
    story("rewind", "login-bug", "plan")

    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        assert "◀ login-bug  ◆ plan" in screen.lines.texts[screen.lines.cursor]
        await screen.press("r")
        assert ["login-bug stands there"] == screen.toasts

    browse(story, steps)


def test_what_was_left_behind_can_be_read_from_the_graph(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        await go_to(screen, "I rewrote auth.py.")
        await screen.press("enter")
        assert "▶ 4  assistant" in screen.lines.texts[screen.lines.cursor]
        assert "Stop! Now nobody can log in." in screen.text
        assert "Only guard line 42." not in screen.text

    browse(story, steps)


def test_a_rewind_shows_what_it_leaves_behind_and_a_no_changes_nothing(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        await go_to(screen, "◆ plan")
        await screen.press("r")
        assert isinstance(screen.app.screen, ConfirmDialog)
        assert "Rewind login-bug from entry 5 to entry 3?" in screen.text
        assert "Left behind, but kept: 2 entries." in screen.text
        assert "4  user       Only guard line 42." in screen.text
        assert "5  assistant  Done." in screen.text
        await screen.press("n")
        assert isinstance(screen.app.screen, GraphScreen)
        assert 5 == screen.head()

    browse(story, steps)


def test_a_rewind_is_done_after_a_yes_and_undo_takes_it_back(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        await go_to(screen, "◆ plan")
        await screen.press("r", "y")
        assert 3 == screen.head()
        assert ["login-bug stands at entry 3 with 4 messages"] == screen.toasts
        assert any("◀ login-bug  ◆ plan" in line for line in screen.lines.texts)
        await screen.press("u")
        assert 3 == screen.head()
        await screen.press("y")
        assert 5 == screen.head()

    browse(story, steps)


def test_a_rewind_to_another_branch_says_what_comes_in(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        await go_to(screen, "Stop! Now nobody")
        await screen.press("r")
        assert "Left behind, but kept: 2 entries." in screen.text
        assert "Comes in from another branch: 2 entries." in screen.text
        await screen.press("y")
        last = screen.store.get("login-bug").messages()[-1]
        assert "Stop! Now nobody can log in." == last["content"]

    browse(story, steps)


def test_a_session_that_moved_since_the_preview_is_not_rewound(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        await go_to(screen, "◆ plan")
        await screen.press("r")
        screen.store.get("login-bug").append(user("One more thing."))
        await screen.press("y")
        assert 6 == screen.head()
        assert "has moved meanwhile" in screen.toasts[0]

    browse(story, steps)


def test_a_rewind_asked_for_in_the_list_lets_one_choose_the_place(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("r")
        assert isinstance(screen.app.screen, GraphScreen)
        assert ["choose an entry to go back to, then r"] == screen.toasts

    browse(story, steps)


def test_a_fork_says_from_where_asks_an_id_and_takes_no_used_one(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await open_graph(screen)
        await go_to(screen, "I rewrote auth.py.")
        await screen.press("f")
        assert "Fork login-bug at entry 4:" in screen.text
        assert "4  assistant  I rewrote auth.py." in screen.text
        screen.app.screen.query_one(Input).value = "login-bug"
        await screen.press("enter")
        assert isinstance(screen.app.screen, ForkDialog)
        assert "session 'login-bug' exists already; choose another id" in screen.text
        await screen.press(*"-b", "enter")
        assert isinstance(screen.app.screen, GraphScreen)
        assert "I rewrote auth.py." == screen.store.get("login-bug-b").messages()[-1]["content"]
        assert any("◀ login-bug-b" in line for line in screen.lines.texts)
        await screen.press("escape")
        assert "login-bug-b" in screen.text

    browse(story, steps)


def test_a_fork_made_in_the_list_begins_at_the_head_and_is_selected(cli: Clew) -> None:
    fill(cli, 3)

    async def steps(screen: Screen) -> None:
        await screen.press("j", "f")
        assert "Fork chat-001 at entry 0:" in screen.text
        await screen.press("escape")
        assert 3 == screen.lines.count
        await screen.press("f", "enter")
        assert "chat-001#fork-1" == screen.lines.value
        assert ["chat-001#fork-1 begins at entry 0 of chat-001"] == screen.toasts

    browse(cli, steps)


def test_what_the_store_refuses_is_said_and_the_browser_goes_on(cli: Clew) -> None:
    fill(cli, 1)

    async def steps(screen: Screen) -> None:
        await screen.press("u", "y")
        assert "nothing to undo" in screen.toasts[0]
        screen.store.delete("chat-000")
        await screen.press("enter")
        assert "chat-000" in screen.toasts[1]
        await screen.press("f5")
        assert "0 sessions; clew import --scan brings some" in screen.text

    browse(cli, steps)


def test_hostile_text_is_shown_and_neither_markup_nor_control(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.create("[/evil]", title=HOSTILE)
        s.append(user(HOSTILE), user(HOSTILE))
        s.checkpoint("[red]" + HOSTILE)

    async def steps(screen: Screen) -> None:
        for keys in ([], ["enter"], ["f"], ["escape", "g"], ["end", "r"], ["y"]):
            await screen.press(*keys)
            assert not [char for char in screen.text if char in "\x1b\x07\u202e"]
            assert "[/evil]" in screen.text
        assert any("[bold]loud[/bold] [@click=app.quit]here[/]" in line for line in screen.lines.texts)

    browse(cli, steps, size=(160, 24))


def test_a_filter_may_look_like_markup(story: Clew) -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("slash", *"[/x]")
        assert "with: [/x]" in screen.text

    browse(story, steps)


def test_without_textual_one_line_says_what_to_install(
    story: Clew, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert 1 == run(["ui", "--store", str(story.store)])
    assert "clew: clew ui needs the package textual: pip install 'textual>=8.2'\n" == capsys.readouterr().err


def test_without_a_terminal_one_line_says_what_to_do_instead(story: Clew) -> None:
    assert "clew: clew ui needs a terminal to itself" in story("ui", code=1).err


@contextmanager
def process_on_terminal(cli: Clew, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *args],
        env={**cli.env, "TERM": "xterm-256color"},
        cwd=cli.home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """All that is printed until these bytes come; None: until the process ends."""
    printed = b""
    while wanted is None or wanted not in printed:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            got = b""
        if not got:
            assert wanted is None, printed
            break
        printed += got
    return printed


def test_on_a_terminal_it_starts_shows_the_sessions_and_quits_with_q(story: Clew) -> None:
    with process_on_terminal(story, "ui") as (process, terminal):
        shown = read_until(terminal, b"login-bug#fork-1")
        assert b"\x1b[?1049h" in shown  # a screen of its own
        os.write(terminal, b"q")
        assert b"\x1b[?1049l" in read_until(terminal, None)  # and back
        assert 0 == process.wait(timeout=60)
