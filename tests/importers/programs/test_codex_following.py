"""Rollouts that grow: followed from place to place they leave what one import of the whole file leaves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers.programs.codex import reader
from tests.importers.following import Followed, check, check_all, follow, grow, line_ends
from tests.importers.programs.test_codex import ID, OTHER, THREAD, Rollout, texts
from tests.support.effort import usually

HOME = Path(__file__).parents[2] / "home" / "files" / ".codex"
RECORDED = sorted(HOME.rglob("rollout-*.jsonl"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem[-12:])
def test_recorded_rollouts(tmp_path: Path, file: Path) -> None:
    shutil.copytree(HOME, tmp_path / ".codex")
    path = tmp_path / ".codex" / file.relative_to(HOME)
    followed = check_all(reader, path, file.read_bytes(), most=30)
    assert followed.whole == 1
    assert followed.place is not None
    assert len(followed.place.state) < 2000


def plain(home: Path) -> Rollout:
    made = Rollout(home).put("turn_context", {"model": "gpt-5"}).user("one").model("1").tokens(10, 4, 2, 1)
    made.put("turn_context", {"model": "gpt-6"}).user("two").tokens(10, 4, 2, 1).model("2")
    made.tokens(30, 14, 9, 3).event("thread_name_updated", thread_name="a name").user("three")
    return made.tokens(5, 0, 1, 0).model("3")


def rolled_back(home: Path) -> Rollout:
    made = Rollout(home).user("one").model("1").user("two").model("2").user("three").model("3")
    made.event("thread_rolled_back", num_turns=2).user("again").model("4")
    made.event("thread_rolled_back", num_turns=1).event("thread_rolled_back", num_turns=9)
    return made.user("<environment_context>x</environment_context>").user("anew").model("5")


def compacted(home: Path) -> Rollout:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "short"}]}]
    made = Rollout(home).put("turn_context", {"model": "gpt-5"}).user("one").model("1").tokens(10, 0, 2, 0)
    used = {"input_tokens": 9, "output_tokens": 3}
    made.put("token_usage_record", {"response_id": "r1", "usage": used})
    made.put("compacted", {"replacement_history": history, "compaction_response_id": "r1"})
    made.event("thread_settings_applied", thread_settings={"service_tier": "flex"})
    last = {"input_tokens": 4, "output_tokens": 1}
    total = {"input_tokens": 14, "output_tokens": 3}
    made.event("token_count", info={"total_token_usage": total, "last_token_usage": last})
    return made.put("compacted", {"message": "by words"}).user("two").tokens(20, 0, 5, 0)


def old_fork(home: Path, **meta: Any) -> Rollout:
    fork = Rollout(home, OTHER, **meta)
    born = {"timestamp": "2025-09-01T10:00:01.000Z"}
    fork.put("session_meta", {"id": THREAD}, **born).user("one", **born).tokens(10, 0, 5, 0, **born)
    fork.user("two").tokens(25, 0, 8, 0)
    return fork.user("three").tokens(26, 0, 8, 0)


def named_old_fork(home: Path) -> Rollout:
    return old_fork(home, forked_from_id=THREAD)


def fork_of_a_base(home: Path) -> Rollout:
    Rollout(home).user("one").model("1").tokens(10, 0, 5, 0).user("two")
    reference = {"thread_id": THREAD, "end_byte_offset": 10**6}
    fork = Rollout(home, OTHER, forked_from_id=THREAD, history_base=reference).user("mine").model("yes")
    fork.tokens(30, 0, 6, 0).event("thread_rolled_back", num_turns=2)
    return fork.user("other")


def fork_without_its_base(home: Path) -> Rollout:
    reference = {"thread_id": THREAD, "end_byte_offset": 10**6}
    return Rollout(home, OTHER, history_base=reference).user("mine").model("yes").tokens(3, 0, 1, 0)


def subagent(home: Path) -> Rollout:
    Rollout(home).user("one")
    source = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1}}}
    return Rollout(home, OTHER, source=source).user("do this").model("done").tokens(7, 0, 1, 0)


def odd(home: Path) -> Rollout:
    """Lines without a time, without a payload, of no known kind, damaged, and blank."""
    made = Rollout(home).user("one").raw({"type": "response_item", "payload": {"type": "reasoning"}})
    made.raw({"type": "function_call", "name": "x"}).raw({"novelty": 1, "timestamp": "2025-09-01T11:00:00Z"})
    with made.path.open("ab") as binary:
        binary.write(b'{"type":"resp\n\n[1]\n{"type":"x","text":"\\ud83d"}\n{"bad":"\xff"}\n')
    made.put("response_item", {"type": "ghost_snapshot"}).user("two")
    with made.path.open("a") as file:
        file.write("nothing\n\n")
    return made


def bare(home: Path) -> Rollout:
    made = Rollout(home)
    made.path.unlink()
    made.raw({"id": THREAD, "timestamp": "2025-09-01T10:00:00Z", "instructions": None})
    made.raw({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]})
    return made.raw({"type": "reasoning", "summary": []}).raw({"record_type": "state"})


def headless(home: Path) -> Rollout:
    made = Rollout(home).user("one").model("1")
    made.path.write_bytes(b"not a head\n" + made.path.read_bytes().partition(b"\n")[2])
    return made


KINDS: list[Callable[[Path], Rollout]] = [
    plain, rolled_back, compacted, old_fork, named_old_fork, fork_of_a_base, fork_without_its_base, subagent,
    odd, bare, headless,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rollouts_of_every_kind(tmp_path: Path, kind: Callable[[Path], Rollout]) -> None:
    path = kind(tmp_path).path
    # An event without a time gets that of the transaction that brings it.
    check_all(reader, path, path.read_bytes(), most=100, times_of_events=kind not in (odd, bare))


def test_stories_by_chance(tmp_path: Path) -> None:
    for seed in range(usually(40, quick=8, thorough=400)):
        chance = random.Random(seed)
        made = Rollout(tmp_path / str(seed))
        total = 0
        for _ in range(chance.randrange(5, 40)):
            step = chance.randrange(9)
            if step < 3:
                made.user(f"u{chance.random()}")
            elif step < 5:
                made.model(f"m{chance.random()}")
            elif step == 5:
                made.event("thread_rolled_back", num_turns=chance.randrange(4))
            elif step == 6:
                total = chance.choice([0, total, total + 7])
                made.tokens(total + 5, 0, total, 0)
            elif step == 7:
                used = {"input_tokens": chance.randrange(5), "output_tokens": 1}
                made.put("token_usage_record", {"response_id": f"r{chance.randrange(3)}", "usage": used})
            else:
                made.put("compacted", {"message": "x", "compaction_response_id": f"r{chance.randrange(3)}"})
        content = made.path.read_bytes()
        ends = line_ends(content)
        for _ in range(4):
            cuts = chance.sample(range(1, len(content)), 6)
            check(reader, made.path, content, cuts, twice=chance.random() < 0.5)
        check(reader, made.path, content, ends)


# -- what is in the state no more


@pytest.mark.parametrize(("turns", "whole"), [(64, 1), (65, 2)])
def test_a_rollback_beyond_the_turns_of_the_state_takes_the_whole_file(
    store: clew.Store, tmp_path: Path, turns: int, whole: int
) -> None:
    made = Rollout(tmp_path)
    for number in range(100):
        made.user(f"turn {number}")
    cut = made.path.stat().st_size
    made.event("thread_rolled_back", num_turns=turns).user("on")
    content = made.path.read_bytes()
    assert check(reader, made.path, content, [cut]).whole == whole
    assert grow(store, reader, made.path, content, [cut]).whole == whole
    assert len(texts(store.get(ID))) == 100 - turns + 1


def test_an_answer_that_is_in_the_state_no_more_takes_the_whole_file(tmp_path: Path) -> None:
    made = Rollout(tmp_path).user("one")
    for number in range(40):
        used = {"input_tokens": number + 1, "output_tokens": 1}
        made.put("token_usage_record", {"response_id": f"r{number}", "usage": used})
    cut = made.path.stat().st_size
    made.put("compacted", {"message": "x", "compaction_response_id": "r1"}).user("on")
    assert check(reader, made.path, made.path.read_bytes(), [cut]).whole == 2


def test_a_long_session_has_a_small_state_and_only_what_is_new_is_read(
    store: clew.Store, tmp_path: Path
) -> None:
    made = Rollout(tmp_path)
    for number in range(1000):
        made.user(f"turn {number}").tokens(number + 1, 0, 1, 0)
    followed = Followed()
    follow(store, reader, made.path, followed)
    before = followed.bytes
    size = made.path.stat().st_size
    assert before == size
    made.user("one more")
    follow(store, reader, made.path, followed)
    assert followed.bytes == made.path.stat().st_size
    assert followed.place is not None
    assert len(followed.place.state) < 2000


# -- what lies beside the file


def test_a_base_is_not_read_again(store: clew.Store, tmp_path: Path) -> None:
    fork = fork_of_a_base(tmp_path)
    followed = Followed()
    follow(store, reader, fork.path, followed)
    base = next(file for file in fork.path.parent.iterdir() if file != fork.path)
    base.unlink()
    fork.user("on")
    follow(store, reader, fork.path, followed)
    assert (followed.whole, followed.problems) == (1, [])
    assert texts(store.get(f"codex:{OTHER}")) == ["one", "1", "other", "on"]


def test_a_name_that_was_given_since_is_told_though_the_file_did_not_grow(
    store: clew.Store, tmp_path: Path
) -> None:
    made = Rollout(tmp_path).user("one")
    followed = Followed()
    follow(store, reader, made.path, followed)
    (tmp_path / "session_index.jsonl").write_text(f'{{"id":"{THREAD}","thread_name":"given"}}\n')
    follow(store, reader, made.path, followed)
    assert (store.get(ID).info.title, followed.whole) == ("given", 1)


def test_a_name_that_the_thread_tells_wins_over_that_of_the_list(tmp_path: Path) -> None:
    made = plain(tmp_path)
    (tmp_path / "session_index.jsonl").write_text(f'{{"id":"{THREAD}","thread_name":"listed"}}\n')
    check_all(reader, made.path, made.path.read_bytes(), most=20)


@pytest.mark.parametrize("make", [old_fork, named_old_fork])
def test_a_copy_is_known_by_its_second_head(
    store: clew.Store, tmp_path: Path, make: Callable[[Path], Rollout]
) -> None:
    followed = Followed()
    made = make(tmp_path)
    content = made.path.read_bytes()
    for end in line_ends(content):
        made.path.write_bytes(content[:end])
        follow(store, reader, made.path, followed)
    session = store.get(f"codex:{OTHER}")
    assert [entry.annotations.get("inherited", False) for entry in session.entries()] == [
        True,
        False,
        False,
    ]
    assert session.usage().input_tokens == 16


def test_a_copy_without_a_counter_goes_on_with_that_of_its_base(store: clew.Store, tmp_path: Path) -> None:
    born = {"timestamp": "2025-09-01T10:00:01.000Z"}
    made = (
        Rollout(tmp_path, OTHER).put("session_meta", {"id": THREAD}, **born).user("one", **born).user("two")
    )
    last = {"input_tokens": 7, "output_tokens": 1}
    info = {"total_token_usage": {"input_tokens": 107, "output_tokens": 11}, "last_token_usage": last}
    made.event("token_count", info=info)
    check_all(reader, made.path, made.path.read_bytes())
    store.import_path(made.path)
    assert store.get(f"codex:{OTHER}").usage().input_tokens == 7


# -- lines


def test_lines_of_a_base_are_no_lines_of_the_file(tmp_path: Path) -> None:
    path = fork_of_a_base(tmp_path).path
    (session,) = reader.read(path, lambda _: None, lambda _: None)
    numbers = [None if entry.line is None else entry.line.number for entry in session.entries]
    assert numbers[:3] == [None, None, None]
    assert all(number is not None and number > 1 for number in numbers[3:])
