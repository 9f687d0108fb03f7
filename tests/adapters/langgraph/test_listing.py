"""Listings over many threads read as much as they give out, not as much as there is."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

import clew
from clew.adapters.langgraph import ClewSaver
from clew.backends.memory import MemoryBackend
from tests.adapters.langgraph.talk import human, one_node, put, thread
from tests.support.rows import each_row


class Counting:
    """What reads for a store, and counts: each look, and each row that it gives."""

    def __init__(self, inner: Any, reads: list[int]) -> None:
        self._inner = inner
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            self._reads.append(1 + (len(result) if isinstance(result, list) else 0))
            return result

        return counted


class CountingBackend:
    def __init__(self, reads: list[int]) -> None:
        self._inner = MemoryBackend()
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def read(self) -> Iterator[Any]:
        with self._inner.read() as reader:
            yield Counting(reader, self._reads)

    read_snapshot = read


class Counted:
    """A store that counts what is read from it."""

    def __init__(self) -> None:
        self._reads: list[int] = []
        backend: Any = CountingBackend(self._reads)
        self.store = clew.Store(backend)

    def reads_of(self, work: Callable[[], object]) -> int:
        self._reads.clear()
        work()
        return sum(self._reads)


@pytest.fixture
def counted() -> Iterator[Counted]:
    counted = Counted()
    with counted.store:
        yield counted


def fill(saver: ClewSaver, threads: int, checkpoints: int) -> None:
    for number in range(threads):
        config = thread(f"t{number:04}")
        for step in range(checkpoints):
            config = put(saver, config, {"messages": [human(f"{number}")], "step": step}, step=step)


ASKS: dict[str, dict[str, Any]] = {
    "the newest": {"limit": 1},
    "the newest three": {"limit": 3},
    "the newest of a kind": {"limit": 1, "filter": {"step": 1}},
}


@each_row("asked", ASKS.values())
def test_a_listing_of_all_threads_reads_no_more_when_there_are_more_of_them(asked: dict[str, Any]) -> None:
    counts, found = [], []
    for threads in (20, 200):
        counted = Counted()
        with counted.store:
            fill(ClewSaver(counted.store), threads, 3)
            saver = ClewSaver(counted.store)
            counts.append(counted.reads_of(lambda: found.append(list(saver.list(None, **asked)))))  # noqa: B023
        assert len(found[-1]) == asked["limit"]
        assert found[-1][0].config["configurable"]["thread_id"] == f"t{threads - 1:04}"
    assert counts[1] <= counts[0] + 5


@each_row("asked", [{"limit": 2}, {"limit": 1, "filter": {"source": "loop"}}])
def test_a_listing_before_a_checkpoint_reads_a_few_of_each_thread_that_is_newer(
    asked: dict[str, Any],
) -> None:
    counts = []
    for checkpoints in (5, 50):
        counted = Counted()
        with counted.store:
            fill(ClewSaver(counted.store), 10, checkpoints)
            saver = ClewSaver(counted.store)
            before = next(iter(saver.list(thread("t0005"), limit=1))).config
            found: list[Any] = []
            counts.append(counted.reads_of(lambda: found.extend(saver.list(None, before=before, **asked))))  # noqa: B023
            assert found[0].config["configurable"]["thread_id"] == "t0005"
    assert counts[1] <= counts[0] + 5


def test_a_listing_of_one_thread_reads_no_more_when_it_is_longer(counted: Counted) -> None:
    counts = []
    for length in (5, 200):
        config = thread(f"of {length}")
        for step in range(length):
            config = put(ClewSaver(counted.store), config, {"step": step})
        anywhere: Any = {"configurable": {"thread_id": f"of {length}"}}
        saver = ClewSaver(counted.store)
        counts.append(counted.reads_of(lambda: list(saver.list(anywhere, limit=2))))  # noqa: B023
    assert counts[1] <= counts[0] + 2


def test_a_thread_that_only_its_state_changed_in_is_the_latest_active_one(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        first = put(saver, thread("first"), {"plan": "x"})
        put(saver, thread("second"), {"messages": [human("hi")]})
        put(saver, first, {"plan": "y"})

        assert [info.id for info in saver.threads()] == ["first", "second"]
        assert [one.config["configurable"]["thread_id"] for one in saver.list(None, limit=2)] == [
            "first",
            "second",
        ]
        assert [one.config["configurable"]["thread_id"] for one in saver.list(None)] == [
            "first",
            "second",
            "first",
        ]


def test_ids_that_tell_no_time_are_in_order_all_the_same(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        for number, name in ((3, "x"), (1, "y"), (2, "z"), (4, "x")):
            saver.put(thread(name), _numbered(number), {}, {"a": 1})

        assert [one.checkpoint["id"] for one in saver.list(None)] == ["4", "3", "2", "1"]
        assert [one.checkpoint["id"] for one in saver.list(None, limit=2)] == ["4", "3"]


def _numbered(number: int) -> Any:
    return {
        "v": 4,
        "id": str(number),
        "ts": "2026-05-04T03:02:01+00:00",
        "channel_values": {"a": number},
        "channel_versions": {"a": 1},
        "versions_seen": {},
    }


def test_a_thread_with_very_many_subgraphs_is_listed_in_order(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        made = [put(saver, thread("talk", ns), {"a": 1}) for ns in ("", *(f"sub:{n}" for n in range(40)), "")]
        expected = [config["configurable"]["checkpoint_id"] for config in made][::-1]

        anywhere: Any = {"configurable": {"thread_id": "talk"}}
        assert [one.checkpoint["id"] for one in saver.list(anywhere)] == expected
        assert [one.checkpoint["id"] for one in saver.list(None, limit=3)] == expected[:3]
        assert [one.checkpoint["id"] for one in saver.list(made[5])] == [expected[-6]]
        assert [one.checkpoint["id"] for one in saver.list(None, before=made[5], limit=2)] == expected[-5:-3]


def test_a_graph_without_messages_is_active_with_every_turn(url: str) -> None:
    class Counting(TypedDict):
        steps: Annotated[list[int], operator.add]

    builder = one_node(Counting, "step", lambda state: {"steps": [len(state["steps"])]})
    with clew.open(url) as store:
        graph = builder.compile(checkpointer=ClewSaver(store))
        graph.invoke({"steps": [0]}, thread("counting"))
        store.create("other").append({"role": "user", "content": str(AIMessage("x").content)})
        graph.invoke({"steps": [0]}, thread("counting"))

        assert [info.id for info in store.list()] == ["counting", "other"]
