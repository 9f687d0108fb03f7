"""A conversation is found again by its Idempotency-Key: by whom made it, and by nobody who guesses."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from blake3 import blake3

from clew.server.access.tokens import add_token
from clew.server.conversations.items import new_id
from tests.server.conftest import Running

SECRET: Any = {"role": "user", "content": "the launch code is 0000"}
KEY = {"idempotency-key": "login-1"}


def bound(server: Running, tag: str) -> httpx.Client:
    """A client that sees the sessions with this tag only."""
    _, text = add_token(server.store, f"bound-to-{tag}", scopes=["write"], tags=[tag])
    return server.client(text)


def made(client: httpx.Client, **body: Any) -> str:
    answer = client.post("/v1/conversations", json=body, headers=KEY)
    assert answer.status_code == 200, answer.text
    id: str = answer.json()["id"]
    return id


def plain_hash(prefix: str, *texts: str) -> str:
    """An id as it was made without a secret: whoever knows the key can compute it."""
    text = b"".join(b"%d:%s" % (len(one), one.encode()) for one in texts)
    return f"{prefix}_{blake3(text).hexdigest(length=24)}"


@pytest.mark.parametrize("as_alias", [False, True], ids=["as its id", "as an alias"])
def test_a_planted_session_gets_nothing_of_what_others_post(
    server: Running, client: httpx.Client, as_alias: bool
) -> None:
    """Whoever guesses a key computes no id of it, and what stands there is nobody's conversation."""
    guessed = plain_hash("conv", "login-1")
    with bound(server, "mallory") as mallory:
        own = "mine" if as_alias else guessed
        mallory.put(f"/api/v1/sessions/{own}", json={}).raise_for_status()
        if as_alias:
            mallory.put(f"/api/v1/sessions/mine/aliases/{guessed}").raise_for_status()

        id = made(client, items=[SECRET])

        assert id not in (guessed, own)
        assert "launch code" not in mallory.get(f"/api/v1/sessions/{own}/entries").text
        assert mallory.get(f"/v1/conversations/{id}").status_code == 404
    assert server.store.get(own).messages() == []
    assert made(client, items=[SECRET]) == id


def test_what_another_put_in_place_of_a_purged_conversation_is_not_written_to(
    server: Running, client: httpx.Client
) -> None:
    """The id of a conversation that was is known to those who saw it; the record of its key is not there."""
    first = made(client, items=[SECRET])
    server.store.delete(first, purge=True)
    with bound(server, "mallory") as mallory:
        mallory.put(f"/api/v1/sessions/{first}", json={}).raise_for_status()
        second = made(client, items=[SECRET])
        assert mallory.get(f"/api/v1/sessions/{first}/entries").json()["data"] == []
    assert second != first
    assert made(client, items=[SECRET]) == second, "a repeat finds the one that was made instead"


def test_a_conversation_that_is_out_of_sight_is_not_told_of(server: Running) -> None:
    """It was taken from its caller, who gets another one, and no sign of the first."""
    with bound(server, "team") as team:
        first = made(team, items=[SECRET])
        server.store.get(first).update(tags=["others"], title="now of others")
        second = made(team, items=[SECRET])
        assert second != first
        assert made(team, items=[SECRET]) == second
        assert team.get(f"/v1/conversations/{first}").status_code == 404
    assert len(server.store.get(first).messages()) == 1


def test_a_conversation_without_items_is_found_again_too(server: Running, client: httpx.Client) -> None:
    assert made(client) == made(client)
    assert server.store.verify().problems == ()


def test_ids_of_items_follow_from_no_guess(server: Running, client: httpx.Client) -> None:
    """Else another could have an item of this id ready."""
    id = made(client, items=[SECRET])
    (first,) = client.get(f"/v1/conversations/{id}/items").json()["data"]
    more = {"idempotency-key": "turn-2"}
    added = client.post(f"/v1/conversations/{id}/items", json={"items": [SECRET]}, headers=more).json()[
        "data"
    ]

    assert first["id"] != plain_hash("msg", "login-1", "0")
    assert added[0]["id"] != plain_hash("msg", id, "turn-2", "0")


def test_a_conversation_of_an_older_clew_is_found_by_its_key(server: Running, client: httpx.Client) -> None:
    """Keys were stored as they came then; the record of the key tells it from a planted one."""
    id = plain_hash("conv", "login-1")
    item = {"id": new_id("msg", "login-1", "0"), "type": "message", "status": "completed", "role": "user"}
    content = [{"type": "input_text", "text": SECRET["content"]}]
    old = server.store.create(id, metadata={"framework": "openai-conversations"})
    entries = old.append({**SECRET, **item, "content": content}, key="login-1")
    in_clear(server, id, "login-1")

    assert made(client, items=[SECRET]) == id
    assert list(old.entries()) == entries

    more = {"role": "user", "content": "more"}
    said = {**more, "content": [{"type": "input_text", "text": "more"}]}
    old.append({**said, **item, "id": new_id("msg", id, "turn-2", "0")}, key="turn-2")
    in_clear(server, id, "turn-2")
    url = f"/v1/conversations/{id}/items"
    answer = client.post(url, json={"items": [more]}, headers={"idempotency-key": "turn-2"})
    assert answer.status_code == 200, answer.text
    assert len(old.messages()) == 2


def in_clear(server: Running, id: str, key: str) -> None:
    """Let the record of a key be as older versions wrote it."""

    def work(tx: Any) -> None:
        row = tx.find_session(id)
        for name, value in tx.scan_records(row.sid, "key"):
            if name != key and not tx.get_record(row.sid, "key", key):
                tx.drop_record(row.sid, "key", name)
                tx.put_record(row.sid, "key", key, value)

    server.store._engine.run(work)
