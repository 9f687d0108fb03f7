"""Answers are cut between entries, within their budget, and `next` leads to all the rest, once."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.model import Retention
from clew.server.mcp.budget import TOKENS, fitting, tokens, within
from clew.server.mcp.entries import role_of
from clew.server.mcp.places import place_in
from clew.server.mcp.tools.read import MOST_READ
from tests.server.mcp.safety.asking import HERE, ask, call, refused, view_of, walk
from tests.support.rows import named

LETTERS = ("word ", "漢字", "👩‍👩‍👧 ", 'a "quoted" \\ text ', "line\n", "\x1b[31m\u202e", "é", "[{}],")
ROLES = ("user", "assistant", "tool", "system", "other")


def some_text(rnd: random.Random) -> str:
    length = rnd.choice((0, 1, 30, 300, 2000, 9000, 40_000))
    return (rnd.choice(LETTERS) * length)[:length]


def some_message(rnd: random.Random, number: int) -> dict[str, Any]:
    text = f"{number} {some_text(rnd)}"
    call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": text}}
    match rnd.randrange(6):
        case 0:
            return {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
        case 1:
            return {"role": "tool", "tool_call_id": f"c{number - 1}", "content": text}
        case 2:
            return {"role": "system", "content": text}
        case _:
            return {"role": rnd.choice(("user", "assistant")), "content": text}


def some_session(store: clew.Store, rnd: random.Random, id: str = "s") -> clew.Session:
    session = store.create(
        id, workspace=HERE, title=some_text(rnd)[:300] or None, metadata={"agent": "漢" * 300}
    )
    for number in range(rnd.randrange(40)):
        session.append(some_message(rnd, number))
        if rnd.random() < 0.05:
            session.compact(some_text(rnd) or "short")
    return session


def all_of(session: clew.Session, roles: tuple[str, ...]) -> list[str]:
    return [place_in(session.id, one.id) for one in session.entries() if role_of(one) in roles]


@pytest.mark.parametrize("seeds", [range(7), range(7, 40)], ids=["some", "others"])
def test_a_walk_reads_every_entry_once_in_both_directions(seeds: range) -> None:
    for seed in seeds:
        with named(f"seed {seed}"):
            walk_over_entries(random.Random(seed))


def walk_over_entries(rnd: random.Random) -> None:
    roles = tuple(rnd.sample(ROLES, rnd.randint(1, 5)))
    asked: dict[str, Any] = {
        "roles": list(roles),
        "tools": rnd.choice(("fold", "full", "none")),
        "max_chars": rnd.choice((100, 1500, 20_000)),
        "max_tokens": rnd.choice((500, 1000, 6000, 20_000)),
    }
    with clew.open("memory:") as store:
        session = some_session(store, rnd)
        view, wanted = view_of(store), all_of(session, roles)
        if not list(session.entries()):
            assert ask(view, "read_session", place="s", **asked)["entries"] == []
            return
        found = walk(
            view, "read_session", "entries", place="s@0", before=0, after=rnd.choice((0, 1, 6, 100)), **asked
        )
        assert [one["place"] for one in found] == wanted
        backwards: list[str] = []
        place, after, before = "s", 0, rnd.choice((0, 1, 3, 50))
        while True:
            answer = ask(view, "read_session", place=place, before=before, after=after, **asked)
            backwards = [one["place"] for one in answer["entries"]] + backwards
            if answer["previous"] is None:
                break
            place = answer["previous"]
        assert backwards == wanted


@pytest.mark.parametrize("seeds", [range(2), range(2, 6)], ids=["some", "others"])
def test_a_walk_over_hits_and_sessions_shows_each_once(seeds: range) -> None:
    for seed in seeds:
        with named(f"seed {seed}"):
            walk_over_hits(random.Random(seed))


def walk_over_hits(rnd: random.Random) -> None:
    with clew.open("memory:") as store:
        for number in range(rnd.choice((3, 40, 110))):
            id = f"{number} " + (rnd.choice(LETTERS) * 300).encode()[:480].decode("utf-8", "ignore").replace(
                "\0", ""
            )
            one = store.create(id, workspace=HERE, title=some_text(rnd)[:300] or None, metadata={"agent": id})
            for _ in range(rnd.randrange(3)):
                one.append({"role": "user", "content": f"needle {some_text(rnd)[:500]}"})
        infos = list(store.list(limit=1000))
        view = view_of(store)
        listed = walk(view, "list_sessions", "sessions", limit=rnd.choice((1, 15, 100)))
        assert [view.find(one["id"]).id for one in listed] == [info.id for info in infos]
        for order in ("best", "newest"):
            hits = walk(
                view, "search_sessions", "hits", query="needle", order=order, limit=rnd.choice((1, 8, 30))
            )
            places = [hit["place"] for hit in hits]
            assert len(places) == len(set(places)) == sum(info.messages for info in infos)


def test_an_answer_of_sessions_with_the_longest_names_is_cut() -> None:
    with clew.open("memory:") as store:
        for number in range(40):
            metadata: Any = {"agent": '"' * 400, "parent": "000" + "\u202e" * 169}
            id = f"{number:03d}" + "\u202e" * 169
            one = store.create(id, workspace=HERE, title="👩" * 400, metadata=metadata)
            one.append({"role": "user", "content": "needle " + "漢" * 400})
        view = view_of(store)
        first = ask(view, "list_sessions", limit=100)
        assert 0 < len(first["sessions"]) < 40
        assert first["next"]
        assert len(walk(view, "list_sessions", "sessions", limit=100)) == 40
        assert len(walk(view, "search_sessions", "hits", query="needle", limit=30)) == 40


def test_an_overview_and_a_sum_of_a_session_with_very_much_are_cut() -> None:
    with clew.open("memory:") as store:
        big = store.create("x" + "\n" * 511, workspace=HERE, title="漢" * 400, metadata={"agent": "漢" * 400})
        for number in range(30):
            big.append({"role": "user", "content": "漢" * 3000})
            given = {"file_path": f"/{number}/{'é' * 300}"}
            call = {"type": "tool_use", "id": "c", "name": "Write", "input": given}
            big.append({"role": "assistant", "content": [call, {"type": "text", "text": "👩‍👩‍👧" * 1000}]})
            big.checkpoint(f"{number}" + "\u202e" * 160)
            big.fork(f"fork {number}" + "\u202e" * 160)
            store.create(f"child {number}" + "\t" * 500, workspace=HERE, metadata={"parent": big.id})
            big.add_usage(
                model=f"{number}" + "漢" * 160, input_tokens=2**40, output_tokens=2**40, cost="99999"
            )
        view = view_of(store)
        answer = ask(view, "session_overview", session=big.id)
        assert answer["last"]
        assert len(ask(view, "usage_summary", session=big.id)["groups"]) + answer["messages"] > 60
        for number in range(200):
            big.add_usage(model=f"{number} " + "漢" * 160, input_tokens=1, cost="1")
        told = ask(view, "usage_summary")
        assert told["left_out"] + len(told["groups"]) == 230
        for place in (view.store.list(limit=1)[0].id, big.id):
            ask(view, "read_session", place=place, max_tokens=20_000, max_chars=20_000, before=50)


def test_s45_an_entry_of_a_megabyte_is_cut_and_says_so() -> None:
    with clew.open("memory:") as store:
        session = store.create("s", workspace=HERE)
        for text in ("a" * 2**20, "漢" * 2**19, "short"):
            session.append({"role": "user", "content": text})
        view = view_of(store)
        entries = ask(view, "read_session", place="s")["entries"]
        cut = [(len(one["text"]), one["truncated"]) for one in entries]
        assert cut == [(1500, True), (1500, True), (5, False)]
        [first, *_] = ask(view, "read_session", place="s@1", max_chars=20_000, before=0, after=0)["entries"]
        assert 0 < len(first["text"]) < 20_000
        assert first["truncated"]


def test_a_walk_goes_on_even_if_the_id_alone_is_longer_than_the_budget() -> None:
    with clew.open("memory:") as store:
        session = store.create("\u202e" * 170, workspace=HERE)
        session.append(*({"role": "user", "content": f"message {number}"} for number in range(5)))
        view, place, found = view_of(store), place_in(session.id, "") + "0", 0
        while place is not None:
            result = call(view, "read_session", place=place, before=0, max_tokens=500)
            assert result.structured_content is not None
            [_] = result.structured_content["entries"]
            place, found = result.structured_content["next"], found + 1
        assert found == 5


def test_a_diff_is_cut_between_files_and_every_file_is_told_once(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with clew.open(tmp_path / "store.db") as store:
        session = store.create("s", workspace=HERE)
        session.append({"role": "user", "content": "go"})
        session.checkpoint("a", files=files)
        for number in range(70):
            folder = files / f"{number % 7}"
            folder.mkdir(exist_ok=True)
            (folder / f"{number:03d}{'é' * (number % 3 * 40)}.txt").write_text("漢\n" * (number % 5 * 200))
        (files / "bytes").write_bytes(bytes(range(256)))
        session.checkpoint("b", files=files)
        view = view_of(store)
        for most in (500, 6000):
            found = walk(view, "diff_files", "files", a="s@a", b="s@b", max_tokens=most)
            assert len({one["path"] for one in found}) == len(found) == 71
        in_folder = walk(view, "diff_files", "files", a="s@a", b="s@b", path="3/", max_tokens=500)
        assert [one["path"].partition("/")[0] for one in in_folder] == ["3"] * 10
        assert ask(view, "diff_files", a="s@a", b="s@a") == {"redacted": 0, "files": [], "next": None}
        assert ask(view, "diff_files", a="s@a")["files"], "the newest files of the session"
        for cursor in ("x", "-1", "1" * 30, "٣", "", "1.5"):
            assert "is no `next`" in refused(view, "diff_files", a="s@a", cursor=cursor)
        assert ask(view, "diff_files", a="s@a", b="s@b", cursor="999999")["files"] == []


def test_other_roles_are_passed_over_however_many_there_are() -> None:
    with clew.open("memory:") as store:
        session = store.create("s", workspace=HERE)
        session.append({"role": "user", "content": "first"})
        for start in range(0, 2 * MOST_READ + 100, 100):
            session.append(*({"role": "system", "content": f"{start + at}"} for at in range(100)))
        session.append({"role": "user", "content": "last"})
        view = view_of(store)
        first = ask(view, "read_session", place="s@0", roles=["user"])
        assert first["next"].endswith(f".{MOST_READ + 1}"), "a call looks at so many"
        found = walk(view, "read_session", "entries", place="s@0", roles=["user"])
        assert [one["text"] for one in found] == ["first", "last"]


@pytest.fixture
def long(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "store.db") as store:
        session = store.create("s", workspace=HERE)
        session.append(*({"role": "user", "content": f"message {number}"} for number in range(10)))
        yield store


def texts(answer: dict[str, Any]) -> list[str]:
    return [one["text"] for one in answer["entries"]]


def test_places_that_are_not_on_the_path(long: clew.Store) -> None:
    session, view = long.get("s"), view_of(long)
    left = list(session.entries())[8]
    session.checkpoint("start of it all", state=None)
    session.rewind(4)
    session.append({"role": "user", "content": "another way"})
    assert texts(ask(view, "read_session", place="s")) == [f"message {n}" for n in range(5)] + ["another way"]
    beside = ask(view, "read_session", place=place_in("s", left.id), before=1, after=5)
    assert texts(beside) == ["message 7", "message 8", "message 9"]
    before = ask(view, "read_session", place=beside["previous"], before=2, after=0)
    assert texts(before) == ["message 4", "message 5", "message 6"]
    assert texts(ask(view, "read_session", place="s@start of it all", before=0)) == ["message 9"]
    assert "has no position '6'" not in refused(view, "read_session", place="s@6")
    for place in ("s@10", "s@999999999", "s@-1", "s@4294967296", "s@", "@0", "s@ 4", "s@4 ", "s@٤"):
        refused(view, "read_session", place=place)


def test_a_session_without_entries_and_a_checkpoint_before_the_first(long: clew.Store) -> None:
    empty, view = long.create("empty", workspace=HERE), view_of(long)
    empty.checkpoint("nothing yet")
    for place in ("empty", "empty@nothing yet"):
        assert texts(ask(view, "read_session", place=place)) == []
    empty.append({"role": "user", "content": "now"})
    assert texts(ask(view, "read_session", place="empty@nothing yet")) == ["now"]
    assert ask(view, "session_overview", session="empty")["first_prompt"] == "now"


def test_compactions_are_marks_that_can_be_asked_for(long: clew.Store) -> None:
    long.get("s").compact("all of it in short")
    view = view_of(long)
    assert "[compaction]\nall of it in short" not in texts(ask(view, "read_session", place="s"))
    others = ask(view, "read_session", place="s", roles=["other"])
    assert texts(others) == ["[compaction]\nall of it in short"]


def test_four_bytes_are_a_token_and_of_items_that_are_too_long_one_is_kept() -> None:
    assert [tokens("x" * 2), tokens("x" * 6), tokens("x" * 7), tokens("漢"), tokens(["x"])] == [1, 2, 3, 2, 2]
    assert fitting(["x" * 10 * TOKENS, "y"]) == ["x" * 10 * TOKENS]
    assert within(["x" * 10 * TOKENS], TOKENS) == []


def test_a_damaged_entry_costs_itself_and_is_counted(long: clew.Store) -> None:
    view, damaged = view_of(long), list(long.get("s").entries())[4]
    with sqlite3.connect(long.location) as db:
        assert db.execute("UPDATE entries SET body = zeroblob(5) WHERE (key & 4294967295) = 4").rowcount == 1
    db.close()
    answer = ask(view, "read_session", place="s")
    assert texts(answer) == [f"message {n}" for n in range(10) if n != 4]
    assert answer["left_out"] == 1
    pages = [ask(view, "read_session", place=f"s@{n}", before=0, after=1) for n in (0, 2, 5, 7)]
    assert [one["left_out"] for one in pages] == [0, 1, 1, 0], "on both sides"
    assert pages[1]["next"] == pages[2]["entries"][0]["place"]
    there = ask(view, "read_session", place=place_in("s", damaged.id), before=1, after=1)
    assert texts(there) == ["message 3", "message 5"]
    assert there["left_out"] == 1
    ask(view, "session_overview", session="s")
    assert len(walk(view, "search_sessions", "hits", query="message")) == 9


def test_entries_that_a_rule_removed_are_passed_over(long: clew.Store) -> None:
    long.set_retention(Retention(max_messages=3))
    long.sweep()
    view = view_of(long)
    assert texts(ask(view, "read_session", place="s", before=50))[-3:] == [f"message {n}" for n in (7, 8, 9)]
    left = walk(view, "read_session", "entries", place="s@0")
    assert [one["text"] for one in left] == ["message 7", "message 8", "message 9"]
    assert ask(view, "session_overview", session="s")["last"]
