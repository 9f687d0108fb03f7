"""Tokens and shares belong to one store: no copy, backup, repair, export or import takes them along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.log.grants import GRANTS
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token


def grants(store: clew.Store) -> list[str]:
    with store._engine.read() as reader:
        return [name for kind in GRANTS for name, _ in reader.scan_records(STORE_WIDE, kind)]


def given(store: clew.Store) -> clew.Session:
    session = store.create("login")
    session.append({"role": "user", "content": "hello"})
    add_token(store, "ci", lasts=timedelta(days=90))
    add_share(store, session, at=None)
    assert len(grants(store)) == 2
    return session


@pytest.fixture(params=["sqlite", "jsonl"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    place = tmp_path / ("store.db" if request.param == "sqlite" else "store")
    with clew.open(f"{request.param}:///{place}") as opened:
        yield opened


WAYS: dict[str, Callable[[clew.Store, Path], object]] = {
    "backup": lambda store, path: store.backup(path),
    "copy": lambda store, path: clew.copy(store.location, str(path)),
    "repair": lambda store, path: store.repair(to=path),
}


@pytest.mark.parametrize("way", WAYS)
def test_another_store_has_the_sessions_and_no_token(store: clew.Store, tmp_path: Path, way: str) -> None:
    given(store)
    WAYS[way](store, tmp_path / "other.db")
    with clew.open(tmp_path / "other.db") as other:
        assert grants(other) == []
        assert other.get("login").messages() == store.get("login").messages()
    assert len(grants(store)) == 2


def test_a_session_file_has_no_share(store: clew.Store, tmp_path: Path) -> None:
    given(store)
    text = store.export("login", "jsonl")
    assert '"share"' not in text
    assert '"token"' not in text


def test_verify_knows_tokens_and_finds_those_that_clew_never_wrote(store: clew.Store) -> None:
    given(store)
    assert store.verify().ok
    store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "token", "tabcdefghi", b'{"name": "x"}'))
    store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "share", "../etc", b"{}"))
    told = list(store.verify().problems)
    assert len(told) == 2
    assert "the token 'tabcdefghi'" in "".join(told)
    assert "the share '../etc'" in "".join(told)
