"""ADK's sessions rewound, forked and marked by Clew: events and state are those on the path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.adk.errors import StaleSessionError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

import clew
from clew.adapters.adk import ClewSessionService
from tests.adapters.adk.events import TALK, changing, load, run, said, texts


@pytest.fixture
def service(url: str) -> Iterator[ClewSessionService]:
    with clew.open(url) as store:
        yield ClewSessionService(store)


async def count_to(service: ClewSessionService, session: Session, *numbers: int) -> None:
    for number in numbers:
        event = changing(count=number, user__count=number, **{f"seen{number}": True})
        event.timestamp = float(number)
        await service.append_event(session, event)


def test_the_state_goes_back_with_the_events(service: ClewSessionService) -> None:
    """But not the state of the user: other sessions have it too."""

    async def work() -> None:
        live = await service.create_session(**TALK, state={"count": 0, "name": "x"})
        await count_to(service, live, 1, 2, 3)
        whole = dict(live.state)
        service.session(**TALK).rewind(0)

        with pytest.raises(StaleSessionError):
            await service.append_event(live, said("too late"))
        back = await load(service)
        assert back.state == {"count": 1, "name": "x", "seen1": True, "user:count": 3}
        assert (len(back.events), back.last_update_time) == (1, 1.0)
        (listed,) = (await service.list_sessions(app_name="birds")).sessions
        assert (listed.state, listed.last_update_time) == (back.state, 1.0)

        await service.append_event(back, said("another way"))
        none = GetSessionConfig(num_recent_events=0)
        found = await service.get_session(**TALK, config=none)
        assert found is not None
        assert found.state == {"count": 1, "name": "x", "seen1": True, "user:count": 3}

        service.session(**TALK).undo()
        assert (await load(service)).state == {**whole, "user:count": 3}

    run(work())


def test_a_branch_does_not_leak_into_another(service: ClewSessionService) -> None:
    """An event without a change of state, on a branch that was left: nothing of it is remembered wrongly."""

    async def work() -> None:
        live = await service.create_session(**TALK)
        await count_to(service, live, 1, 2)
        kept = service.session(**TALK)
        there = kept.head
        kept.rewind(0)
        await service.append_event(await load(service), said("no change"))
        kept.rewind(there)
        assert (await load(service)).state["count"] == 2
        await service.append_event(await load(service), said("no change"))
        assert (await load(service)).state == {"count": 2, "seen1": True, "seen2": True, "user:count": 2}

    run(work())


def test_a_cleared_session_has_the_state_it_was_created_with(service: ClewSessionService) -> None:
    async def work() -> None:
        created = await service.create_session(**TALK, state={"count": 0})
        await count_to(service, created, 1)
        service.session(**TALK).clear()

        found = await load(service)
        assert (found.events, found.state) == ([], {"count": 0, "user:count": 1})
        await count_to(service, found, 7)
        assert (await load(service)).state == {"count": 7, "seen7": True, "user:count": 7}

    run(work())


def test_a_fork_is_a_session_of_its_own(service: ClewSessionService) -> None:
    async def work() -> None:
        base = await service.create_session(**TALK, state={"name": "x"})
        await count_to(service, base, 1, 2)
        service.session(**TALK).fork(at=0)

        fork = await load(service, session_id="talk#fork-1")
        assert fork.state == {"name": "x", "count": 1, "seen1": True, "user:count": 2}
        await count_to(service, fork, 9)
        again = await load(service, session_id="talk#fork-1")
        assert again.state == {"name": "x", "count": 9, "seen1": True, "seen9": True, "user:count": 9}
        assert (await load(service)).state == {
            "name": "x", "count": 2, "seen1": True, "seen2": True, "user:count": 9
        }  # fmt: skip
        listed = (await service.list_sessions(app_name="birds", user_id="ann")).sessions
        assert [session.id for session in listed] == ["talk", "talk#fork-1"]

    run(work())


def test_what_is_no_event_is_passed_over(service: ClewSessionService) -> None:
    """A summary, or a remark that somebody put there by other means."""

    async def work() -> None:
        live = await service.create_session(**TALK)
        await service.append_event(live, said("one"))
        await count_to(service, live, 1)
        kept = service.session(**TALK)
        kept.append({"role": "user", "content": "a remark"}, {"timestamp": "noon"})
        kept.set_summary("much was said")

        found = await load(service)
        assert len(found.events) == 2
        assert found.state == {"count": 1, "seen1": True, "user:count": 1}
        config = GetSessionConfig(num_recent_events=2)
        some = await service.get_session(**TALK, config=config)
        assert some is not None
        assert some.events == found.events
        await service.append_event(found, said("two"))
        assert texts(await load(service)) == ["one", "two"]

    run(work())


def test_a_session_that_is_not_there_is_named(service: ClewSessionService) -> None:
    with pytest.raises(clew.SessionNotFoundError, match="nobody"):
        service.session(app_name="birds", user_id="ann", session_id="nobody")


def test_state_goes_with_a_copy_of_the_store(service: ClewSessionService) -> None:
    async def work(copy: clew.Store) -> None:
        live = await service.create_session(**TALK, state={"app:motto": "fly"})
        await count_to(service, live, 1, 2)
        clew.copy(service._store, copy)
        found = await load(ClewSessionService(copy))
        assert found == await load(service)

    with clew.open("memory:") as copy:
        run(work(copy))
