"""The outline of a path: prompts, compactions and checkpoints, each in one line; right however it is made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from clew.core.search import outline as outlines
from clew.model import Outline, Retention
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, user


def lines(found: Outline) -> list[tuple[str, str, int]]:
    return [(item.kind, item.text, item.position) for item in found.items]


def fresh(store: Store, s: Session, **options: Any) -> Outline:
    """The outline as a process makes it that remembers nothing."""
    store._engine._services.pop(outlines.Outlines, None)
    return s.outline(**options)


def test_prompts_marks_and_checkpoints_come_in_their_order(s: Session) -> None:
    """The outline is the path in short."""
    s.append(user("fix the login"), assistant("looking"), user("and the\n  logout"))
    s.checkpoint("plan")
    s.append(assistant("done"))
    s.compact("The login was fixed")
    s.append(user("now tests"), assistant("ok"), assistant("more"))
    s.truncate(1)
    found = s.outline()
    assert lines(found) == [
        ("prompt", "fix the login", 0),
        ("prompt", "and the logout", 2),
        ("checkpoint", "plan", 2),
        ("compaction", "The login was fixed", 4),
        ("prompt", "now tests", 5),
        ("truncation", "", 8),
    ]
    assert (found.entries, found.head) == (9, s.head)
    entries = {entry.id: entry for entry in s.entries()}
    for item in found.items:
        assert entries[item.id].position == item.position
        if item.kind != "checkpoint":
            assert entries[item.id].time == item.at


def test_a_checkpoint_that_an_agent_set_has_the_prompt_as_its_label(s: Session) -> None:
    """Its name is kept, but says nothing to people."""
    own = "file-history:07838e68-96d0-425a-a7a1-07136acee94e"
    s.checkpoint(own)
    s.append(user("fix the login\n\nand the logout"))
    s.checkpoint(own + "1")
    s.append(assistant("done"))
    s.checkpoint(own + ":outside")
    s.checkpoint("plan")
    marks = {one.text: one.label for one in s.outline().items if one.kind == "checkpoint"}
    assert marks == {
        own: None,
        own + "1": "fix the login and the logout",
        own + ":outside": "fix the login and the logout",
        "plan": None,
    }


def test_an_empty_session_has_an_empty_outline(s: Session) -> None:
    """Nothing was said, so nothing is told."""
    assert s.outline().items == ()
    assert s.outline().entries == 0
    s.checkpoint("begin")
    assert [(one.id, one.position, one.text) for one in s.outline().items] == [("start", -1, "begin")]


def test_lines_are_short_and_nothing_in_them_acts(s: Session) -> None:
    """What others wrote cannot change the screen."""
    s.append(user("\x1b[2J red \u202e text\n" + "word " * 10_000))
    text = s.outline().items[0].text
    assert len(text) <= outlines.LONGEST
    assert text.startswith("␛[2J red ⟦U+202E⟧ text word")
    assert text.endswith("…")


def test_only_the_own_words_of_a_person_are_told(s: Session) -> None:
    """What an agent put around a prompt is left out."""
    s.append(user("<system-reminder>be nice</system-reminder>\nfix it"))
    s.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "output"}]})
    assert lines(s.outline()) == [("prompt", "fix it", 0)]


def test_a_path_that_grows_is_told_as_if_it_was_read_anew(store: Store, s: Session) -> None:
    """What is remembered never differs from what is stored."""
    for number in range(30):
        s.append(user(f"prompt {number}"), *(assistant(f"step {step}") for step in range(number % 5)))
        if number % 7 == 3:
            s.compact(f"up to {number}")
        known = s.outline()
        assert lines(known) == lines(fresh(store, s))
        s.outline()


def test_what_is_remembered_of_one_path_is_not_told_of_another(store: Store, s: Session) -> None:
    """Branches with the same beginning stay apart."""
    s.append(*(user(f"{number}") for number in range(6)))
    s.outline()
    s.rewind(2)
    s.append(user("other"))
    fork = s.fork("fork", at=1)
    fork.append(user("fork"))
    for one in (s, fork, s, fork):
        assert [item.text for item in one.outline().items][-2:] == (
            ["2", "other"] if one is s else ["1", "fork"]
        )
    s.undo()
    assert [item.text for item in s.outline().items] == ["0", "1", "2", "3", "4", "5"]
    assert [item.text for item in s.outline(at=3).items] == ["0", "1", "2", "3"]
    s.rewind(2)
    assert [item.text for item in s.outline().items] == ["0", "1", "2"]
    s.clear()
    assert s.outline().items == ()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_was_done_the_outline_is_that_of_the_entries(store: Store, s: Session, seed: int) -> None:
    """What is remembered, what is found by its place and what is read in order are all the same."""
    dice = random.Random(seed)
    sessions = [s]
    for step in range(40):
        one = dice.choice(sessions)
        end = one.head.position
        match dice.choice(["say", "say", "work", "rewind", "compact", "truncate", "fork", "undo"]):
            case "say":
                one.append(*(user(f"{step}.{n}") for n in range(dice.randint(1, 4))))
            case "work":
                one.append(*(assistant(f"{step}.{n}") for n in range(dice.randint(1, 90))))
            case "rewind" if end > 0:
                one.rewind(dice.randint(0, end))
            case "compact" if end > 0:
                one.compact(f"all before {step}")
            case "truncate" if end > 0:
                one.truncate(dice.randint(0, 3))
            case "fork" if end > 0:
                sessions.append(one.fork(f"f{step}", at=dice.randint(0, end)))
            case "undo" if any(move.next == "undo" for move in one.moves()):
                one.undo()
            case _:
                continue
        looked = dice.choice(sessions)
        at = dice.choice([None, max(0, looked.head.position // 2)]) if looked.head.position > 0 else None
        told = [(item.kind, item.text, item.id, item.at) for item in looked.outline(at=at).items]
        assert told == list(_naive(looked, at))


def _naive(s: Session, at: int | None) -> Iterator[tuple[str, str, str, datetime]]:
    for entry in s.entries(at=at):
        message = entry.message
        if entry.kind == "message" and message["role"] == "user":
            yield "prompt", message["content"], entry.id, entry.time
        elif entry.kind == "compaction":
            yield "compaction", message["messages"][0]["content"], entry.id, entry.time
        elif entry.kind == "truncation":
            yield "truncation", "", entry.id, entry.time


def test_many_prompts_are_read_in_pages(store: Store, s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where almost every entry is a prompt, all is read in order; the outline is the same."""
    monkeypatch.setattr(outlines, "_walk", None)  # it is not called
    monkeypatch.setattr(outlines, "PAGE", 7)
    monkeypatch.setattr(outlines, "PAGE_BYTES", 200)
    s.append(*(user(f"prompt {number}") for number in range(150)))
    s.rewind(120)
    s.append(*(user(f"again {number}") for number in range(10)))
    texts = [item.text for item in fresh(store, s).items]
    assert texts == [f"prompt {n}" for n in range(121)] + [f"again {n}" for n in range(10)]


