"""The files of an agent are kept by the hooks, and come back with its conversation or without it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

import clew
from clew.adapters.claude import ClewSessionStore
from examples import claude_agent
from tests.adapters.claude.lines import KEY, PROJECT, SESSION, turn

run = asyncio.run


async def _await(work: Awaitable[Any]) -> Any:
    return await work


class Agent:
    """Does what the program does: hooks around each turn, then the lines of the turn."""

    def __init__(self, store: clew.Store, root: Path) -> None:
        self.database, self.root = store, root
        self.store = ClewSessionStore(store)
        self.files = self.store.file_checkpoints(root)

    def call(self, event: str, **more: Any) -> Any:
        path = f"/somewhere/projects/{PROJECT}/{SESSION}.jsonl"
        asked = {"session_id": SESSION, "transcript_path": path, "cwd": str(self.root), **more}
        ((matcher,),) = [found for name, found in self.files.hooks.items() if name == event]
        (hook,) = matcher.hooks
        given: Any = {"hook_event_name": event, **asked}
        context: Any = {"signal": None}
        return run(_await(hook(given, None, context)))

    def take_turn(self, number: int, **files: str) -> None:
        assert self.call("UserPromptSubmit", prompt=f"question {number}") == {}
        for name, text in files.items():
            (self.root / name).write_text(text)
        assert self.call("Stop", stop_hook_active=False) == {}
        run(self.store.append(KEY, turn(number)))

    def seen(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in self.root.iterdir()}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "root").mkdir()
    with clew.open(tmp_path / "agents.db") as store:
        agent = Agent(store, tmp_path / "root")
        agent.take_turn(1, colour="blue")
        agent.take_turn(2, colour="red", size="big")
        yield agent


def test_a_checkpoint_is_taken_before_each_prompt(agent: Agent) -> None:
    found = agent.store.session(KEY).checkpoints()

    assert [one.name for one in found] == ["prompt-1", "prompt-2"]
    assert [one.state for one in found] == [{"prompt": "question 1"}, {"prompt": "question 2"}]
    assert [one.position for one in found] == [-1, 1]


@pytest.mark.parametrize("to", ["prompt-2", "q2", "a2"])
def test_files_come_back_and_the_conversation_stays(agent: Agent, to: str) -> None:
    planned = run(agent.files.rewind_files(KEY, to, dry_run=True))
    assert agent.seen() == {"colour": "red", "size": "big"}
    run(agent.files.rewind_files(KEY, to))

    assert {change.path for change in planned.changes} == {"colour", "size"}
    assert agent.seen() == {"colour": "blue"}
    assert run(agent.store.load(KEY)) == [*turn(1), *turn(2)]


def test_files_and_conversation_go_back_together_and_forth_again(agent: Agent) -> None:
    run(agent.files.rewind(KEY, "prompt-2"))
    assert (agent.seen(), run(agent.store.load(KEY))) == ({"colour": "blue"}, turn(1))

    agent.store.session(KEY).undo()
    assert agent.seen() == {"colour": "red", "size": "big"}
    assert run(agent.store.load(KEY)) == [*turn(1), *turn(2)]


def test_names_of_checkpoints_are_not_used_twice(agent: Agent) -> None:
    run(agent.files.rewind(KEY, "prompt-2"))
    agent.store.session(KEY).checkpoint("prompt-of-mine")
    agent.take_turn(3, colour="green")

    names = {one.name for one in agent.store.session(KEY).checkpoints()}
    assert names == {"prompt-1", "prompt-2", "prompt-3", "prompt-of-mine"}


@pytest.mark.parametrize("on_conflict", ["keep", "overwrite"])
def test_what_people_changed_since_is_kept_if_that_is_asked_for(agent: Agent, on_conflict: Any) -> None:
    (agent.root / "colour").write_text("mine")
    report = run(agent.files.rewind_files(KEY, "prompt-2", on_conflict=on_conflict))

    is_kept = on_conflict == "keep"
    assert report.conflicts == ("colour",)
    assert [one.path for one in report.kept] == (["colour"] if is_kept else [])
    assert agent.seen() == {"colour": "mine" if is_kept else "blue"}


def test_of_the_snapshots_after_turns_only_the_last_is_kept(agent: Agent) -> None:
    agent.take_turn(3, colour="green")

    kinds = [one.kind for one in agent.database.snapshots()]
    assert kinds.count("snapshot") == 1
    assert kinds.count("checkpoint") == 3


def test_the_agent_goes_on_when_its_files_can_not_be_kept(agent: Agent) -> None:
    for file in agent.root.iterdir():
        file.unlink()
    agent.root.rmdir()

    assert "not kept" in agent.call("UserPromptSubmit", prompt="go on")["systemMessage"]
    assert "not kept" in agent.call("Stop")["systemMessage"]


def test_checkpoints_are_taken_while_a_run_has_the_lease(agent: Agent) -> None:
    with agent.store.session(KEY).run("mine"):
        assert agent.call("UserPromptSubmit", prompt="\ud83d go on") == {}

    assert agent.store.session(KEY).get_checkpoint("prompt-3").state == {"prompt": "? go on"}


def test_a_session_without_lines_is_unknown_to_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with clew.open("memory:") as store:
        agent = Agent(store, tmp_path / "root")
        agent.call("UserPromptSubmit", prompt="hello")

        assert run(agent.store.load(KEY)) is None
        assert run(agent.store.list_sessions(PROJECT)) == []
        assert run(agent.store.list_session_summaries(PROJECT)) == []


def test_the_hooks_are_those_of_the_sdk(agent: Agent) -> None:
    options = ClaudeAgentOptions(session_store=agent.store, hooks=agent.files.hooks)

    assert options.hooks is not None
    assert set(options.hooks) == {"UserPromptSubmit", "Stop"}


def test_the_loop_of_the_sdk_resumes_rewinds_and_searches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`query()` drives a program that speaks its protocol; only the model behind it is scripted."""
    claude_agent.main(tmp_path)

    expected = [
        "> write blue to colour.txt",
        "Done. I remember 0 earlier prompts.",
        "> write red to colour.txt",
        "Done. I remember 1 earlier prompt.",
        "-- a new store object resumes",
        "> write big to size.txt",
        "Done. I remember 2 earlier prompts.",
        "-- back to before the second prompt, with the files",
        "['colour.txt: blue']",
        "> write green to colour.txt",
        "Done. I remember 1 earlier prompt.",
        "-- nothing is lost",
        "'write blue to colour.txt' has 2 branches",
        "found: 'write red to colour.txt', on the path: False",
    ]
    assert expected == capsys.readouterr().out.splitlines()
