"""The list of sessions of `clew ui`."""

from __future__ import annotations

import os
from typing import Any

import pytest
from textual.widgets import Input

import clew
from clew.cli.ui.dialogs import HelpDialog, PickDialog
from tests.cli.conftest import user
from tests.cli.processes import Clew
from tests.cli.ui.conftest import CODEX, PARSER, SHOP
from tests.cli.ui.driver import Screen, browse, browsing


def fill(cli: Clew, count: int) -> None:
    with clew.open(cli.store) as store:
        for number in range(count):
            store.session(f"chat-{number:03}").append(user(f"Talk {number}"))


def ids(screen: Screen) -> list[str]:
    return [row.info.id for row in screen.rows.rows]


@browsing("agents", size=(120, 24))
async def test_sessions_are_listed_newest_first_with_the_columns_of_ls(screen: Screen) -> None:
    assert [f"claude-code:{SHOP}", f"claude-code:{PARSER}", f"codex:{CODEX}"] == ids(screen)
    assert "3 sessions, 3 agents" in screen.text
    assert "ACTIVE       AGENT        PROJECT  MSGS  TITLE" in screen.text
    shop, parser, codex = screen.texts
    assert "claude-code  shop" in shop
    assert shop.endswith("9f3a1b2c")
    assert "Why is the parser slow?" in parser
    assert codex.endswith("019a0000")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_screen_and_the_last_one_names_help(agents: Clew, width: int) -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("right")
        assert all(len(line) <= width for line in screen.text.splitlines())
        assert "+3 agents" in screen.text
        assert "9f3a1b2c" in screen.text
        footer = " ".join(screen.text.splitlines()[-1].split())
        assert footer.startswith("⏎ open / search a agent p project")
        assert footer.endswith("? help q quit")

    browse(agents, steps, size=(width, 20))


@browsing("agents")
async def test_arrows_and_letters_move_the_cursor_and_stop_at_the_ends(screen: Screen) -> None:
    for key, at in (
        ("k", 0),
        ("j", 1),
        ("down", 2),
        ("j", 2),
        ("up", 1),
        ("g", 0),
        ("G", 2),
        ("home", 0),
    ):
        await screen.press(key)
        assert at == screen.rows.cursor, key


@browsing("agents", size=(100, 24))
async def test_subagents_are_folded_into_their_parent_and_open_with_an_arrow(screen: Screen) -> None:
    assert "+3 agents" in screen.texts[0]
    assert "  14  " in screen.texts[0]  # its own, as clew ls has it
    await screen.press("right")
    assert 6 == len(screen.texts)
    assert "  14  " in screen.texts[0]
    assert ["└ Look in the api", "└ Look in the admin", "└ Look in the tests"] == [
        line[line.index("└") :][: len(wanted)]
        for line, wanted in zip(
            screen.texts[1:4],
            ("└ Look in the api", "└ Look in the admin", "└ Look in the tests"),
            strict=True,
        )
    ]
    await screen.press("j", "j", "left")
    assert 0 == screen.rows.cursor
    await screen.press("h")
    assert 3 == len(screen.texts)


@browsing("agents")
async def test_a_filter_by_agent_offers_what_there_is(screen: Screen) -> None:
    await screen.press("a")
    dialog: Any = screen.shown(PickDialog)
    assert ["all", "claude-code", "codex"] == [choice.name for choice in dialog.choices]
    assert ["3", "2", "1"] == [choice.note for choice in dialog.choices]
    await screen.write("cod")
    await screen.press("enter")
    assert [f"codex:{CODEX}"] == ids(screen)
    assert "agent: codex" in screen.text
    await screen.press("escape")
    assert 3 == len(ids(screen))


@browsing("agents")
async def test_a_filter_by_project_goes_with_that_of_the_agent(screen: Screen) -> None:
    await screen.press("p", "down", "enter")
    assert "project: shop" in screen.text
    assert [f"claude-code:{SHOP}", f"codex:{CODEX}"] == ids(screen)
    await screen.press("a", "down", "enter")
    assert [f"claude-code:{SHOP}"] == ids(screen)
    await screen.press("p", "escape")
    assert [f"claude-code:{SHOP}"] == ids(screen)
    await screen.press("p", "up", "enter", "a", "up", "enter")
    assert 3 == len(ids(screen))


