"""Lists and summaries of the SDK over a `ClewSessionStore`, and the helpers that the SDK builds on them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

import clew
from clew.adapters import common
from clew.adapters.claude import ClewSessionStore
from tests.adapters.claude.lines import AGENT, KEY, PROJECT, SESSION, Line, replies, says, turn

run = asyncio.run

OTHER = "6c8b6a77-94a5-4a09-9d2e-0d6c7e2b1a02"
DIRECTORY = "/birds"


@pytest.fixture
def adapter(store: clew.Store) -> ClewSessionStore:
    return ClewSessionStore(store)


def write(adapter: ClewSessionStore, *lines: Line, key: Any = KEY) -> None:
    run(adapter.append(key, list(lines)))


def summary(adapter: ClewSessionStore) -> dict[str, Any]:
    (found,) = run(adapter.list_session_summaries(PROJECT))
    return found["data"]


def folded(lines: Any) -> dict[str, Any]:
    return sdk.fold_session_summary(None, KEY, lines or [])["data"]


TAGGED = {"type": "tag", "tag": "birds", "uuid": "t1"}
CLEARED = {"type": "tag", "tag": "", "uuid": "t2"}


def test_a_summary_is_folded_over_new_lines_only(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1), TAGGED, CLEARED)
    write(adapter, TAGGED, *turn(2))

    assert "tag" not in summary(adapter)
    assert summary(adapter)["first_prompt"] == "question 1"


def test_a_summary_is_that_of_the_path_wherever_the_session_goes(adapter: ClewSessionStore) -> None:
    """Random appends and moves of the head: at each step the summary is what the SDK makes of the lines."""
    rng = random.Random(7)
    kinds: list[Callable[[int], Any]] = [
        lambda n: says(f"question {n}", f"u{n}", gitBranch=f"branch-{n % 3}"),
        lambda n: replies(f"answer {n}", f"u{n}", timestamp=f"2026-11-15T09:00:{n % 60:02}Z"),
        lambda n: {"type": "tag", "tag": rng.choice(["", "a", "b"])},
        lambda n: {"type": "custom-title", "customTitle": f"title {n}"},
    ]
    write(adapter, *turn(0))
    session = adapter.session(KEY)
    for number in range(40):
        step = rng.random()
        if step < 0.2:
            session.rewind(rng.randrange(session.info.messages))
        elif step < 0.3 and number > 10:
            session.undo()
        else:
            write(adapter, *(rng.choice(kinds)(3 * number + extra) for extra in range(rng.randint(1, 3))))
        if session.info.messages:
            assert summary(adapter) == folded(run(adapter.load(KEY)))


def test_a_summary_is_written_only_when_it_changes(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1))
    kept = adapter.session(KEY).get_document("summary")
    write(adapter, *turn(2))
    assert adapter.session(KEY).get_document("summary") == kept

    write(adapter, TAGGED)
    assert adapter.session(KEY).get_document("summary") != kept


def test_times_are_those_of_the_store_and_never_go_back(adapter: ClewSessionStore, store: clew.Store) -> None:
    times = []
    for number in range(5):
        write(adapter, *turn(number))
        (listed,) = run(adapter.list_sessions(PROJECT))
        (summed,) = run(adapter.list_session_summaries(PROJECT))
        times.append(listed["mtime"])
        assert summed["mtime"] >= listed["mtime"]
    assert times == sorted(times)
    assert times[-1] == int(adapter.session(KEY).info.updated_at.timestamp() * 1000)
    write(adapter, *turn(0))
    assert run(adapter.list_sessions(PROJECT))[0]["mtime"] == times[-1]


def test_sessions_of_one_millisecond_are_listed_in_their_order() -> None:
    with clew.open("memory:") as store:
        adapter = ClewSessionStore(store)
        for number in range(30):
            write(adapter, says("hi"), key={"project_key": PROJECT, "session_id": f"s{number:02}"})

        listed = run(adapter.list_sessions(PROJECT))
        times = [one["mtime"] for one in listed]

        assert [one["session_id"] for one in listed] == [f"s{number:02}" for number in reversed(range(30))]
        assert times == sorted(set(times), reverse=True)
        assert [one["mtime"] for one in run(adapter.list_session_summaries(PROJECT))] == times


def test_agents_are_listed_under_their_session_oldest_first(adapter: ClewSessionStore) -> None:
    for name in ("b", "a", "nested/c"):
        write(adapter, says("go", "u1"), key={**KEY, "subpath": f"subagents/{name}"})

    assert run(adapter.list_subkeys(KEY)) == ["subagents/b", "subagents/a", "subagents/nested/c"]
    assert run(adapter.list_sessions(PROJECT)) == []


def test_more_sessions_than_a_page_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "_PAGE", 3)
    with clew.open("memory:") as store:
        adapter = ClewSessionStore(store)
        for number in range(10):
            write(adapter, {"type": "mode"}, key={"project_key": PROJECT, "session_id": f"s{number}"})

        assert len(run(adapter.list_sessions(PROJECT))) == 10


# -- the helpers of the SDK


class Counting(ClewSessionStore):
    loads = 0

    async def load(self, key: Any) -> Any:
        self.loads += 1
        return await super().load(key)


def of_project(key: Any) -> Any:
    return {**key, "project_key": sdk.project_key_for_directory(DIRECTORY)}


def test_sessions_are_listed_without_loading_them(store: clew.Store) -> None:
    adapter = Counting(store)
    write(adapter, *turn(1), key=of_project(KEY))
    write(adapter, *turn(2), key=of_project({**KEY, "session_id": OTHER}))
    adapter.session(of_project(KEY)).rewind(0)

    found = run(sdk.list_sessions_from_store(adapter, directory=DIRECTORY))

    assert [one.summary for one in found] == ["question 1", "question 2"]
    assert adapter.loads == 0


def test_renaming_tagging_forking_and_deleting_work(adapter: ClewSessionStore) -> None:
    key = of_project(KEY)
    write(adapter, says("hello", "11111111-1111-4111-8111-111111111111"), key=key)

    async def work() -> tuple[Any, Any, Any]:
        await sdk.rename_session_via_store(adapter, SESSION, "Herons", directory=DIRECTORY)
        await sdk.tag_session_via_store(adapter, SESSION, "birds", directory=DIRECTORY)
        info = await sdk.get_session_info_from_store(adapter, SESSION, directory=DIRECTORY)
        forked = await sdk.fork_session_via_store(adapter, SESSION, directory=DIRECTORY)
        messages = await sdk.get_session_messages_from_store(adapter, forked.session_id, directory=DIRECTORY)
        await sdk.delete_session_via_store(adapter, SESSION, directory=DIRECTORY)
        return info, messages, await sdk.list_sessions_from_store(adapter, directory=DIRECTORY)

    info, messages, left = run(work())

    assert (info.custom_title, info.tag, info.first_prompt) == ("Herons", "birds", "hello")
    assert [one.message["content"] for one in messages] == ["hello"]
    assert [one.custom_title for one in left] == ["Herons (fork)"]


def test_the_messages_of_agents_are_read(adapter: ClewSessionStore) -> None:
    write(adapter, *turn(1), key=of_project(KEY))
    write(adapter, *turn(2), {"type": "agent_metadata", "agentType": "counter"}, key=of_project(AGENT))

    async def work() -> tuple[list[str], Any]:
        agents = await sdk.list_subagents_from_store(adapter, SESSION, directory=DIRECTORY)
        return agents, await sdk.get_subagent_messages_from_store(
            adapter, SESSION, agents[0], directory=DIRECTORY
        )

    agents, messages = run(work())

    assert agents == ["a1"]
    assert "question 2" in [one.message["content"] for one in messages]


def test_a_local_session_is_imported_and_again_adds_nothing(
    adapter: ClewSessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "projects" / PROJECT
    agents = folder / SESSION / "subagents"
    agents.mkdir(parents=True)
    lines = [said for number in range(7) for said in turn(number)]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / f"{SESSION}.jsonl").write_text(text)
    (agents / "agent-a1.jsonl").write_text(text)
    for _ in range(2):
        run(sdk.import_session_to_store(SESSION, adapter, batch_size=4))

    assert run(adapter.load(KEY)) == lines
    assert run(adapter.load(AGENT)) == lines
