"""Retention rules beside threads of LangGraph: every checkpoint that is listed can be read, and what a rule
removed is gone from a thread when it goes on."""

from __future__ import annotations

import operator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph import add_messages

import clew
from clew.adapters.langgraph import ClewSaver
from clew.core.log.digest import ZSTD, unpack
from tests.adapters.langgraph.talk import one_node


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]


def answer(state: State) -> dict[str, Any]:
    said = state["messages"][-1].content
    return {"messages": [AIMessage(f"answer to {said}")], "notes": [f"noted {len(state['messages'])}" * 50]}


def graph(saver: ClewSaver) -> Any:
    builder = one_node(State, "model", answer)
    return builder.compile(checkpointer=saver)


THREAD: Any = {"configurable": {"thread_id": "talk"}}

RULES = {
    "nothing": clew.Retention(max_messages=1000),
    "count": clew.Retention(max_messages=4),
    "one": clew.Retention(max_messages=1),
    "bytes": clew.Retention(max_message_bytes=2000),
    "age": clew.Retention(message_age=timedelta(microseconds=1)),
    "idle": clew.Retention(max_idle=timedelta(microseconds=1)),
    "trash": clew.Retention(max_idle=timedelta(microseconds=1), purge_after=timedelta(microseconds=1)),
}


def texts(agent: Any) -> list[str]:
    return [message.content for message in agent.get_state(THREAD).values["messages"]]


def ask(agent: Any, *numbers: int, thread: Any = THREAD) -> None:
    for number in numbers:
        agent.invoke({"messages": [HumanMessage(f"question {number} " * 20)], "notes": []}, thread)


def everything_reads(saver: ClewSaver, config: Any) -> int:
    """Read each checkpoint that is listed, as it is listed and by its own name."""
    count = 0
    for listed in saver.list(config):
        named = saver.get_tuple(listed.config)
        assert named is not None
        assert named.checkpoint == listed.checkpoint
        assert named.pending_writes == listed.pending_writes
        count += 1
    return count


def content(session: clew.Session) -> bytes:
    """All that the documents of a session say."""
    documents = (document for _, document in session.documents())
    return b"".join(unpack(ZSTD, each[1:]) if each[:1] == b"z" else each for each in documents)


@pytest.mark.parametrize("rule", RULES)
def test_every_checkpoint_that_is_listed_can_be_read_after_any_rule(url: str, rule: str) -> None:
    fork: Any = {"configurable": {"thread_id": "fork"}}
    copy: Any = {"configurable": {"thread_id": "copy"}}
    with clew.open(url) as store:
        saver = ClewSaver(store)
        agent = graph(saver)
        agent.update_state(THREAD, {"messages": [SystemMessage("be kind")], "notes": []})
        ask(agent, 0, 1, 2, 3)
        newest = agent.get_state(THREAD).values["messages"][-1]
        agent.update_state(THREAD, {"messages": [RemoveMessage(newest.id)]})  # a branch that was left
        ask(agent, 4)
        saver.session("talk").fork("fork", at=3)
        ask(agent, 5, thread=fork)
        saver.copy_thread("talk", "copy")

        store.set_retention(RULES[rule])
        store.sweep()
        store.sweep()
        store.set_retention(clew.Retention())

        for config in (THREAD, fork, copy):
            for one in (saver, ClewSaver(store)):  # whatever a saver remembers
                everything_reads(one, config)
            before = len(agent.get_state(config).values.get("messages", ()))
            ask(agent, 6, thread=config)
            assert len(agent.get_state(config).values["messages"]) == before + 2
            assert everything_reads(saver, config) > 0
            assert everything_reads(ClewSaver(store), config) > 0


def test_a_thread_goes_on_without_the_messages_that_were_removed(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        agent = graph(saver)
        ask(agent, *range(6))
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
        assert [found.config for found in saver.list(THREAD)] == before
        ask(agent, 6)
        left = [found.config for found in saver.list(THREAD)]
        assert [config for config in before if config in left] == left[3:]
        assert 0 < len(left[3:]) < len(before)
        assert saver.get_tuple(before[-2]) is None
        assert len(texts(agent)) == 6


@pytest.mark.parametrize("is_known", [True, False])
def test_no_document_tells_what_was_removed_once_the_thread_went_on(url: str, is_known: bool) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        ask(graph(saver), *range(6))
        saver.copy_thread("talk", "copy")  # a thread that nobody uses again
        store.set_retention(clew.Retention(max_messages=4))
        store.sweep()
        assert b"question 0" in content(store.get("talk"))

        ask(graph(saver if is_known else ClewSaver(store)), 6)

        told = content(store.get("talk"))
        assert [number for number in range(7) if f"question {number}".encode() in told] == [4, 5, 6]
        saver.prune(["copy"])
        told = content(store.get("copy"))
        assert [number for number in range(7) if f"question {number}".encode() in told] == []


def test_other_values_of_a_state_outlive_the_messages(url: str) -> None:
    with clew.open(url) as store:
        agent = graph(ClewSaver(store))
        ask(agent, *range(6))
        notes = agent.get_state(THREAD).values["notes"]
        store.set_retention(clew.Retention(max_messages=2))
        store.sweep()

        ask(agent, 6)

        assert agent.get_state(THREAD).values["notes"][:-1] == notes


def test_threads_with_removed_messages_are_copied_and_pruned(url: str) -> None:
    with clew.open(url) as store:
        saver = ClewSaver(store)
        agent = graph(saver)
        ask(agent, *range(4))
        store.set_retention(clew.Retention(max_messages=4))
        store.sweep()
        store.set_retention(clew.Retention())

        saver.copy_thread("talk", "copy")
        saver.prune(["talk"])

        copied = saver.get_tuple({"configurable": {"thread_id": "copy"}})
        assert copied is not None
        assert [each.content for each in copied.checkpoint["channel_values"]["messages"]] == texts(agent)
        assert len(list(saver.list(THREAD))) == 1


def test_a_thread_without_removed_messages_keeps_its_checkpoints(tmp_path: Path) -> None:
    """Though a rule removed messages of another thread of the store."""
    with clew.open(tmp_path / "agents.db") as store:
        saver = ClewSaver(store)
        agent = graph(saver)
        ask(agent, 0, 1)
        ask(agent, *range(6), thread={"configurable": {"thread_id": "long"}})
        store.set_retention(clew.Retention(max_messages=4))
        store.sweep()

        ask(agent, 2)

        assert len(list(saver.list(THREAD))) == 9
