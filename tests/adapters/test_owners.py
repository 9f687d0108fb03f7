"""Whose session it is: one rule for all adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

import clew
from clew.adapters.adk import ClewSessionService
from clew.adapters.claude import ClewSessionStore
from clew.adapters.common import find_own, open_own
from clew.adapters.llama_index import ClewChatStore
from clew.adapters.openai_agents import ClewSession
from clew.adapters.pydantic_ai import ClewConversationStore
from clew.adapters.strands import ClewSessionRepository
from clew.testing.adapter import wait_for

OURS = {"framework": "ours", "key": "talk"}
FIND = partial(find_own, id="talk", framework="ours")
OPEN = partial(open_own, id="talk", metadata=OURS)


@pytest.fixture
def store(url: str) -> clew.Store:
    return clew.open(url)


def test_what_is_not_there_is_created_with_its_owner(store: clew.Store) -> None:
    with store:
        assert store.read(FIND) is None
        store.transact(partial(OPEN, tags=["state"], vendor="acme"))

        info = store.get("talk").info
        assert (info.metadata, info.tags, info.vendor) == (OURS, ("state",), "acme")
        found = FIND(store)
        assert found is not None
        assert found.id == OPEN(store).id == "talk"
        assert store.get("talk").info == info


def test_what_another_framework_made_is_refused_by_name_be_it_empty(store: clew.Store) -> None:
    with store:
        store.session("talk", metadata={"framework": "theirs"})

        for attempt in (partial(store.read, FIND), partial(store.transact, OPEN)):
            with pytest.raises(clew.errors.SessionTakenError) as refused:
                attempt()
            assert str(refused.value) == "session 'talk' belongs to theirs, not to ours: use another id"
            assert (refused.value.session, refused.value.framework) == ("talk", "ours")
            assert refused.value.owner == "theirs"
        assert store.get("talk").info.metadata == {"framework": "theirs"}


@pytest.mark.parametrize("content", ["message", "cleared", "document"])
def test_what_nobody_owns_is_refused_if_anything_was_ever_in_it(store: clew.Store, content: str) -> None:
    with store:
        session = store.session("talk")
        if content == "document":
            session.set_document("mine", b"1")
        else:
            session.append({"role": "user", "content": "hi"})
        if content == "cleared":
            session.clear()

        for attempt in (partial(store.read, FIND), partial(store.transact, OPEN)):
            with pytest.raises(clew.errors.SessionTakenError, match=r"'framework': 'ours'") as refused:
                attempt()
            assert refused.value.owner is None
        session.update(metadata={"framework": "ours"})  # as the error says
        assert store.read(FIND) is not None


def test_what_was_created_beforehand_and_is_empty_is_taken_when_it_is_written_to(store: clew.Store) -> None:
    with store:
        session = store.session("talk", title="Herons", tags=["birds"], metadata={"customer": 42})

        assert store.read(FIND) is None
        assert session.info.metadata == {"customer": 42}  # a look changes nothing
        store.transact(partial(OPEN, tags=["state"]))

        assert session.info.metadata == {"customer": 42, **OURS}
        assert (session.info.title, session.info.tags) == ("Herons", ("birds", "state"))


def test_a_session_that_somebody_else_made_anew_is_refused_though_the_old_one_was_ours(
    store: clew.Store,
) -> None:
    with store:
        for _ in range(2):
            store.transact(lambda tx: OPEN(tx).append({"role": "user", "content": "ours"}))
        store.delete("talk", purge=True)
        store.session("talk").append({"role": "user", "content": "mine"})

        with pytest.raises(clew.errors.SessionTakenError):
            store.read(FIND)


# ── Deleting, too ──────────────────────────────────────────────────────────────────────────────────


async def delete_from_adk(store: clew.Store) -> None:
    await ClewSessionService(store).delete_session(app_name="a", user_id="b", session_id="c")


async def delete_from_agent_framework(store: clew.Store) -> None:
    from clew.adapters.agent_framework import ClewAgentSessionStore  # it warns that it is experimental

    await ClewAgentSessionStore(store).delete("talk")


async def delete_from_claude(store: clew.Store) -> None:
    await ClewSessionStore(store).delete({"project_key": "a", "session_id": "b"})


async def delete_from_llama_index(store: clew.Store) -> None:
    ClewChatStore(store).delete_messages("talk")


async def delete_from_openai_agents(store: clew.Store) -> None:
    await ClewSession("talk", store).clear_session()


async def delete_from_pydantic_ai(store: clew.Store) -> None:
    await ClewConversationStore(store).delete("talk")


async def delete_from_strands(store: clew.Store) -> None:
    ClewSessionRepository(store).delete_session("talk")


@pytest.mark.filterwarnings("ignore:.*experimental")
@pytest.mark.parametrize(
    ("id", "delete"),
    [
        ("adk/a/b/c", delete_from_adk),
        ("talk", delete_from_agent_framework),
        ("a/b", delete_from_claude),
        ("talk", delete_from_llama_index),
        ("talk", delete_from_openai_agents),
        ("talk", delete_from_pydantic_ai),
        ("talk", delete_from_strands),
    ],
)
def test_what_is_somebody_elses_is_not_deleted(
    id: str, delete: Callable[[clew.Store], Awaitable[None]]
) -> None:
    with clew.open("memory:") as store:
        theirs = store.session(id, metadata={"framework": "theirs"})
        theirs.append({"role": "user", "content": "mine"})

        with pytest.raises(Exception, match="belongs to theirs"):
            asyncio.run(wait_for(delete(store)))

        assert len(theirs.messages()) == 1
