"""A LangGraph agent whose threads are Clew sessions: resumed, searched, forked. No network, no model.

python examples/langgraph_agent.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

import clew
from clew.adapters.langgraph import ClewSaver

ANSWERS = {
    "What stands in the shallow water?": "A grey heron, waiting for a fish.",
    "And on the branch?": "A kingfisher, waiting as well.",
    "And in the reeds?": "A bittern, which nobody sees.",
}

STORY = [
    "the agent answered: A grey heron, waiting for a fish.",
    "a new process went on: A kingfisher, waiting as well.",
    "listed: birds, 4 messages, 'What stands in the shallow water?'",
    "found 'heron' in birds",
    "forked after the first answer: A bittern, which nobody sees.",
    "both are kept: 4 messages in birds, 4 in birds-2",
]


def model(state: MessagesState) -> dict[str, Any]:
    """Stands in for a language model."""
    return {"messages": [AIMessage(ANSWERS[str(state["messages"][-1].content)])]}


def agent(store: clew.Store) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=ClewSaver(store))


def ask(graph: Any, thread: str, question: str) -> str:
    config = {"configurable": {"thread_id": thread}}
    done = graph.invoke({"messages": [HumanMessage(question)]}, config)
    return str(done["messages"][-1].content)


def main(directory: Path) -> None:
    first, second, third = ANSWERS
    with clew.open(directory / "agents.db") as store:
        print("the agent answered:", ask(agent(store), "birds", first))
        ClewSaver(store).copy_thread("birds", "birds-2")

    # Nothing of the first store object is left: this is what a new process sees.
    with clew.open(directory / "agents.db") as store:
        print("a new process went on:", ask(agent(store), "birds", second))
        info = store.get("birds").info
        print(f"listed: {info.id}, {info.messages} messages, {info.title!r}")
        print("found 'heron' in", store.search("heron", session="birds")[0].session)
        print("forked after the first answer:", ask(agent(store), "birds-2", third))
        counts = [store.get(id).info.messages for id in ("birds", "birds-2")]
        print(f"both are kept: {counts[0]} messages in birds, {counts[1]} in birds-2")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as found:
            main(Path(found))
