"""The session service for Google ADK keeps what the framework's own services promise, on every backend."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

import clew
from clew.adapters.adk import ClewSessionService
from clew.adapters.common import session_id
from clew.testing.adapter import AdapterConformance
from tests.adapters.adk.events import TALK, changing, load, run, said, texts


class TestAdk(AdapterConformance):
    def make(self, store: clew.Store) -> ClewSessionService:
        return ClewSessionService(store)

    def messages(self) -> list[Event]:
        call = types.FunctionCall(id="c1", name="look_up", args={"bird": None})
        result = types.FunctionResponse(id="c1", name="look_up", response={"result": "kingfisher"})
        pieces = [
            ("user", "user", types.Part(text="Is that a grey heron?")),
            ("birds", "model", types.Part(function_call=call)),
            ("birds", "user", types.Part(function_response=result)),
            ("birds", "model", types.Part(text="naïve 鷺 \0")),
        ]
        return [
            Event(
                invocation_id="e-1",
                author=author,
                content=types.Content(role=role, parts=[part]),
                id=f"event-{number}",
                timestamp=1_700_000_000.1 + number,
            )
            for number, (author, role, part) in enumerate(pieces)
        ]

    def numbered(self, number: str) -> list[Event]:
        return [said(number, id=number, timestamp=1.5)]  # one call of the protocol takes one event

    def number_of(self, message: Event) -> str:
        return message.id

    def session_id(self, name: str) -> str:
        return session_id("adk", "birds", "ann", name)

    async def write(self, adapter: ClewSessionService, name: str, messages: list[Event]) -> None:
        key = {**TALK, "session_id": name}
        session = await adapter.get_session(**key) or await adapter.create_session(**key)
        for event in messages:
            while True:
                try:
                    await adapter.append_event(session, event)
                    break
                except StaleSessionError:  # somebody was faster: look at what it wrote, and go on
                    session = await load(adapter, session_id=name)

    async def read(self, adapter: ClewSessionService, name: str) -> list[Event]:
        session = await adapter.get_session(**{**TALK, "session_id": name})
        return [] if session is None else session.events


@pytest.fixture
def service(url: str) -> Iterator[ClewSessionService]:
    with clew.open(url) as store:
        yield ClewSessionService(store)


def test_state_is_shared_by_app_by_user_or_not_at_all(service: ClewSessionService) -> None:
    async def work() -> None:
        state = {"mine": 1, "user:tone": {"formal": None}, "app:version": [2.5], "temp:scratch": 0}
        created = await service.create_session(**TALK, state=state)
        await service.append_event(created, changing(mine=2, user__tone="plain", app__motto="鷺", other=None))

        same_user = await service.create_session(app_name="birds", user_id="ann")
        other_user = await service.create_session(app_name="birds", user_id="bob", session_id="talk")
        other_app = await service.create_session(app_name="fish", user_id="ann")

        everybody = {"app:version": [2.5], "app:motto": "鷺"}
        assert (await load(service)).state == {"mine": 2, "other": None, "user:tone": "plain", **everybody}
        assert same_user.state == {"user:tone": "plain", **everybody}
        assert other_user.state == everybody
        assert other_app.state == {}
        assert await service.get_user_state(app_name="birds", user_id="ann") == {"tone": "plain"}
        assert await service.get_user_state(app_name="birds", user_id="bob") == {}

    run(work())


def test_what_was_created_and_appended_is_what_is_loaded(service: ClewSessionService) -> None:
    """Equal as ADK compares: events, state, time and revision."""

    async def work() -> None:
        session = await service.create_session(**TALK, state={"app:a": 1, "s": 10**30, "temp:t": 1})
        assert await load(service) == session

        event = Event(
            invocation_id="e-1",
            author="birds",
            content=types.Content(
                role="model",
                parts=[
                    types.Part.from_bytes(data=b"\x00\xff", mime_type="image/png"),
                    types.Part(text="hm", thought=True, thought_signature=b"\xfe"),
                    types.Part.from_function_call(name="f", args={"a": None, "b": [0.1, {"c": None}]}),
                ],
            ),
            actions=EventActions(
                state_delta={"k": {"n": None}, "user:u": 0.1 + 0.2}, artifact_delta={"f": 0}, escalate=True
            ),
            long_running_tool_ids={"b", "a"},
            turn_complete=True,
            partial=False,
            error_code="E",
            error_message="late",
            interrupted=True,
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
            grounding_metadata=types.GroundingMetadata(
                search_entry_point=types.SearchEntryPoint(sdk_blob=b"blob")
            ),
            custom_metadata={"none": None},
            output={"none": None},
            timestamp=1_700_000_000.123_456,
        )
        await service.append_event(session, event)

        assert session.last_update_time == 1_700_000_000.123_456
        for _ in range(2):  # read, and remembered
            found = await load(service)
            assert found == session
            assert found.events == [event]

    run(work())


def test_what_is_loaded_belongs_to_who_loaded_it(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK, state={"list": [1], "app:list": [1]})
        await service.append_event(session, said("one"))
        for _ in range(2):
            found = await load(service)
            found.state["list"].append(2)
            found.state["app:list"].append(2)
            found.events[0].content = None
            found.events.clear()

        found = await load(service)
        assert texts(found) == ["one"]
        assert found.state == {"list": [1], "app:list": [1]}
        listed = (await service.list_sessions(app_name="birds")).sessions
        listed[0].state["app:list"].append(2)
        assert (await load(service)).state["app:list"] == [1]

    run(work())


def test_what_is_loaded_is_a_copy_down_to_its_last_part(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK)
        call = types.FunctionCall(name="f", args={"list": [1, {"deep": [2]}]})
        content = types.Content(role="model", parts=[types.Part(text="hm"), types.Part(function_call=call)])
        event = Event(author="birds", content=content, long_running_tool_ids={"a"}, custom_metadata={"k": []})
        await service.append_event(session, event.model_copy(deep=True))
        for _ in range(2):
            (found,) = (await load(service)).events
            assert found == event
            assert found.content is not None
            assert found.content.parts is not None
            told = found.content.parts[1].function_call
            assert told is not None
            assert told.args is not None
            told.args["list"][1]["deep"].append(3)
            found.content.parts[0].text = "changed"
            found.content.parts.pop()
            assert found.long_running_tool_ids is not None
            found.long_running_tool_ids.add("b")
            assert found.custom_metadata is not None
            found.custom_metadata["k"].append(1)
            assert "branch" not in found.model_fields_set
            found.branch = "x"

        assert (await load(service)).events == [event]

    run(work())


def test_temporary_state_lives_as_long_as_the_session_object(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK)
        event = await service.append_event(session, changing(temp__draft="x", kept="y"))

        assert session.state == {"temp:draft": "x", "kept": "y"}
        assert event.actions.state_delta == {"kept": "y"}
        found = await load(service)
        assert found.state == {"kept": "y"}
        assert found.events[0].actions.state_delta == {"kept": "y"}

    run(work())


def test_values_without_json_are_kept_as_the_framework_writes_them(service: ClewSessionService) -> None:
    async def work() -> None:
        noon = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
        session = await service.create_session(**TALK, state={"at": noon, "f": len})
        await service.append_event(session, changing(then=noon, user__g=len))

        state = (await load(service)).state
        assert (state["at"], state["then"]) == ("2026-01-02T12:00:00Z", "2026-01-02T12:00:00Z")
        assert "built-in function len" in state["f"]
        assert "built-in function len" in state["user:g"]

    run(work())


def test_an_id_is_taken_once_for_each_user(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK)
        await service.append_event(session, said("hi"))
        with pytest.raises(AlreadyExistsError, match="talk already exists"):
            await service.create_session(**TALK, state={"app:x": 1})
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**{**TALK, "session_id": " talk "})
        other = await service.create_session(**{**TALK, "user_id": "bob"})

        assert other.state == {}  # of what was refused, nothing is kept
        assert texts(await load(service, user_id="bob")) == []
        assert texts(await load(service, session_id="\ttalk ")) == ["hi"]
        assert (await service.create_session(app_name="birds", user_id="ann", session_id="  ")).id.strip()

    run(work())


def test_a_deleted_session_is_in_the_trash_and_its_id_is_free(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK, state={"mine": 1, "user:u": 2, "app:a": 3})
        await service.append_event(session, said("hi"))
        await service.delete_session(**TALK)
        await service.delete_session(**TALK)  # nobody minds

        assert await service.get_session(**TALK) is None
        assert (await service.list_sessions(app_name="birds")).sessions == []
        with pytest.raises(SessionNotFoundError, match="talk"):
            await service.append_event(session, said("late"))
        again = await service.create_session(**TALK)
        assert again.state == {"user:u": 2, "app:a": 3}
        assert texts(await load(service)) == []
        await service.delete_session(**TALK)

    run(work())
    assert len(service._store.list(deleted=True)) == 2


def test_the_newest_events_or_those_since_a_moment(service: ClewSessionService) -> None:
    async def some(**config: Any) -> list[str]:
        found = await service.get_session(**TALK, config=GetSessionConfig(**config))
        assert found is not None
        assert found.state == {"k": 1}
        return texts(found)

    async def work() -> None:
        session = await service.create_session(**TALK, state={"k": 1})
        for number in range(1, 6):
            await service.append_event(session, said(str(number), timestamp=float(number)))

        assert await some() == ["1", "2", "3", "4", "5"]
        assert await some(num_recent_events=0) == []
        assert await some(num_recent_events=2) == ["4", "5"]
        assert await some(num_recent_events=9) == ["1", "2", "3", "4", "5"]
        assert await some(after_timestamp=4.0) == ["4", "5"]
        assert await some(after_timestamp=0.0) == ["1", "2", "3", "4", "5"]
        assert await some(after_timestamp=5.1) == []
        assert await some(after_timestamp=2.0, num_recent_events=3) == ["3", "4", "5"]
        assert await some(after_timestamp=4.0, num_recent_events=3) == ["4", "5"]
        with pytest.raises(ValueError, match="num_recent_events"):
            GetSessionConfig(num_recent_events=-1)

    run(work())


def test_events_stay_in_the_order_in_which_they_came(service: ClewSessionService) -> None:
    """Whatever the clocks of their writers say."""

    async def work() -> None:
        session = await service.create_session(**TALK)
        for text, timestamp in (("a", 9.0), ("b", 3.0), ("c", 3.0), ("d", 6.0)):
            await service.append_event(session, said(text, timestamp=timestamp))

        found = await load(service)
        assert texts(found) == ["a", "b", "c", "d"]
        assert found.last_update_time == 6.0
        config = GetSessionConfig(num_recent_events=2)
        assert texts(await service.get_session(**TALK, config=config)) == ["c", "d"]

    run(work())


def test_a_part_of_an_answer_is_not_kept(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK)
        await service.append_event(session, said("ans", "birds", partial=True))
        await service.append_event(session, said("answer", "birds", partial=False))

        assert texts(session) == texts(await load(service)) == ["answer"]

    run(work())


def test_sessions_are_listed_without_events_oldest_update_first(service: ClewSessionService) -> None:
    async def work() -> None:
        for user, name in (("ann", "a"), ("bob", "b"), ("ann", "c")):
            await service.create_session(app_name="birds", user_id=user, session_id=name, state={"n": name})
        await service.create_session(app_name="fish", user_id="ann", session_id="x", state={"app:w": 0})
        moments = {"a": 9e9, "b": 7e9, "c": 8e9}
        for user, name in (("ann", "a"), ("ann", "c"), ("bob", "b")):
            session = await load(service, user_id=user, session_id=name)
            event = changing(user__who=user, app__last=name)
            event.timestamp = moments[name]
            await service.append_event(session, event)

        everybody = (await service.list_sessions(app_name="birds")).sessions
        ann = (await service.list_sessions(app_name="birds", user_id="ann")).sessions

        assert [session.id for session in everybody] == ["b", "c", "a"]
        assert [session.id for session in ann] == ["c", "a"]
        assert [session.last_update_time for session in ann] == [8e9, 9e9]
        assert everybody[0].state == {"n": "b", "user:who": "bob", "app:last": "b"}
        assert ann[1].state == {"n": "a", "user:who": "ann", "app:last": "b"}
        assert [session.events for session in everybody] == [[], [], []]
        assert (await service.list_sessions(app_name="birds", user_id="nobody")).sessions == []
        assert (await service.list_sessions(app_name="cats")).sessions == []
        await service.append_event(ann[1], said("goes on"))  # what is listed has a revision, too

    run(work())


NAMES = ["a/b", "%2F", "~x", "", "鷺", "x" * 600, "nul\0", "a#fork-1"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_names_and_keys_may_be_any_text(service: ClewSessionService) -> None:
    async def work() -> None:
        keys = [("app", "user", name) for name in NAMES if name] + [("app", name, "s") for name in NAMES]
        keys += [(name, "user", "s") for name in NAMES] + [("adk", "app", "user")]
        state = {f"{scope}{name}": name for name in NAMES for scope in ("", "k", "user:", "app:")}
        for app, user, name in keys:
            await service.create_session(
                app_name=app, user_id=user, session_id=name, state={"key": f"{app}|{user}|{name}"}
            )
        for app, user, name in keys:
            session = await service.get_session(app_name=app, user_id=user, session_id=name)
            assert session is not None
            assert session.state == {"key": f"{app}|{user}|{name}"}
        listed = (await service.list_sessions(app_name="app")).sessions
        assert {(s.app_name, s.user_id, s.id) for s in listed} == {key for key in keys if key[0] == "app"}

        session = await service.create_session(app_name="z", user_id="z", session_id="z", state=state)
        await service.append_event(session, changing(after=1))
        found = await service.get_session(app_name="z", user_id="z", session_id="z")
        assert found is not None
        assert found.state == {**state, "after": 1}

    run(work())


def test_only_conversations_look_like_conversations(service: ClewSessionService) -> None:
    run(service.create_session(**TALK, state={"app:a": 1, "user:u": 2}))

    found = service._store.list(where={"framework": "adk", "kind": "session"})

    assert [info.id for info in found] == ["adk/birds/ann/talk"]
    tagged = service._store.list(tag="adk-state")
    assert {info.id for info in tagged} == {"adk/birds", "adk/birds/ann"}


def test_what_the_model_used_is_counted_with_the_event(service: ClewSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**TALK)
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=100,
            candidates_token_count=20,
            thoughts_token_count=5,
            cached_content_token_count=60,
        )
        object.__setattr__(used, "cache_creation_input_tokens", 10)  # as the framework does for Claude
        event = said("an owl", "spotter", usage_metadata=used, model_version="gemini-9")
        await service.append_event(session, event)
        await service.append_event(session, event)
        odd = types.GenerateContentResponseUsageMetadata(prompt_token_count=-1)
        await service.append_event(session, said("a jay", "spotter", usage_metadata=odd))

    run(work())
    kept = service.session(**TALK)
    (call,) = kept.usage_records()
    assert (call.model, call.vendor, call.source) == ("gemini-9", "google", "spotter")
    tokens = (call.input_tokens, call.output_tokens, call.cache_read_tokens, call.reasoning_tokens)
    assert tokens == (100, 25, 60, 5)
    assert call.cache_write_tokens == 10
    assert call.entry == next(kept.entries()).id
    assert texts(run(load(service))) == ["an owl", "a jay"]
