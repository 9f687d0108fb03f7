"""search, and tail -f as the session grows in another process."""

from __future__ import annotations

import json
import signal

import clew
from tests.cli.conftest import assistant, user
from tests.cli.processes import Clew


def test_a_hit_has_a_place_that_show_takes(story: Clew) -> None:
    [row] = story("search", "nobody", "log").rows
    place, role = row[:2]
    assert "user" == role
    told = story("show", place, "-C", "0").out
    assert "▶[5] user" in told
    assert "Stop! Now nobody can log in." in told


def test_words_can_be_left_out_and_tools_taken_in(story: Clew) -> None:
    assert 2 == len(story("search", "middleware").lines)
    assert ["login-bug#fork-1@4"] == [row[0] for row in story("search", "middleware", "-cookie").rows]
    assert [] == story("search", "sessions", code=1).lines
    assert ["tool"] == [row[1] for row in story("search", "--tools", "sessions").rows]
    assert ["user"] == [row[1] for row in story("search", "--human", "middleware").rows]


def test_a_search_is_bounded_by_session_tag_time_and_number(story: Clew) -> None:
    assert 1 == len(story("search", "middleware", "-n", "1").lines)
    assert ["login-bug@3"] == [row[0] for row in story("search", "cookie", "--session", "login-bug").rows]
    assert [] == story("search", "cookie", "--tag", "nothing", code=1).lines
    assert [] == story("search", "cookie", "--until", "2001-01-01", code=1).lines
    assert 2 == len(story("search", "middleware", "--best", "--since", "1h").lines)


def test_json_hits_have_places_and_marks(story: Clew) -> None:
    [hit] = story("search", "cookie", "--json").records
    assert {"place", "session", "entry_id", "position", "role", "at", "snippet", "marks"} <= set(hit)
    [[start, end]] = hit["marks"]
    assert "cookie" == hit["snippet"][start:end]


def test_hits_are_marked_on_a_terminal(story: Clew) -> None:
    assert "\x1b[1;33mcookie\x1b[0m" in story.on_terminal("search", "cookie").out
    assert "nothing found" in story.on_terminal("search", "xyzzy").out


def test_tail_shows_the_end(story: Clew) -> None:
    told = story("tail", "-n", "2", "login-bug").out
    assert "Done." in told
    assert "The login page" not in told


def test_tail_goes_on_with_what_others_append_and_follows_a_rewind(story: Clew) -> None:
    with story.start("tail", "-f", "-n", "1", "--every", "0.02", "--json", "login-bug") as process:
        assert process.stdout is not None
        lines = (json.loads(line)["message"]["content"] for line in process.stdout)
        assert "Done." == next(lines)
        with clew.open(story.store) as store:
            s = store.get("login-bug")
            s.append(user("one"), assistant("two"))
            assert ["one", "two"] == [next(lines), next(lines)]
            s.rewind("plan")
            s.append(user("another way"))
            assert "another way" == next(lines)
            store.session("other").append(user("not this one"))
            s.append(user("last"))
            assert "last" == next(lines)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    assert 130 == process.returncode


def test_following_everything_needs_follow(story: Clew) -> None:
    assert "--all goes with -f" in story("tail", "--all", code=2).err
