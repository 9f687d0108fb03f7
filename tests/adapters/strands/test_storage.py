"""`ClewStorage` keeps the promises of Strands' storages, and the messages of snapshots in the log, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strands.storage import Storage
from strands.storage.storage import _resolve_namespace
from strands.types.content import Message
from strands.types.exceptions import StorageError
from strands.types.session import decode_bytes_values

import clew
from clew.adapters.strands import ClewStorage
from clew.testing.adapter import AdapterConformance
from tests.adapters.strands.talk import conversation, number_of, numbered, said, snapshot_of


def latest(session: str = "talk") -> str:
    return f"session/{session}/scopes/agent/default/snapshots/snapshot_latest.json"


def fixed(number: int) -> str:
    id = f"0199d0a4-0000-7000-8000-{number:012d}"
    return f"session/talk/scopes/agent/default/snapshots/immutable_history/snapshot_{id}.json"


class TestStorage(AdapterConformance):
    """A conversation is a snapshot that grows."""

    appends = False
    takes_surrogates = False

    def make(self, store: clew.Store) -> ClewStorage:
        return ClewStorage(store)

    def messages(self) -> list[Message]:
        return conversation()

    def numbered(self, number: str) -> list[Message]:
        return numbered(number)

    def number_of(self, message: Message) -> str:
        return number_of(message)

    def session_id(self, name: str) -> str:
        return f"strands/session/{name}/scopes/agent/default"

    async def write(self, adapter: ClewStorage, name: str, messages: list[Message]) -> None:
        before = await self.read(adapter, name)
        await adapter.write(latest(name), snapshot_of([*before, *messages]))

    async def read(self, adapter: ClewStorage, name: str) -> list[Message]:
        data = await adapter.read(latest(name))
        return [] if data is None else decode_bytes_values(json.loads(data))["data"]["messages"]


class Blocking:
    """A storage for tests that have no event loop: each call gets one of its own."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage

    def __getattr__(self, name: str) -> Any:
        return lambda *args: asyncio.run(getattr(self.storage, name)(*args))


@pytest.fixture
def memory() -> Iterator[clew.Store]:
    with clew.open("memory:") as store:
        yield store


@pytest.fixture
def quick(memory: clew.Store) -> Any:
    return Blocking(ClewStorage(memory))


def kept(store: clew.Store, session: str = "talk") -> clew.Session:
    return store.get(f"strands/session/{session}/scopes/agent/default")


def texts(store: clew.Store) -> list[str]:
    return [message["content"][0]["text"] for message in kept(store).messages()]


def talk(*numbers: object) -> list[Message]:
    return [said("user", {"text": f"{number}"}) for number in numbers]


# ── Keys and bytes ────────────────────────────────────────────────────────────────────────────────


def test_bytes_come_back_as_they_were(store: clew.Store) -> None:
    storage = Blocking(ClewStorage(store))
    assert isinstance(storage.storage, Storage)
    for key, data in {"a": b"", "b/c": b"\x00\xff", "b/鷺": "鷺".encode(), latest(): b"no snapshot"}.items():
        storage.write(key, data)
        assert storage.read(key) == data
    storage.write("a", bytearray(b"again"))

    assert storage.read("a") == b"again"
    assert storage.read("b") is None
    assert storage.list("") == sorted(["a", "b/c", "b/鷺", latest()])


def test_keys_are_listed_by_a_literal_prefix(store: clew.Store) -> None:
    storage = Blocking(ClewStorage(store))
    keys = [latest(), latest("other"), fixed(1), fixed(2), "session/talk/notes", "memory/%_*", "memory"]
    for key in keys:
        storage.write(key, snapshot_of(talk(1)))
    place = "session/talk/scopes/agent/default"

    prefixes = ["", "s", "session/", "session/talk/", "memory/%", "memory/_", "x", fixed(1)]
    for prefix in [
        *prefixes,
        *(place + rest for rest in ("", "/", "/snap", "/snapshots/", "/snapshots/imm")),
    ]:
        assert storage.list(prefix) == sorted(key for key in keys if key.startswith(prefix)), prefix


