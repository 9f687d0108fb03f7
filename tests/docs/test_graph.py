"""The lanes of a tree, as examples/graph.py prints them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.cli.views import graph as lanes
from clew.testing.backend.base import user
from examples import graph
from tests.docs.pages import blocks, pages_that_run


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        yield store


def drawn(s: clew.Session, fold: int = 100) -> list[str]:
    return list(graph.lines(lanes.draw(s.tree(), fold=fold), lambda entry: ""))


def test_an_empty_session_is_one_point(store: clew.Store) -> None:
    assert ["◌  (empty)  ◀ s"] == drawn(store.session("s"))


def test_a_plain_history_is_one_lane(store: clew.Store) -> None:
    s = store.session("s")
    s.append(user("a"), user("b"))
    s.checkpoint("plan")
    assert ["●  0", "●  1    ◆ plan  ◀ s"] == drawn(s)


def test_what_was_left_hangs_below_the_head_after_a_rewind(store: clew.Store) -> None:
    s = store.session("s")
    s.append(user("a"), user("b"), user("c"))
    s.rewind(0)
    assert ["●  0    ◀ s", "╰─╮", "  ·  1", "  ·  2"] == drawn(s)


def test_forks_are_lanes_beside_the_path(store: clew.Store) -> None:
    """The path of the session that was asked runs straight down, whoever it shares it with."""
    s = store.session("s")
    s.append(user("a"))
    fork = s.fork("f")
    fork.append(user("b"))
    nested = fork.fork("n")
    nested.append(user("c"))
    fork.append(user("d"))
    s.append(user("e"))

    straight = ["●  0", "├─╮", "│ ○  1", "│ ├─╮", "│ │ ○  2    ◀ n", "│ ○  2    ◀ f", "●  1    ◀ s"]
    assert straight == drawn(s)
    assert ["●  0", "├─╮", "│ ○  1    ◀ s", "●  1", "├─╮", "│ ○  2    ◀ f", "●  2    ◀ n"] == drawn(nested)


def test_a_new_history_begins_beside_the_old_one(store: clew.Store) -> None:
    s = store.session("s")
    s.append(user("a"))
    s.replace([user("b")])
    assert ["◌  (empty)", "├─╮", "│ ·  0", "●  0    ◀ s"] == drawn(s)


def test_the_middle_of_a_long_run_is_left_out(store: clew.Store) -> None:
    s = store.session("s")
    s.append(*(user(str(number)) for number in range(100)))
    assert ["●  0", "●  1", "┆  95 more", "●  97", "●  98", "●  99    ◀ s"] == drawn(s, fold=4)


@given(steps=st.lists(st.tuples(st.sampled_from(["append", "rewind", "fork", "clear"]), st.integers(0, 99))))
def test_every_entry_is_drawn_once(steps: list[tuple[str, int]]) -> None:
    """Whatever happened to the tree, and from whichever session it is looked at."""
    with clew.open("memory:") as store:
        sessions = [store.session("s")]
        for action, number in steps:
            s = sessions[number % len(sessions)]
            length = s.info.entries
            if action == "append":
                s.append(user("x"), user("y"))
            elif action == "clear":
                s.clear()
            elif length and action == "rewind":
                s.rewind(number % length)
            elif length:
                sessions.append(s.fork(at=number % length))
        for s in sessions:
            tree = s.tree()
            stored = {clew.Head(b.id, p) for b in tree.branches for p in range(b.first, b.last + 1)}
            rows = [row for row in lanes.draw(tree, fold=10**6) if row.entry not in (None, lanes.START)]
            assert sorted(map(str, stored)) == sorted(str(row.entry) for row in rows)
            assert {row.lanes[-1] for row in rows if row.state == "here"} <= {"●"}
            on_path = [row.entry.position for row in rows if row.state == "here" and row.entry]
            assert list(range(s.info.entries)) == on_path


def test_the_tutorial_shows_the_real_drawing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [tutorial] = [page for page in pages_that_run() if page.name == "first-agent.md"]
    [shown] = blocks(tutorial, "text")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    with redirect_stdout(io.StringIO()):
        for block in blocks(tutorial, "python"):
            if block.line < shown.line:
                exec(block.code, namespace)  # noqa: S102 (our own page)

    graph.main("agents.db", "trip")
    namespace["store"].close()

    assert shown.code == capsys.readouterr().out.rstrip("\n")
