"""The Agent Framework on a Clew store: histories and whole sessions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from agent_framework import AgentSession, Content, InMemoryHistoryProvider, Message

import clew
from clew.adapters.agent_framework import ClewHistoryProvider
from clew.testing.adapter import AdapterConformance, run

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # session stores are experimental, says the framework
    from clew.adapters.agent_framework import ClewAgentSessionStore


class Same:
    """A message that equals another by what it says: those of the framework equal themselves only."""

    def __init__(self, message: Message) -> None:
        self.message = message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.message.to_dict() == other.message.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.message.to_dict())


def says(role: str, *contents: Any, **more: Any) -> Message:
    return Message(role, list(contents), **more)


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


class _Conformance(AdapterConformance):
    def messages(self) -> list[Any]:
        call = Content.from_function_call(call_id="c", name="look_up", arguments={"bird": "heron"})
        messages = [
            says("user", "where is the grey heron"),
            says("assistant", Content.from_text_reasoning(text="hm"), call, author_name="bot"),
            says("tool", Content.from_function_result(call_id="c", result="kingfisher")),
            says("assistant", "naïve 鷺 \u0000", additional_properties={"x": [1, None]}),
        ]
        return [Same(message) for message in messages]

    def numbered(self, number: str) -> list[Any]:
        return [Same(says("user", number)), Same(says("assistant", number))]

    def number_of(self, message: Any) -> str:
        return str(message.message.text)


class TestHistory(_Conformance):
    def make(self, store: clew.Store) -> ClewHistoryProvider:
        return ClewHistoryProvider(store)

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        await adapter.save_messages(name, [each.message for each in messages])

    async def read(self, adapter: Any, name: str) -> list[Any]:
        return [Same(message) for message in await adapter.get_messages(name)]


class TestSessions(_Conformance):
    appends = False

    def make(self, store: clew.Store) -> ClewAgentSessionStore:
        return ClewAgentSessionStore(store)

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        session = await adapter.get(name) or AgentSession(session_id=name)
        state = session.state.setdefault("in_memory", {"messages": []})
        state["messages"] = [*state["messages"], *(each.message for each in messages)]
        await adapter.set(name, session)

    async def read(self, adapter: Any, name: str) -> list[Any]:
        session = await adapter.get(name)
        return [] if session is None else [Same(m) for m in session.state["in_memory"]["messages"]]


# ── Histories ─────────────────────────────────────────────────────────────────────────────────────


TRANSCRIPTS = [
    [[says("user", "a"), says("assistant", "b")], [says("user", "c"), says("assistant", "d")]],
    [[says("user", "a")], [says("user", "a")]],
    [[says("user", "a", message_id="1")], [says("user", "a", message_id="1"), says("assistant", "b")]],
    [
        [says("user", "a"), says("assistant", "b")],
        [says("user", "a"), says("assistant", "b"), says("user", "c")],
    ],
    [[says("user", "a"), says("assistant", "b")], [says("assistant", "b"), says("user", "c")]],
    [[says("user", "a"), says("assistant", "b")], [says("user", "a"), says("assistant", "b")]],
    [
        [says("user", "a"), says("assistant", "b"), says("user", "c")],
        [says("assistant", "b")],
        [says("user", "c")],
    ],
    [
        [says("user", "a"), says("assistant", "b")],
        [says("system", "s"), says("user", "a"), says("assistant", "b")],
    ],
    [[], [says("user", "a")], []],
]


@pytest.mark.parametrize("number", range(len(TRANSCRIPTS)))
def test_what_comes_again_is_left_out_as_by_the_framework(number: int, tmp_path: Path) -> None:
    async def story(provider: Any, state: dict[str, Any]) -> list[list[str]]:
        told = []
        for batch in TRANSCRIPTS[number]:
            await provider.save_messages("talk", batch, state=state)
            told.append(texts(await provider.get_messages("talk", state=state)))
        return told

    with clew.open("memory:") as store:
        told = run(story(ClewHistoryProvider(store), {}))

    assert told == run(story(InMemoryHistoryProvider(), {}))


def test_only_the_end_of_a_history_is_read_to_add_to_it(
    local: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = ClewHistoryProvider(local)
    for number in range(20):
        run(provider.save_messages("talk", [says("user", f"a{number}"), says("assistant", f"b{number}")]))
    asked: list[int | None] = []
    real = clew.Session.messages

    def messages(self: clew.Session, **options: Any) -> Any:
        asked.append(options.get("last"))
        return real(self, **options)

    monkeypatch.setattr(clew.Session, "messages", messages)
    run(provider.save_messages("talk", [says("user", "next"), says("assistant", "last")]))

    assert asked == [2]
    assert local.get("talk").info.messages == 42


def test_what_somebody_else_saved_meanwhile_is_not_saved_again(local: clew.Store) -> None:
    batch = [says("user", "a", message_id="1"), says("assistant", "b", message_id="2")]
    provider = ClewHistoryProvider(local)
    waiting = provider._tasks

    class Late:
        """A store to which another one writes just before each write."""

        read = waiting.read

        async def transact(self, work: Any, run: Any) -> Any:
            await ClewHistoryProvider(local).save_messages("talk", batch)
            return await waiting.transact(work, run=run)

    provider._tasks = Late()  # type: ignore[assignment]
    run(provider.save_messages("talk", [*batch, says("user", "c", message_id="3")]))

    assert texts(run(ClewHistoryProvider(local).get_messages("talk"))) == ["a", "b", "c"]


def test_histories_of_two_providers_are_apart(local: clew.Store) -> None:
    async def story() -> list[list[str]]:
        first, audit = ClewHistoryProvider(local), ClewHistoryProvider(local, source_id="audit")
        await first.save_messages("talk", [says("user", "a")])
        await audit.save_messages("talk", [says("user", "b")])
        await first.save_messages(None, [says("user", "nobody's")])
        return [
            texts(await provider.get_messages(id))
            for provider, id in ((first, "talk"), (audit, "talk"), (first, None), (first, ""))
        ]

    assert run(story()) == [["a"], ["b"], ["nobody's"], ["nobody's"]]
    assert {info.id for info in local.list(where={"framework": "agent-framework"})} == {
        "talk",
        "talk/audit",
        "default",
    }


def test_excluded_messages_stay_but_are_not_loaded_if_so_wished(local: clew.Store) -> None:
    excluded = says("user", "old", additional_properties={"_excluded": True})
    run(ClewHistoryProvider(local).save_messages("talk", [excluded, says("user", "new")]))

    assert texts(run(ClewHistoryProvider(local).get_messages("talk"))) == ["old", "new"]
    assert texts(run(ClewHistoryProvider(local, skip_excluded=True).get_messages("talk"))) == ["new"]


def test_a_rewound_history_is_what_the_agent_loads(local: clew.Store) -> None:
    provider = ClewHistoryProvider(local)
    run(provider.save_messages("talk", [says("user", "a"), says("assistant", "b"), says("user", "c")]))
    provider.session("talk").rewind(1)
    run(provider.save_messages("talk", [says("user", "d")]))

    assert texts(run(provider.get_messages("talk"))) == ["a", "b", "d"]
    assert local.stats().messages == 4


def test_what_is_no_message_of_the_framework_is_refused_on_loading(local: clew.Store) -> None:
    local.session("talk", metadata={"framework": "agent-framework"}).append({"kind": "something else"})

    with pytest.raises(clew.InvalidError, match="no message of the Agent Framework"):
        run(ClewHistoryProvider(local).get_messages("talk"))


def test_a_history_under_the_lease_of_a_run(local: clew.Store) -> None:
    async def story() -> None:
        tasks = clew.AsyncStore.over(local)
        async with (await tasks.session("talk")).run("work") as work:
            await ClewHistoryProvider(tasks, run=work).save_messages("talk", [says("user", "a")])

    run(story())
    assert [entry.epoch for entry in local.get("talk").entries()] == [1]


# ── Sessions ──────────────────────────────────────────────────────────────────────────────────────


def talking(*said: str, **more: Any) -> AgentSession:
    session = AgentSession(session_id="inner", **more)
    session.state["in_memory"] = {"messages": [says("user", text) for text in said], "kept": 1}
    return session


def test_a_session_comes_back_as_a_copy(store: clew.Store) -> None:
    async def story() -> None:
        sessions = ClewAgentSessionStore(store)
        given = talking("a", service_session_id="service")
        given.state |= {"n": 3, "deep": {"list": [1, None, "x"]}, "tuple": (1, 2)}
        await sessions.set("key", given)
        given.state["n"] = 4
        first = await sessions.get("key")
        assert first is not None
        first.state["deep"]["list"].append("more")
        second = await sessions.get("key")
        assert second is not None
        assert (second.session_id, second.service_session_id) == ("inner", "service")
        assert second.state.pop("in_memory")["messages"][0].text == "a"
        assert second.state == {"n": 3, "deep": {"list": [1, None, "x"]}, "tuple": [1, 2]}

    run(story())


def test_unknown_and_deleted_sessions_are_none(store: clew.Store) -> None:
    async def story() -> None:
        sessions = ClewAgentSessionStore(store)
        assert await sessions.get("key") is None
        await sessions.delete("key")
        await sessions.set("key", talking("a"))
        await sessions.delete("key")
        assert await sessions.get("key") is None
        await sessions.set("key", talking("b"))
        found = await sessions.get("key")
        assert found is not None
        assert texts(found.state["in_memory"]["messages"]) == ["b"]
        for call in (sessions.get, sessions.delete):
            with pytest.raises(ValueError, match="non-empty"):
                await call("")
        with pytest.raises(ValueError, match="non-empty"):
            await sessions.set("", talking())

    run(story())


def test_a_history_that_grows_is_stored_once(local: clew.Store) -> None:
    async def story() -> None:
        sessions = ClewAgentSessionStore(local)
        for count in range(1, 12):
            await sessions.set("key", talking(*(f"message {n}" for n in range(count))))

    run(story())
    assert local.stats().messages == 11
    assert len(local.get("key").tree().branches) == 1
    assert "message" not in str(local.get("key").get_document("agent-session")).replace("messages", "")


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [
        (["a", "b", "c"], ["a", "b"], 3),
        (["a", "b", "c"], ["a", "x", "c"], 5),
        (["a", "b"], ["x"], 3),
        (["a", "b"], [], 2),
        ([], ["a"], 1),
    ],
)
def test_a_history_that_was_rewritten_becomes_a_branch(
    local: clew.Store, before: list[str], after: list[str], stored: int
) -> None:
    async def story() -> list[str]:
        sessions = ClewAgentSessionStore(local)
        await sessions.set("key", talking(*before))
        await sessions.set("key", talking(*after))
        found = await sessions.get("key")
        assert found is not None
        assert found.state["in_memory"]["kept"] == 1
        return texts(found.state["in_memory"].get("messages", []))

    assert run(story()) == after
    assert local.stats().messages == stored


def test_a_session_that_was_rewound_is_loaded_as_it_is_now(local: clew.Store) -> None:
    async def story() -> None:
        sessions = ClewAgentSessionStore(local)
        await sessions.set("key", talking("a", "b", "c"))
        sessions.session("key").rewind(0)
        found = await sessions.get("key")
        assert found is not None
        assert texts(found.state["in_memory"]["messages"]) == ["a"]
        found.state["in_memory"]["messages"].append(says("user", "d"))
        await sessions.set("key", found)
        again = await sessions.get("key")
        assert again is not None
        assert texts(again.state["in_memory"]["messages"]) == ["a", "d"]

    run(story())


@pytest.mark.filterwarnings("ignore:AgentSession state value:RuntimeWarning")
def test_what_can_not_be_kept_is_refused_and_leaves_nothing(local: clew.Store) -> None:
    session = talking("a")
    session.state["odd"] = object()
    with pytest.raises(TypeError):
        run(ClewAgentSessionStore(local).set("key", session))
    assert local.find("key") is None


def test_only_plain_sessions_are_taken(local: clew.Store) -> None:
    class Mine(AgentSession):
        pass

    with pytest.raises(TypeError, match="Mine"):
        run(ClewAgentSessionStore(local).set("key", Mine()))


def test_the_state_of_a_session_beside_its_history(local: clew.Store) -> None:
    """The provider keeps the messages, the store the rest, both in one session."""

    async def story() -> None:
        await ClewHistoryProvider(local).save_messages("key", [says("user", "a")])
        sessions = ClewAgentSessionStore(local)
        assert await sessions.get("key") is None
        plain = AgentSession(session_id="key")
        plain.state["n"] = 1
        await sessions.set("key", plain)
        found = await sessions.get("key")
        assert found is not None
        assert found.state == {"n": 1}
        await sessions.delete("key")
        assert await sessions.get("key") is None
        assert texts(await ClewHistoryProvider(local).get_messages("key")) == ["a"]

    run(story())