def test_few_prompts_are_found_without_reading_what_lies_between(
    store: Store, s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost is that of the prompts, not of the path."""
    monkeypatch.setattr(outlines, "_scan", None)  # it is not called
    for number in range(3):
        s.append(user(f"{number}"), *(assistant("step " * 100) for _ in range(60)))
    s.rewind(100)
    s.append(user("again"))
    assert [item.text for item in fresh(store, s).items] == ["0", "1", "again"]


def test_a_message_that_was_removed_is_not_remembered(store: Store, s: Session) -> None:
    """What a rule removed is told nowhere."""
    s.append(user("a secret plan"), assistant("ok"), user("newest"))
    assert s.outline().items[0].text == "a secret plan"
    store.sweep(rules=Retention(max_messages=1))
    assert next(entry.kind for entry in s.entries()) == "removed"
    assert lines(s.outline()) == [("prompt", "newest", 2)]


def test_what_is_not_committed_is_told_inside_and_not_remembered(store: Store, s: Session) -> None:
    """A transaction that fails leaves nothing behind."""
    s.append(user("before"))

    def work(inside: Store) -> None:
        handle = inside.get(s.id)
        handle.append(user("never"))
        assert [item.text for item in handle.outline().items] == ["before", "never"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.transact(work)
    s.append(user("after"))
    assert [item.text for item in s.outline().items] == ["before", "after"]


def test_several_branches_of_a_tree_are_remembered(
    store: Store, s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page asks for each of them again and again, and for places on their way."""
    leaves = []
    for number in range(4):
        s.append(*(user(f"{number}.{step}") for step in range(5)))
        leaves.append(s.head)
        s.rewind(3)
    told = [lines(s.outline(at=leaf)) for leaf in leaves]
    for place in range(9):
        s.outline(at=place % 4)
    monkeypatch.setattr(outlines, "_line", None)  # nothing is read again
    assert [lines(s.outline(at=leaf)) for leaf in leaves] == told
    assert told[2][-1] == ("prompt", "2.4", 8)


def test_it_remembers_no_more_than_it_may(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, however many paths are read."""
    monkeypatch.setattr(outlines, "MOST_KEPT", 10)
    for number in range(5):
        one = store.session(f"s{number}")
        one.append(*(user(f"{number}") for _ in range(6)))
        one.outline()
        one.rewind(0)
        one.append(*(user(f"{number}") for _ in range(6)))
        one.outline()
    service = store._engine.service(outlines.Outlines)
    assert len(service._known) == 1
    assert service._size() <= 10
    monkeypatch.setattr(outlines, "MOST_KEPT", 1000)
    for number in range(20):
        one.rewind(0)
        one.append(user(f"{number}"))
        one.outline()
    assert [len(paths) for paths in service._known.values()] == [outlines.MOST_PATHS]