def test_a_dot_limits_the_list_to_this_directory_and_back(
    agents: Clew, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = agents.home / "here"
    (here / "inside").mkdir(parents=True)
    monkeypatch.chdir(here)
    with clew.open(agents.store) as store:
        store.create("here", workspace=here)
        store.create("inside", workspace=here / "inside")
        store.create("beside", workspace=str(here) + "-too")

    async def steps(screen: Screen) -> None:
        await screen.press("full_stop")
        assert {"here", "inside"} == set(ids(screen))
        assert "directory: this one" in screen.text
        await screen.press("full_stop")
        assert 6 == len(ids(screen))
        os.chdir(agents.home)
        await screen.press("full_stop")
        assert {"here", "inside", "beside"} == set(ids(screen))

    browse(agents, steps)


def test_what_fits_no_filter_says_how_to_see_all_again(agents: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(agents.home)

    async def steps(screen: Screen) -> None:
        await screen.press("full_stop", "enter", "x", "d", "t", "c", "y")
        assert "No session fits. esc shows all again." in screen.text
        assert [] == screen.toasts
        await screen.press("escape")
        assert 3 == len(ids(screen))

    browse(agents, steps)


def test_an_empty_store_says_what_to_do(cli: Clew) -> None:
    with clew.open(cli.store):
        pass

    async def steps(screen: Screen) -> None:
        assert "No sessions yet. Quit (q), then: clew import --scan" in screen.text
        await screen.press(
            "enter", "t", "e", "T", "x", "y", "c", "d", "f", "r", "u", "right", "left", "a", "escape"
        )
        assert [] == screen.toasts

    browse(cli, steps)


def test_a_long_list_is_read_in_the_background(cli: Clew) -> None:
    fill(cli, 450)

    async def steps(screen: Screen) -> None:
        assert "450 sessions" in screen.text
        await screen.press("end")
        assert "chat-000" in screen.here
        await screen.press("home")
        assert "chat-449" in screen.here

    browse(cli, steps)


@browsing("agents")
async def test_the_cursor_stays_on_its_session_when_others_come(screen: Screen) -> None:
    await screen.press("j")
    screen.store.session("new").append(user("Hello"))
    await screen.press("f5")
    assert 4 == len(ids(screen))
    assert "Why is the parser slow?" in screen.here


@browsing("cli")
async def test_status_and_tags_are_shown_where_they_say_something(screen: Screen) -> None:
    store = screen.store
    store.create("a", title="Plain")
    store.create("b", title="Broken", tags=["work"]).fail("no")
    store.create("c", title="Over").complete()
    await screen.press("f5")
    lines = "\n".join(screen.texts)
    assert "failed Broken #work" in lines
    assert "pending" not in lines
    assert "completed" not in lines


@browsing("cli")
async def test_a_ring_of_parents_is_shown_as_sessions_of_their_own(screen: Screen) -> None:
    store = screen.store
    store.create("a", metadata={"parent": "b"})
    store.create("b", metadata={"parent": "a"})
    store.create("c", metadata={"parent": "c"})
    store.create("d", metadata={"parent": "gone"})
    await screen.press("f5")
    assert {"a", "b", "c", "d"} == set(ids(screen))
    await screen.press("right", "left", "d", "u")
    assert {"a", "b", "c", "d"} == set(ids(screen))


@browsing("agents", size=(100, 40))
async def test_a_question_mark_lists_all_keys_and_any_key_closes_it(screen: Screen) -> None:
    await screen.press("question_mark")
    screen.shown(HelpDialog)
    for words in ("List of sessions", "Search the texts of all sessions", "The session under the cursor"):
        assert words in screen.text
    await screen.press("pagedown", "pagedown", "pagedown", "pagedown", "pagedown")
    assert "Quit" in screen.text
    await screen.press("question_mark")
    assert screen.sessions


@browsing("agents")
async def test_the_mouse_selects_opens_and_presses_keys(screen: Screen) -> None:
    await screen.pilot.click("Rows", offset=(30, 1))
    await screen.settle()
    assert "parser" in screen.here
    await screen.pilot.click("Rows", offset=(30, 1), times=2)
    await screen.settle()
    assert screen.reader
    await screen.pilot.click("KeyBar", offset=(2, 0))
    await screen.settle()
    assert screen.sessions
    footer = screen.text.splitlines()[-1]
    await screen.pilot.click("KeyBar", offset=(footer.index("? help"), 0))
    await screen.settle()
    screen.shown(HelpDialog)


@browsing("agents")
async def test_letters_in_a_dialog_are_no_commands(screen: Screen) -> None:
    await screen.press("p")
    await screen.write("qdux")
    assert "qdux" == screen.app.screen.query_one(Input).value
    await screen.press("enter", "escape")
    assert screen.sessions
    assert 3 == len(ids(screen))


def test_forks_and_copies_fold_into_the_session_that_they_began_with(agents: Clew) -> None:
    shop, parser, codex = f"claude-code:{SHOP}", f"claude-code:{PARSER}", f"codex:{CODEX}"
    with clew.open(agents.store) as store:
        fork = store.get(parser).fork("tried")
        fork.append(user("Try it"))
        fork.fork("again")
        copied = {"copied_from": parser, "agent": "codex"}
        store.create("copy", title="For Codex", workspace="/home/ana/parser", metadata=copied)

    async def steps(screen: Screen) -> None:
        assert ids(screen) == [parser, shop, codex]  # where its newest member would stand
        assert "▸ +3 forks" in screen.texts[0]
        assert "3 sessions, 3 agents, 3 forks" in screen.text
        await screen.press("right")
        assert ids(screen) == [parser, "tried", "copy", shop, codex]
        assert "└ fork " in screen.texts[1]
        assert "▸ +1 fork" in screen.texts[1]
        assert "└ copy For Codex" in screen.texts[2]
        await screen.press("down", "left", "left")
        assert ids(screen) == [parser, shop, codex]
        # A filter that fits a copy and not its base shows the copy.
        await screen.press("a")
        await screen.write("codex")
        await screen.press("enter")
        assert ids(screen) == ["copy", codex]
        await screen.press("escape", "home", "d")  # nothing that is folded goes along with its base
        assert ids(screen) == ["copy", "tried", shop, codex]

    browse(agents, steps, size=(120, 24))