def test_a_deleted_key_is_gone_and_an_unknown_one_is_no_error(store: clew.Store) -> None:
    storage = Blocking(ClewStorage(store))
    for key in ("a", latest(), fixed(1)):
        storage.write(key, snapshot_of(talk(1)))
    for key in ("a", latest(), "never", latest("never"), latest()):
        storage.delete(key)

    assert storage.list("") == [fixed(1)]
    assert storage.read(latest()) is None
    storage.delete(fixed(1))
    assert storage.list("") == []
    assert [info.id for info in store.list(deleted=True)] == [f"strands/{latest().split('/snapshots')[0]}"]
    storage.write(latest(), snapshot_of(talk(2)))
    assert texts(store) == ["2"]


def test_keys_are_made_plain_or_refused(quick: Any) -> None:
    quick.write("//a///b/", b"1")

    assert quick.list("/a//") == ["a/b"]
    assert quick.read("a/b") == b"1"
    for bad in ("", "/", "a\\b", "a/../b", "a" * 600):
        with pytest.raises(StorageError):
            quick.write(bad, b"")


def test_a_namespace_sees_its_own(memory: clew.Store) -> None:
    root = ClewStorage(memory)
    scoped = root.namespace("x").namespace("y/")
    storage = Blocking(scoped)
    storage.write("words", b"grey heron")
    Blocking(root).write("words", b"grey heron")

    assert storage.list("") == ["words"]
    assert Blocking(root).list("x") == ["x/y/words"]
    assert [found.key for found in storage.search("heron")] == ["words"]
    assert len(Blocking(root).search("heron")) == 2
    assert _resolve_namespace(scoped, "session") is scoped
    assert _resolve_namespace(root, "session") is not root


def test_storages_of_other_names_are_others(memory: clew.Store) -> None:
    one, other = Blocking(ClewStorage(memory)), Blocking(ClewStorage(memory, "other"))
    one.write(latest(), snapshot_of(talk(1)))
    one.write("a", b"1")

    assert other.list("") == []
    assert other.read(latest()) is None


def test_a_search_strategy_is_told_of_what_is_written(memory: clew.Store) -> None:
    told: list[tuple[str, bytes]] = []

    class Strategy:
        async def index(self, storage: Any, key: str, data: bytes, **kwargs: Any) -> None:
            if key == "bad":
                raise ValueError
            told.append((key, data))

        async def search(self, storage: Any, query: str, **kwargs: Any) -> Any:
            return [query]

    storage = Blocking(ClewStorage(memory, search_strategy=Strategy()))
    storage.write("/a", b"1")

    assert told == [("a", b"1")]
    assert storage.search("x") == ["x"]
    with pytest.raises(StorageError, match="indexing failed"):
        storage.write("bad", b"1")


# ── Snapshots ─────────────────────────────────────────────────────────────────────────────────────


def test_each_message_of_a_growing_snapshot_is_written_once(store: clew.Store) -> None:
    storage = Blocking(ClewStorage(store))
    for count in range(1, 8):
        data = snapshot_of(talk(*range(count)), turn=count)
        storage.write(latest(), data)
        assert storage.read(latest()) == data

    assert len(kept(store).tree().branches) == 1
    assert texts(store) == [str(number) for number in range(7)]
    assert sum(len(content) for _, content in kept(store).documents()) < 1500


def test_a_window_that_slides_over_repeated_words_copies_nothing(memory: clew.Store, quick: Any) -> None:
    quick.write(latest(), snapshot_of(talk("yes", "yes", 1, 2)))
    quick.write(latest(), snapshot_of(talk("yes", 1, 2, 3)))

    assert texts(memory) == ["yes", "yes", "1", "2", "3"]
    assert len(kept(memory).tree().branches) == 1


def test_snapshots_with_an_id_stay_what_they_are(store: clew.Store) -> None:
    storage = Blocking(ClewStorage(store))
    written = {}
    for number in range(1, 5):
        data = snapshot_of(talk(*range(2 * number)), number=number)
        for key in (fixed(number), latest()):
            storage.write(key, data)
            written[key] = data
    back = snapshot_of(talk(0, 1, "another way"))  # somebody restored the first one, and went on
    storage.write(latest(), back)
    written[latest()] = back

    assert {key: storage.read(key) for key in written} == written
    assert texts(store) == ["0", "1", "another way"]


