"""What the SDK writes into a `ClewSessionStore` comes back: each line once, in order, however often sent."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.adapters.claude import ClewSessionStore, transcript
from tests.adapters.claude.lines import AGENT, KEY, PROJECT, SESSION, Line, line, replies, says, turn
from tests.support.rows import each_row

run = asyncio.run


@pytest.fixture
def adapter(store: clew.Store) -> ClewSessionStore:
    return ClewSessionStore(store)


def loaded(adapter: ClewSessionStore, key: Any = KEY) -> list[Line]:
    return run(adapter.load(key)) or []


def write(adapter: ClewSessionStore, *lines: Line, key: Any = KEY) -> None:
    run(adapter.append(key, list(lines)))


# -- lines that come again


def test_a_batch_that_comes_again_adds_nothing(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1))
    write(adapter, *turn(1))

    assert loaded(adapter) == turn(1)


def test_of_a_batch_that_came_in_part_the_rest_is_added_in_order(adapter: ClewSessionStore) -> None:
    first, second, third = says("one", "u1"), replies("two", "u2"), says("three", "u3")
    write(adapter, first, third)
    write(adapter, first, second, third, second)

    assert loaded(adapter) == [first, third, second]


def test_a_line_with_a_known_uuid_and_other_words_is_passed_over(adapter: ClewSessionStore) -> None:
    write(adapter, says("as it was", "u1"))
    write(adapter, says("otherwise", "u1"), says("new", "u2"))

    assert loaded(adapter) == [says("as it was", "u1"), says("new", "u2")]


@pytest.mark.parametrize("uuid", [None, "", 7])
def test_lines_without_a_uuid_are_always_added(adapter: ClewSessionStore, uuid: Any) -> None:
    mark = {"type": "mode", **({} if uuid is None else {"uuid": uuid})}
    write(adapter, mark, mark)
    write(adapter, mark)

    assert loaded(adapter) == [mark] * 3


def test_a_uuid_may_be_any_text(adapter: ClewSessionStore) -> None:
    odd = [
        says(str(number), uuid) for number, uuid in enumerate(["x" * 600, "a/b", "~", "\0", "é", "summary"])
    ]
    write(adapter, *odd)
    write(adapter, *odd)

    assert loaded(adapter) == odd


def test_a_uuid_counts_for_its_own_transcript_only(adapter: ClewSessionStore) -> None:
    write(adapter, says("of the session", "u1"))
    write(adapter, says("of the agent", "u1"), key=AGENT)

    assert loaded(adapter) == [says("of the session", "u1")]
    assert loaded(adapter, AGENT) == [says("of the agent", "u1")]


def test_a_late_batch_does_not_undo_a_rewind(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1), *turn(2))
    adapter.session(KEY).rewind(1)
    write(adapter, *turn(2))

    assert loaded(adapter) == turn(1)


def test_the_same_batch_from_two_writers_at_once_is_there_once(tmp_path: Path) -> None:
    lines = [said for number in range(20) for said in turn(number)]

    def send() -> None:
        with clew.open(tmp_path / "agents.db") as store:
            for number in range(20):
                write(ClewSessionStore(store), *turn(number))

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with clew.open(tmp_path / "agents.db") as store:
        assert sorted(map(str, loaded(ClewSessionStore(store)))) == sorted(map(str, lines))


# -- what comes back


@pytest.mark.parametrize(
    "value",
    [
        "\0",
        "half a pair \ud83d",
        {"\udc00": ["\ud800"]},
        10**30,
        -0.0,
        1.0,
        1e-7,
        [None, True, {}, []],
        "鷺" * 3000,
    ],
    ids=repr,
)
def test_whatever_json_can_say_comes_back_equal(adapter: ClewSessionStore, value: Any) -> None:
    lines = [says("before", "u1"), {"type": "x", "uuid": "u2", "value": value}, says("after", "u3")]
    write(adapter, *lines)
    write(adapter, *lines)

    found = loaded(adapter)

    assert found == lines
    assert type(found[1]["value"]) is type(value)


def test_what_is_no_json_is_refused_with_its_place_and_nothing_is_kept(adapter: ClewSessionStore) -> None:
    with pytest.raises(clew.errors.InvalidEntryError, match="value"):
        write(adapter, says("good", "u1"), {"type": "x", "value": {1, 2}})

    assert run(adapter.load(KEY)) is None


def test_nobody_can_change_what_is_stored_from_outside(adapter: ClewSessionStore) -> None:
    mine = [says("as it was", "u1")]

    async def change() -> None:
        writing = asyncio.ensure_future(adapter.append(KEY, mine))
        await asyncio.sleep(0)
        mine[0]["message"]["content"] = "otherwise"
        await writing

    run(change())
    loaded(adapter)[0]["message"]["content"] = "otherwise"

    assert loaded(adapter) == [says("as it was", "u1")]


def test_an_append_of_nothing_leaves_no_trace(adapter: ClewSessionStore, store: clew.Store) -> None:
    write(adapter)

    assert run(adapter.load(KEY)) is None
    assert len(store.list()) == 0


def test_keys_with_slashes_do_not_meet(adapter: ClewSessionStore) -> None:
    keys: list[Any] = [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a%2Fb", "session_id": "c"},
        {"project_key": "p" * 600, "session_id": "c"},
    ]
    for number, key in enumerate(keys):
        write(adapter, says(str(number), "u"), key=key)

    assert [loaded(adapter, key) for key in keys] == [[says(str(number), "u")] for number in range(5)]
    listed = {key["project_key"]: run(adapter.list_sessions(key["project_key"])) for key in keys}
    assert [sorted(one["session_id"] for one in found) for found in listed.values()] == [
        ["c"],
        ["b/c"],
        ["c"],
        ["c"],
    ]
    assert run(adapter.list_subkeys({"project_key": "a", "session_id": "b"})) == ["c"]

    run(adapter.delete(keys[0]))
    assert [bool(loaded(adapter, key)) for key in keys] == [False, True, True, True, True]


# -- deleting


def test_a_deleted_session_takes_its_agents_along_and_can_be_brought_back(
    adapter: ClewSessionStore, store: clew.Store
) -> None:
    write(adapter, *turn(1))
    write(adapter, *turn(1), key=AGENT)
    second: Any = {**AGENT, "subpath": "subagents/agent-a2"}
    nobody: Any = {**KEY, "session_id": "nobody"}
    write(adapter, *turn(2), key=second)
    run(adapter.delete(second))
    write(adapter, *turn(3), key=second)
    run(adapter.delete(KEY))

    assert (run(adapter.load(KEY)), run(adapter.load(AGENT))) == (None, None)
    assert adapter.restore_deleted(KEY).messages() == turn(1)
    assert loaded(adapter) == loaded(adapter, AGENT) == turn(1)
    assert run(adapter.list_subkeys(KEY)) == ["subagents/agent-a1", "subagents/agent-a2"]
    assert loaded(adapter, second) == turn(3)  # the one deleted last
    with pytest.raises(clew.NotFoundError):
        adapter.restore_deleted(nobody)


def test_what_is_written_after_a_delete_is_all_there_is(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1))
    run(adapter.delete(KEY))
    write(adapter, *turn(1)[:1])

    assert loaded(adapter) == turn(1)[:1]


def test_forks_survive_what_they_came_from(adapter: ClewSessionStore, store: clew.Store) -> None:
    write(adapter, *turn(1), key=AGENT)
    fork = adapter.session(AGENT).fork()
    run(adapter.delete(KEY))

    assert run(adapter.list_subkeys(KEY)) == []
    assert store.get(fork.id).messages() == turn(1)


# -- going back


def test_the_agent_resumes_where_the_session_was_rewound_to(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1), *turn(2))
    session = adapter.session(KEY)
    point = adapter.entry(KEY, "a1")
    assert point is not None
    session.rewind(point)

    assert loaded(adapter) == turn(1)
    write(adapter, *turn(3))
    assert loaded(adapter) == [*turn(1), *turn(3)]
    found = adapter.entry(KEY, "a2")
    assert found is not None
    assert session.messages(at=found) == [*turn(1), *turn(2)]
    assert adapter.entry(KEY, "nobody") is None
    assert adapter.entry({"project_key": PROJECT, "session_id": "nobody"}, "a2") is None


def test_a_fork_is_a_session_of_the_sdk_too(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1), *turn(2))
    other = "6c8b6a77-94a5-4a09-9d2e-0d6c7e2b1a02"
    adapter.session(KEY).fork(f"{PROJECT}/{other}", at=1)
    key: Any = {"project_key": PROJECT, "session_id": other}
    write(adapter, *turn(3), says("cut \ud83d", "u4"), key=key)

    assert loaded(adapter, key) == [*turn(1), *turn(3), says("cut \ud83d", "u4")]
    assert loaded(adapter) == [*turn(1), *turn(2)]
    names = [one["session_id"] for one in run(adapter.list_sessions(PROJECT))]
    assert names == [other, SESSION]
    assert [one["session_id"] for one in run(adapter.list_session_summaries(PROJECT))] == names


@pytest.mark.parametrize("base", ["there", "deleted"])
def test_a_batch_that_comes_again_in_a_fork_is_stored_once(adapter: ClewSessionStore, base: str) -> None:
    write(adapter, *turn(1), *turn(2))
    adapter.session(KEY).fork(f"{PROJECT}/other").fork(f"{PROJECT}/third", at=1)
    key: Any = {"project_key": PROJECT, "session_id": "third"}
    other: Any = {**key, "session_id": "other"}
    if base == "deleted":
        run(adapter.delete(KEY))
        run(adapter.delete(other))
    assert adapter.entry(key, "a1") is not None
    assert adapter.entry(key, "a2") is None

    for _ in range(2):
        write(adapter, *turn(1), *turn(2), *turn(3), key=key)  # of the second it has nothing so far

    assert loaded(adapter, key) == [*turn(1), *turn(2), *turn(3)]


def test_a_fork_has_the_lines_of_its_base_as_they_came(adapter: ClewSessionStore) -> None:
    write(adapter, says("cut \ud83d", "u1"), *turn(1))
    fork = adapter.session(KEY).fork(f"{PROJECT}/other").fork(f"{PROJECT}/third")
    key: Any = {"project_key": PROJECT, "session_id": "third"}

    assert fork.info.messages == 3
    assert loaded(adapter, key) == [says("cut \ud83d", "u1"), *turn(1)]


def test_a_worker_with_the_lease_writes_through_its_run(url: str) -> None:
    async def work() -> list[Line]:
        async with clew.open_async(url) as store:
            await ClewSessionStore(store).append(KEY, turn(1))
            session = await store.get(ClewSessionStore(store).session(KEY).id)
            async with session.run("mine") as mine:
                await ClewSessionStore(store, run=mine).append(KEY, turn(2))
                with pytest.raises(clew.LeaseHeldError):
                    await ClewSessionStore(store).append(KEY, turn(3))
            return await ClewSessionStore(store).load(KEY) or []

    assert run(work()) == [*turn(1), *turn(2)]


# -- what Clew knows of it


def test_the_session_says_what_its_transcript_says(adapter: ClewSessionStore) -> None:
    answer = replies("hello", "u2")
    answer["message"]["model"] = "some-model"
    write(adapter, says("Where do herons sleep?", "u1"), answer)
    session = adapter.session(KEY)
    before = session.info
    session.update(tags=["mine"])
    write(adapter, {"type": "ai-title", "aiTitle": "Herons"}, {"type": "tag", "tag": "birds"})
    by_program = session.info
    write(
        adapter, {"type": "custom-title", "customTitle": "Roosts"}, {"type": "ai-title", "aiTitle": "Later"}
    )
    write(adapter, {"type": "tag", "tag": ""})

    assert (before.title, before.title_is_auto, before.model) == (
        "Where do herons sleep?",
        True,
        "some-model",
    )
    assert (before.workspace_given, before.vendor) == ("/birds", "anthropic")
    assert (by_program.title, by_program.tags) == ("Herons", ("mine", "birds"))
    assert (session.info.title, session.info.tags) == ("Roosts", ("mine",))


def test_an_agent_is_linked_to_its_session(adapter: ClewSessionStore, store: clew.Store) -> None:
    write(adapter, *turn(1))
    write(adapter, says("Count the herons", "u1", isSidechain=True), key=AGENT)
    info = adapter.session(AGENT).info

    assert info.title == "Count the herons"
    assert info.user_turns == 0
    assert [one.id for one in store.list(where={"parent": adapter.session(KEY).id})] == [info.id]


@each_row(
    "odd",
    [
        {"type": "tag", "tag": "x" * 600},
        {"type": "custom-title", "customTitle": "x" * 600},
        {"type": "custom-title", "customTitle": "\ud800"},
        {"type": "user", "cwd": "/a\0b"},
        {"type": "assistant", "message": {"model": {}}},
        line("assistant", 7),
        line("user", [None, 3, {"type": None}]),
    ],
)
def test_odd_lines_are_kept_as_they_are(odd: Line) -> None:
    with clew.open("memory:") as store:
        adapter = ClewSessionStore(store)
        write(adapter, odd)
        write(adapter, odd)

        assert loaded(adapter) == [odd, odd]


def test_a_failure_behind_the_lines_takes_them_back(
    adapter: ClewSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(adapter, *turn(1))

    def fail(*_: object) -> None:
        raise RuntimeError("no summary")

    with monkeypatch.context() as patched:
        patched.setattr(transcript, "fold", fail)
        with pytest.raises(RuntimeError, match="no summary"):
            write(adapter, *turn(2))

    assert loaded(adapter) == turn(1)
    write(adapter, *turn(2))
    assert loaded(adapter) == [*turn(1), *turn(2)]
