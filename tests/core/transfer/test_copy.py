"""`clew.copy`: between any two backends, again and again, killed anywhere, nothing differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.backends.contract import Reader
from clew.core.transfer import source as reading
from clew.core.transfer import write as writing
from clew.core.transfer.source import Source
from clew.model.transfer import CopyProgress, CopyReport
from tests.core.transfer.kinds import KINDS, OTHERS, ROUND, Open
from tests.support.rows import each_row
from tests.support.stores import dump, say, wander, with_files


@pytest.mark.parametrize(("one", "other"), ROUND)
def test_a_copy_is_the_same_and_a_second_one_writes_nothing(
    one: str, other: str, stores: Open, tmp_path: Path
) -> None:
    """Histories, positions, hashes, ids, times, records, events, usage, snapshots."""
    src, dst = stores(one), stores(other)
    wander(src, 1)
    snapshot = with_files(src, tmp_path / "work")
    src.set_retention(clew.Retention(keep_tags=("wandering",)))

    first = clew.copy(src, dst)

    assert dump(dst) == dump(src)
    assert first.entries == src.stats().entries
    assert first.snapshots == len(src.snapshots(limit=1000))
    assert dst.verify(full=True).problems == ()
    restored = tmp_path / "restored"
    restored.mkdir()
    dst.restore(snapshot.id, restored)
    assert (restored / "sub" / "b.bin").read_bytes() == (tmp_path / "work" / "sub" / "b.bin").read_bytes()
    assert (restored / "a.txt").read_bytes() == b"one\n" * 500

    before = dump(dst)
    second = clew.copy(src, dst)
    assert (second.sessions, second.entries, second.snapshots, second.objects, second.bytes) == (0,) * 5
    assert second.unchanged == first.sessions
    assert dump(dst) == before


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_any_two_kinds_of_stores_can_be_copied(one: str, other: str, stores: Open, tmp_path: Path) -> None:
    test_a_copy_is_the_same_and_a_second_one_writes_nothing(one, other, stores, tmp_path)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), more=st.integers(1, 60), staged=st.booleans())
def test_what_grew_since_is_brought_over(seed: int, more: int, staged: bool) -> None:
    with pytest.MonkeyPatch.context() as patch, clew.open("memory:") as src, clew.open("memory:") as dst:
        if staged:
            patch.setattr(writing, "AT_ONCE", 5)
            patch.setattr(reading, "PAGE", 3)
        wander(src, seed, 60)
        clew.copy(src, dst)
        assert dump(dst) == dump(src)

        wander(src, seed, more)
        clew.copy(src, dst)

        assert dump(dst) == dump(src)
        assert dst.verify(full=True).problems == ()


def test_a_copy_of_a_copy_is_the_same(stores: Open) -> None:
    """There and back again: nothing is new to the store that it came from."""
    a, b = stores("memory"), stores("sqlite")
    wander(a, 3)
    clew.copy(a, b)

    back = clew.copy(b, a)

    assert back.sessions == back.entries == 0


def test_the_copy_goes_on_like_the_original(stores: Open) -> None:
    """Undo, checkpoints, keys, aliases and forks work there: no number of the source is left in it."""
    src, dst = stores("memory"), stores("sqlite")
    for filler in range(3):
        dst.session(f"filler {filler}").append(say(filler))
    s = src.session("s")
    s.append(say(1), say(2), key="once")
    s.checkpoint("here")
    s.append(say(3))
    s.rewind("here")
    s.add_alias("nick")
    f = s.fork("f")
    f.append(say(4))
    f.annotate(0, label="gold")

    clew.copy(src, dst)
    t, g = dst.get("nick"), dst.get("f")

    assert t.id == "s"
    assert [entry.position for entry in t.append(say(1), say(2), key="once")] == [0, 1]
    assert t.undo() == t.head
    assert t.messages()[-1] == say(3)
    assert [checkpoint.name for checkpoint in g.checkpoints()] == ["here"]
    assert [entry.position for entry in g.entries(label="gold")] == [0]
    g.append(say(5))
    assert g.info.messages == 4
    assert dst.verify(full=True).problems == ()


def test_a_session_with_another_history_is_refused(stores: Open) -> None:
    src, dst = stores("memory"), stores("memory")
    src.session("same").append(say(1))
    dst.session("same").append(say(2))
    before = dump(dst)

    with pytest.raises(clew.ConflictError, match="'same'"):
        clew.copy(src, dst)

    assert dump(dst) == before


def test_a_conflict_may_be_skipped(stores: Open) -> None:
    src, dst = stores("memory"), stores("memory")
    src.session("same").append(say(1))
    src.session("other").append(say(3))
    dst.session("same").append(say(2))

    report = clew.copy(src, dst, on_conflict="skip")

    assert report.skipped == ("same",)
    assert dst.get("same").messages() == [say(2)]
    assert dst.get("other").messages() == [say(3)]


def test_a_conflict_may_be_renamed_and_the_new_id_stays(stores: Open) -> None:
    src, dst = stores("memory"), stores("sqlite")
    src.session("same").append(say(1))
    dst.session("same").append(say(2))

    first = clew.copy(src, dst, on_conflict="rename")
    again = clew.copy(src, dst, on_conflict="rename")
    src.get("same").append(say(3))
    more = clew.copy(src, dst, on_conflict="rename")

    assert first.renamed == again.renamed == more.renamed == (("same", "same#copy-1"),)
    assert again.sessions == 0
    assert dst.get("same").messages() == [say(2)]
    assert dst.get("same#copy-1").messages() == [say(1), say(3)]
    assert dst.stats().sessions == 2


def test_names_that_went_over_to_another_session_do_so_in_the_copy(stores: Open) -> None:
    """An id whose session was deleted, and an alias that was moved."""
    src, dst = stores("memory"), stores("memory")
    old, other = src.session("name"), src.session("other")
    old.append(say(1))
    other.append(say(2))
    other.add_alias("nick")
    clew.copy(src, dst)
    src.delete("name")
    new = src.session("name")
    new.append(say(3))
    new.add_alias("nick", move=True)

    clew.copy(src, dst)

    assert dst.get("nick").messages() == dst.get("name").messages() == [say(3)]
    assert dump(dst) == dump(src)


def test_a_session_that_went_on_in_the_target_is_left_alone(stores: Open) -> None:
    src, dst = stores("memory"), stores("memory")
    src.session("s").append(say(1))
    clew.copy(src, dst)
    dst.get("s").append(say(2))

    report = clew.copy(src, dst)

    assert report.sessions == 0
    assert dst.get("s").messages() == [say(1), say(2)]


@each_row(
    "change",
    [
        lambda there: there.append(say(2)),
        lambda there: there.update(title="mine"),
        lambda there: there.clear(),
    ],
    ids=["append", "title", "rewind"],
)
def test_a_session_that_went_on_in_both_is_refused(
    change: Callable[[clew.Session], object], stores: Open
) -> None:
    src, dst = stores("memory"), stores("memory")
    src.session("s").append(say(1))
    clew.copy(src, dst)
    change(dst.get("s"))
    src.get("s").append(say(3))
    before = dump(dst)

    with pytest.raises(clew.ConflictError, match="'s'"):
        clew.copy(src, dst)

    assert dump(dst) == before


def test_only_some_sessions_come_with_their_relatives_and_files(stores: Open, tmp_path: Path) -> None:
    src, dst = stores("memory"), stores("sqlite")
    with_files(src, tmp_path / "work")
    fork = src.get("with files").fork("fork")
    src.session("other").append(say(1))

    clew.copy(src, dst, sessions=["fork"])

    assert sorted(info.id for info in dst.list()) == sorted(["fork", "with files"])
    assert fork.messages() == dst.get("fork").messages()
    assert {one.kind for one in dst.snapshots()} == {"checkpoint", "safety"}
    assert dst.verify(full=True).problems == ()
    with pytest.raises(clew.SessionNotFoundError):
        clew.copy(src, dst, sessions=["nobody"])


def test_a_run_under_way_is_interrupted_in_the_copy(stores: Open) -> None:
    src, dst = stores("memory"), stores("memory")
    s = src.session("s")
    with s.run() as run:
        run.append(say(1))
        clew.copy(src, dst)
        assert s.info.status == "running"

    t = dst.get("s")
    assert t.info.status == "interrupted"
    assert [found.id for found in dst.interrupted()] == ["s"]
    t.append(say(2))
    with pytest.raises(clew.ConflictError):  # both went on
        clew.copy(src, dst)


def test_a_run_that_ended_since_has_ended_in_the_copy(stores: Open) -> None:
    src, dst = stores("memory"), stores("memory")
    s = src.session("s")
    with s.run() as run:
        run.append(say(1))
        clew.copy(src, dst)

    clew.copy(src, dst)

    assert dst.get("s").info.status == s.info.status
    assert dst.get("s").status_changes() == s.status_changes()


def test_removed_messages_are_removed_in_the_copy_too(stores: Open) -> None:
    src, dst = stores("memory"), stores("sqlite")
    s = src.session("s")
    s.append(*(say(n) for n in range(20)))
    clew.copy(src, dst)
    src.set_retention(clew.Retention(max_messages=5))
    src.sweep()
    assert len(s.messages()) < 20

    clew.copy(src, dst)

    assert dst.get("s").messages() == s.messages()
    assert dump(dst) == dump(src)


@pytest.mark.usefixtures("small_steps")
def test_a_large_tree_appears_when_it_is_whole(stores: Open) -> None:
    src, dst = stores("memory"), stores("sqlite")
    s = src.session("large")
    for n in range(30):
        s.append(say(n), say(n))
    seen: list[bool] = []

    clew.copy(src, dst, on_progress=lambda _: seen.append(dst.find("large") is not None))

    assert len(seen) > 10
    assert seen[:-3] == [False] * (len(seen) - 3)
    assert dst.get("large").messages() == s.messages()


@pytest.mark.usefixtures("small_steps")
def test_an_interrupted_copy_goes_on_where_it_was(stores: Open) -> None:
    """An exception out of the callback stands for Ctrl-C."""
    src, dst = stores("memory"), stores("sqlite")
    wander(src, 5)
    for _ in range(500):
        budget = 2

        def stop(progress: CopyProgress) -> None:
            nonlocal budget
            budget -= 1
            if budget < 0 and progress.entries:
                raise KeyboardInterrupt

        try:
            clew.copy(src, dst, on_progress=stop)
            break
        except KeyboardInterrupt:
            continue

    assert dump(dst) == dump(src)
    assert dst.verify(full=True).problems == ()


@pytest.mark.usefixtures("small_steps")
def test_who_writes_to_the_target_between_two_steps_loses_nothing(stores: Open) -> None:
    """The session is there from an earlier copy; the entries that come lie behind its head already."""
    src, dst = stores("memory"), stores("sqlite")
    s = src.session("s")
    s.append(say(1))
    clew.copy(src, dst)
    s.append(*(say(n) for n in range(40)))

    def butt_in(progress: CopyProgress) -> None:
        if progress.entries == 20:
            dst.get("s").append(say(99))

    with pytest.raises(clew.ConflictError, match="'s'"):
        clew.copy(src, dst, on_progress=butt_in)

    assert dst.get("s").messages() == [say(1), say(99)]
    assert dst.verify(full=True).problems == ()


def test_a_tree_that_changes_while_it_is_read_is_read_again(stores: Open) -> None:
    """A worker appends and sets a checkpoint between two reads: its row would be older than its records."""
    src = stores("sqlite")
    s = src.session("s")
    s.append(say(1))
    engine = src._engine
    writes: list[Callable[[], object]] = [lambda: s.append(say(2)), lambda: s.checkpoint("here")]

    class Disturbed:
        """A reader during whose work somebody writes."""

        def __init__(self, reader: Reader) -> None:
            self._reader = reader

        def __getattr__(self, name: str) -> object:
            if name == "tree_branches":
                while writes:
                    writes.pop(0)()
            return getattr(self._reader, name)

    @contextmanager
    def read() -> Iterator[Any]:
        with engine.read() as reader:
            yield Disturbed(reader)

    with engine.read() as reader:
        row = reader.find_session("s")
    assert row is not None

    image = Source(read).image(row.tree)

    assert not writes
    assert image.sessions[0].row.head.position == image.branches[0].last == 1
    assert ("checkpoint", "here") in image.sessions[0].records


def test_the_copy_keeps_files_as_long_as_their_checkpoints(stores: Open, tmp_path: Path) -> None:
    src, dst = stores("memory"), stores("sqlite")
    for filler in range(5):
        dst.session(f"filler {filler}").append(say(filler))
    with_files(src, tmp_path / "work")
    clew.copy(src, dst)
    before = {one.id for one in dst.snapshots()}

    dst.gc()
    assert {one.id for one in dst.snapshots()} == before
    dst.get("with files").undo()
    assert (tmp_path / "work" / "a.txt").read_bytes() == b"two\n" * 500

    dst.delete("with files", purge=True)
    dst.gc()
    assert {one.kind for one in dst.snapshots()} == {"snapshot"}


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_grows_meanwhile_is_copied_as_of_a_moment(kind: str, stores: Open) -> None:
    """Whatever a copy has done so far, somebody writes before it goes on."""
    src, dst = stores(kind), stores("sqlite")
    sessions = [src.session(f"s{n}") for n in range(3)]
    for session in sessions:
        session.append(*(say(n) for n in range(50)))

    def write() -> Iterator[None]:
        for number in range(50, 100):
            for session in sessions:
                session.append(say(number))
                if number % 7 == 0:
                    session.rewind(session.info.entries - 3)
                yield

    writing = write()
    while not _ended(writing):
        clew.copy(src, dst, on_progress=lambda _: _ended(writing))
        assert dst.verify(full=True).problems == ()
    clew.copy(src, dst)

    assert dump(dst) == dump(src)


def _ended(steps: Iterator[None]) -> bool:
    """Take one step, and report whether that was none."""
    return next(steps, True) is not None


def test_addresses_are_opened_and_closed(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as store:
        store.session("s").append(say(1))

    report = clew.copy(tmp_path / "a.db", f"sqlite:///{tmp_path}/b.db")

    assert report.sessions == 1
    assert [path.name for path in tmp_path.glob("b.db*")] == ["b.db"]


def test_what_makes_no_sense_is_refused(stores: Open, tmp_path: Path) -> None:
    store = stores("sqlite")
    for same in (store, store.location):
        with pytest.raises(clew.InvalidError):
            clew.copy(store, same)
    with pytest.raises(clew.InvalidError):
        clew.copy(store, stores("memory"), on_conflict="maybe")  # type: ignore[arg-type]
    with pytest.raises(clew.errors.StoreNotFoundError):
        clew.copy(tmp_path / "nothing.db", store)


def test_tasks_copy_too(tmp_path: Path) -> None:
    async def main() -> CopyReport:
        async with clew.open_async("memory:") as src, clew.open_async(tmp_path / "b.db") as dst:
            session = await src.session("s")
            await session.append(say(1))
            report = await clew.copy_async(src, dst)
            assert await (await dst.get("s")).messages() == [say(1)]
            return report

    assert asyncio.run(main()).sessions == 1
