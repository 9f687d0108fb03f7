"""P19: a session is the same file from whatever store it comes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.backends.memory import MemoryBackend
from clew.errors import NothingToUndoError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, user

Step: TypeAlias = tuple[str, int, int]
"""What to do, which session does it, and where."""

ACTIONS: Final = ("append", "append", "rewind", "fork", "checkpoint", "undo", "clear", "annotate", "usage")
FORMATS: Final = ("json", "markdown", "html")

steps = st.lists(
    st.tuples(st.sampled_from(sorted(set(ACTIONS))), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=40,
)


def steps_of(seed: int) -> list[Step]:
    rng = random.Random(seed)
    return [(rng.choice(ACTIONS), rng.randrange(10), rng.randrange(10)) for _ in range(40)]


def carry_out(store: Store, program: list[Step], first: str = "s") -> list[Session]:
    """A session with branches, and its forks."""
    sessions = [store.session(first)]
    sessions[0].append(user("hello"), assistant("hi"))
    for number, (action, who, where) in enumerate(program):
        s = sessions[who % len(sessions)]
        somewhere = where % max(s.info.entries, 1)
        match action:
            case "append":
                s.append(user(f"question {number}"), assistant(f"answer {number}"))
            case "rewind" if s.info.entries:
                s.rewind(somewhere)
                s.append(user(f"instead {number}"))
            case "fork" if s.info.entries:
                sessions.append(s.fork(f"{first}-fork-{number}", at=somewhere))
            case "checkpoint":
                s.checkpoint(f"point {where}", state={"number": number})
            case "undo":
                try:
                    s.undo()
                except NothingToUndoError:
                    s.append(user(f"nothing to undo {number}"))
            case "clear":
                s.clear()
            case "annotate" if s.info.entries:
                s.annotate(somewhere, label=f"label {where}")
            case "usage" if s.info.entries:
                s.add_usage(model="m", input_tokens=number, output_tokens=1, entry=somewhere)
    return sessions


@contextmanager
def in_memory() -> Iterator[Store]:
    with Store(MemoryBackend(), clock=Ticking()) as store:
        yield store


def shown(store: Store, id: str) -> list[str]:
    """A session in the formats that are for reading, all branches and the path alone."""
    return [store.export(id, format, whole=whole) for format in FORMATS for whole in (False, True)]


def goes_out_and_in(store: Store, session: Session, place: Path) -> None:
    """Exported, imported elsewhere and exported there: the same bytes, and the same pages for readers."""
    file, back = place / "there.jsonl", place / "back.jsonl"
    store.export(session.id, "jsonl", path=file)
    with in_memory() as other:
        other.import_path(file)
        other.export(session.id, "jsonl", path=back)
        assert back.read_bytes() == file.read_bytes()
        assert shown(other, session.id) == shown(store, session.id)


class TestSessionFile:
    """Out of one store and into another one: the file is the same, byte for byte."""

    @pytest.mark.parametrize("seed", range(3))
    def test_p19_a_session_with_branches_is_the_same_file_from_every_store(
        self, store: Store, tmp_path: Path, seed: int
    ) -> None:
        """Exported, imported elsewhere and exported there: the same bytes, and the same pages for readers."""
        for session in carry_out(store, steps_of(seed)):
            goes_out_and_in(store, session, tmp_path)

    @pytest.mark.parametrize("seed", range(3))
    def test_p19_a_session_with_branches_comes_in_as_it_went_out(
        self, store: Store, tmp_path: Path, seed: int
    ) -> None:
        """Imported here and exported again: the same bytes; and nothing is wrong with what came in."""
        file, again = tmp_path / "there.jsonl", tmp_path / "again.jsonl"
        with in_memory() as other:
            session = carry_out(other, steps_of(seed), f"s{seed}")[seed % 2]
            other.export(session.id, "jsonl", path=file)
            store.import_path(file)
            store.export(session.id, "jsonl", path=again)
            assert again.read_bytes() == file.read_bytes()
            assert shown(store, session.id) == shown(other, session.id)
        assert store.verify(full=True).ok

    def test_p19_whatever_was_done_to_a_session_it_goes_out_and_in(
        self, store: Store, tmp_path: Path
    ) -> None:
        """The same for programs that Hypothesis makes up."""
        names = (f"s{number}" for number in count())

        @settings(max_examples=12, deadline=None, derandomize=True, database=None)
        @given(program=steps)
        def whatever_was_done(program: list[Step]) -> None:
            goes_out_and_in(store, carry_out(store, program, next(names))[-1], tmp_path)

        whatever_was_done()

    @pytest.mark.parametrize("seed", range(3))
    def test_p19_each_branch_is_told_of_behind_the_one_that_it_continues(
        self, store: Store, seed: int
    ) -> None:
        """However a backend numbers branches, `tree()` has them in the order of the tree."""
        for session in carry_out(store, steps_of(seed)):
            known = set[str]()
            for branch in session.tree().branches:
                assert branch.parent is None or branch.parent.branch in known
                known.add(branch.id)
