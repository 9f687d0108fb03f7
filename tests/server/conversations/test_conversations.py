"""Conversations through OpenAI's own client, and what the library sees of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import openai
import pytest

import clew
from clew.errors import NothingToUndoError
from tests.server.conftest import TOKEN, Running

ASKED: Any = {"role": "user", "content": "where is the grey heron?"}
CALLED: Any = {"type": "function_call", "call_id": "c-1", "name": "look_up", "arguments": '{"bird":"heron"}'}
FOUND: Any = {"type": "function_call_output", "call_id": "c-1", "output": "at the pond"}
SAID: Any = {"role": "assistant", "content": "At the pond."}
KINDS = ["message", "function_call", "function_call_output"]
"""Those of the first three."""


def numbered(*numbers: int) -> list[Any]:
    return [{"role": "user", "content": f"message {number}"} for number in numbers]


def texts(items: Any) -> list[str]:
    return [item.content[0].text for item in items]


def test_a_conversation_is_made_read_changed_and_deleted(sdk: openai.OpenAI, server: Running) -> None:
    made = sdk.conversations.create(metadata={"topic": "birds"}, items=[ASKED])
    assert made.id.startswith("conv_")
    assert len(made.id) == len("conv_") + 48
    assert (made.object, made.metadata) == ("conversation", {"topic": "birds"})
    info = server.store.get(made.id).info
    assert made.created_at == math.floor(info.created_at.timestamp())
    assert (info.agent, info.title, info.user_turns) == (
        "openai-conversations",
        "where is the grey heron?",
        1,
    )
    assert [one.id for one in server.store.list(where={"topic": "birds"})] == [made.id]

    assert sdk.conversations.retrieve(made.id) == made
    changed = sdk.conversations.update(made.id, metadata={"topic": "herons", "framework": "my own"})
    assert changed.metadata == {"topic": "herons", "framework": "my own"}
    assert server.store.get(made.id).info.agent == "openai-conversations"
    assert sdk.conversations.retrieve(made.id) == changed
    assert sdk.conversations.update(made.id, metadata=None).metadata == {}

    gone = sdk.conversations.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "conversation.deleted", True)
    with pytest.raises(openai.NotFoundError, match=f"Conversation with id '{made.id}' not found"):
        sdk.conversations.retrieve(made.id)
    server.store.restore_deleted(made.id)
    assert texts(sdk.conversations.items.list(made.id)) == ["where is the grey heron?"]


def test_items_get_what_openai_adds_and_keep_it(sdk: openai.OpenAI) -> None:
    id = sdk.conversations.create().id
    added = sdk.conversations.items.create(id, items=[ASKED, CALLED, FOUND, SAID])
    kinds = [(item.type, (item.id or "").partition("_")[0]) for item in added.data]
    assert kinds == [
        ("message", "msg"),
        ("function_call", "fc"),
        ("function_call_output", "fco"),
        ("message", "msg"),
    ]
    assert added.data[0].to_dict() == {
        "id": added.first_id,
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "where is the grey heron?"}],
    }
    assert added.data[3].to_dict() == {
        "id": added.last_id,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "At the pond.", "annotations": []}],
    }
    assert added.has_more is False
    assert list(sdk.conversations.items.list(id, order="asc")) == added.data
    for item in added.data:
        assert sdk.conversations.items.retrieve(cast("str", item.id), conversation_id=id) == item


def test_pages_of_both_orders_have_every_item_once(sdk: openai.OpenAI) -> None:
    id = sdk.conversations.create(items=numbered(*range(20))).id
    sdk.conversations.items.create(id, items=numbered(*range(20, 40)))
    sdk.conversations.items.create(id, items=numbered(*range(40, 45)))
    expected = [f"message {number}" for number in range(45)]
    for limit in (1, 7, 45, 100):
        assert texts(sdk.conversations.items.list(id, order="asc", limit=limit)) == expected
        assert texts(sdk.conversations.items.list(id, limit=limit)) == expected[::-1]
    first = sdk.conversations.items.list(id)
    assert (len(first.data), first.has_more, first.last_id) == (20, True, first.data[-1].id)
    assert texts(first.data)[0] == "message 44"
    last = sdk.conversations.items.list(id, order="asc", after=cast("str", first.data[0].id))
    assert (last.data, last.has_more, last.last_id) == ([], False, None)


def test_a_page_goes_on_where_it_stood_whatever_the_server_remembers(serve: Callable[..., Running]) -> None:
    first = serve()
    with openai.OpenAI(base_url=f"{first.url}/v1", api_key=TOKEN) as sdk:
        id = sdk.conversations.create(items=numbered(*range(10))).id
        page = sdk.conversations.items.list(id, order="asc", limit=3)
    with (
        clew.open(first.store.location) as again,
        openai.OpenAI(base_url=f"{serve(again, streams=3).url}/v1", api_key=TOKEN) as sdk,
    ):
        after = cast("str", page.last_id)
        rest = sdk.conversations.items.list(id, order="asc", limit=3, after=after)
        assert texts(rest) == [f"message {number}" for number in range(3, 10)]


@pytest.mark.parametrize("at", range(4))
def test_an_item_is_taken_out_and_undo_brings_it_back(sdk: openai.OpenAI, server: Running, at: int) -> None:
    id = sdk.conversations.create(items=[ASKED, CALLED, FOUND, SAID]).id
    session = server.store.get(id)
    before, times = session.messages(), [entry.time for entry in session.entries()]
    items = list(sdk.conversations.items.list(id, order="asc"))
    answer = sdk.conversations.items.delete(cast("str", items[at].id), conversation_id=id)
    assert (answer.id, answer.object) == (id, "conversation")
    assert list(sdk.conversations.items.list(id, order="asc")) == items[:at] + items[at + 1 :]
    assert session.messages() == before[:at] + before[at + 1 :]
    assert [entry.time for entry in session.entries()] == times[:at] + times[at + 1 :]
    with pytest.raises(openai.NotFoundError):
        sdk.conversations.items.retrieve(cast("str", items[at].id), conversation_id=id)
    with pytest.raises(openai.NotFoundError):
        sdk.conversations.items.delete(cast("str", items[at].id), conversation_id=id)
    session.undo()
    assert session.messages() == before
    assert list(sdk.conversations.items.list(id, order="asc")) == items
    with pytest.raises(NothingToUndoError):
        session.undo()


def test_the_library_forks_rewinds_searches_and_exports_a_conversation(
    sdk: openai.OpenAI, server: Running
) -> None:
    id = sdk.conversations.create(items=[ASKED, CALLED, FOUND]).id
    session = server.store.get(id)
    session.checkpoint("found")
    sdk.conversations.items.create(id, items=[SAID])
    fork = session.fork("night", at="found")
    assert [item.type for item in sdk.conversations.items.list("night", order="asc")] == KINDS
    added = sdk.conversations.items.create("night", items=[{"role": "assistant", "content": "Asleep."}])
    assert added.last_id == fork.messages()[-1]["id"]
    assert len(session.messages()) == 4
    session.rewind("found")
    assert len(list(sdk.conversations.items.list(id))) == 3
    (hit,) = server.store.search("grey heron", role="user")
    assert hit.session in (id, "night")
    assert server.store.search("pond", tools=True, role="tool", session=id)
    assert "at the pond" in server.store.export(id, "markdown")
    assert [each["type"] for each in session.context()] == KINDS


def test_a_call_without_its_output_is_repaired_in_the_context_only(
    sdk: openai.OpenAI, server: Running
) -> None:
    id = sdk.conversations.create(items=[ASKED, CALLED]).id
    assert [each["type"] for each in server.store.get(id).context()] == KINDS
    assert len(list(sdk.conversations.items.list(id))) == 2


def test_a_repeat_with_the_same_key_happens_once(sdk: openai.OpenAI, server: Running) -> None:
    key = {"Idempotency-Key": "abc"}
    made = [sdk.conversations.create(items=[ASKED], extra_headers=key) for _ in range(2)]
    assert made[0] == made[1]
    assert server.store.stats().sessions == 1
    id = made[0].id
    more = {"Idempotency-Key": "def"}
    items: list[Any] = [CALLED, {**FOUND, "id": "fco_mine"}]
    added = [sdk.conversations.items.create(id, items=items, extra_headers=more) for _ in range(2)]
    assert added[0] == added[1]
    assert len(list(sdk.conversations.items.list(id))) == 3
    plain = {"Idempotency-Key": "ghi"}
    said = [sdk.conversations.items.create(id, items=[SAID], extra_headers=plain) for _ in range(2)]
    assert said[0] == said[1]
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.conversations.items.create(id, items=[SAID], extra_headers=more)
    assert caught.value.code == "key_reused"
    # Keys are those of one conversation: the same one elsewhere is another.
    other = sdk.conversations.create().id
    sdk.conversations.items.create(other, items=[CALLED], extra_headers=more)
    assert len(list(sdk.conversations.items.list(other))) == 1


def test_an_answer_that_is_lost_is_found_again_by_its_key(sdk: openai.OpenAI, server: Running) -> None:
    id = sdk.conversations.create().id
    cuts = [True]

    class Cut(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = super().handle_request(request)
            if cuts.pop() if cuts else False:
                answer.read()
                raise httpx.ReadError("cut off", request=request)
            return answer

    with server.client(transport=Cut()) as client:
        send: Any = {"json": {"items": [ASKED]}, "headers": {"Idempotency-Key": "once"}}
        with pytest.raises(httpx.ReadError):
            client.post(f"/v1/conversations/{id}/items", **send)
        assert client.post(f"/v1/conversations/{id}/items", **send).status_code == 200
    assert len(server.store.get(id).messages()) == 1


def test_sessions_that_others_wrote_are_shown_if_they_hold_items(sdk: openai.OpenAI, server: Running) -> None:
    session = server.store.create("by/the library", metadata={"topic": "birds", "weight": 3})
    session.append(ASKED, {**CALLED, "id": "__fake_id__"}, {**FOUND, "id": "__fake_id__"}, SAID, SAID)
    shown = sdk.conversations.retrieve("by/the library")
    assert (shown.id, shown.metadata) == ("by/the library", {"topic": "birds"})
    items: list[Any] = []
    for limit in (1, 2, 20):
        items = list(sdk.conversations.items.list(session.id, order="asc", limit=limit))
        assert [item.type for item in items] == [*KINDS, "message", "message"]
        assert len({item.id for item in items}) == 5
    for item in items:
        assert sdk.conversations.items.retrieve(item.id, conversation_id=session.id) == item
    sdk.conversations.items.delete(items[1].id, conversation_id=session.id)
    left = list(sdk.conversations.items.list(session.id, order="asc", limit=1))
    assert left == [items[0], *items[2:]]
    assert session.info.metadata == {"topic": "birds", "weight": 3}
    assert sdk.conversations.update(session.id, metadata={}).metadata == {}
    assert session.info.metadata == {"weight": 3}


def test_items_of_the_same_id_that_others_wrote_are_all_listed(sdk: openai.OpenAI, server: Running) -> None:
    server.store.create("twins").append(*[{**one, "id": "msg_same"} for one in numbered(*range(7))])
    for order in ("asc", "desc"):
        items = sdk.conversations.items.list("twins", order=cast("Any", order), limit=2)
        assert sorted(texts(items)) == [f"message {number}" for number in range(7)]


def test_what_is_no_item_is_not_shown_as_one(sdk: openai.OpenAI, server: Running) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    server.store.create("chat").append(ASKED, {"role": "assistant", "content": None, "tool_calls": [call]})
    server.store.create("claude", metadata={"framework": "claude"}).append(ASKED)
    with pytest.raises(openai.BadRequestError, match="read it as a session"):
        sdk.conversations.items.list("chat")
    quick = sdk.with_options(max_retries=0)
    with pytest.raises(openai.ConflictError, match="belongs to claude"):
        quick.conversations.items.create("claude", items=[ASKED])
    (item,) = sdk.conversations.items.list("claude")
    with pytest.raises(openai.ConflictError, match="belongs to claude"):
        quick.conversations.items.delete(cast("str", item.id), conversation_id="claude")


def test_marks_of_the_library_are_no_items(sdk: openai.OpenAI, server: Running) -> None:
    id = sdk.conversations.create(items=[ASKED, SAID]).id
    session = server.store.get(id)
    session.compact("they spoke of herons")
    sdk.conversations.items.create(id, items=[ASKED])
    session.set_summary("herons")
    items = list(sdk.conversations.items.list(id, order="asc", limit=1))
    assert len(items) == 3
    sdk.conversations.items.delete(cast("str", items[2].id), conversation_id=id)
    assert list(sdk.conversations.items.list(id, order="asc")) == items[:2]
    assert session.context()[0]["content"] == "they spoke of herons"


def test_many_requests_at_once_lose_no_item(server: Running) -> None:
    async def work() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as sdk:
            made = await sdk.conversations.create(metadata={"a": "b"})
            batches = [sdk.conversations.items.create(made.id, items=numbered(n)) for n in range(25)]
            await asyncio.gather(*batches)
            listed = sdk.conversations.items.list(made.id, order="asc", limit=10)
            return texts([item async for item in listed])

    assert sorted(asyncio.run(work())) == sorted(f"message {number}" for number in range(25))


@pytest.mark.parametrize("address", ["memory:", "jsonl:///{}"])
def test_every_kind_of_store_can_keep_conversations(
    serve: Callable[..., Running], tmp_path: Path, address: str
) -> None:
    with (
        clew.open(address.format(tmp_path / "jsonl")) as store,
        openai.OpenAI(base_url=f"{serve(store).url}/v1", api_key=TOKEN) as sdk,
    ):
        id = sdk.conversations.create(items=numbered(*range(5)), metadata={"topic": "birds"}).id
        items = list(sdk.conversations.items.list(id, order="asc", limit=2))
        sdk.conversations.items.delete(cast("str", items[2].id), conversation_id=id)
        assert list(sdk.conversations.items.list(id, order="asc", limit=2)) == items[:2] + items[3:]
        store.get(id).undo()
        assert list(sdk.conversations.items.list(id, order="asc")) == items
