"""Stored tokens with OpenAI's client: what each may see and do."""

from __future__ import annotations

from typing import Any, cast

import openai
import pytest

from clew.server.access.tokens import add_token
from tests.server.conftest import Running

ASKED: Any = {"role": "user", "content": "where is the grey heron?"}


def client(server: Running, name: str, **options: Any) -> openai.OpenAI:
    _, text = add_token(server.store, name, **options)
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=text, max_retries=0)


def test_a_bound_token_sees_its_own_conversations_and_no_others(sdk: openai.OpenAI, server: Running) -> None:
    other = sdk.conversations.create(items=[ASKED]).id
    (item,) = sdk.conversations.items.list(other)
    with client(server, "team", scopes=["write"], tags=["team"], workspace="/home/ana/birds") as team:
        made = team.conversations.create(metadata={"topic": "birds"}, items=[ASKED])
        info = server.store.get(made.id).info
        assert (info.tags, info.workspace) == (("team",), "/home/ana/birds")
        team.conversations.items.create(made.id, items=[ASKED])
        assert len(list(team.conversations.items.list(made.id))) == 2
        team.conversations.update(made.id, metadata={"topic": "herons"})
        assert server.store.get(made.id).info.tags == ("team",)
        here = cast("str", item.id)
        for hidden in (
            lambda: team.conversations.retrieve(other),
            lambda: team.conversations.update(other, metadata={}),
            lambda: team.conversations.delete(other),
            lambda: team.conversations.items.list(other),
            lambda: team.conversations.items.create(other, items=[ASKED]),
            lambda: team.conversations.items.retrieve(here, conversation_id=other),
            lambda: team.conversations.items.delete(here, conversation_id=other),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                hidden()
            assert caught.value.message.endswith(f"Conversation with id '{other}' not found.")
        team.conversations.delete(made.id)
    assert len(list(sdk.conversations.items.list(other))) == 1


def test_keys_of_two_tokens_do_not_meet(sdk: openai.OpenAI, server: Running) -> None:
    key = {"Idempotency-Key": "same"}
    with client(server, "one", scopes=["write"]) as one, client(server, "two", scopes=["write"]) as two:
        made = {each.conversations.create(extra_headers=key).id for each in (sdk, one, two, one)}
    assert len(made) == 3
