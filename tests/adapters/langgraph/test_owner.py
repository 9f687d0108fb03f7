"""Which sessions a saver writes to: threads of LangGraph, and with a run only the one that it is a run of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.talk import chat, human, put, say, thread
from tests.support.rows import each_row

Act = Callable[[ClewSaver], Any]

WRITES: dict[str, Act] = {
    "put": lambda saver: put(saver, thread("other"), {"messages": [human("x")]}),
    "aput": lambda saver: asyncio.run(saver.aput(thread("other"), empty_checkpoint(), {}, {})),
    "put_writes": lambda saver: saver.put_writes(thread("other", id="1"), [("a", 1)], "task"),
    "aput_writes": lambda saver: asyncio.run(saver.aput_writes(thread("other", id="1"), [("a", 1)], "task")),
    "delete_thread": lambda saver: saver.delete_thread("other"),
    "adelete_thread": lambda saver: asyncio.run(saver.adelete_thread("other")),
    "copy_thread": lambda saver: saver.copy_thread("talk", "other"),
    "prune": lambda saver: saver.prune(["other"]),
    "delete_for_runs": lambda saver: saver.delete_for_runs(["run-1"]),
}


# -- with a run


@each_row("act", WRITES.values())
def test_a_saver_with_a_run_refuses_to_write_to_another_thread(act: Act) -> None:
    with clew.open("memory:") as store:
        there = put(ClewSaver(store), thread("other"), {"messages": [human("a")]}, run_id="run-1")
        say(chat(ClewSaver(store)), "hi", thread())
        with store.get("talk").run("work") as run, pytest.raises(clew.InvalidError, match=r"'talk'.*'other'"):
            act(ClewSaver(store, run=run))

        assert [one.config for one in ClewSaver(store).list(thread("other"))] == [there]


def test_a_saver_with_a_run_makes_no_thread_but_its_own(store: clew.Store) -> None:
    with store.session("talk", metadata={"framework": "langgraph"}).run("work") as run:
        saver = ClewSaver(store, run=run)
        assert say(chat(saver), "one", thread())[0] == "one"
        with pytest.raises(clew.InvalidError, match=r"'talk'.*'new'"):
            say(chat(saver), "one", thread("new"))
        assert saver.get_tuple(thread("new")) is None  # reading is free

    assert store.find("new") is None


def test_the_thread_of_a_run_may_be_named_by_an_alias(store: clew.Store) -> None:
    say(chat(ClewSaver(store)), "one", thread())
    session = store.get("talk")
    session.add_alias("chat")
    with session.run("work") as run:
        graph = chat(ClewSaver(store, run=run))
        assert len(graph.invoke({"messages": [HumanMessage("two")]}, thread("chat"))["messages"]) == 4


# -- sessions of others


TOUCHES: dict[str, Act] = {
    **{name: act for name, act in WRITES.items() if name != "delete_for_runs"},
    "get_tuple": lambda saver: saver.get_tuple(thread("other")),
    "aget_tuple": lambda saver: asyncio.run(saver.aget_tuple(thread("other"))),
    "get_tuple of an id": lambda saver: saver.get_tuple(thread("other", id="1")),
    "list": lambda saver: list(saver.list(thread("other"))),
    "list of all namespaces": lambda saver: list(saver.list({"configurable": {"thread_id": "other"}})),
    "delta history": lambda saver: saver.get_delta_channel_history(config=thread("other"), channels=["a"]),
    "copy from it": lambda saver: saver.copy_thread("other", "new"),
    "session": lambda saver: saver.session("other"),
}


@each_row("framework", ["strands", None])
@each_row("act", TOUCHES.values())
def test_a_session_of_another_framework_is_refused_and_untouched(act: Act, framework: str | None) -> None:
    with clew.open("memory:") as store:
        put(ClewSaver(store), thread(), {"messages": [human("mine")]})
        metadata = {} if framework is None else {"framework": framework}
        other = store.create("other", metadata=metadata)
        other.append({"role": "user", "content": "theirs"})
        other.set_document("theirs", b"1")
        before = other.info

        with pytest.raises(clew.errors.SessionTakenError, match="other"):
            act(ClewSaver(store))

        assert store.get("other").info == before
        assert store.get("other").documents() == [("theirs", b"1")]
        assert store.find("new") is None
