"""`ClewSessionRepository` keeps the promises of Strands' repositories, on every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from strands.types.content import Message
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import clew
from clew.adapters.strands import ClewSessionRepository
from clew.testing.adapter import AdapterConformance
from tests.adapters.strands.talk import conversation, number_of, numbered, said

TALK, AGENT = "talk", "default"


class TestRepository(AdapterConformance):
    appends = False

    def make(self, store: clew.Store) -> ClewSessionRepository:
        return ClewSessionRepository(store)

    def messages(self) -> list[Message]:
        return conversation()

    def numbered(self, number: str) -> list[Message]:
        return numbered(number)

    def number_of(self, message: Message) -> str:
        return number_of(message)

    def session_id(self, name: str) -> str:
        return f"{name}/default"

    async def write(self, adapter: ClewSessionRepository, name: str, messages: list[Message]) -> None:
        begin(adapter, name)
        first = len(adapter.list_messages(name, AGENT))
        for number, message in enumerate(messages, first):
            adapter.create_message(name, AGENT, SessionMessage.from_message(message, number))

    async def read(self, adapter: ClewSessionRepository, name: str) -> list[Message]:
        if adapter.read_agent(name, AGENT) is None:
            return []
        return [message.to_message() for message in adapter.list_messages(name, AGENT)]


def begin(repository: ClewSessionRepository, session: str, agent: str = AGENT) -> None:
    if repository.read_session(session) is None:
        repository.create_session(Session(session_id=session, session_type=SessionType.AGENT))
    if repository.read_agent(session, agent) is None:
        known = SessionAgent(agent_id=agent, state={"key": "value"}, conversation_manager_state={})
        repository.create_agent(session, known)


def add(repository: ClewSessionRepository, *numbers: int, agent: str = AGENT) -> None:
    for number in numbers:
        message = said("user", {"text": f"message {number}"})
        repository.create_message(TALK, agent, SessionMessage.from_message(message, number))


def listed(repository: ClewSessionRepository, *args: Any, **kwargs: Any) -> list[int]:
    return [message.message_id for message in repository.list_messages(TALK, AGENT, *args, **kwargs)]


@pytest.fixture
def repository(store: clew.Store) -> ClewSessionRepository:
    repository = ClewSessionRepository(store)
    begin(repository, TALK)
    return repository


@pytest.fixture
def quick() -> Iterator[ClewSessionRepository]:
    """One in memory, for what does not depend on the kind of store."""
    with clew.open("memory:") as store:
        repository = ClewSessionRepository(store)
        begin(repository, TALK)
        yield repository


def test_sessions_and_agents_come_back_as_they_were(repository: ClewSessionRepository) -> None:
    session = Session(session_id="other", session_type=SessionType.AGENT)
    agent = SessionAgent(
        agent_id="birds",
        state={"text": "鷺 \0", "bytes": b"\xff", "number": float("inf")},
        conversation_manager_state={"removed_message_count": 0},
        _internal_state={"model_state": {}},
    )
    assert repository.create_session(session=session) is session
    repository.create_agent(session_id="other", session_agent=agent)

    assert repository.read_session(session_id="other") == session
    assert repository.read_agent(session_id="other", agent_id="birds") == agent


def test_what_is_unknown_is_none_to_read_and_refused_to_change(quick: ClewSessionRepository) -> None:
    unknown = SessionAgent(agent_id="nobody", state={}, conversation_manager_state={})
    message = SessionMessage.from_message(said("user", {"text": "hi"}), 0)

    assert quick.read_session("nowhere") is None
    assert quick.read_agent("nowhere", AGENT) is None
    assert quick.read_agent(TALK, "nobody") is None
    assert quick.read_message(TALK, AGENT, 0) is None
    assert quick.read_message("nowhere", AGENT, 0) is None
    assert quick.read_multi_agent(TALK, "nobody") is None
    for refused in (
        lambda: quick.create_agent("nowhere", unknown),
        lambda: quick.update_agent(TALK, unknown),
        lambda: quick.create_message(TALK, "nobody", message),
        lambda: quick.update_message(TALK, AGENT, message),
        lambda: quick.list_messages(TALK, "nobody"),
        lambda: quick.delete_session("nowhere"),
    ):
        with pytest.raises(SessionException, match="does not exist"):
            refused()


def test_a_session_is_created_once(quick: ClewSessionRepository) -> None:
    with pytest.raises(SessionException, match="already exists"):
        quick.create_session(Session(session_id=TALK, session_type=SessionType.AGENT))


def test_ids_with_separators_are_refused(quick: ClewSessionRepository) -> None:
    for bad in (lambda: quick.read_session("a/b"), lambda: quick.read_agent(TALK, "../b")):
        with pytest.raises(ValueError, match="path separators"):
            bad()
    with pytest.raises(ValueError, match="integer"):
        quick.read_message(TALK, AGENT, "0")  # type: ignore[arg-type]


def test_an_update_keeps_when_it_was_created(repository: ClewSessionRepository) -> None:
    add(repository, 0)
    first = repository.read_message(TALK, AGENT, 0)
    agent = repository.read_agent(TALK, AGENT)
    assert first is not None
    assert agent is not None

    changed = SessionMessage.from_message(said("user", {"text": "changed"}), 0)
    repository.update_message(session_id=TALK, agent_id=AGENT, session_message=changed)
    new = SessionAgent(agent_id=AGENT, state={"new": 1}, conversation_manager_state={})
    repository.update_agent(session_id=TALK, session_agent=new)

    assert changed.created_at == first.created_at
    assert repository.read_message(TALK, AGENT, 0) == changed
    assert new.created_at == agent.created_at
    assert repository.read_agent(TALK, AGENT) == new


def test_a_redacted_message_keeps_both_and_gives_the_redacted(repository: ClewSessionRepository) -> None:
    add(repository, 0, 1, 2)
    message = repository.read_message(TALK, AGENT, 1)
    assert message is not None
    message.redact_message = said("user", {"text": "[blocked]"})
    repository.update_message(TALK, AGENT, message)

    kept = repository.list_messages(TALK, AGENT)

    assert [number_of(each.to_message()) for each in kept] == ["message 0", "[blocked]", "message 2"]
    assert number_of(kept[1].message) == "message 1"


def test_what_was_there_before_an_update_is_a_branch(repository: ClewSessionRepository) -> None:
    add(repository, 0, 1)
    message = repository.read_message(TALK, AGENT, 0)
    assert message is not None
    message.message = said("user", {"text": "changed"})
    repository.update_message(TALK, AGENT, message)
    session = repository.session(TALK)
    assert [text(each) for each in session.messages()] == ["changed", "message 1"]

    session.undo()

    assert [text(each) for each in session.messages()] == ["message 0", "message 1"]


def text(record: dict[str, Any]) -> str:
    found: str = record["message"]["content"][0]["text"]
    return found


def test_an_update_that_changes_nothing_writes_nothing(quick: ClewSessionRepository) -> None:
    add(quick, 0, 1)
    message = quick.read_message(TALK, AGENT, 0)
    assert message is not None
    before = quick.session(TALK).head
    quick.update_message(TALK, AGENT, message)
    assert quick.session(TALK).head == before


def test_messages_are_listed_by_number_from_the_oldest(repository: ClewSessionRepository) -> None:
    add(repository, *range(12))

    assert listed(repository) == list(range(12))
    assert listed(repository, limit=3) == [0, 1, 2]
    assert listed(repository, offset=9) == [9, 10, 11]
    assert listed(repository, limit=2, offset=4) == [4, 5]
    assert listed(repository, limit=0) == []
    assert listed(repository, offset=12) == []
    assert listed(repository, offset=-2) == [10, 11]


def test_numbers_may_come_in_any_order_and_with_gaps(quick: ClewSessionRepository) -> None:
    add(quick, 10, 2, 5, 0, 100)

    assert listed(quick) == [0, 2, 5, 10, 100]
    found = quick.read_message(TALK, AGENT, 5)
    assert found is not None
    assert found.message_id == 5
    assert quick.read_message(TALK, AGENT, 3) is None
    assert quick.read_message(TALK, AGENT, 1) is None


def test_two_that_write_the_same_number_do_not_overwrite_each_other(
    repository: ClewSessionRepository,
) -> None:
    message = SessionMessage.from_message(said("user", {"text": "mine"}), 0)
    repository.create_message(TALK, AGENT, message)
    repository.create_message(TALK, AGENT, message)  # the same again: a retry

    with pytest.raises(SessionException, match="already exists"):
        add(repository, 0)
    assert repository.list_messages(TALK, AGENT) == [message]


def test_what_is_no_json_raises_as_in_the_stores_of_strands(quick: ClewSessionRepository) -> None:
    with pytest.raises(TypeError, match="serializable"):
        quick.create_message(TALK, AGENT, SessionMessage.from_message(said("user", {"text": object()}), 0))
    assert listed(quick) == []


def test_agents_of_a_session_do_not_mix(repository: ClewSessionRepository) -> None:
    begin(repository, TALK, "second")
    add(repository, 0, 1)
    add(repository, 0, agent="second")

    assert len(repository.list_messages(TALK, AGENT)) == 2
    assert len(repository.list_messages(TALK, "second")) == 1


class Crew:
    """The part of a multi-agent that a repository sees."""

    id = "crew"

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def serialize_state(self) -> dict[str, Any]:
        return self._state


def test_the_state_of_multi_agents_is_kept(repository: ClewSessionRepository) -> None:
    first: Any = Crew({"node": 1})
    second: Any = Crew({"node": 2})
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_multi_agent(TALK, first)

    repository.create_multi_agent(TALK, first)
    assert repository.read_multi_agent(TALK, "crew") == {"node": 1}
    repository.update_multi_agent(TALK, second)
    assert repository.read_multi_agent(TALK, "crew") == {"node": 2}


def test_a_deleted_session_is_in_the_trash_and_may_begin_anew(repository: ClewSessionRepository) -> None:
    add(repository, 0)
    by_hand = repository.session(TALK).fork()
    repository.delete_session(TALK)

    assert repository.read_session(TALK) is None
    assert repository.read_agent(TALK, AGENT) is None
    assert {info.id for info in repository._store.list(deleted=True)} == {TALK, f"{TALK}/{AGENT}"}
    assert [info.id for info in repository._store.list()] == [by_hand.id]
    begin(repository, TALK)
    assert listed(repository) == []


def test_marks_and_messages_of_clew_do_not_disturb(repository: ClewSessionRepository) -> None:
    add(repository, 0, 1)
    session = repository.session(TALK)
    session.set_summary("so far")
    session.append({"role": "user", "content": "from outside"})
    session.append({"role": "system", "content": "not for an agent"})
    add(repository, 9)

    found = repository.list_messages(TALK, AGENT)

    assert [number_of(each.message) for each in found] == [
        "message 0",
        "message 1",
        "from outside",
        "message 9",
    ]
    assert [number_of(each.message) for each in repository.list_messages(TALK, AGENT, offset=1, limit=1)] == [
        "message 1"
    ]


def test_a_fork_of_a_session_shares_what_was_said(repository: ClewSessionRepository) -> None:
    state: Any = Crew({"node": 1})
    repository.create_multi_agent(TALK, state)
    add(repository, 0, 1)
    made = repository.fork_session(TALK, "other-way")
    add(repository, 2)

    assert repository.read_session("other-way") == made
    assert repository.read_agent("other-way", AGENT) == repository.read_agent(TALK, AGENT)
    assert repository.read_multi_agent("other-way", "crew") == {"node": 1}
    assert [each.message_id for each in repository.list_messages("other-way", AGENT)] == [0, 1]
    assert repository.session("other-way").info.metadata["session_id"] == "other-way"
    with pytest.raises(SessionException, match="already exists"):
        repository.fork_session(TALK, "other-way")
    with pytest.raises(SessionException, match="does not exist"):
        repository.fork_session("nowhere", "x")


def test_a_rewound_agent_waits_for_no_answer_and_has_a_window(quick: ClewSessionRepository) -> None:
    add(quick, 0, 1, 2, 3)
    waiting = {"interrupts": {"i": {}}, "context": {"c": 1}, "activated": True}
    agent = SessionAgent(
        agent_id=AGENT,
        state={"kept": True},
        conversation_manager_state={"removed_message_count": 3},
        _internal_state={"interrupt_state": waiting},
    )
    quick.update_agent(TALK, agent)
    assert quick.read_agent(TALK, AGENT) == agent

    quick.session(TALK).rewind(1)
    found = quick.read_agent(TALK, AGENT)

    assert found is not None
    assert found._internal_state["interrupt_state"]["activated"] is False
    assert found.conversation_manager_state == {"removed_message_count": 0}
    assert found.state == {"kept": True}
    quick.session(TALK).undo()
    assert quick.read_agent(TALK, AGENT) == agent


def test_under_a_run_nobody_else_writes(quick: ClewSessionRepository) -> None:
    with quick.session(TALK).run("mine") as run:
        mine = ClewSessionRepository(quick._store, run=run)
        add(mine, 0)
        with pytest.raises(SessionException, match="lease"):
            add(quick, 1)

    assert listed(quick) == [0]


def test_tokens_are_counted_once(quick: ClewSessionRepository) -> None:
    usage = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 10, "cacheReadInputTokens": 2}
    message: Any = {**said("assistant", {"text": "hi"}), "tracking_id": "t-1", "metadata": {"usage": usage}}
    quick.create_message(TALK, AGENT, SessionMessage.from_message(message, 0))
    quick.update_message(TALK, AGENT, SessionMessage.from_message(message, 0))

    totals = quick.session(TALK).usage()

    assert (totals.calls, totals.input_tokens, totals.output_tokens) == (1, 7, 3)
    assert totals.cache_read_tokens == 2


def test_a_deleted_session_comes_back_with_its_agents(repository: ClewSessionRepository) -> None:
    begin(repository, TALK)
    begin(repository, TALK, "other")
    repository.create_message(TALK, AGENT, SessionMessage.from_message(numbered("one")[0], 0))
    repository.delete_session(TALK)
    assert repository.read_agent(TALK, AGENT) is None

    assert repository.restore_deleted(TALK).session_id == TALK

    assert len(repository.list_messages(TALK, AGENT)) == 1
    assert repository.read_agent(TALK, "other") is not None
    with pytest.raises(SessionException):
        repository.restore_deleted("nobody")
