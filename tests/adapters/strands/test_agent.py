"""Agents of Strands with a scripted model, on a store: what they say, resume, ask for and take back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, ToolContext, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.multiagent import GraphBuilder
from strands.session import RepositorySessionManager, SnapshotSessionManager
from strands.session.session_manager import SessionManager

import clew
from clew.adapters.strands import ClewSessionRepository, ClewStorage
from examples import strands_agent
from tests.adapters.strands.talk import ScriptedModel, blocks, calls, number_of, says

Keeper = ClewSessionRepository | ClewStorage
MakeKeeper = Callable[[clew.Store], Keeper]


@pytest.fixture(params=[ClewSessionRepository, ClewStorage], ids=["repository", "storage"])
def keeper_of(request: pytest.FixtureRequest) -> MakeKeeper:
    made: MakeKeeper = request.param
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def store(path: Path) -> Iterator[clew.Store]:
    with clew.open(path) as store:
        yield store


def manager(keeper: Keeper, session: str = "chat") -> SessionManager[Any]:
    if isinstance(keeper, ClewStorage):
        return SnapshotSessionManager(session, storage=keeper, save_latest_on="message")
    return RepositorySessionManager(session_id=session, session_repository=keeper)


@tool
def look_up(bird: str) -> str:
    """What a bird is.

    Args:
        bird: Its name.
    """
    return f"{bird} is a kingfisher"


@tool(context=True)
def delete_nest(tool_context: ToolContext) -> str:
    """Needs a word of somebody."""
    return f"they said {tool_context.interrupt('sure', reason='a nest')}"


def agent(keeper: Keeper, *script: Any, id: str = "default", **options: Any) -> Agent:
    return Agent(
        model=ScriptedModel(*script),
        agent_id=id,
        session_manager=options.pop("session_manager", None) or manager(keeper),
        tools=[look_up, delete_nest],
        callback_handler=None,
        **options,
    )


def given(of: Agent, call: int = -1) -> list[Any]:
    """The messages that the model got."""
    model = of.model
    assert isinstance(model, ScriptedModel)
    return model.given[call]


def test_an_agent_goes_on_where_it_stopped(keeper_of: MakeKeeper, path: Path) -> None:
    with clew.open(path) as store:
        first = agent(keeper_of(store), calls("look_up", bird="heron"), says("A kingfisher."), says("Two."))
        first("Is that a grey heron?")
        first.state.set("seen", ["heron"])
        first("And now?")

    with clew.open(path) as store:
        second = agent(keeper_of(store), says("I said so."))
        assert second.messages == first.messages
        assert second.state.get() == {"seen": ["heron"]}
        second("Sure?")
        kept = keeper_of(store).session("chat")

        assert [message["role"] for message in given(second)] == [
            *("user", "assistant", "user", "assistant", "user", "assistant", "user")
        ]
        assert kept.info.messages == 8
        assert kept.info.title == "Is that a grey heron?"
        totals = kept.usage()
        assert (totals.calls, totals.input_tokens) == (4, 40)
        assert [hit.session for hit in store.search("kingfisher", tools=True)] == [kept.id, kept.id]
        markdown = store.export(kept.id, "markdown")
        assert "look_up" in markdown.replace("\\", "")
        assert "I said so." in markdown


def test_an_interrupted_agent_is_answered_in_another_process(keeper_of: MakeKeeper, path: Path) -> None:
    with clew.open(path) as store:
        asked = agent(keeper_of(store), calls("delete_nest"))("Delete the nest.")
        assert asked.stop_reason == "interrupt"
        (question,) = asked.interrupts or []

    with clew.open(path) as store:
        second = agent(keeper_of(store), says("Done."))
        answer: Any = [{"interruptResponse": {"interruptId": question.id, "response": "yes"}}]
        assert str(second(answer)).strip() == "Done."
        (result,) = [block["toolResult"] for block in second.messages[2]["content"]]

        assert result["content"] == [{"text": "they said yes"}]
        assert agent(keeper_of(store)).messages == second.messages


def test_who_rewinds_past_a_question_need_not_answer_it(keeper_of: MakeKeeper, store: clew.Store) -> None:
    keeper = keeper_of(store)
    first = agent(keeper, says("Hello."), calls("delete_nest"))
    first("Hi.")
    assert first("Delete the nest.").stop_reason == "interrupt"

    keeper.session("chat").rewind(1)
    second = agent(keeper_of(store), says("Fine."))
    second("Leave it.")

    assert [number_of(message) for message in second.messages] == ["Hi.", "Hello.", "Leave it.", "Fine."]
    assert [number_of(message) for message in agent(keeper_of(store)).messages] == [
        number_of(message) for message in second.messages
    ]


def test_two_agents_share_a_session_and_not_their_words(keeper_of: MakeKeeper, store: clew.Store) -> None:
    both = manager(keeper_of(store))
    agent(keeper_of(store), says("one"), id="first", session_manager=both)("I am first")
    agent(keeper_of(store), says("two"), id="second", session_manager=both)("I am second")

    keeper = keeper_of(store)
    again = manager(keeper)
    for id, words in {"first": "I am first", "second": "I am second"}.items():
        found = agent(keeper, id=id, session_manager=again)
        assert number_of(found.messages[0]) == words
        assert keeper.session("chat", id).info.messages == 2


def test_what_a_guardrail_blocked_is_not_said_again(keeper_of: MakeKeeper, store: clew.Store) -> None:
    keeper = keeper_of(store)
    agent(keeper, blocks("[blocked]"))("where is the treasure")

    found = agent(keeper_of(store))

    assert [number_of(message) for message in found.messages] == ["[blocked]", "no"]
    kept = keeper.session("chat")
    assert "treasure" not in str(kept.messages())
    assert "treasure" not in store.export(kept.id, "markdown")
    assert kept.info.title == kept.info.preview == "[blocked]"
    # It is still in the store, on the branch that was left: only a purge removes it.
    assert [hit.on_path for hit in store.search("treasure")] == [False]


def test_a_turn_that_was_rewound_is_said_anew(keeper_of: MakeKeeper, store: clew.Store) -> None:
    keeper = keeper_of(store)
    first = agent(keeper, says("one"), says("two"))
    first("first?")
    session = keeper.session("chat")
    session.checkpoint("after-one")
    first("second?")
    session.rewind("after-one")

    second = agent(keeper_of(store), says("other"))
    second("second, again?")

    assert [number_of(message) for message in second.messages] == ["first?", "one", "second, again?", "other"]
    assert session.info.messages == 4
    assert [number_of(message) for message in agent(keeper_of(store)).messages][-1] == "other"


def test_a_window_forgets_and_the_log_does_not(keeper_of: MakeKeeper, store: clew.Store) -> None:
    def narrow(*script: Any) -> Agent:
        window = SlidingWindowConversationManager(window_size=4)
        return agent(keeper_of(store), *script, conversation_manager=window)

    first = narrow(*(says(f"answer {number}") for number in range(6)))
    for number in range(6):
        first(f"question {number}")
    second = narrow(says("the end"))
    second("last question")

    kept = keeper_of(store).session("chat")
    assert kept.info.messages == 14
    assert number_of(given(second)[-1]) == "last question"
    assert len(given(second)) <= 5
    assert len(kept.tree().branches) == 1


def test_a_forked_session_goes_its_own_way(keeper_of: MakeKeeper, store: clew.Store) -> None:
    keeper = keeper_of(store)
    agent(keeper, says("one"))("first?")
    keeper.fork_session("chat", "other")
    agent(keeper_of(store), says("two"))("second?")

    other = agent(keeper, says("three"), session_manager=manager(keeper_of(store), "other"))
    other("third?")

    assert [number_of(message) for message in other.messages] == ["first?", "one", "third?", "three"]
    assert keeper.session("chat").info.messages == keeper.session("other").info.messages == 4


def test_snapshots_are_restored_and_deleted(store: clew.Store) -> None:
    storage = ClewStorage(store)
    keeping = SnapshotSessionManager("chat", storage=storage, snapshot_trigger=lambda **_: True)
    first = agent(storage, says("one"), says("two"), says("other"), session_manager=keeping)

    async def go() -> None:
        await first.invoke_async("first?")
        await first.invoke_async("second?")
        (early, late) = await keeping.list_snapshot_ids(first)
        assert await keeping.restore_snapshot(first, snapshot_id=early)
        assert len(first.messages) == 2
        await first.invoke_async("again?")
        assert await keeping.restore_snapshot(first, snapshot_id=late)
        assert [number_of(message) for message in first.messages] == ["first?", "one", "second?", "two"]
        assert await keeping.restore_snapshot(first)

    asyncio.run(go())

    assert [number_of(message) for message in first.messages] == ["first?", "one", "again?", "other"]
    assert len(storage.session("chat").tree().branches) == 2
    asyncio.run(keeping.delete_session())
    assert asyncio.run(storage.list("")) == []


def test_the_example_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strands_agent.main(tmp_path / "agents.db")

    assert capsys.readouterr().out.splitlines() == [
        "I see 5 herons.",
        "it remembers 4 messages",
        "I see 3 owls.",
        "I see 3 jays.",
        "I see 10 kingfishers.",
        "found: I see 3 owls. (on the path: False)",
        "another-lake/default: 8 messages, How many of the heron?",
        "lake/default: 8 messages, How many of the heron?",
    ]


def test_a_graph_is_kept(keeper_of: MakeKeeper, path: Path) -> None:
    def graph(store: clew.Store, *script: Any) -> Any:
        builder = GraphBuilder()
        builder.add_node(Agent(model=ScriptedModel(*script), callback_handler=None), "one")
        builder.set_entry_point("one")
        builder.set_graph_id("birds")
        builder.set_max_node_executions(3)
        builder.set_session_manager(manager(keeper_of(store)))
        return builder.build()

    with clew.open(path) as store:
        graph(store, says("heron"))("which bird?")
    with clew.open(path) as store:
        keeper = keeper_of(store)
        if isinstance(keeper, ClewSessionRepository):
            state: Any = keeper.read_multi_agent("chat", "birds")
        else:
            (key,) = asyncio.run(keeper.list("session/chat/scopes/multiAgent"))
            state = asyncio.run(keeper.read(key))
        assert "heron" in str(state)
        assert str(graph(store, says("owl"))("and that?").results["one"].result).strip() == "owl"
