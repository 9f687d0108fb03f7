"""Idempotency keys are stored as hashes, and found by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew import Session, Store
from clew.backends.contract import Backend
from clew.core.engine import redaction
from clew.core.engine.redaction import secret_of
from clew.testing.backend.base import Ticking

KEY = "invoice-4711-of-ana"


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def names(s: Session) -> list[str]:
    with s._look() as (reader, row):
        return [name for name, _ in reader.scan_records(row.sid, "key")]


def keep_in_clear(store: Store, s: Session) -> None:
    """Let the record of the one key of a session be as older versions wrote it."""
    (name,) = names(s)

    def work(tx: Any) -> None:
        tx.put_record(s._sid, "key", KEY, tx.get_record(s._sid, "key", name))
        tx.drop_record(s._sid, "key", name)

    store._engine.run(work)
    assert names(s) == [KEY]


def test_a_key_is_stored_as_a_hash(s: Session) -> None:
    """Of a fixed length, whatever the key is."""
    once = s.append(user("pay"), key=KEY)
    assert s.append(user("pay"), key=KEY) == once
    (name,) = names(s)
    assert KEY not in name
    assert len(name) == 33
    s.append(user("more"), key=KEY * 20)
    assert {len(each) for each in names(s)} == {33}


def test_a_key_that_an_older_clew_stored_is_found(store: Store, s: Session) -> None:
    """It was stored in clear; the next use of it makes a hash of it, with all its uses."""
    once = s.append(user("pay"), key=KEY)
    keep_in_clear(store, s)
    assert s.append(user("pay"), key=KEY) == once

    s.clear()
    again = s.append(user("pay"), key=KEY)
    assert again != once
    (name,) = names(s)
    assert KEY not in name
    s.undo()
    assert s.append(user("pay"), key=KEY) == once
    assert store.verify().problems == ()


def test_an_export_shows_no_key(store: Store, s: Session) -> None:
    """Also none that was stored in clear."""
    s.append(user("pay"), key=KEY)
    hashed = store.export(s.id, "jsonl")
    keep_in_clear(store, s)
    assert store.export(s.id, "jsonl") == hashed
    assert KEY not in hashed
    assert any(json.loads(line).get("type") == "key" for line in hashed.splitlines())


@pytest.mark.parametrize("id", ["clew key 0a1b/0", "t12345678x:turn-1/0"])
def test_an_id_that_was_made_of_a_key_is_not_shown(s: Session, id: str) -> None:
    """Nobody gave it. The second is of the form that an older Clew made, with the id of a token."""
    for _ in range(2):
        assert s.add_event("t", id=id).id is None
        assert s.add_usage(model="m", input_tokens=1, id=id).id is None
    assert [event.id for event in s.events()] == [None]
    assert [call.id for call in s.usage_records()] == [None]
    for given in ("transcript:1", "key:1", "t12345678x"):
        assert s.add_event("t", id=given).id == given


def test_the_secret_of_a_store_is_made_once(
    store: Store, backend: Backend, clock: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two who need it at the same moment, both get the one that was stored first."""
    other = Store(backend, clock=clock)
    others: list[bytes] = []
    new_key = redaction._new_key

    def too_late() -> bytes:
        monkeypatch.setattr(redaction, "_new_key", new_key)
        others.append(secret_of(other._engine, "a purpose"))
        return new_key()

    monkeypatch.setattr(redaction, "_new_key", too_late)
    mine = secret_of(store._engine, "a purpose")

    assert others == [mine]
    assert secret_of(Store(backend, clock=clock)._engine, "a purpose") == mine
    assert secret_of(store._engine, "another purpose") != mine
