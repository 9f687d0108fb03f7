"""S-56: a small file whose entries unpack to a thousand times their size is read in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import clew
from clew.core.conversation.history import PAGE_BYTES

BODY = 3 * 1024 * 1024
COUNT = 40
MOST = 8 * (PAGE_BYTES + BODY)
"""Bytes at once: a page, its entries decoded, and what the driver holds; all of them are 120 MB."""


@pytest.fixture
def bomb(tmp_path: Path) -> Iterator[clew.Session]:
    with clew.open(tmp_path / "bomb.db") as store:
        session = store.session("bomb")
        message = {"role": "user", "content": "x" * BODY}
        for _ in range(COUNT):
            session.append(message)
    # What the counters say of the sizes is not believed.
    with closing(apsw.Connection(str(tmp_path / "bomb.db"))) as connection:
        connection.execute("UPDATE entries SET size = 1")
        connection.execute("UPDATE sessions SET size = 1")
    assert (tmp_path / "bomb.db").stat().st_size < BODY
    with clew.open(tmp_path / "bomb.db", read_only=True) as store:
        yield store.get("bomb")


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("damaged", ["raise", "skip"])
def test_s56_p16_entries_holds_a_page_of_bytes_not_of_entries(
    bomb: clew.Session, newest_first: bool, damaged: str
) -> None:
    def read() -> None:
        found = bomb.entries(newest_first=newest_first, damaged=damaged)  # type: ignore[arg-type]
        positions = [entry.position for entry in found]
        assert positions == (list(range(COUNT))[::-1] if newest_first else list(range(COUNT)))

    assert peak(read) < MOST


def test_s56_p16_a_context_holds_what_fits_its_budget(bomb: clew.Session) -> None:
    assert peak(lambda: bomb.context(max_messages=2)) < MOST
    assert peak(lambda: bomb.context(max_tokens=1_000)) < MOST


def test_s56_p16_verify_and_copy_hold_a_page_of_bytes(bomb: clew.Session, tmp_path: Path) -> None:
    """A second: every body is unpacked, and Python counts each byte."""
    with clew.open(tmp_path / "bomb.db", read_only=True) as store:
        assert peak(lambda: store.verify(full=True)) < MOST
        assert peak(lambda: store.search("nothing")) < MOST


def test_s51_a_head_far_behind_the_last_entry_is_not_walked_to(tmp_path: Path) -> None:
    with clew.open(tmp_path / "far.db") as store:
        store.session("far").append({"role": "user", "content": "here"})
    with closing(apsw.Connection(str(tmp_path / "far.db"))) as connection:
        connection.execute("UPDATE sessions SET position = 4294967294")
    with clew.open(tmp_path / "far.db") as store:
        far = store.get("far")
        assert [entry.position for entry in far.entries(damaged="skip")] == [0]
        assert [entry.position for entry in far.entries(damaged="skip", newest_first=True)] == [0]
        with pytest.raises(clew.CorruptError):
            list(far.entries())
        assert [message["content"] for message in far.messages()] == ["here"]
