"""What JSON cannot say comes back equal from an adapter, or is refused with its place: never as null."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import AgentSession, Message
from google.adk.events import Event
from google.genai import types
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from llama_index.core.llms import ChatMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import clew
from clew.adapters import common
from clew.adapters.adk import ClewSessionService
from clew.adapters.agent_framework import ClewHistoryProvider
from clew.adapters.claude import ClewSessionStore
from clew.adapters.langgraph import ClewSaver
from clew.adapters.llama_index import ClewChatStore, ClewDBChatStore
from clew.adapters.openai_agents import ClewSession
from clew.adapters.pydantic_ai import ClewConversationStore
from clew.adapters.strands import ClewSessionRepository
from clew.testing.adapter import run
from tests.adapters.langgraph.talk import one_node
from tests.support.rows import each_row

LAKE: dict[str, Any] = {"app_name": "birds", "user_id": "ann", "session_id": "lake"}
EVENT: Any = Event
"""It takes more than its types say."""
Keeping = Callable[[clew.Store, Any], Awaitable[Any]]


async def in_a_call_of_adk(store: clew.Store, value: Any) -> Any:
    service = ClewSessionService(store)
    call = types.FunctionCall(name="look", args={"x": value, "nothing": None})
    content = types.Content(role="model", parts=[types.Part(function_call=call)])
    session = await service.create_session(**LAKE)
    await service.append_event(session, EVENT(author="guide", content=content))
    await service.append_event(session, EVENT(author="guide", content=content))
    found = await ClewSessionService(store).get_session(**LAKE)
    assert found is not None
    args: Any = found.events[0].content.parts[0].function_call.args  # type: ignore[union-attr, index]
    assert args["nothing"] is None
    return args["x"]


async def in_the_state_of_adk(store: clew.Store, value: Any) -> Any:
    service = ClewSessionService(store)
    session = await service.create_session(**LAKE, state={"x": value, "user:x": value})
    await service.append_event(session, EVENT(author="user", message="hi", state={"y": [value]}))
    await service.append_event(session, EVENT(author="user", message="hi", state={"z": value}))
    service.session(**LAKE).rewind(0)
    found = await ClewSessionService(store).get_session(**LAKE)
    assert found is not None
    assert found.state.keys() == {"x", "y", "user:x"}
    (known,) = {repr(each) for each in (found.state["x"], found.state["y"][0], found.state["user:x"])}
    return float(known)


async def in_agent_framework(store: clew.Store, value: Any) -> Any:
    provider = ClewHistoryProvider(store)
    await provider.save_messages("talk", [Message("user", ["hi"], additional_properties={"x": value})])
    (found,) = await provider.get_messages("talk")
    return found.additional_properties["x"]


async def in_a_session_of_agent_framework(store: clew.Store, value: Any) -> Any:
    from clew.adapters.agent_framework import ClewAgentSessionStore  # it warns that it is experimental

    session = AgentSession(session_id="talk")
    said = Message("user", ["hi"], additional_properties={"x": value})
    session.state["memory"] = {"messages": [said]}
    session.state["x"] = value
    await ClewAgentSessionStore(store).set("talk", session)
    found = await ClewAgentSessionStore(store).get("talk")
    assert found is not None
    assert len(store.get("talk").messages()) == 1
    (kept,) = found.state["memory"]["messages"]
    assert repr(kept.additional_properties["x"]) == repr(value)
    return found.state["x"]


async def in_langgraph(store: clew.Store, value: Any) -> Any:
    builder = one_node(
        MessagesState, "model", lambda state: {"messages": [AIMessage("hi", additional_kwargs={"x": value})]}
    )
    graph = builder.compile(checkpointer=ClewSaver(store))
    config: Any = {"configurable": {"thread_id": "talk"}}
    graph.invoke({"messages": []}, config)
    found = builder.compile(checkpointer=ClewSaver(store)).get_state(config)
    return found.values["messages"][0].additional_kwargs["x"]


async def in_llama_index(store: clew.Store, value: Any) -> Any:
    chats = ClewChatStore(store)
    chats.add_message("talk", ChatMessage(role="user", content="hi", additional_kwargs={"x": value}))
    (found,) = chats.get_messages("talk")
    return found.additional_kwargs["x"]


async def in_the_queue_of_llama_index(store: clew.Store, value: Any) -> Any:
    chats = ClewDBChatStore(store)
    await chats.add_message("talk", ChatMessage(role="user", content="hi", additional_kwargs={"x": value}))
    (found,) = await chats.get_messages("talk")
    return found.additional_kwargs["x"]


async def in_pydantic_ai(store: clew.Store, value: Any) -> Any:
    conversations = ClewConversationStore(store)
    said = ModelRequest(parts=[ToolReturnPart(tool_name="look", content={"x": value}, tool_call_id="1")])
    await conversations.save(Conversation(conversation_id="talk", messages=[said]))
    found = await ClewConversationStore(store).load("talk")
    assert found is not None
    content: Any = found.messages[0].parts[0].content  # type: ignore[union-attr]
    return content["x"]


async def in_strands(store: clew.Store, value: Any) -> Any:
    repository = ClewSessionRepository(store)
    repository.create_session(Session(session_id="talk", session_type=SessionType.AGENT))
    agent = SessionAgent(agent_id="default", state={}, conversation_manager_state={})
    repository.create_agent("talk", agent)
    call: Any = {"toolUse": {"name": "look", "toolUseId": "1", "input": {"x": value}}}
    repository.create_message(
        "talk", "default", SessionMessage.from_message({"role": "assistant", "content": [call]}, 0)
    )
    (found,) = repository.list_messages("talk", "default")
    return found.message["content"][0]["toolUse"]["input"]["x"]


@pytest.mark.filterwarnings("ignore:.*experimental")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=repr)
@pytest.mark.parametrize(
    "keep",
    [
        in_a_call_of_adk,
        in_the_state_of_adk,
        in_agent_framework,
        in_a_session_of_agent_framework,
        in_langgraph,
        in_llama_index,
        in_the_queue_of_llama_index,
        in_pydantic_ai,
        in_strands,
    ],
)
def test_a_number_that_json_has_not_comes_back(keep: Keeping, value: float) -> None:
    with clew.open("memory:") as store:
        found = run(keep(store, value))

    assert isinstance(found, float)
    assert repr(found) == repr(value)


async def to_openai_agents(store: clew.Store, value: Any) -> None:
    await ClewSession("talk", store).add_items([{"role": "user", "content": "hi", "x": [value]}])  # type: ignore[list-item]


async def to_claude(store: clew.Store, value: Any) -> None:
    line: Any = {"type": "user", "uuid": "1", "message": {"content": "hi"}, "x": [value]}
    await ClewSessionStore(store).append({"project_key": "a", "session_id": "b"}, [line])


@each_row("value", [math.nan, math.inf, -math.inf])
@each_row("give", [to_openai_agents, to_claude])
def test_messages_that_are_json_already_are_refused_with_the_place_of_such_a_number(
    give: Keeping, value: float
) -> None:
    with clew.open("memory:") as store:
        with pytest.raises(clew.errors.InvalidEntryError, match=r"\$\.x\[0\]: -?(NaN|Infinity) is not JSON"):
            run(give(store, value))

        assert list(store.list()) == []


def test_a_transcript_with_half_a_surrogate_pair_is_not_stored_again_when_it_is_handed_over_again() -> None:
    cut = [Message("user", ["half \ud83d"]), Message("assistant", ["yes"])]
    with clew.open("memory:") as store:
        provider = ClewHistoryProvider(store)
        run(provider.save_messages("talk", cut))
        run(provider.save_messages("talk", [*cut, Message("user", ["more"])]))

        assert [one.text for one in run(provider.get_messages("talk"))] == ["half \ufffd", "yes", "more"]


def test_a_history_with_half_a_surrogate_pair_that_is_set_again_is_the_same() -> None:
    cut = [ChatMessage(role="user", content="half \ud83d"), ChatMessage(role="assistant", content="yes")]
    with clew.open("memory:") as store:
        chats = ClewChatStore(store)
        chats.set_messages("talk", cut)
        chats.set_messages("talk", [*cut, ChatMessage(role="user", content="more")])

        assert len(store.get("talk").tree().branches) == 1


def test_a_graph_whose_messages_have_half_a_surrogate_pair_stays_on_one_branch() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("first", lambda state: {"messages": [AIMessage("half \ud83d", id="1")]})
    builder.add_node("second", lambda state: {"messages": [AIMessage("whole", id="2")]})
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    config: Any = {"configurable": {"thread_id": "talk"}}
    with clew.open("memory:") as store:
        graph = builder.compile(checkpointer=ClewSaver(store))
        graph.invoke({"messages": []}, config)

        found = builder.compile(checkpointer=ClewSaver(store)).get_state(config).values["messages"]
        assert [message.content for message in found] == ["half \ufffd", "whole"]
        assert [entry.replaced for entry in store.get("talk").entries()] == [True, False]
        assert len(store.get("talk").tree().branches) == 1


def test_an_event_with_half_a_surrogate_pair_that_is_sent_again_is_kept_once() -> None:
    async def story(service: ClewSessionService) -> None:
        session = await service.create_session(**LAKE)
        event = EVENT(author="user", message="half \ud83d", state={"x": "half \ud83d"})
        for _ in range(2):
            await service.append_event(session, event)

    with clew.open("memory:") as store:
        run(story(ClewSessionService(store)))

        (entry,) = ClewSessionService(store).session(**LAKE).entries()
        found = run(ClewSessionService(store).get_session(**LAKE))
        assert entry.replaced
        assert found.state == {"x": "half \ufffd"}


@each_row("odd", ["__clew_float__", 1, None, {"a": 1}, "inF"])
def test_an_object_that_only_looks_like_such_a_number_is_left_as_it_is(odd: Any) -> None:
    value = {"a": [{"__clew_float__": odd}], "b": {"__clew_float__": "nan", "c": 1}}

    assert common.decode(common.encode(value)) == value
    assert json.loads(common.encode(value)) == value
