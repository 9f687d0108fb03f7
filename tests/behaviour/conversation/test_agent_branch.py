"""A session that an agent owns: moved here, it still knows where its agent stands, and goes back there."""

from __future__ import annotations

import msgspec
import pytest

import clew
from clew.errors import InvalidError
from clew.model.source import SourceEvent, SourceSession
from tests.support.owned import OWNED, minute, written


def new(s: clew.Session) -> int:
    branch = s.info.agent_branch
    assert branch is not None
    return branch.new


def test_what_an_agent_writes_after_a_rewind_here_is_counted_and_one_call_follows_it(
    store: clew.Store,
) -> None:
    """From then on the head moves with the agent again."""
    store.load(written(range(8)))
    s = store.get(OWNED)
    assert new(s) == 0
    s.rewind(3)
    assert new(s) == 0, "nothing was written since"
    store.load(written(range(10)))
    info = next(iter(store.list()))
    assert (info.messages, info.agent_branch and info.agent_branch.new) == (4, 2)
    planned = s.follow(dry_run=True)
    assert (s.info.messages, planned == info.agent_branch.head) == (4, True)  # type: ignore[union-attr]
    assert s.follow() == planned
    assert (s.info.messages, new(s)) == (10, 0)
    assert s.follow() == s.head, "there is nowhere to go"
    assert [move.kind for move in s.moves()] == ["rewind", "rewind"]
    store.load(written(range(12)))
    assert (s.info.messages, new(s)) == (12, 0), "it goes along again"
    assert s.undo().position == 3
    assert store.verify().ok


def test_an_undo_of_the_rewind_follows_the_agent_again(store: clew.Store) -> None:
    """Back where the agent stood, the head moves with it."""
    store.load(written(range(8)))
    s = store.get(OWNED)
    s.rewind(3)
    store.load(written(range(10)))
    s.undo()
    assert (s.info.messages, new(s)) == (8, 2)
    store.load(written(range(12)))
    assert (s.info.messages, new(s)) == (12, 0)


def test_an_agent_that_rewinds_itself_is_ahead_by_what_it_wrote_behind_the_parting(store: clew.Store) -> None:
    """What both have is not new."""
    store.load(written(range(8)))
    s = store.get(OWNED)
    s.rewind(5)
    store.load(written([*range(8), 10, 11], parents={10: 1}))
    assert new(s) == 2
    s.follow()
    assert [message["content"] for message in s.messages()] == ["text 0", "text 1", "text 10", "text 11"]


def test_a_session_of_no_agent_has_no_branch_of_one_and_a_fork_neither(store: clew.Store) -> None:
    """A fork is its own: no agent writes to it."""
    own = store.session("own")
    own.append({"role": "user", "content": "hi"})
    store.load(written(range(4)))
    for s in (own, store.get(OWNED).fork()):
        assert s.info.agent_branch is None
        assert s.info.state() is None
        for is_plan in (True, False):
            with pytest.raises(InvalidError, match="nothing to follow"):
                s.follow(dry_run=is_plan)


def test_how_an_agent_stands_goes_by_its_last_record_and_by_the_clock(store: clew.Store) -> None:
    """Working, waiting, idle or stale; nothing where its files do not say."""
    ran: list[tuple[SourceSession, dict[float, str | None]]] = [
        (written(range(3), turn="open"), {2.5: "working", 17: "stale", 300: "idle"}),
        (written(range(4), turn="ended"), {4: "waiting", 200: "waiting", 300: "idle", -60: "waiting"}),
        (written(range(4)), {4: "waiting"}),  # nothing tells otherwise
        (written(range(5), turn=""), {4.5: "working", 5.1: None, 300: None}),
        (written(range(6), turn="ended"), {6: "waiting"}),
        # A hook, or the progress of a command: no entry, but a sign of life.
        (
            written(range(7), turn="open", events=[SourceEvent(id="p", type="progress", at=minute(60))]),
            {61: "working", 76: "stale"},
        ),
    ]
    for source, expected in ran:
        store.load(source)
        info = store.get(OWNED).info
        assert {at: info.state(minute(at)) for at in expected} == expected
    store.get(OWNED).rewind(1)
    assert store.get(OWNED).info.state(minute(61)) == "working", "it is the agent that works, not the path"
    store.get(OWNED).close()
    assert store.get(OWNED).info.state(minute(61)) is None


def test_the_words_of_a_subagent_are_work_of_its_parent_and_it_waits_for_nobody(store: clew.Store) -> None:
    """The parent is at work as long as one of its subagents writes."""
    store.load(written(range(3), turn="open"))
    store.load(written([30, 31], id="codex:1/agent", turn="ended", parent=OWNED))
    assert store.get(OWNED).info.state(minute(32)) == "working"
    assert store.get("codex:1/agent").info.state(minute(32)) is None


def test_files_without_times_tell_where_an_agent_stands_and_not_when(store: clew.Store) -> None:
    """Then it has no state."""
    source = written(range(4))
    untimed = [msgspec.structs.replace(entry, at=None) for entry in source.entries]
    store.load(msgspec.structs.replace(source, entries=untimed))
    info = store.get(OWNED).info
    assert info.agent_branch is not None
    assert (info.agent_branch.head, info.agent_branch.written_at) == (info.head, None)
    assert info.state(info.updated_at) is None


def test_a_time_in_the_future_is_the_present(store: clew.Store) -> None:
    """A clock that is ahead makes no agent work for hours."""
    store.load(written([50_000_000], turn="ended"))
    branch = store.get(OWNED).info.agent_branch
    assert branch is not None
    assert branch.written_at is not None
    assert branch.written_at < minute(50_000_000)