def test_the_latest_is_not_newer_than_it_was_written(quick: Any) -> None:
    first, second = snapshot_of(talk(0)), snapshot_of(talk(0, 1))
    quick.write(latest(), first)
    quick.write(fixed(1), second)

    assert quick.read(latest()) == first
    assert quick.read(fixed(1)) == second


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(talk(0, 1, "changed"), id="the last one is redacted"),
        pytest.param(talk("changed", 1, 2), id="the first one is changed"),
        pytest.param(talk("summary", 2), id="a summary instead of the first ones"),
        pytest.param(talk(0), id="some are taken away"),
        pytest.param(talk(1, 2, 1, 2, 3), id="some are said twice"),
        pytest.param([], id="all are taken away"),
    ],
)
def test_whatever_becomes_of_the_messages_the_bytes_come_back(
    memory: clew.Store, quick: Any, after: list[Message]
) -> None:
    for messages in (talk(0, 1, 2), after, [*after, *talk("more")], talk(0, 1, 2, 3), after):
        data = snapshot_of(messages, state="x")
        quick.write(latest(), data)
        assert quick.read(latest()) == data


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(snapshot_of([said("user", {"json": float("nan")})]), id="NaN"),
        pytest.param(snapshot_of([]) + b" ", id="more behind it"),
        pytest.param(snapshot_of(talk(1)).replace(b", ", b","), id="without spaces"),
        pytest.param(snapshot_of(talk(1, 2)).replace(b'}, {"role"', b'},  {"role"'), id="other spaces"),
        pytest.param(snapshot_of(talk(1))[:-30], id="cut off"),
        pytest.param(snapshot_of(talk(1)).replace(b"user", b"\xff\xfe"), id="no UTF-8"),
        pytest.param(snapshot_of(["no message", 1]), id="no objects"),
        pytest.param(snapshot_of(talk('] , \\ " 鷺 \0 {"data": {"messages": ['), key="]"), id="brackets"),
        pytest.param(snapshot_of([{"content": [{"n": 2**70, "f": 1e300, "e": {}}]}]), id="large numbers"),
        pytest.param(snapshot_of([{"content": "x" * 100_000}]), id="large"),
    ],
)
def test_odd_snapshots_come_back_byte_for_byte(quick: Any, data: bytes) -> None:
    quick.write(latest(), snapshot_of(talk(0)))
    quick.write(latest(), data)
    assert quick.read(latest()) == data
    after = snapshot_of(talk(0, 1))
    quick.write(latest(), after)
    assert quick.read(latest()) == after


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.sampled_from(["a", "b", "c", '], "x"', "鷺"]), max_size=7)),
        max_size=7,
    )
)
def test_any_series_of_snapshots_comes_back(series: list[tuple[bool, list[str]]]) -> None:
    with clew.open("memory:") as store:
        storage = Blocking(ClewStorage(store))
        written: dict[str, bytes] = {}
        for number, (is_latest, words) in enumerate(series):
            key = latest() if is_latest else fixed(number)
            written[key] = snapshot_of(talk(*words), number=number)
            storage.write(key, written[key])
            assert {each: storage.read(each) for each in written} == written


def test_a_copied_store_has_the_same_snapshots(memory: clew.Store, quick: Any, tmp_path: Path) -> None:
    written = {fixed(1): snapshot_of(talk(0, 1)), latest(): snapshot_of(talk(0, 1, 2)), "memory/x": b"1"}
    for key, data in written.items():
        quick.write(key, data)
    clew.copy(memory, tmp_path / "copy.db")

    with clew.open(tmp_path / "copy.db") as copied:
        storage = Blocking(ClewStorage(copied))
        assert {key: storage.read(key) for key in storage.list("")} == written


