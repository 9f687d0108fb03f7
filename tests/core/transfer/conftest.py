from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import clew
from clew.core.transfer import source as reading
from clew.core.transfer import write as writing
from tests.backends.postgres.servers.cluster import drop_schema
from tests.core.transfer.kinds import Address, Open


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """Gives the address of a new store of a kind; nothing stays in the database. Only who asks for
    PostgreSQL needs it."""
    numbers = itertools.count()
    with ExitStack() as end:

        def in_postgres() -> str:
            url, schema = request.getfixturevalue("postgres_url"), f"clew_{uuid.uuid4().hex[:12]}"
            end.callback(drop_schema, url, schema)
            return f"{url}?schema={schema}&scrub=full"  # else a vacuum keeps the space

        def address(kind: str) -> str:
            place = f"{tmp_path}/store-{next(numbers)}"
            places = {"memory": "memory:", "sqlite": f"sqlite:///{place}.db", "jsonl": f"jsonl:///{place}"}
            return places[kind] if kind in places else in_postgres()

        yield address


@pytest.fixture
def stores(address: Address) -> Iterator[Open]:
    """Opens new stores of a kind; closes them at the end."""
    with ExitStack() as end:
        yield lambda kind: end.enter_context(clew.open(address(kind)))


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small tree takes many transactions."""
    monkeypatch.setattr(writing, "AT_ONCE", 10)
    monkeypatch.setattr(reading, "PAGE", 4)
