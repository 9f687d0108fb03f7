"""Title, tags, trash, export, copy and resume in `clew ui`."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import Input

import clew
from clew.cli.ui.actions import file_name
from clew.cli.ui.dialogs import AskDialog, ExportDialog, TextDialog
from tests.cli.conftest import user
from tests.cli.processes import Clew
from tests.cli.ui.conftest import SHOP
from tests.cli.ui.driver import Screen, browse, browsing
from tests.support.rows import each_row

SHOP_ID = f"claude-code:{SHOP}"


async def write(screen: Screen, text: str) -> None:
    """Instead of what stands in the line to type in."""
    screen.app.screen.query_one(Input).value = text
    await screen.press("enter")


@browsing("agents", size=(120, 24))
async def test_a_title_is_changed_and_changed_back(screen: Screen) -> None:
    await screen.press("e")
    assert screen.app.screen.query_one(Input).value.startswith("The login page returns 500")
    await write(screen, "Old cookies")
    assert "Old cookies" in screen.here
    assert ["title: Old cookies"] == screen.toasts
    assert not screen.store.get(SHOP_ID).info.title_is_auto
    await screen.press("u")
    assert "The login page returns 500" in screen.here
    assert screen.store.get(SHOP_ID).info.title_is_auto


@browsing("agents")
async def test_a_title_that_is_left_as_it_is_changes_nothing(screen: Screen) -> None:
    await screen.press("e", "enter", "e", "escape")
    assert [] == screen.toasts
    assert screen.store.get(SHOP_ID).info.title_is_auto


@browsing("agents", size=(120, 24))
async def test_tags_are_changed_and_changed_back(screen: Screen) -> None:
    await screen.press("T")
    await write(screen, "work, old bug, work")
    assert ("work", "old bug") == screen.store.get(SHOP_ID).info.tags
    assert "#work #old bug" in screen.here
    await screen.press("enter", "T")
    assert "work, old bug" == screen.app.screen.query_one(Input).value
    await write(screen, "")
    assert () == screen.store.get(SHOP_ID).info.tags
    await screen.press("u")
    assert "#work #old bug" in screen.text
    await screen.press("u", "escape")
    assert "#work" not in screen.text


@browsing("agents")
async def test_what_a_store_refuses_can_be_corrected(screen: Screen) -> None:
    await screen.press("T")
    await write(screen, "x" * 5000)
    assert isinstance(screen.app.screen, AskDialog)
    assert "5,000" in screen.text or "5000" in screen.text or "long" in screen.text
    await write(screen, "short")
    assert ("short",) == screen.store.get(SHOP_ID).info.tags


@browsing("agents", size=(100, 24))
async def test_a_session_goes_to_the_trash_with_its_subagents_and_comes_back(screen: Screen) -> None:
    await screen.press("d")
    assert 2 == len(screen.texts)
    assert ["9f3a1b2c is in the trash with 3 subagents; u brings it back"] == screen.toasts
    assert 4 == len(screen.store.list(deleted=True))
    await screen.press("d")
    assert 1 == len(screen.texts)
    await screen.press("u", "u")
    assert 3 == len(screen.texts)
    assert "+3 agents" in screen.here
    assert 0 == len(screen.store.list(deleted=True))


@browsing("agents")
async def test_a_session_that_is_read_can_go_to_the_trash(screen: Screen) -> None:
    await screen.press("enter", "t", "d")
    assert screen.sessions
    assert 2 == len(screen.texts)
    await screen.press("u")
    assert 3 == len(screen.texts)


@browsing("agents")
async def test_what_another_process_holds_is_not_put_in_the_trash(screen: Screen) -> None:
    with screen.store.get(SHOP_ID).run():
        await screen.press("d")
        assert "wait until it is done" in screen.toasts[0]
    assert 3 == len(screen.texts)
    assert 6 == len(screen.store.list())


@pytest.mark.parametrize(
    ("down", "suffix", "words"),
    [(0, ".html", "<!doctype html>"), (1, ".md", "old cookie"), (2, ".json", "{"), (3, ".jsonl", "{")],
)
def test_a_session_is_exported_in_the_chosen_format(
    agents: Clew, monkeypatch: pytest.MonkeyPatch, down: int, suffix: str, words: str
) -> None:
    monkeypatch.chdir(agents.home)

    async def steps(screen: Screen) -> None:
        await screen.press("x", *["down"] * down)
        name = screen.app.screen.query_one(Input).value
        assert f"the-login-page-returns-500-for-people-wi-9f3a1b2c{suffix}" == name
        await screen.press("enter")
        assert screen.toasts[-1].startswith("wrote ")
        assert f"{name} (" in screen.toasts[-1]

    browse(agents, steps)
    [written] = agents.home.glob(f"*{suffix}")
    assert words in written.read_text().lower()


def test_an_export_replaces_a_file_only_after_a_second_enter(
    agents: Clew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(agents.home)
    there = agents.home / "there.md"
    there.write_text("precious")

    async def steps(screen: Screen) -> None:
        await screen.press("x", "down")
        for name, problem in (
            ("", "name a file"),
            ("nowhere/x.md", "there is no directory nowhere"),
            (".", "is a directory"),
            ("there.md", "exists; ⏎ again replaces it"),
        ):
            await write(screen, name)
            assert problem in screen.text
        assert "precious" == there.read_text()
        await screen.press("enter")
        assert "old cookie" in there.read_text()
        await screen.press("x", "up", "escape")
        assert screen.sessions

    browse(agents, steps)


def test_an_export_that_fails_is_said(agents: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(agents.home)

    def fails(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(clew.Store, "export", fails)

    async def steps(screen: Screen) -> None:
        await screen.press("x", "enter")
        assert any("No space left on device" in toast for toast in screen.toasts)

    browse(agents, steps)


@browsing("agents")
async def test_the_mouse_chooses_a_format(screen: Screen) -> None:
    await screen.press("x")
    await screen.pilot.click("#as-json")
    dialog: Any = screen.shown(ExportDialog)
    assert "json" == dialog.format
    await screen.pilot.click(offset=(1, 1))
    await screen.settle()
    assert screen.sessions


@browsing("agents")
async def test_an_id_is_copied_and_shown(screen: Screen) -> None:
    await screen.press("y")
    assert SHOP_ID == screen.app.clipboard
    assert [f"copied: {SHOP_ID}"] == screen.toasts


@browsing("agents")
async def test_the_command_of_the_agent_is_copied_and_shown(screen: Screen) -> None:
    await screen.press("c")
    screen.shown(TextDialog)
    assert f"cd /w/shop && claude --resume {SHOP}" == screen.app.clipboard
    assert "cd /w/shop && claude --resume" in screen.text
    assert "Copied" in screen.text
    await screen.press("enter")
    await screen.press("enter", "c", "escape")
    assert screen.reader


@browsing("cli")
async def test_without_a_command_the_reason_is_shown(screen: Screen) -> None:
    screen.store.session("mine").append(user("Hello"))
    await screen.press("f5", "c")
    assert "No agent is known that wrote it" in screen.text
    assert "" == screen.app.clipboard


@browsing("agents")
async def test_a_session_that_is_gone_is_said_and_the_browser_goes_on(screen: Screen) -> None:
    screen.store.delete(SHOP_ID)
    for number, key in enumerate(("enter", "e", "T", "x", "y", "c", "t", "f"), 1):
        await screen.press(key)
        assert number == len(screen.toasts)
        assert SHOP in screen.toasts[-1]
    await screen.press("f5")
    assert "claude-code" in screen.text


@each_row(
    ("title", "name"),
    [
        ("Fix ../../etc/passwd!", "fix-etc-passwd-0b1c"),
        ("日本語", "0b1c"),
        (None, "0b1c"),
        ("CON", "con-0b1c"),
        ("-rf", "rf-0b1c"),
    ],
)
def test_the_name_of_an_export_is_safe_everywhere(title: str | None, name: str) -> None:
    with clew.open("memory:") as store:
        assert name == file_name(store.create("claude-code:0b1c", title=title).info)
