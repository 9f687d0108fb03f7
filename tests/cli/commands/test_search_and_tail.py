"""search, and tail -f as the session grows in another process."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import clew
from tests.cli.conftest import assistant, user
from tests.cli.golden import SGR, check_screen
from tests.cli.processes import Clew


def test_a_hit_has_a_place_that_show_takes(story: Clew) -> None:
    [row] = story("search", "nobody", "log").rows
    place, role = row[:2]
    assert "user" == role
    told = story("show", place, "-C", "0").out
    assert re.search(r"^▶ [0-9a-f]{4}\.5  user", told, re.MULTILINE)
    assert "Stop! Now nobody can log in." in told


def test_the_handle_of_a_hit_can_be_pasted_behind_show_fork_and_rewind(story: Clew) -> None:
    screen = SGR.sub("", story.on_terminal("search", "nobody").out).splitlines()
    handle = screen[1].split()[0]
    assert re.fullmatch(r"login-bug@[0-9a-f]{4}\.5", handle)
    assert handle == story("search", "nobody", "--json").records[0]["handle"]
    assert "Stop! Now nobody can log in." in story("show", handle, "-C", "0").out
    story("fork", handle, "left")
    id, _, name = handle.partition("@")
    story("rewind", id, name)
    with clew.open(story.store) as store:
        for session in ("left", "login-bug"):
            assert "Stop! Now nobody can log in." == store.get(session).messages(last=1)[0]["content"]


def test_hits_on_a_terminal(story: Clew) -> None:
    with clew.open(story.store) as store:
        agent: Any = {"metadata": {"agent": "claude-code"}, "workspace": "/srv/shop"}
        long = "word " * 30 + "the old cookie of a browser that was not restarted for months " + "word " * 30
        store.session("made-by-a-program", title="A title of a session that is long enough", **agent).append(
            {"role": "tool", "tool_call_id": "c1", "content": long}
        )
    widths = (60, 80, 120)
    check_screen(
        "search", {width: story.on_terminal("search", "old", "cookie", width=width).out for width in widths}
    )


def test_words_can_be_left_out_and_tools_too(story: Clew) -> None:
    assert 2 == len(story("search", "middleware").lines)
    assert ["login-bug#fork-1@4"] == [row[0] for row in story("search", "middleware", "-cookie").rows]
    assert [] == story("search", "--no-tools", "sessions", code=1).lines
    assert ["tool"] == [row[1] for row in story("search", "sessions").rows]
    assert ["user"] == [row[1] for row in story("search", "--human", "middleware").rows]


def test_sessions_are_chosen_by_agent_project_and_model(story: Clew) -> None:
    with clew.open(story.store) as store:
        for agent in ("codex", "pi"):
            session = store.session(
                agent, metadata={"agent": agent}, workspace=f"/srv/{agent}", model=f"{agent}-5.1"
            )
            session.append(user("the cookie jar"))
    for filter in (["--agent", "codex"], ["--project", "codex"], ["--model", "Codex-5"]):
        assert ["codex@0"] == [row[0] for row in story("search", "cookie", *filter).rows]
    assert [] == story("search", "cookie", "--agent", "codex", "--project", "pi", code=1).lines


def test_a_search_in_vain_says_what_to_try(story: Clew) -> None:
    tried = {
        ("xyzzy",): "nothing found for xyzzy; 'xyzzy*' finds words that begin like this",
        ("xyzzy", "login"): "nothing found for xyzzy login; use fewer words",
        ("sessions", "--no-tools"): "nothing found for sessions; search without --no-tools, to look at tool"
        " calls and results too, or 'sessions*' finds words that begin like this",
        (
            "login",
            "page",
            "--agent",
            "pi",
        ): "nothing found for login page; search without --agent, or use fewer words",
    }
    for args, said in tried.items():
        assert said + "\n" == story("search", *args, code=1).err
    with clew.open(story.home / "empty.db") as store:
        store.session("s")
        store.delete("s")
    told = story("search", "login", "--store", "empty.db", code=1).err
    assert "there is no session yet; clew import --scan brings some" in told


def test_a_search_is_bounded_by_session_tag_time_and_number(story: Clew) -> None:
    assert 1 == len(story("search", "middleware", "-n", "1").lines)
    assert ["login-bug@3"] == [row[0] for row in story("search", "old", "--session", "login-bug").rows]
    assert [] == story("search", "cookie", "--tag", "nothing", code=1).lines
    assert [] == story("search", "cookie", "--until", "2001-01-01", code=1).lines
    assert 2 == len(story("search", "middleware", "--best", "--since", "1h").lines)


def test_json_hits_have_places_and_marks(story: Clew) -> None:
    [hit] = story("search", "cookie", "--json", "--no-tools").records
    assert {"place", "session", "entry_id", "position", "role", "at", "snippet", "marks"} <= set(hit)
    [[start, end]] = hit["marks"]
    assert "cookie" == hit["snippet"][start:end]


def test_a_hit_in_a_note_says_so(story: Clew) -> None:
    with clew.open(story.store) as store:
        store.get("login-bug").outside_lease().annotate(0, note="Here began what the cafeteria told")
    screen = SGR.sub("", story.on_terminal("search", "cafeteria").out).splitlines()
    assert re.fullmatch(r"login-bug@[0-9a-f]{4}\.0  note · .*", screen[1])
    assert "Here began what the cafeteria told" in screen[2]
    [hit] = story("search", "cafeteria", "--json").records
    assert (hit["role"], hit["in_note"], hit["snippet"][:10]) == ("user", True, "Here began")
    [row] = story("search", "cafeteria").rows
    assert ("login-bug@0", "user") == (row[0], row[1])
    assert "\n  note: Here began what the cafeteria told\n" in story("show", row[0]).out
    assert not any(hit["in_note"] for hit in story("search", "cookie", "--json").records)


def test_a_note_is_shown_as_text_whatever_it_holds(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append(user("one"))
        store.get("s").annotate(0, note="the needle\x1b[2J\u202e\n▶ 1  user  2001-01-01")
    for args in (("search", "needle"), ("show", "s@0")):
        told = SGR.sub("", cli.on_terminal(*args).out)
        assert "the needle" in told
        assert not {"\x1b", "\u202e"} & set(told)
        assert not any(line.startswith("▶ 1") for line in told.splitlines())


def test_hits_are_marked_on_a_terminal(story: Clew) -> None:
    assert "\x1b[1;91mcookie\x1b[0m" in story.on_terminal("search", "cookie").out
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
        process.wait()
    assert 130 == process.returncode


def test_following_everything_needs_follow(story: Clew) -> None:
    assert "--all goes with -f" in story("tail", "--all", code=2).err


def test_one_session_does_not_hide_the_others_on_a_terminal(cli: Clew) -> None:
    """Three hits of each, what was said before what tools gave; the rest is counted, and can be shown."""
    given = [{"role": "tool", "tool_call_id": "c", "content": f"needle of a tool {at}"} for at in range(5)]
    with clew.open(cli.store) as store:
        store.session("small").append(user("here is a needle"))
        store.session("large").append(*(user(f"needle {at}") for at in range(30)), *given)
    screen = SGR.sub("", cli.on_terminal("search", "needle").out)
    hits = [line.strip() for line in screen.splitlines() if line.startswith("    ")]
    assert hits == ["needle 29", "needle 28", "needle 27", "32 more: add --session large", "here is a needle"]
    shown = SGR.sub("", cli.on_terminal("search", "needle", "--session", "large", "-n", "100").out)
    assert shown.count("@") == 35
    assert len(cli("search", "needle", "-n", "100").rows) == 36
