"""The tree of a session in `clew ui`: fork, rewind and undo."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import clew
from clew.cli.ui.dialogs import AskDialog, ConfirmDialog
from tests.cli.conftest import assistant, user
from tests.cli.processes import Clew
from tests.cli.ui.driver import Screen, browse, browsing
from tests.support.owned import OWNED, written

HOSTILE = "\x1b]0;owned\x07 \x1b[31mred \u202egnp.exe [bold]loud[/bold] [@click=app.quit]here[/]"


async def open_tree(screen: Screen) -> None:
    """Of login-bug, newest entry first."""
    at = next(n for n, row in enumerate(screen.rows.rows) if row.info.id == "login-bug")
    screen.rows.go_to(at)
    await screen.press("t")
    assert screen.tree


def test_the_tree_is_that_of_clew_log(story: Clew) -> None:
    expected = story("log", "--graph", "login-bug").lines

    async def steps(screen: Screen) -> None:
        await open_tree(screen)
        assert expected == screen.texts

    browse(story, steps, size=(120, 24))


def test_the_cursor_begins_where_the_session_stands_and_its_entry_is_named(story: Clew) -> None:
    story("rewind", "login-bug", "plan")

    async def steps(screen: Screen) -> None:
        await open_tree(screen)
        assert "◀ login-bug  ◆ plan" in screen.here
        assert f"{screen.store.get('login-bug').head.branch[-4:]}.3" in screen.text
        await screen.press("r")
        assert ["login-bug stands there"] == screen.toasts

    browse(story, steps)


@browsing("story")
async def test_what_was_left_behind_can_be_read_from_the_tree(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("I rewrote auth.py.")
    await screen.press("enter")
    assert "I rewrote auth.py." in screen.here
    assert "Stop! Now nobody can log in." in screen.text
    assert "Only guard line 42." not in screen.text
    await screen.press("escape", "escape")
    assert screen.sessions


@browsing("story")
async def test_a_rewind_shows_what_it_leaves_behind_and_a_no_changes_nothing(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("◆ plan")
    await screen.press("r")
    screen.shown(ConfirmDialog)
    assert "Rewind login-bug from entry 5 to entry 3?" in screen.text
    assert "Left behind, but kept: 2 entries." in screen.text
    assert "4  user       Only guard line 42." in screen.text
    assert "5  assistant  Done." in screen.text
    assert "files stay as they are" in screen.text
    await screen.press("f", "n")
    assert screen.tree
    assert 5 == screen.head()


def test_files_of_another_machine_are_told_of_by_directory_and_command(
    story: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "auth.py").write_text("old\n")
    with clew.open(story.store) as store:
        session = store.get("login-bug")
        session.checkpoint("kept", files=tmp_path / "work")
        session.append(user("And the tests?"))
    monkeypatch.setenv("CLEW_STATE_DIR", str(tmp_path / "elsewhere"))

    async def steps(screen: Screen) -> None:
        await open_tree(screen)
        await screen.go_to("◆ kept")
        await screen.press("r")
        screen.shown(ConfirmDialog)
        said = " ".join(screen.text.replace("│", " ").split())
        assert "Clew does not know their directory here" in said
        assert "rewind --files --root DIRECTORY" in said
        assert "root=" not in said

    browse(story, steps)


@browsing("story")
async def test_a_rewind_is_done_after_a_yes_and_undo_takes_it_back(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("◆ plan")
    await screen.press("r", "y")
    assert 3 == screen.head()
    assert ["login-bug stands at entry 3 with 4 messages"] == screen.toasts
    assert any("◀ login-bug  ◆ plan" in line for line in screen.texts)
    await screen.press("u")
    assert "It goes from entry 3 to entry 5." in screen.text
    assert 3 == screen.head()
    await screen.press("y")
    assert 5 == screen.head()


@browsing("story")
async def test_undo_takes_back_the_last_thing_first_whatever_it_was(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("◆ plan")
    await screen.press("r", "y", "T")
    await screen.write(", more")
    await screen.press("enter")
    assert ("work", "more") == screen.store.get("login-bug").info.tags
    await screen.press("u")
    assert ("work",) == screen.store.get("login-bug").info.tags
    assert 3 == screen.head()
    await screen.press("u", "y")
    assert 5 == screen.head()


@browsing("story")
async def test_a_rewind_to_another_branch_says_what_comes_in(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("Stop! Now nobody")
    await screen.press("r")
    assert "Left behind, but kept: 2 entries." in screen.text
    assert "Comes in from another branch: 2 entries." in screen.text
    await screen.press("y")
    assert "Stop! Now nobody can log in." == screen.store.get("login-bug").messages()[-1]["content"]


@browsing("story")
async def test_a_session_that_moved_since_the_preview_is_not_rewound(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("◆ plan")
    await screen.press("r")
    screen.store.get("login-bug").append(user("One more thing."))
    await screen.press("y")
    assert 6 == screen.head()
    assert "has moved meanwhile" in screen.toasts[0]


@browsing("story")
async def test_a_rewind_asked_for_in_the_list_lets_one_choose_the_place(screen: Screen) -> None:
    await screen.press("r")
    assert screen.tree
    assert ["choose an entry to go back to, then r"] == screen.toasts


def test_a_rewind_shows_what_happens_to_files_and_takes_them_along_if_asked(cli: Clew) -> None:
    work = cli.home / "work"
    work.mkdir()
    code = work / "code.py"
    code.write_text("old\n")
    with clew.open(cli.store) as store:
        s = store.session("edits", workspace=work)
        s.append(user("Begin"), assistant("Yes."))
        s.checkpoint("before", files=work)
        code.write_text("new\n")
        (work / "more.py").write_text("more\n")
        s.append(user("Change it"), assistant("Changed."))

    async def steps(screen: Screen) -> None:
        await screen.press("t")
        await screen.go_to("◆ before")
        await screen.press("r")
        assert "would restore  code.py" in screen.text
        assert "would delete   more.py" in screen.text
        assert "y conversation only · f files too · n no" in screen.text
        await screen.press("n")
        assert "new\n" == code.read_text()
        await screen.press("r", "f")
        assert "old\n" == code.read_text()
        assert ["code.py"] == os.listdir(work)
        assert 1 == screen.head("edits")
        await screen.press("u")
        assert "code.py" in screen.text
        await screen.press("y")
        assert "new\n" == code.read_text()
        assert 3 == screen.head("edits")

    browse(cli, steps, size=(100, 40))


def test_a_rewind_of_the_conversation_alone_leaves_the_files(cli: Clew) -> None:
    work = cli.home / "work"
    work.mkdir()
    (work / "code.py").write_text("old\n")
    with clew.open(cli.store) as store:
        s = store.session("edits", workspace=work)
        s.append(user("Begin"))
        s.checkpoint("before", files=work)
        s.append(assistant("Changed."))
    (work / "code.py").write_text("new\n")

    async def steps(screen: Screen) -> None:
        await screen.press("t")
        await screen.go_to("◆ before")
        await screen.press("r", "y")
        assert 0 == screen.head("edits")
        assert "new\n" == (work / "code.py").read_text()

    browse(cli, steps, size=(100, 40))


@browsing("story")
async def test_a_place_in_the_transcript_can_be_gone_back_to(screen: Screen) -> None:
    await screen.go_to("login-bug")
    await screen.press("l", "j")  # its forks are folded into it
    assert "fork" in screen.here
    await screen.press("enter")
    await screen.go_to("Line 42 fails")
    await screen.press("r", "y")
    assert 3 == screen.head("login-bug#fork-1")
    assert "It works." not in screen.text


@browsing("story")
async def test_a_fork_says_from_where_asks_an_id_and_takes_no_used_one(screen: Screen) -> None:
    await open_tree(screen)
    await screen.go_to("I rewrote auth.py.")
    await screen.press("f")
    assert "Fork login-bug at entry 4:" in screen.text
    assert "4  assistant  I rewrote auth.py." in screen.text
    await screen.write("login-bug")
    await screen.press("enter")
    screen.shown(AskDialog)
    assert "session 'login-bug' exists already; choose another id" in screen.text
    await screen.write("-b")
    await screen.press("enter")
    assert "I rewrote auth.py." == screen.store.get("login-bug-b").messages()[-1]["content"]
    assert any("◀ login-bug-b" in line for line in screen.texts)
    await screen.press("escape")
    assert "login-bug-b" in screen.text


@browsing("cli")
async def test_a_fork_made_in_the_list_begins_at_the_head_and_is_selected(screen: Screen) -> None:
    for number in range(3):
        screen.store.session(f"chat-{number}").append(user(f"Talk {number}"))
    await screen.press("f5", "j", "f")
    assert "Fork chat-1 at entry 0:" in screen.text
    await screen.press("escape")
    assert 3 == len(screen.texts)
    await screen.press("f", "enter")
    assert "chat-1#fork-1" == screen.rows.rows[screen.rows.cursor].info.id
    assert ["chat-1#fork-1 begins at entry 0 of chat-1"] == screen.toasts


@browsing("cli")
async def test_nothing_to_undo_is_said(screen: Screen) -> None:
    screen.store.session("chat").append(user("Hello"))
    await screen.press("f5", "u")
    assert "nothing to undo" in screen.toasts[0]


@browsing("cli", size=(160, 24))
async def test_hostile_text_is_shown_and_neither_markup_nor_control(screen: Screen) -> None:
    s = screen.store.create(
        "[/evil]", title=HOSTILE, tags=["[red]" + HOSTILE[:10]], workspace="/w/[/x]\x1b[31m"
    )
    arguments = '{"command": "ls \\u001b[31m [/bold]"}'
    calls = [{"id": "c1", "type": "function", "function": {"name": "[/b]\x1b", "arguments": arguments}}]
    s.append(user(HOSTILE), {"role": "assistant", "content": None, "tool_calls": calls})
    s.append({"role": "tool", "tool_call_id": "c1", "content": HOSTILE}, user(HOSTILE))
    s.checkpoint("[red]" + HOSTILE)
    await screen.press("f5")
    keys: tuple[list[str], ...] = (
        [], ["e"], ["escape", "T"], ["escape", "a"], ["escape", "p"], ["escape", "x"], ["escape", "c"],
        ["escape", "enter"], ["v"], ["a"], ["f"], ["escape", "t"], ["end", "r"], ["y"], ["u"], ["y"],
    )  # fmt: skip
    for some in keys:
        await screen.press(*some)
        assert not [char for char in screen.text if char in "\x1b\x07\u202e"], some
    await screen.press("escape", "escape", "d")
    assert any("[/evil] is in the trash" in toast for toast in screen.toasts)
    assert not [char for char in "".join(screen.toasts) if char in "\x1b\x07\u202e"]


def test_a_session_whose_agent_went_on_says_so_and_one_key_goes_there(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.load(written(range(8)))

    async def steps(screen: Screen) -> None:
        session = screen.store.get(OWNED)
        await screen.press("t")
        await screen.go_to("text 2")
        await screen.press("r")
        screen.shown(ConfirmDialog)
        assert "This moves Clew's view only: codex stays at entry 7." in screen.text
        await screen.press("y")
        screen.store.load(written(range(10), turn="open", began=datetime.now(UTC) - timedelta(minutes=9)))
        await screen.press("escape", "f5")
        assert "working" in screen.here
        assert "2 new on the agent's branch" in screen.here
        await screen.press("enter")
        assert "2 new on the agent's branch (A goes there)" in screen.text
        await screen.press("A")
        assert 9 == session.head.position
        assert "new on the agent's branch" not in screen.text
        await screen.press("A")
        assert "is with its agent already" in screen.toasts[-1]

    browse(cli, steps, size=(160, 24))
