"""Stored tokens with OpenAI's client. What each may see and do on any route is in `tests/server/access`."""

from __future__ import annotations

from typing import Any

import openai

from clew.server.access.tokens import add_token
from tests.server.conftest import Running

ASKED: Any = {"role": "user", "content": "where is the grey heron?"}


def client(server: Running, name: str, **options: Any) -> openai.OpenAI:
    _, text = add_token(server.store, name, **options)
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=text, max_retries=0)


def test_what_a_bound_token_makes_is_its_own(server: Running) -> None:
    with client(server, "team", scopes=["write"], tags=["team"], workspace="/home/ana/birds") as team:
        made = team.conversations.create(metadata={"topic": "birds"}, items=[ASKED])
        team.conversations.update(made.id, metadata={"topic": "herons"})
        assert len(list(team.conversations.items.list(made.id))) == 1
    info = server.store.get(made.id).info
    assert (info.tags, info.workspace) == (("team",), "/home/ana/birds")


def test_keys_of_two_tokens_do_not_meet(sdk: openai.OpenAI, server: Running) -> None:
    key = {"Idempotency-Key": "same"}
    with client(server, "one", scopes=["write"]) as one, client(server, "two", scopes=["write"]) as two:
        made = {each.conversations.create(extra_headers=key).id for each in (sdk, one, two, one)}
    assert len(made) == 3
