"""Sessions of the OpenAI Agents SDK in a Clew store: what the SDK asks of a session, and what Clew adds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from agents import ModelResponse, SessionSettings, TResponseInputItem, Usage
from agents.memory import Session
from agents.memory.session import _session_accepts_wrapper
from agents.testing import assistant_message
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

import clew
from clew.adapters.openai_agents import ClewSession
from clew.testing.adapter import AdapterConformance, run
from tests.adapters.openai_agents.items import item, items, texts


class TestConformance(AdapterConformance):
    def make(self, store: clew.Store) -> Callable[[str], ClewSession]:
        return lambda name: ClewSession(name, store)

    def messages(self) -> list[Any]:
        said = {"type": "output_text", "text": "naïve 鷺 \u0000", "annotations": [], "logprobs": []}
        return [
            {"role": "user", "content": "where is the grey heron"},
            {"type": "function_call", "call_id": "c-1", "name": "look_up", "arguments": '{"n":1}', "id": "f"},
            {"type": "function_call_output", "call_id": "c-1", "output": "kingfisher"},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]},
        ]

    def numbered(self, number: str) -> list[Any]:
        return [item(number), item(number, "assistant")]

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        await adapter(name).add_items(messages)

    async def read(self, adapter: Any, name: str) -> list[Any]:
        found: list[Any] = await adapter(name).get_items()
        return found

    def number_of(self, message: Any) -> str:
        return str(message["content"])


@pytest.fixture
def session(store: clew.Store) -> ClewSession:
    return ClewSession("talk", store)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[ClewSession]:
    """On one kind of store, for what does not depend on it."""
    with clew.open(tmp_path / "agents.db") as store:
        yield ClewSession("talk", store)


def kept(session: ClewSession) -> clew.Session:
    return session.clew


# ── The protocol ──────────────────────────────────────────────────────────────────────────────────


def test_it_is_a_session_that_wants_the_context_of_the_run(local: ClewSession) -> None:
    assert isinstance(local, Session)
    assert _session_accepts_wrapper(local)
    assert local.session_settings == SessionSettings()
    assert not hasattr(local, "run_compaction")  # else the SDK would take it for one that compacts itself


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, "abcd"), (2, "cd"), (0, ""), (-1, "abcd"), (9, "abcd"), (2_147_483_647, "abcd"), (2**63, "abcd")],
)
def test_a_limit_gives_the_latest_in_their_order(
    local: ClewSession, limit: int | None, expected: str
) -> None:
    run(local.add_items(items(*"abcd")))
    assert texts(run(local.get_items(limit))) == list(expected)
    assert texts(run(local.get_items(limit=limit))) == list(expected)


def test_the_limit_of_the_settings_holds_unless_another_is_given(local: ClewSession) -> None:
    run(local.add_items(items(*"abcd")))
    local.session_settings = SessionSettings(limit=1)
    assert texts(run(local.get_items())) == ["d"]
    assert texts(run(local.get_items(3))) == ["b", "c", "d"]
    local.session_settings = None
    assert texts(run(local.get_items())) == ["a", "b", "c", "d"]


def test_settings_may_be_a_dictionary_but_not_any(store: clew.Store) -> None:
    assert ClewSession("a", store, session_settings={"limit": 3}).session_settings == SessionSettings(limit=3)
    with pytest.raises(TypeError, match="limitt"):
        ClewSession("a", store, session_settings={"limitt": 3})


def test_equal_items_are_all_kept(session: ClewSession) -> None:
    run(session.add_items(items("same", "same")))
    run(session.add_items(items("same")))
    assert texts(run(session.get_items())) == ["same"] * 3


def test_nothing_added_makes_no_session(store: clew.Store, session: ClewSession) -> None:
    run(session.add_items([]))
    assert run(session.pop_item()) is None
    run(session.clear_session())
    assert store.find("talk") is None


def test_pop_takes_the_newest_and_what_follows_branches_off(session: ClewSession) -> None:
    run(session.add_items(items(*"abc")))
    assert [run(session.pop_item()), run(session.pop_item())] == items("c", "b")
    run(session.add_items(items("x")))
    assert texts(run(session.get_items())) == ["a", "x"]
    assert len(kept(session).tree().branches) == 2
    kept(session).undo()  # the second pop
    assert texts(run(session.get_items())) == ["a", "b"]


def test_pop_of_the_last_one_leaves_an_empty_session(session: ClewSession) -> None:
    run(session.add_items(items("a")))
    assert run(session.pop_item()) == item("a")
    assert run(session.pop_item()) is None
    assert run(session.get_items()) == []
    run(session.add_items(items("b")))
    assert texts(run(session.get_items())) == ["b"]


def test_pop_passes_over_marks(local: ClewSession) -> None:
    run(local.add_items(items(*"ab")))
    kept(local).set_summary("b was said")
    assert run(local.pop_item()) == item("b")
    assert texts(run(local.get_items())) == ["a"]


def test_pops_at_the_same_time_take_different_items(local: ClewSession) -> None:
    run(local.add_items(items(*"abcdef")))

    async def pops() -> list[Any]:
        return list(await asyncio.gather(*(local.pop_item() for _ in range(8))))

    popped = run(pops())
    assert [each["content"] for each in popped if each] == list("fedcba")
    assert popped.count(None) == 2


def test_a_pop_that_is_not_wanted_takes_nothing(local: ClewSession) -> None:
    run(local.add_items(items("a")))

    def refuse(item: TResponseInputItem) -> None:
        raise LookupError("not mine")

    with pytest.raises(LookupError):
        run(local._pop_item_with_validation(refuse))
    assert texts(run(local.get_items())) == ["a"]


def test_a_cleared_session_goes_on_and_can_be_brought_back(session: ClewSession) -> None:
    run(session.add_items(items(*"ab")))
    run(session.clear_session())
    assert run(session.get_items()) == []
    run(session.add_items(items("c")))
    assert texts(run(session.get_items())) == ["c"]
    kept(session).undo()
    assert texts(run(session.get_items())) == ["a", "b"]


def test_a_batch_with_something_that_is_not_json_leaves_nothing(local: ClewSession) -> None:
    bad = cast("TResponseInputItem", {"role": "user", "content": object()})
    with pytest.raises(TypeError):
        run(local.add_items([*items("a"), bad]))
    assert run(local.get_items()) == []
    run(local.add_items([cast("TResponseInputItem", {"role": "user", "content": ({"n": 1},)})]))
    assert run(local.get_items()) == [{"role": "user", "content": [{"n": 1}]}]


def test_a_cancelled_write_is_over_when_the_cancellation_is_heard_of(local: ClewSession) -> None:
    async def cancel_all_the_time() -> list[str]:
        for number in range(20):
            writing = asyncio.ensure_future(local.add_items(items(str(number))))
            await asyncio.sleep(0)  # it has begun: it cannot be stopped any more
            writing.cancel()
            await asyncio.sleep(0)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            assert texts(await local.get_items(1)) == [str(number)]
        return texts(await local.get_items())

    assert run(cancel_all_the_time()) == [str(number) for number in range(20)]


def test_who_is_cancelled_twice_hears_of_the_first_and_not_of_what_failed(local: ClewSession) -> None:
    bad = cast("TResponseInputItem", {"role": "user", "content": object()})

    async def cancel_what_fails() -> asyncio.CancelledError:
        writing = asyncio.ensure_future(local.add_items([bad]))
        await asyncio.sleep(0)
        writing.cancel("first")
        await asyncio.sleep(0)
        writing.cancel("second")
        with pytest.raises(asyncio.CancelledError) as heard:
            await writing
        return heard.value

    assert run(cancel_what_fails()).args == ("first",)
    assert run(local.get_items()) == []


def test_a_closed_session_is_of_no_use_and_the_store_is_open_still(local: ClewSession) -> None:
    run(local.add_items(items("a")))
    snapshot = run(local._get_compaction_snapshot(5))

    async def close_again_and_again() -> None:
        _ = local.close()  # as those of the SDK that block
        await asyncio.gather(local.close(), local.close())  # and as those that do not

    run(close_again_and_again())
    uses: list[Callable[[], Any]] = [
        local.get_items,
        lambda: local.get_items(1),
        lambda: local.add_items([]),
        lambda: local.add_items(items("b")),
        local.pop_item,
        local.clear_session,
        lambda: local._get_compaction_snapshot(5),
        lambda: local._atomic_replace_items([]),
        lambda: snapshot.replace_suffix(0, []),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match=r"ClewSession is closed.*'talk'") as refused:
            run(use())
        assert isinstance(refused.value, clew.ClewError)
    assert texts(run(ClewSession("talk", local._blocking).get_items())) == ["a"]


def test_many_sessions_share_the_threads_that_read(local: ClewSession) -> None:
    async def read_by_many() -> int:
        await local.add_items(items("a"))
        before = threading.active_count()
        many = [ClewSession("talk", local._blocking) for _ in range(20)]
        for each in many:
            assert texts(await each.get_items()) == ["a"]
            await each.record_usage(ModelResponse(output=[], usage=Usage(requests=1), response_id=None))
        return threading.active_count() - before

    assert run(read_by_many()) < 10


@pytest.mark.parametrize("odd", ["", "a/b%", "é" * 400, "~x", "nul\0"])
def test_any_text_is_a_session_id(local: ClewSession, odd: str) -> None:
    store = local._blocking
    run(ClewSession(odd, store).add_items(items("mine")))
    run(ClewSession("other", store).add_items(items("other")))
    assert texts(run(ClewSession(odd, store).get_items())) == ["mine"]
    assert ClewSession(odd, store).session_id == odd


# ── What was read before is remembered ────────────────────────────────────────────────────────────


def test_a_history_read_before_has_what_others_did_since(session: ClewSession, store: clew.Store) -> None:
    run(session.add_items(items(*"abc")))
    assert texts(run(session.get_items())) == ["a", "b", "c"]
    other = ClewSession("talk", store)
    run(other.add_items(items("d")))
    assert texts(run(session.get_items())) == ["a", "b", "c", "d"]
    kept(other).rewind(1)
    assert texts(run(session.get_items())) == ["a", "b"]
    run(other.add_items(items(*"xyz")))
    assert texts(run(session.get_items())) == ["a", "b", "x", "y", "z"]
    kept(other).undo()
    assert texts(run(session.get_items())) == ["a", "b", "c", "d"]
    store.delete("talk")
    assert run(session.get_items()) == []
    run(other.add_items(items("anew")))
    assert texts(run(session.get_items())) == ["anew"]


def test_changing_what_was_read_changes_nothing_else(local: ClewSession) -> None:
    run(local.add_items(items(*"ab")))
    for _ in range(3):
        found = run(local.get_items())
        assert texts(found) == ["a", "b"]
        found[0]["content"] = "changed"
        found.pop()


def test_what_a_rule_removed_is_not_remembered(local: ClewSession) -> None:
    run(local.add_items(items(*"abcd")))
    assert len(run(local.get_items())) == 4
    store = local._blocking
    store.set_retention(clew.Retention(max_messages=2))
    assert store.sweep().actions
    assert texts(run(local.get_items())) == ["c", "d"]


# ── What Clew adds ────────────────────────────────────────────────────────────────────────────────


def test_it_is_created_with_what_it_was_given(store: clew.Store) -> None:
    session = ClewSession("talk", store, title="Birds", tags=["field"], metadata={"owner": "ada"})
    run(session.add_items(items("a")))
    info = store.get("talk").info
    assert (info.title, info.tags) == ("Birds", ("field",))
    assert [each.id for each in store.list(where={"framework": "openai-agents", "owner": "ada"})] == ["talk"]


def test_a_fork_goes_its_own_way(session: ClewSession) -> None:
    run(session.add_items(items(*"abc")))
    fork = run(session.fork(at=0))
    run(fork.add_items(items("x")))
    assert texts(run(fork.get_items())) == ["a", "x"]
    assert texts(run(session.get_items())) == ["a", "b", "c"]
    odd = ClewSession("", session._blocking)
    run(odd.add_items(items("a")))
    assert texts(run(run(odd.fork()).get_items())) == ["a"]


def test_files_go_back_with_the_conversation(local: ClewSession, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("good")
    run(local.add_items(items("a")))
    kept(local).checkpoint("good", files=project)
    (project / "notes.txt").write_text("bad")
    run(local.add_items(items("b")))
    kept(local).rewind("good", files=True)
    assert texts(run(local.get_items())) == ["a"]
    assert (project / "notes.txt").read_text() == "good"


@pytest.mark.parametrize("face", ["blocking", "tasks"])
def test_under_a_run_it_writes_with_the_lease_and_others_do_not(local: ClewSession, face: str) -> None:
    store = local._blocking

    async def work() -> list[str]:
        if face == "tasks":
            tasks = clew.AsyncStore.over(store)
            async with await (await tasks.session("talk")).run("birds") as lease:
                return await under(lease)
        with kept(local).run("birds") as held:
            return await under(held)

    async def under(lease: Any) -> list[str]:
        mine = ClewSession("talk", store, run=lease)
        await mine.add_items(items(*"ab"))
        await mine.pop_item()
        with pytest.raises(clew.LeaseHeldError):
            await local.add_items(items("x"))
        with pytest.raises(clew.LeaseHeldError):
            await local.pop_item()
        with pytest.raises(clew.InvalidError, match="other"):
            ClewSession("other", store, run=lease)
        return texts(await mine.get_items())

    assert run(work()) == ["a"]
    assert [entry.epoch for entry in kept(local).entries()] == [1]


def test_usage_is_written_down_once_for_each_response(local: ClewSession) -> None:
    usage = Usage(
        requests=1,
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        input_tokens_details=InputTokensDetails(cached_tokens=60, cache_write_tokens=5),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=7),
    )
    response = ModelResponse(output=[assistant_message("hi")], usage=usage, response_id="resp-1")
    for _ in range(2):
        run(local.record_usage(response, model="gpt-4.1"))
    nothing = ModelResponse(output=[], usage=Usage(), response_id="resp-2")
    run(local.record_usage(nothing))
    (call,) = kept(local).usage_records()
    assert (call.model, call.id) == ("gpt-4.1", "resp-1")
    assert (call.input_tokens, call.output_tokens, call.reasoning_tokens) == (100, 20, 7)
    assert (call.cache_read_tokens, call.cache_write_tokens) == (60, 5)


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(clew.InvalidError, match="needs a store"):
        ClewSession("talk", cast("Any", "agents.db"))


def test_an_async_store_will_do(tmp_path: Path) -> None:
    async def talk() -> list[str]:
        async with clew.open_async(tmp_path / "agents.db") as store:
            session = ClewSession("talk", store)
            await session.add_items(items("a"))
            return texts(await session.get_items())

    assert run(talk()) == ["a"]
