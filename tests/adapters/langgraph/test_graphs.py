"""Graphs that run on a Clew store, with a scripted model."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import clew
from clew.adapters.langgraph import ClewSaver
from examples import langgraph_agent
from tests.adapters.langgraph.talk import chat, echo, one_node, say, texts, thread, values

CONFIG: Any = {"configurable": {"thread_id": "talk"}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "agents.db") as store:
        yield store


@pytest.fixture
def saver(store: clew.Store) -> ClewSaver:
    return ClewSaver(store)


def test_a_conversation_goes_on_in_a_new_store(tmp_path: Path) -> None:
    for number, text in enumerate(("one", "two", "three")):
        with clew.open(tmp_path / "talk.db") as store:
            said = say(chat(ClewSaver(store)), text, CONFIG)
            assert len(said) == 2 * (number + 1)
    assert said == ["one", "1: you said one", "two", "3: you said two", "three", "5: you said three"]


def test_a_thread_is_a_session_that_clew_can_list_search_and_export(
    store: clew.Store, saver: ClewSaver
) -> None:
    say(chat(saver), "where is the grey heron", CONFIG)

    (listed,) = saver.threads()
    assert (listed.id, listed.title) == ("talk", "where is the grey heron")
    assert [found.session for found in store.search("heron", role="assistant")] == ["talk"]
    assert "1: you said where is the grey heron" in store.export("talk", "markdown")
    assert saver.session("talk").info.user_turns == 1


def test_an_interrupt_waits_for_a_new_process_to_resume(store: clew.Store) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        allowed = interrupt("may I?")
        return {"messages": [AIMessage(f"you said {allowed}")]}

    def graph() -> Any:
        builder = one_node(MessagesState, "ask", ask)
        return builder.compile(checkpointer=ClewSaver(store))

    waiting = graph().invoke({"messages": [HumanMessage("delete it")]}, CONFIG)
    assert [each.value for each in waiting["__interrupt__"]] == ["may I?"]
    assert graph().get_state(CONFIG).next == ("ask",)

    done = graph().invoke(Command(resume="yes"), CONFIG)
    assert texts(done["messages"]) == ["delete it", "you said yes"]
    assert graph().get_state(CONFIG).next == ()


def test_replay_and_fork_leave_what_was_said_on_its_branch(store: clew.Store, saver: ClewSaver) -> None:
    graph = chat(saver)
    say(graph, "one", CONFIG)
    say(graph, "two", CONFIG)
    history = list(graph.get_state_history(CONFIG))
    old = next(state for state in history if len(state.values["messages"]) == 2)

    assert say(graph, "other", old.config) == ["one", "1: you said one", "other", "3: you said other"]
    forked = graph.update_state(old.config, {"messages": [HumanMessage("edited")]}, as_node="model")
    assert texts(graph.get_state(forked).values["messages"]) == ["one", "1: you said one", "edited"]

    again = chat(ClewSaver(store))
    assert [state.values for state in again.get_state_history(CONFIG)][-len(history) :] == [
        state.values for state in history
    ]
    assert len(saver.session("talk").tree().branches) == 3
    assert [message["content"] for message in saver.session("talk").messages()] == texts(
        again.get_state(CONFIG).values["messages"]
    )
    assert store.verify().ok


def test_removed_and_edited_messages(saver: ClewSaver) -> None:
    graph = chat(saver)
    say(graph, "one", CONFIG)
    first = graph.get_state(CONFIG).values["messages"][0]
    graph.update_state(CONFIG, {"messages": [HumanMessage("edited", id=first.id)]})
    assert texts(graph.get_state(CONFIG).values["messages"]) == ["edited", "1: you said one"]
    graph.update_state(CONFIG, {"messages": [RemoveMessage(id=first.id)]})
    assert texts(graph.get_state(CONFIG).values["messages"]) == ["1: you said one"]
    graph.update_state(CONFIG, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    assert graph.get_state(CONFIG).values["messages"] == []
    assert say(graph, "anew", CONFIG) == ["anew", "1: you said anew"]
    assert saver.session("talk").info.messages == 2


def test_tools_are_called_and_found(store: clew.Store, saver: ClewSaver) -> None:
    @tool
    def lookup(bird: str) -> str:
        """Where a bird is."""
        return f"the {bird} is with the kingfisher"

    def model(state: MessagesState) -> dict[str, Any]:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("found it")]}
        call = {"name": "lookup", "args": {"bird": "heron"}, "id": "call-1", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([lookup]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
    )
    builder.add_edge("tools", "model")
    done = builder.compile(checkpointer=saver).invoke({"messages": [HumanMessage("where")]}, CONFIG)

    assert values(ClewSaver(store), thread())["messages"] == done["messages"]
    (found,) = store.search("kingfisher", tools=True)
    assert found.in_tool
    assert "lookup" in store.export("talk", "markdown")


def test_subgraphs_keep_their_own_state(store: clew.Store, saver: ClewSaver) -> None:
    inner = StateGraph(MessagesState)
    inner.add_node("think", lambda state: {"messages": [AIMessage("thinking")]})
    inner.add_node("ask", lambda state: {"messages": [AIMessage(f"told: {interrupt('which?')}")]})
    inner.add_edge(START, "think")
    inner.add_edge("think", "ask")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile())
    outer.add_node("model", echo)
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "model")
    outer.compile(checkpointer=saver).invoke({"messages": [HumanMessage("hi")]}, CONFIG)

    graph = outer.compile(checkpointer=ClewSaver(store))
    state: Any = graph.get_state(CONFIG, subgraphs=True)
    assert texts(state.tasks[0].state.values["messages"]) == ["hi", "thinking"]
    done = graph.invoke(Command(resume="that"), CONFIG)
    assert texts(done["messages"]) == ["hi", "thinking", "told: that", "3: you said told: that"]
    assert saver.session("talk").info.messages == 4


def test_a_delta_channel_survives_pruning(store: clew.Store, saver: ClewSaver) -> None:
    class State(TypedDict):
        items: Annotated[list[str], DeltaChannel(operator.add, snapshot_frequency=1000)]

    builder = one_node(State, "noop", lambda state: {})
    graph = builder.compile(checkpointer=saver)
    for number in range(4):
        graph.invoke({"items": [f"item {number}"]}, CONFIG)
    before = graph.get_state(CONFIG).values
    saver.prune(["talk"])

    again = builder.compile(checkpointer=ClewSaver(store))
    assert again.get_state(CONFIG).values == before
    assert len(before["items"]) == 4


def test_a_copied_thread_goes_its_own_way(saver: ClewSaver) -> None:
    graph, copied = chat(saver), {"configurable": {"thread_id": "copy"}}
    say(graph, "one", CONFIG)
    saver.copy_thread("talk", "copy")
    say(graph, "two", CONFIG)

    assert say(graph, "other", copied) == ["one", "1: you said one", "other", "3: you said other"]
    assert texts(graph.get_state(CONFIG).values["messages"])[2:] == ["two", "3: you said two"]


def test_a_thread_goes_on_in_a_copy_of_its_store(store: clew.Store, saver: ClewSaver, tmp_path: Path) -> None:
    graph = chat(saver)
    say(graph, "one", CONFIG)
    old = graph.get_state(CONFIG).config
    say(graph, "two", CONFIG)
    say(graph, "other", old)
    history = [state.values for state in graph.get_state_history(CONFIG)]
    clew.copy(store, f"jsonl:///{tmp_path}/copy")
    store.export("talk", "jsonl", path=tmp_path / "talk.jsonl")

    with clew.open(f"jsonl:///{tmp_path}/copy") as copied, clew.open("memory:") as imported:
        imported.import_path(tmp_path / "talk.jsonl")
        for other in (copied, imported):
            again = chat(ClewSaver(other))
            assert [state.values for state in again.get_state_history(CONFIG)] == history
            assert say(again, "more", CONFIG)[-1] == "5: you said more"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_tasks_talk_in_many_threads_of_the_store_at_once(store: clew.Store, durability: Any) -> None:
    graph = chat(ClewSaver(clew.AsyncStore.over(store)))

    async def talk(name: str) -> list[str]:
        config = {"configurable": {"thread_id": name}}
        for text in ("one", "two"):
            asked = {"messages": [HumanMessage(f"{name} {text}")]}
            done = await graph.ainvoke(asked, config, durability=durability)
        listed = [state async for state in graph.aget_state_history(config)]
        assert texts(listed[0].values["messages"]) == texts(done["messages"])
        return texts(done["messages"])

    async def everybody() -> list[list[str]]:
        return await asyncio.gather(*(talk(f"t{number}") for number in range(4)))

    for number, said in enumerate(asyncio.run(everybody())):
        assert said == [
            f"t{number} one",
            f"1: you said t{number} one",
            f"t{number} two",
            f"3: you said t{number} two",
        ]


def test_one_saver_serves_several_threads_and_event_loops(saver: ClewSaver) -> None:
    graph, failures = chat(saver), []

    def work(number: int) -> None:
        config: Any = {"configurable": {"thread_id": f"t{number}"}}
        try:
            for turn in range(3):
                asked = {"messages": [HumanMessage(str(turn))]}
                done = (
                    graph.invoke(asked, config) if number % 2 else asyncio.run(graph.ainvoke(asked, config))
                )
            assert len(done["messages"]) == 6
        except BaseException as error:  # noqa: BLE001 (told below)
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def test_a_task_that_is_cancelled_leaves_a_thread_that_can_go_on(saver: ClewSaver) -> None:
    graph = chat(saver)

    async def cancel_some() -> None:
        for steps in range(0, 40, 8):
            running = asyncio.ensure_future(graph.ainvoke({"messages": [HumanMessage("x")]}, CONFIG))
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(cancel_some())
    said = say(graph, "at last", CONFIG)
    assert said[-2:] == ["at last", f"{len(said) - 1}: you said at last"]
    assert saver.session("talk").info.messages == len(said)


def test_a_saver_writes_under_the_lease_of_a_run(store: clew.Store, saver: ClewSaver) -> None:
    say(chat(saver), "one", CONFIG)
    with saver.session("talk").run("work") as run:
        graph = chat(ClewSaver(store, run=run))
        assert len(say(graph, "two", CONFIG)) == 4
        asyncio.run(graph.ainvoke({"messages": [HumanMessage("three")]}, CONFIG))
        with pytest.raises(clew.LeaseHeldError):
            say(chat(saver), "from elsewhere", CONFIG)

    assert saver.session("talk").info.messages == 6


def test_the_example_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    langgraph_agent.main(tmp_path)
    assert capsys.readouterr().out.splitlines() == langgraph_agent.STORY
