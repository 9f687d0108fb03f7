"""What `ls`, `log --graph` and `show` print, letter by letter but for times and made-up ids."""

from __future__ import annotations

import re

import pytest

import clew
from tests.cli.processes import Clew

SGR = re.compile(r"\x1b\[[0-9;]*m")


def without_times(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ)?", "TIME", text)
    return re.sub(r"[0-9a-f]{32}", "BRANCH", text)


def test_ls_into_a_pipe_is_tab_separated(story: Clew) -> None:
    expected = [
        [
            "login-bug#fork-1",
            "pending",
            "6",
            "TIME",
            "/srv/shop",
            "The login page returns 500. Please fix it.",
        ],
        ["login-bug", "pending", "6", "TIME", "/srv/shop", "The login page returns 500. Please fix it."],
    ]
    assert expected == [line.split("\t") for line in without_times(story("ls").out).splitlines()]


def test_ls_on_a_terminal_is_a_table(story: Clew) -> None:
    printed = story.on_terminal("ls", width=72)
    assert 0 == printed.code
    assert "\x1b[36m" in printed.out
    expected = """\
ID                STATUS   MSGS  ACTIVE    TITLE
login-bug#fork-1  pending     6  just now  The login page returns 500. …
login-bug         pending     6  just now  The login page returns 500. …
"""
    assert expected == SGR.sub("", printed.out)


def test_a_narrow_terminal_gets_fewer_columns_and_no_line_is_too_long(story: Clew) -> None:
    printed = story.on_terminal("ls", width=40).out
    expected = """\
ID                MSGS  TITLE
login-bug#fork-1     6  The login page …
login-bug            6  The login page …
"""
    assert expected == SGR.sub("", printed)


@pytest.mark.parametrize("width", [30, 45, 80])
def test_nothing_is_wider_than_the_terminal(story: Clew, width: int) -> None:
    for args in (["ls"], ["show", "login-bug"], ["log", "--graph", "login-bug"], ["log", "login-bug"]):
        lines = SGR.sub("", story.on_terminal(*args, width=width).out).splitlines()
        assert max(map(len, lines)) <= width, args


def test_ls_json_has_the_fields_of_a_session(story: Clew) -> None:
    first, second = story("ls", "--json").records
    assert set(clew.SessionInfo.__struct_fields__) == set(first)
    assert ("login-bug", 6, ["work"]) == (second["id"], second["messages"], second["tags"])
    assert first["forked_from"]["session"] == "login-bug"


def test_log_graph_draws_branches_forks_checkpoints_and_heads(story: Clew) -> None:
    expected = """\
●      5  ◀ login-bug  assistant  Done.
●      4  user       Only guard line 42.
│ ○    5  ◀ login-bug#fork-1  assistant  It works.
│ ○    4  user       Try the middleware.
├─╯
│ ·    5  user       Stop! Now nobody can log in.
│ ·    4  assistant  I rewrote auth.py.
├─╯
●      3  ◆ plan  assistant  Line 42 fails on an old cookie. Guard it, or a middleware?
●      2  tool       42: user = sessions[cookie] 43: return user
●      1  assistant  → read_file {"path": "auth.py"}
●      0  user       The login page returns 500. Please fix it.
"""
    assert expected == story("log", "--graph", "login-bug").out


def test_log_graph_reversed_begins_with_the_oldest(story: Clew) -> None:
    drawn = story("log", "--graph", "--reverse", "login-bug").lines
    assert "●      0  user       The login page returns 500. Please fix it." == drawn[0]
    assert ["├─╮", "│ ·    4  assistant  I rewrote auth.py."] == drawn[4:6]


def test_log_graph_of_what_hangs_below_a_head(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("s")
        s.append({"role": "user", "content": "a"}, {"role": "user", "content": "b"})
        s.rewind(0)
    assert ["  ·    1  user       b", "╭─╯", "●      0  ◀ s  user       a"] == cli("log", "--graph").lines


def test_log_graph_leaves_out_the_middle_of_long_runs(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append(*({"role": "user", "content": str(number)} for number in range(100)))
    assert "┆     91 more" in cli("log", "--graph", "s").lines
    assert 100 == len(cli("log", "--graph", "--full", "s").lines)


def test_log_is_newest_first_with_the_names_of_checkpoints(story: Clew) -> None:
    rows = [line.split("\t") for line in without_times(story("log", "login-bug").out).splitlines()]
    assert ["5", "BRANCH.5", "assistant", "TIME", "", "Done."] == rows[0]
    assert ["3", "BRANCH.3", "assistant", "TIME", "plan"] == rows[2][:5]
    assert ["0", "1"] == [row[0] for row in story("log", "--reverse", "login-bug").rows[:2]]


def test_show_tells_the_conversation(story: Clew) -> None:
    expected = """\
session login-bug
Title:     The login page returns 500. Please fix it.
Workspace: /srv/shop
Tags:      work
Messages:  6, 2 turns of the user
Active:    TIME

 [0] user  TIME
    The login page returns 500. Please fix it.

 [1] assistant  TIME
    → read_file {"path": "auth.py"}

 [2] tool  TIME
    ← 42: user = sessions[cookie]
      43: return user

 [3] assistant  TIME
    Line 42 fails on an old cookie. Guard it, or a middleware?

 [4] user  TIME
    Only guard line 42.

 [5] assistant  TIME
    Done.
"""
    assert expected == without_times(story("show", "login-bug").out)


def test_show_around_a_place_marks_it(story: Clew) -> None:
    told = without_times(story("show", "login-bug@plan", "-C", "1").out)
    heads = [line for line in told.splitlines() if "[" in line[:2]]
    assert [" [2] tool  TIME", "▶[3] assistant  TIME", " [4] user  TIME"] == heads


def test_show_reaches_what_a_rewind_left_behind(story: Clew) -> None:
    with clew.open(story.store) as store:
        [left] = [b for b in store.get("login-bug").tree().branches if b.first == 0]
    told = story("show", f"login-bug@{left.id}.5", "-C", "1").out
    assert "Stop! Now nobody can log in." in told
    assert "I rewrote auth.py." in told
    assert "Only guard line 42." not in told


def test_show_without_tools_leaves_out_calls_and_results(story: Clew) -> None:
    told = story("show", "login-bug", "--no-tools").out
    assert "read_file" not in told
    assert "sessions[cookie]" not in told
    assert "Only guard line 42." in told


def test_show_json_has_the_message_as_it_came(cli: Clew) -> None:
    raw = b'{"role":"user",  "content":"big", "n":12345678901234567890123}'
    with clew.open(cli.store) as store:
        store.session("s").append(raw)
    printed = cli("show", "s", "--json")
    fields = {"session", "id", "position", "kind", "role", "at", "hash", "epoch", "annotations", "message"}
    assert fields == set(printed.records[0])
    assert raw.decode() in printed.out
