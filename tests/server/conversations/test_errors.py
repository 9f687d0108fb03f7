"""What is refused, and how OpenAI's client tells its user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import openai
import pytest

from clew.server.application import Server
from clew.server.problems import Problem
from tests.server.conftest import Running
from tests.support.rows import each_row

ASKED: Any = {"role": "user", "content": "where is the grey heron?"}
SAID: Any = {"role": "assistant", "content": "At the pond."}


@each_row(
    ("items", "param"),
    [
        ([{"type": "telegram"}], "items[0].type"),
        ([{}], "items[0].type"),
        ([ASKED, {"role": "king", "content": "x"}], "items[1].role"),
        ([{"role": "user"}], "items[0].content"),
        ([{"role": "user", "content": 7}], "items[0].content"),
        ([{"role": "user", "content": [{"type": "smell"}]}], "items[0].content[0].type"),
        ([{"type": "function_call", "call_id": "c"}], "items[0].arguments"),
        ([{"type": "item_reference", "id": "msg_1"}], "items[0]"),
        ([{"id": "msg_1"}], "items[0]"),
        ([{**ASKED, "id": "a b"}], "items[0].id"),
        ([{**ASKED, "id": "msg_clew_1"}], "items[0].id"),
        ([{**ASKED, "id": 5}], "items[0].id"),
        ([{**ASKED, "id": "msg_1"}, {**ASKED, "id": "msg_1"}], "items"),
    ],
)
def test_items_that_are_none_are_refused_and_nothing_is_kept(
    sdk: openai.OpenAI, server: Running, items: Any, param: str
) -> None:
    id = sdk.conversations.create(items=[ASKED]).id
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.conversations.items.create(id, items=items)
    assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
    assert f"'{param}'" in caught.value.message
    with pytest.raises(openai.BadRequestError):
        sdk.conversations.create(items=items)
    assert len(server.store.get(id).messages()) == 1
    assert server.store.list()[0].id == id, "no other one was made"


def test_an_id_that_the_conversation_has_is_refused(sdk: openai.OpenAI) -> None:
    named: Any = {**SAID, "id": "msg_mine"}
    id = sdk.conversations.create(items=[named]).id
    sdk.conversations.items.create(id, items=[ASKED])
    with pytest.raises(openai.BadRequestError, match="'msg_mine' already") as caught:
        sdk.conversations.items.create(id, items=[ASKED, named])
    assert caught.value.code == "duplicate_item"
    assert len(list(sdk.conversations.items.list(id))) == 2
    other = sdk.conversations.create(items=[named]).id
    sdk.conversations.items.delete("msg_mine", conversation_id=other)
    assert sdk.conversations.items.create(other, items=[named]).first_id == "msg_mine"


def test_limits_of_the_api_are_kept(sdk: openai.OpenAI) -> None:
    id = sdk.conversations.create().id
    refused: list[Callable[[], Any]] = [
        lambda: sdk.conversations.create(items=[ASKED] * 21),
        lambda: sdk.conversations.items.create(id, items=[ASKED] * 21),
        lambda: sdk.conversations.create(metadata={str(number): "x" for number in range(17)}),
        lambda: sdk.conversations.create(metadata={"k" * 65: "x"}),
        lambda: sdk.conversations.update(id, metadata={"k": "x" * 513}),
        lambda: sdk.conversations.create(metadata=cast("Any", {"k": 1})),
        lambda: sdk.conversations.items.list(id, limit=0),
        lambda: sdk.conversations.items.list(id, limit=101),
        lambda: sdk.conversations.items.list(id, order=cast("Any", "up")),
        lambda: sdk.conversations.items.list(id, include=cast("Any", ["all"])),
        lambda: sdk.conversations.create(extra_body={"model": "gpt"}),
        lambda: sdk.conversations.items.list(id, extra_query={"before": "x"}),
    ]
    for call in refused:
        with pytest.raises(openai.BadRequestError):
            call()
    sdk.conversations.items.create(id, items=[ASKED], include=["reasoning.encrypted_content"])
    assert len(list(sdk.conversations.items.list(id, include=["message.output_text.logprobs"]))) == 1


def test_errors_are_those_of_openai(sdk: openai.OpenAI, server: Running) -> None:
    id = sdk.conversations.create(items=[ASKED]).id
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong") as stranger,
        pytest.raises(openai.AuthenticationError) as unknown,
    ):
        stranger.conversations.retrieve(id)
    assert unknown.value.code == "invalid_api_key"
    with pytest.raises(openai.NotFoundError, match="Item with id 'msg_no' not found"):
        sdk.conversations.items.list(id, after="msg_no")
    with pytest.raises(openai.NotFoundError):
        sdk.conversations.items.retrieve("msg_clew_x.1", conversation_id=id)
    with pytest.raises(openai.NotFoundError):
        sdk.conversations.retrieve("../../../etc/passwd")
    with server.client() as client:
        answer = client.get("/v1/conversations")
        assert answer.status_code == 405
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        answer = client.post("/v1/conversations", content=b"{", headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    quick = sdk.with_options(max_retries=0)
    elsewhere = {"If-Match": '"start"'}
    for change in (
        lambda: quick.conversations.items.create(id, items=[ASKED], extra_headers=elsewhere),
        lambda: quick.conversations.update(id, metadata={}, extra_headers=elsewhere),
    ):
        with pytest.raises(openai.ConflictError) as moved:
            change()
        assert (moved.value.code, moved.value.response.headers["x-should-retry"]) == ("head_moved", "false")
    with server.store.get(id).run(), pytest.raises(openai.ConflictError) as held:
        quick.conversations.items.create(id, items=[ASKED])
    assert held.value.code == "lease_held"
    assert held.value.response.headers["x-should-retry"] == "true"


@each_row(
    ("problem", "error"),
    [
        (Problem(429, "rate_limited", "t", "too fast", retryable=True), openai.RateLimitError),
        (Problem(403, "bound", "t", "not yours"), openai.PermissionDeniedError),
        (Problem(422, "invalid", "t", "no"), openai.BadRequestError),
        (Problem(503, "outcome_unknown", "t", "slow", retryable=True), openai.InternalServerError),
        (Problem(507, "disk_full", "t", "full"), openai.InternalServerError),
    ],
)
@each_row("key", [None, "k"])
def test_a_client_repeats_a_request_only_if_that_is_safe(
    sdk: openai.OpenAI,
    monkeypatch: pytest.MonkeyPatch,
    problem: Problem,
    error: type[openai.APIStatusError],
    key: str | None,
) -> None:
    calls: list[None] = []

    def fail(*_: Any) -> Any:
        calls.append(None)
        raise problem

    monkeypatch.setattr(Server, "_body", fail)
    monkeypatch.setattr(openai.OpenAI, "_calculate_retry_timeout", lambda *_: 0.0)
    headers = {} if key is None else {"Idempotency-Key": key}
    with pytest.raises(error):
        sdk.with_options(max_retries=1).conversations.create(extra_headers=headers)
    can_repeat = problem.status == 429 or (problem.status == 503 and key is not None)
    assert len(calls) == (2 if can_repeat else 1)
