"""Several writers to one ADK session: none overwrites what it has not seen, and nothing is kept twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session

import clew
from clew.adapters.adk import ClewSessionService
from tests.adapters.adk.events import TALK, changing, load, run, said, texts


@pytest.fixture
def service(url: str) -> Iterator[ClewSessionService]:
    with clew.open(url) as store:
        yield ClewSessionService(store)


def test_who_did_not_see_the_last_event_can_not_write(service: ClewSessionService) -> None:
    async def work() -> None:
        stale = await service.create_session(**TALK)
        current = await load(service)
        await service.append_event(current, said("one"))
        for _ in range(2):
            with pytest.raises(StaleSessionError, match="modified in storage"):
                await service.append_event(stale, changing(app__a=1, user__u=1, s=1))
        await service.append_event(current, said("two"))

        found = await load(service)
        assert texts(found) == ["one", "two"]
        assert found.state == {}
        assert stale.events == []
        await service.append_event(found, said("three"))
        assert texts(await load(service)) == ["one", "two", "three"]

    run(work())


def test_a_clock_that_stands_still_hides_no_writer(service: ClewSessionService) -> None:
    """The revision is the head of the session, not a time."""

    async def work() -> None:
        stale = await service.create_session(**TALK)
        current = await load(service)
        for text in ("one", "two"):
            await service.append_event(current, said(text, timestamp=stale.last_update_time))
        current.last_update_time -= 5  # nor does it matter what the object says
        await service.append_event(current, said("three", timestamp=stale.last_update_time))
        with pytest.raises(StaleSessionError):
            await service.append_event(stale, said("four", timestamp=stale.last_update_time))

    run(work())


def test_of_two_writers_at_once_one_wins(service: ClewSessionService) -> None:
    async def work() -> None:
        await service.create_session(**TALK)
        for turn in range(3):
            one, other = await load(service), await load(service)
            done = await asyncio.gather(
                service.append_event(one, changing(**{f"one{turn}": 1})),
                service.append_event(other, changing(**{f"other{turn}": 1})),
                return_exceptions=True,
            )
            assert sorted(type(result).__name__ for result in done) == ["Event", "StaleSessionError"]

        found = await load(service)
        assert len(found.events) == len(found.state) == 3

    run(work())


def test_branches_of_one_run_may_append_at_once(service: ClewSessionService) -> None:
    """They share a session object, so none of them is stale."""

    async def work() -> None:
        session = await service.create_session(**TALK)
        await asyncio.gather(*(service.append_event(session, said(str(n))) for n in range(12)))

        assert sorted(texts(session)) == sorted(map(str, range(12)))
        assert await load(service) == session

    run(work())


def test_an_event_that_comes_again_is_kept_once(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK)
        before = await load(service)
        event = said("once", actions=EventActions(state_delta={"user:n": 1}))
        await service.append_event(session, event)
        await service.append_event(session, event)
        # Its writer was cut off before it heard that it is stored: it tries again with what it knows.
        await service.append_event(before, event.model_copy(deep=True))

        assert texts(session) == texts(before) == texts(await load(service)) == ["once"]
        await service.append_event(before, said("other", id=event.id))
        assert texts(await load(service)) == ["once", "other"]

    run(work())


def test_a_session_made_by_hand_is_as_good_as_its_last_event(service: ClewSessionService) -> None:
    async def work() -> None:
        created = await service.create_session(**TALK)
        by_hand = Session(id="talk", app_name="birds", user_id="ann")
        await service.append_event(by_hand, said("one"))
        by_hand._storage_update_marker = None
        by_hand.last_update_time -= 1
        await service.append_event(by_hand, said("two"))
        late = Session(id="talk", app_name="birds", user_id="ann")
        with pytest.raises(StaleSessionError):
            await service.append_event(late, said("three"))
        created._storage_update_marker = "2026-01-01T00:00:00.000000"  # of another service
        with pytest.raises(StaleSessionError):
            await service.append_event(created, said("three"))

        assert texts(await load(service)) == ["one", "two"]
        with pytest.raises(ValueError, match="not found"):
            await service.append_event(Session(id="no", app_name="birds", user_id="ann"), said("x"))

    run(work())


def test_services_on_one_store_see_each_other(url: str) -> None:
    async def work(store: clew.Store) -> None:
        one, other = ClewSessionService(store), ClewSessionService(clew.AsyncStore.over(store))
        session = await one.create_session(**TALK, state={"k": 1})
        await one.append_event(session, said("one"))
        found = await load(other)
        await other.append_event(found, said("two"))
        with pytest.raises(StaleSessionError):
            await one.append_event(session, said("three"))
        assert await load(one) == found

    with clew.open(url) as store:
        run(work(store))