def test_two_writers_of_one_snapshot_leave_one_of_theirs(store: clew.Store) -> None:
    snapshots = [snapshot_of(talk(0, f"{number}")) for number in range(8)]

    async def write_all() -> None:
        storages = [ClewStorage(store) for _ in snapshots]
        await asyncio.gather(
            *(storage.write(latest(), data) for storage, data in zip(storages, snapshots, strict=True))
        )

    Blocking(ClewStorage(store)).write(latest(), snapshot_of(talk(0)))
    asyncio.run(write_all())

    assert Blocking(ClewStorage(store)).read(latest()) in snapshots


def test_a_summary_leaves_the_title_and_a_redaction_does_not(memory: clew.Store, quick: Any) -> None:
    def tracked(id: str, words: str) -> Any:
        return {**said("user", {"text": words}), "tracking_id": id}

    quick.write(latest(), snapshot_of([tracked("a", "the first words"), tracked("b", "more")]))
    quick.write(latest(), snapshot_of([tracked("c", "a summary"), tracked("b", "more")]))
    assert kept(memory).info.title == "the first words"

    quick.write(latest(), snapshot_of([tracked("c", "[blocked]"), tracked("b", "more")]))
    assert kept(memory).info.title == "[blocked]"


def test_tokens_are_counted_once_however_often_a_message_is_told(memory: clew.Store, quick: Any) -> None:
    def answer(id: str, tokens: int) -> Any:
        usage = {"inputTokens": tokens, "outputTokens": 1, "totalTokens": tokens + 1}
        return {**said("assistant", {"text": id}), "tracking_id": id, "metadata": {"usage": usage}}

    quick.write(latest(), snapshot_of([answer("a", 10), answer("b", 20)]))
    quick.write(latest(), snapshot_of([answer("summary", 30), answer("b", 20)]))
    quick.write(latest(), snapshot_of([answer("summary", 99), answer("b", 20)]))

    totals = kept(memory).usage()
    assert (totals.calls, totals.input_tokens) == (3, 60)


def test_a_rewound_session_is_what_the_next_agent_gets(store: clew.Store) -> None:
    storage = ClewStorage(store)
    blocking = Blocking(storage)
    written = snapshot_of(talk(0, 1, 2, 3), kept=True)
    blocking.write(latest(), written)
    blocking.write(fixed(1), written)
    session = storage.session("talk")
    session.rewind(1)

    found = json.loads(blocking.read(latest()))["data"]

    assert [number_of(message) for message in found["messages"]] == ["0", "1"]
    assert found["state"] == {"kept": True}
    assert blocking.read(fixed(1)) == written
    session.undo()
    assert blocking.read(latest()) == written
    session.append({"role": "user", "content": "from outside"})
    assert json.loads(blocking.read(latest()))["data"]["messages"][-1] == talk("from outside")[0]


def test_a_fork_has_the_snapshots_and_goes_its_own_way(store: clew.Store) -> None:
    storage = ClewStorage(store)
    blocking = Blocking(storage)
    written = snapshot_of(talk(0, 1))
    blocking.write(fixed(1), written)
    blocking.write(latest(), written)
    storage.fork_session("talk", "other")
    blocking.write(latest(), snapshot_of(talk(0, 1, 2)))

    assert blocking.read(latest("other")) == written
    assert blocking.read(fixed(1).replace("talk", "other")) == written
    other = snapshot_of(talk(0, 1, "other"))
    blocking.write(latest("other"), other)
    assert blocking.read(latest("other")) == other
    assert latest("other") in blocking.list("session/other/")
    with pytest.raises(clew.SessionExistsError):
        storage.fork_session("talk", "other")


def test_under_a_run_nobody_else_writes(memory: clew.Store, quick: Any) -> None:
    quick.write(latest(), snapshot_of(talk(0)))
    after = snapshot_of(talk(0, 1))
    with quick.storage.session("talk").run("mine") as run:
        with pytest.raises(StorageError, match="lease"):
            quick.write(latest(), snapshot_of(talk(0, "theirs")))
        Blocking(ClewStorage(memory, run=run)).write(latest(), after)

    assert quick.read(latest()) == after
