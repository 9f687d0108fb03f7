"""What a retention rule removed is gone from the threads of LangGraph too, and nothing else is."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph, add_messages

import clew
from clew.adapters.langgraph import ClewSaver


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def answer(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]}


def graph(saver: ClewSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("model", answer)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


THREAD: Any = {"configurable": {"thread_id": "talk"}}


def texts(agent: Any) -> list[str]:
    return [message.content for message in agent.get_state(THREAD).values["messages"]]


def test_a_thread_goes_on_without_the_messages_that_were_removed(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        agent = graph(saver)
        for number in range(6):
            agent.invoke({"messages": [HumanMessage(f"question {number} " * 20)]}, THREAD)
        before = [found.config for found in saver.list(THREAD)]
        store.set_retention(clew.Retention(max_messages=4))
        store.sweep()

        for one in (agent, graph(ClewSaver(store))):  # whatever a saver remembers
            assert [text[:10] for text in texts(one)] == [
                "question 4",
                "answer to ",
                "question 5",
                "answer to ",
            ]
        left = [found.config for found in saver.list(THREAD)]
        assert left == [config for config in before if config in left]
        assert 0 < len(left) < len(before)
        assert saver.get_tuple(before[-2]) is None
        agent.invoke({"messages": [HumanMessage("question 6")]}, THREAD)
        assert len(texts(agent)) == 6


def test_threads_with_removed_messages_are_copied_and_pruned(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        agent = graph(saver)
        for number in range(4):
            agent.invoke({"messages": [HumanMessage(f"question {number} " * 20)]}, THREAD)
        store.set_retention(clew.Retention(max_messages=4))
        store.sweep()
        store.set_retention(clew.Retention())

        saver.copy_thread("talk", "copy")
        saver.prune(["talk"])

        copied = saver.get_tuple({"configurable": {"thread_id": "copy"}})
        assert copied is not None
        assert [each.content for each in copied.checkpoint["channel_values"]["messages"]] == texts(agent)
        assert len(list(saver.list(THREAD))) == 1
