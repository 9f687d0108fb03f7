"""Threads that Clew rewound or forked go on from there."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import MessagesState, add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.talk import found, human, one_node, put, say, texts, thread, values
from tests.adapters.langgraph.test_messages import Backwards
from tests.support.rows import each_row

CONFIG: Any = {"configurable": {"thread_id": "talk"}}
FORK: Any = {"configurable": {"thread_id": "fork"}}


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    plan: str
    steps: Annotated[list[str], operator.add]


def planner(saver: ClewSaver) -> Any:
    """A graph whose state has more than messages: a long text, and a list that grows."""

    def model(state: State) -> dict[str, Any]:
        count = len(state["messages"])
        return {
            "messages": [AIMessage(f"{count}: heard {state['messages'][-1].content}")],
            "plan": f"plan {count} " * 40,
            "steps": [f"step {count} " * 60],
        }

    builder = one_node(State, "model", model)
    return builder.compile(checkpointer=saver)


def state_of(store: clew.Store, config: Any = CONFIG) -> dict[str, Any]:
    """The state as a saver finds it that knows nothing."""
    return dict(planner(ClewSaver(store)).get_state(config).values)


# -- rewound


def test_a_turn_after_a_rewind_builds_on_the_state_of_that_point_and_undo_leads_back(
    store: clew.Store,
) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    early = graph.get_state(CONFIG)
    say(graph, "two", CONFIG)
    late = graph.get_state(CONFIG)
    session = store.get("talk")

    session.rewind(1)
    for each in (graph, planner(ClewSaver(store))):
        assert each.get_state(CONFIG).values == early.values
        assert each.get_state(CONFIG).next == ()
    assert graph.get_state(CONFIG).config == early.config
    session.undo()
    assert graph.get_state(CONFIG).values == late.values
    session.redo()
    assert say(graph, "other", CONFIG) == ["one", "1: heard one", "other", "3: heard other"]
    assert len(graph.get_state(CONFIG).values["steps"]) == 2
    assert [each["content"] for each in session.messages()] == texts(
        graph.get_state(CONFIG).values["messages"]
    )
    session.undo()
    assert state_of(store) == late.values
    assert say(graph, "three", CONFIG)[2:] == ["two", "3: heard two", "three", "5: heard three"]
    assert store.verify().ok


def test_a_rewind_to_a_question_lets_the_model_answer_it_again(store: clew.Store) -> None:
    asked: list[str] = []

    def model(state: State) -> dict[str, Any]:
        asked.append(str(state["messages"][-1].content))
        return {"messages": [AIMessage(f"answer {len(asked)}")]}

    builder = one_node(State, "model", model)
    graph = builder.compile(checkpointer=ClewSaver(store))
    say(graph, "one", CONFIG)
    say(graph, "two", CONFIG)
    store.get("talk").rewind(2)

    assert graph.get_state(CONFIG).next == ("model",)
    assert texts(graph.invoke(None, CONFIG)["messages"]) == ["one", "answer 1", "two", "answer 3"]
    assert asked == ["one", "two", "two"]
    again = builder.compile(checkpointer=ClewSaver(store))
    assert texts(again.get_state(CONFIG).values["messages"])[-1] == "answer 3"
    store.get("talk").undo()
    assert texts(again.get_state(CONFIG).values["messages"])[-1] == "answer 2"


def test_an_approval_can_be_given_another_way_after_a_rewind(store: clew.Store) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {interrupt('may I?')}")]}

    builder = one_node(MessagesState, "ask", ask)
    graph = builder.compile(checkpointer=ClewSaver(store))
    graph.invoke({"messages": [HumanMessage("delete it")]}, CONFIG)
    graph.invoke(Command(resume="yes"), CONFIG)
    store.get("talk").rewind(0)

    waiting = builder.compile(checkpointer=ClewSaver(store))
    assert waiting.get_state(CONFIG).next == ("ask",)
    assert [each.value for each in waiting.invoke(None, CONFIG)["__interrupt__"]] == ["may I?"]
    done = graph.invoke(Command(resume="no"), CONFIG)
    assert texts(done["messages"]) == ["delete it", "you said no"]


def test_a_thread_that_was_cleared_begins_anew_and_comes_back(store: clew.Store) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    before = state_of(store)
    store.get("talk").clear()

    assert graph.get_state(CONFIG).values == {}
    assert say(graph, "anew", CONFIG) == ["anew", "1: heard anew"]
    assert len(graph.get_state(CONFIG).values["steps"]) == 1
    store.get("talk").undo()
    assert state_of(store) == before


def test_a_rewind_between_branches_of_langgraph_finds_the_state_of_each(store: clew.Store) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    first = graph.get_state(CONFIG)
    say(graph, "left", CONFIG)
    left, at_left = graph.get_state(CONFIG).values, store.get("talk").head
    say(graph, "right", first.config)
    right, at_right = graph.get_state(CONFIG).values, store.get("talk").head

    session = store.get("talk")
    for head, expected in ((at_left, left), (at_right, right), (1, first.values), (at_left, left)):
        session.rewind(head)
        assert graph.get_state(CONFIG).values == expected
        assert state_of(store) == expected
    assert say(graph, "more", CONFIG)[2:] == ["left", "3: heard left", "more", "5: heard more"]


def test_marks_and_remarks_from_outside_do_not_hide_the_latest_checkpoint(store: clew.Store) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    before = graph.get_state(CONFIG)
    session = store.get("talk")
    session.set_summary("they met")
    session.append({"role": "user", "content": "a remark from outside"})
    session.compact("what was before")

    assert graph.get_state(CONFIG) == before
    assert state_of(store) == before.values


def test_a_rewound_thread_that_is_pruned_keeps_the_state_that_it_stands_at(store: clew.Store) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    before = state_of(store)
    say(graph, "two", CONFIG)
    store.get("talk").rewind(1)
    ClewSaver(store).prune(["talk"])

    assert state_of(store) == before


def test_what_a_subgraph_remembers_is_rewound_too(store: clew.Store) -> None:
    inner = one_node(State, "count", lambda state: {"steps": [f"turn {len(state.get('steps', []))}"]})
    kept = inner.compile(checkpointer=True)

    def outer(state: State) -> dict[str, Any]:
        steps = kept.invoke({"plan": "x"})["steps"]
        return {"messages": [AIMessage(f"{len(steps)} turns")]}

    builder = one_node(State, "outer", outer)
    graph = builder.compile(checkpointer=ClewSaver(store))
    assert [say(graph, text, CONFIG)[-1] for text in ("one", "two", "three")] == [
        "1 turns",
        "2 turns",
        "3 turns",
    ]
    store.get("talk").rewind(1)
    assert say(graph, "other", CONFIG)[-1] == "2 turns"
    assert say(builder.compile(checkpointer=ClewSaver(store)), "more", CONFIG)[-1] == "3 turns"


@each_row(("durability", "rewound", "forked"), [("sync", 2, 2), ("async", 2, 2), ("exit", 4, 2)])
def test_a_subgraph_remembers_what_the_how_to_says_after_each_way_back(
    durability: Any, rewound: int, forked: int
) -> None:
    """By LangGraph's time travel as with its own saver; by Clew what the subgraph knew at that point, unless
    LangGraph stores nothing of the root meanwhile."""
    inner = one_node(State, "count", lambda state: {"steps": ["turn"]}).compile(checkpointer=True)

    def outer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(str(len(inner.invoke({"plan": "x"})["steps"])))]}

    def ask(graph: Any, text: str | None, config: Any = CONFIG) -> int:
        given = None if text is None else {"messages": [HumanMessage(text)]}
        return int(graph.invoke(given, config, durability=durability)["messages"][-1].content)

    def travelled(saver: Any) -> list[int]:
        graph = one_node(State, "outer", outer).compile(checkpointer=saver)
        found = [ask(graph, text) for text in ("one", "two", "three")]
        states: Any = list(graph.get_state_history(CONFIG))
        old = next(one for one in states if len(one.values["messages"]) == 2 and not one.next)
        found.append(ask(graph, "other", old.config))
        asked = [one for one in states if len(one.values.get("messages", [])) == 3 and one.next]
        found += [ask(graph, None, one.config) for one in asked if one.next == ("outer",)]
        changed = graph.update_state(old.config, {"messages": [HumanMessage("new")]}, as_node="__start__")
        return [*found, ask(graph, None, changed), ask(graph, "more")]

    with clew.open("memory:") as store:
        assert travelled(ClewSaver(store)) == travelled(InMemorySaver())
    with clew.open("memory:") as store:
        graph = one_node(State, "outer", outer).compile(checkpointer=ClewSaver(store))
        assert [ask(graph, text) for text in ("one", "two", "three")] == [1, 2, 3]
        store.get("talk").rewind(1)
        assert ask(graph, "other") == rewound
        store.get("talk").undo()
        assert ask(graph, "four") == (5 if durability == "exit" else 4)
        store.get("talk").fork("copy", at=1)
        assert ask(graph, "other", {"configurable": {"thread_id": "copy"}}) == forked


def test_what_a_delta_channel_gathered_is_that_of_the_point(store: clew.Store) -> None:
    class Deltas(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        items: Annotated[list[str], DeltaChannel(operator.add, snapshot_frequency=1000)]

    builder = one_node(Deltas, "model", lambda state: {"messages": [AIMessage("ok")], "items": ["answered"]})
    graph = builder.compile(checkpointer=ClewSaver(store))

    def items(state: Any) -> list[str]:
        return [item for added in state["items"] for item in added]

    def turn(text: str) -> list[str]:
        return items(graph.invoke({"messages": [HumanMessage(text)], "items": [text]}, CONFIG))

    turn("one")
    late = turn("two")
    store.get("talk").rewind(1)
    assert turn("other") == ["one", "answered", "other", "answered"]
    again = builder.compile(checkpointer=ClewSaver(store))
    assert items(again.get_state(CONFIG).values) == ["one", "answered", "other", "answered"]
    store.get("talk").undo()
    assert items(again.get_state(CONFIG).values) == late == ["one", "answered", "two", "answered"]


def test_a_rewind_is_seen_by_whoever_may_not_write(store: clew.Store) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    store.get("talk").rewind(0)
    with store.get("talk").run("work"):
        assert texts(planner(ClewSaver(store)).get_state(CONFIG).values["messages"]) == ["one"]


def test_threads_without_messages_have_nothing_to_be_rewound(store: clew.Store) -> None:
    serde = EncryptedSerializer(Backwards())
    saver = ClewSaver(store, serde=serde)
    first = put(saver, thread(), {"messages": [human("a")], "plan": "x"})
    second = put(saver, first, {"messages": [human("a"), human("b")], "plan": "y"})
    store.get("talk").clear()

    assert found(ClewSaver(store, serde=serde), thread()).config == second
    assert values(saver, thread())["plan"] == "y"


# -- forked


def talked(store: clew.Store) -> list[dict[str, Any]]:
    """Three turns; the state after each."""
    graph = planner(ClewSaver(store))
    states = []
    for text in ("one", "two", "three"):
        say(graph, text, CONFIG)
        states.append(state_of(store))
    return states


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_fork_begins_with_the_state_at_its_point_and_goes_its_own_way(store: clew.Store, turn: int) -> None:
    states = talked(store)
    store.get("talk").fork("fork", at=2 * turn - 1)
    saver = ClewSaver(store)
    graph = planner(saver)

    assert graph.get_state(FORK).values == states[turn - 1]
    assert graph.get_state(FORK).next == ()
    assert graph.get_state(FORK).config["configurable"]["thread_id"] == "fork"
    assert say(graph, "other", FORK)[2 * turn :] == ["other", f"{2 * turn + 1}: heard other"]
    assert len(state_of(store, FORK)["steps"]) == turn + 1
    assert state_of(store) == states[2]
    assert say(graph, "four", CONFIG)[-1] == "7: heard four"
    assert store.verify().ok


def test_the_history_of_a_fork_is_that_of_its_base_up_to_the_point(store: clew.Store) -> None:
    talked(store)
    whole = list(planner(ClewSaver(store)).get_state_history(CONFIG))
    shared = [state for state in whole if len(state.values.get("messages", [])) <= 4]
    shared = [state for state in shared if state.metadata["step"] < 5]  # not what came in for the third turn
    store.get("talk").fork("fork", at=3)

    saver = ClewSaver(store)
    listed = list(planner(saver).get_state_history(FORK))
    assert [state.values for state in listed] == [state.values for state in shared]
    assert {state.config["configurable"]["thread_id"] for state in listed} == {"fork"}
    parents = [state.parent_config["configurable"]["thread_id"] for state in listed if state.parent_config]
    assert set(parents) == {"fork"}
    assert len(parents) == len(listed) - 1
    old = listed[-3].config
    assert planner(saver).get_state(old).values == listed[-3].values


def test_forks_are_listed_by_their_own_names(store: clew.Store) -> None:
    talked(store)
    store.get("talk").fork("fork", at=1)
    second = store.get("fork").fork()
    saver = ClewSaver(store)

    names = {info.id: info.metadata["thread_id"] for info in saver.threads()}
    assert names == {"talk": "talk", "fork": "fork", second.id: second.id}
    listed = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
    assert listed == {"talk", "fork", second.id}
    assert state_of(store, {"configurable": {"thread_id": second.id}}) == state_of(store, FORK)


@pytest.mark.parametrize("is_read_before", [True, False])
def test_a_fork_outlives_the_purge_of_its_base(store: clew.Store, is_read_before: bool) -> None:
    states = talked(store)
    store.get("talk").fork("fork", at=3)
    if is_read_before:
        assert state_of(store, FORK) == states[1]
        store.delete("talk", purge=True)
    else:
        ClewSaver(store, purge=True).delete_thread("talk")

    assert state_of(store, FORK) == states[1]
    assert say(planner(ClewSaver(store)), "other", FORK)[4:] == ["other", "5: heard other"]
    for one in ClewSaver(store).list(FORK):
        assert "messages" in one.checkpoint["channel_values"] or one.metadata["step"] < 1
    assert store.verify().ok


def test_a_fork_whose_base_was_purged_by_others_still_has_what_was_said(store: clew.Store) -> None:
    states = talked(store)
    store.get("talk").fork("fork", at=3)
    store.delete("talk", purge=True)

    graph = planner(ClewSaver(store))
    assert graph.get_state(FORK).values["messages"] == states[1]["messages"]
    assert say(graph, "other", FORK)[3:] == ["3: heard two", "other", "5: heard other"]


def test_a_fork_whose_base_is_in_the_trash_says_so(store: clew.Store) -> None:
    states = talked(store)
    store.get("talk").fork("fork", at=3)
    store.delete("talk")
    with pytest.raises(clew.NotFoundError, match="restore_deleted"):
        state_of(store, FORK)
    store.restore_deleted("talk")
    assert state_of(store, FORK) == states[1]


def test_a_fork_of_a_waiting_graph_waits_too(store: clew.Store) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {interrupt('may I?')}")]}

    builder = one_node(MessagesState, "ask", ask)
    graph = builder.compile(checkpointer=ClewSaver(store))
    graph.invoke({"messages": [HumanMessage("delete it")]}, CONFIG)
    store.get("talk").fork("fork")
    graph.invoke(Command(resume="yes"), CONFIG)

    assert graph.get_state(FORK).next == ("ask",)
    assert texts(graph.invoke(Command(resume="no"), FORK)["messages"]) == ["delete it", "you said no"]
    assert texts(graph.get_state(CONFIG).values["messages"]) == ["delete it", "you said yes"]


def test_a_fork_at_a_question_lets_the_model_answer_it(store: clew.Store) -> None:
    talked(store)
    store.get("talk").fork("fork", at=2)
    graph = planner(ClewSaver(store))

    assert graph.get_state(FORK).next == ("model",)
    assert texts(graph.invoke(None, FORK)["messages"]) == ["one", "1: heard one", "two", "3: heard two"]
    assert len(graph.get_state(FORK).values["steps"]) == 2


def test_a_fork_that_was_moved_before_a_graph_saw_it_goes_on_from_there(store: clew.Store) -> None:
    states = talked(store)
    store.get("talk").fork("fork").rewind(1)

    assert state_of(store, FORK) == states[0]
    store.get("fork").undo()
    assert state_of(store, FORK) == states[2]


def test_a_fork_of_a_thread_without_messages_has_what_was_there_then(store: clew.Store) -> None:
    saver = ClewSaver(store)
    first = put(saver, thread(), {"plan": "x " * 100, "items": ["y " * 300, "z " * 300]})
    store.get("talk").fork("fork")
    put(saver, first, {"plan": "later " * 100})

    assert values(ClewSaver(store), thread("fork")) == {"plan": "x " * 100, "items": ["y " * 300, "z " * 300]}


def test_a_checkpoint_can_be_put_into_a_fork_that_nobody_read(store: clew.Store) -> None:
    talked(store)
    store.get("talk").fork("fork")
    saver = ClewSaver(store)
    latest = found(saver, CONFIG).config["configurable"]["checkpoint_id"]
    put(saver, thread("fork", id=latest), {"plan": "new"})

    there = state_of(store, FORK)
    assert (there["plan"], len(there["messages"])) == ("new", 6)


def test_a_fork_can_be_copied_and_pruned_before_it_is_read(store: clew.Store) -> None:
    states = talked(store)
    store.get("talk").fork("fork", at=1)
    ClewSaver(store).copy_thread("fork", "copy")
    store.get("talk").fork("other", at=3)
    ClewSaver(store).prune(["other"])

    assert state_of(store, {"configurable": {"thread_id": "copy"}}) == states[0]
    assert state_of(store, {"configurable": {"thread_id": "other"}}) == states[1]


def test_a_fork_of_an_edited_history_outlives_its_base(store: clew.Store) -> None:
    graph = planner(ClewSaver(store))
    say(graph, "one", CONFIG)
    first = graph.get_state(CONFIG).values["messages"][0]
    graph.update_state(CONFIG, {"messages": [HumanMessage("edited", id=first.id)]})
    before = state_of(store)
    store.get("talk").fork("fork")
    assert state_of(store, FORK) == before
    store.delete("talk", purge=True)

    assert state_of(store, FORK) == before
    listed = list(planner(ClewSaver(store)).get_state_history(FORK))
    assert listed[0].values == before
    assert all("one" not in texts(state.values.get("messages", [])) for state in listed)  # purged
    assert say(planner(ClewSaver(store)), "two", FORK)[0] == "edited"
