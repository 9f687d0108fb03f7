"""Search in the texts of all sessions in `clew ui`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from textual.widgets import Input

import clew
from clew.cli.ui import search
from clew.cli.ui.reader import words_of
from tests.cli.conftest import user
from tests.cli.processes import Clew
from tests.cli.ui.conftest import SHOP
from tests.cli.ui.driver import Screen, browse, browsing
from tests.support.rows import each_row


@browsing("agents", size=(100, 40))
async def test_hits_come_as_one_types_by_session_with_the_words_around_them(screen: Screen) -> None:
    await screen.press("slash")
    assert "Type words that were said in any session." in screen.text
    await screen.write("cook")
    assert "8 hits in 5 sessions" in screen.text
    lines = "\n".join(screen.texts)
    assert "user      page returns 500 for people with an old cookie." in lines
    assert "assistant Found one cookie." in lines
    await screen.write("ie found")
    assert "3 hits in 3 sessions" in screen.text
    await screen.write(" zebra")
    assert "Nothing found." in screen.text


@browsing("agents", size=(100, 24))
async def test_enter_opens_the_session_at_the_hit_and_n_goes_on(screen: Screen) -> None:
    await screen.press("slash")
    await screen.write("sessions")
    await screen.press("down")
    await screen.go_to("sessions[cookie]")
    await screen.press("enter")
    assert f"claude-code:{SHOP}" == screen.reader.session.id
    assert "hit 2 of 2" in screen.text
    await screen.press("n")
    assert "hit 1 of 2" in screen.text
    await screen.press("escape")
    assert "sessions" == screen.search.query_one(Input).value
    await screen.press("escape")
    assert screen.sessions


@browsing("agents")
async def test_enter_in_the_words_opens_the_first_hit(screen: Screen) -> None:
    await screen.press("slash")
    await screen.write("backtracks")
    await screen.press("enter")
    assert "It backtracks." in screen.here
    assert "backtracks*: hit 1 of 1" in screen.text


@browsing("agents")
async def test_enter_opens_what_the_words_bring_also_when_it_is_pressed_at_once(screen: Screen) -> None:
    await screen.press("slash")
    await screen.write("cookie")
    screen.search.input.value = "backtracks"
    await screen.search.input.action_submit()
    await screen.settle()
    assert "It backtracks." in screen.here
    assert "backtracks*: hit 1 of 1" in screen.text


@browsing("agents")
async def test_a_session_is_found_by_its_title_id_or_directory_too(screen: Screen) -> None:
    await screen.press("slash")
    await screen.write("1092aa")
    assert "No text has this; 1 session by name." in screen.text
    await screen.press("enter")
    assert "Why is the parser slow?" in screen.text


@browsing("agents")
async def test_filters_of_the_list_hold_for_the_search(screen: Screen) -> None:
    await screen.press("a", "down", "down", "enter", "slash")
    await screen.write("cookie")
    assert "in 1 session" in screen.text
    await screen.press("escape", "slash")
    await screen.write("backtracks")
    assert "Nothing found with these filters" in screen.text


@browsing("cli")
async def test_filters_hold_however_many_hits_others_have(screen: Screen) -> None:
    store = screen.store
    store.create("old", workspace="/w/rare").append(user("The word is zebra"))
    for number in range(30):
        store.create(f"new-{number}").append(*(user(f"zebra {number} {each}") for each in range(10)))
    await screen.press("f5", "p")
    await screen.write("rare")
    await screen.press("enter", "slash")
    await screen.write("zebra")
    assert "1 hit in 1 session" in screen.text
    assert "The word is zebra" in screen.texts[1]


@browsing("cli")
async def test_how_far_the_index_is_is_told(screen: Screen) -> None:
    screen.store.create("one").append(user("zebra"))
    await screen.press("f5", "slash")
    shown = screen.search
    shown.is_searching = True
    shown._told(50, 200)
    shown._say_progress()
    shown.is_searching = False
    await screen.settle()
    assert "indexing 200 messages, once: 25 %" in screen.text


@browsing("story")
async def test_what_was_left_behind_is_found_and_opened_where_it_is(screen: Screen) -> None:
    await screen.press("slash")
    await screen.write("rewrote")
    assert "(left behind) I rewrote auth.py." in "\n".join(screen.texts)
    await screen.press("enter")
    assert "I rewrote auth.py." in screen.here
    assert "left behind: " in screen.text
    assert "Only guard line 42." not in screen.text


def test_a_hit_in_a_note_says_so(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        session = store.session("s")
        session.append(user("one"))
        session.annotate(0, note="the needle")
        (hit,) = store.search("needle")
    assert search.hit_line(hit, 60).plain == "  note      the needle"


@browsing("agents")
async def test_letters_are_words_while_one_types_and_commands_in_the_results(screen: Screen) -> None:
    await screen.press("slash")
    await screen.write("qdxtec")
    assert "qdxtec" == screen.search.query_one(Input).value
    for _ in range(6):
        await screen.press("backspace")
    assert "Type words" in screen.text
    await screen.write("backtracks")
    await screen.press("down", "y")
    assert "copied: claude-code:1092aaaa" in screen.toasts[0]
    await screen.press("t")
    assert screen.tree


@browsing("agents")
async def test_a_query_that_means_nothing_is_no_error(screen: Screen) -> None:
    await screen.press("slash")
    for words in ('"', "-cookie", "***", "[/x]"):
        screen.search.query_one(Input).value = words
        await screen.settle()
        assert screen.search.is_waiting is False
    assert [] == screen.toasts


def test_keys_are_answered_while_a_search_takes_long(agents: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, asked = {"co": threading.Event(), "cookie": threading.Event()}, []
    find_page = search.find_page  # type: ignore[attr-defined]

    def slow(engine: Any, request: Any, tell: Any) -> Any:
        asked.append(request.query)
        list(may_end.values())[len(asked) - 1].wait()
        return find_page(engine, request, tell)

    monkeypatch.setattr(search, "find_page", slow)

    async def steps(screen: Screen) -> None:
        await screen.pilot.press("slash", *"co")
        while not asked:
            await screen.pilot.pause()
        await screen.pilot.press(*"okie")
        assert "cookie" == screen.search.query_one(Input).value
        while screen.search.words != "cookie":
            await screen.pilot.pause()
        assert 1 == len(asked)
        may_end["co"].set()
        while len(asked) < 2 or screen.app.background._arriving:
            await screen.pilot.pause()
        assert "searching …" in screen.text  # what came first is not what is wanted any more
        may_end["cookie"].set()
        await screen.settle()
        assert 2 == len(asked)
        assert ("cookie",) == asked[1].wanted[0].words
        assert "8 hits in 5 sessions" in screen.text

    browse(agents, steps)


@browsing("cli", size=(120, 24))
async def test_hostile_snippets_stay_text(screen: Screen) -> None:
    screen.store.session("evil").append(
        user("[red]zebra[/red] \x1b]0;owned\x07 \u202egnp.exe [@click=app.quit]x[/]")
    )
    await screen.press("f5", "slash")
    await screen.write("zebra")
    assert "[red]zebra[/red] <U+202E>gnp.exe [@click=app.quit]x[/]" in "\n".join(screen.texts)
    assert not [char for char in screen.text if char in "\x1b\x07\u202e"]


@each_row(
    ("query", "marked"),
    [
        ("old cookie", ["old", "Cookie", "cookie"]),
        ('"old cookie"', ["old Cookie"]),
        ("cook*", ["Cook", "cook"]),
        ("-old cookie", ["Cookie", "cookie"]),
        ("***", None),
        ("old-Cookie", ["old Cookie"]),
    ],
)
def test_the_words_of_a_query_are_marked(query: str, marked: list[str] | None) -> None:
    pattern = words_of(query)
    assert marked == (pattern.findall("An old Cookie, a cookie") if pattern else None)
