from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import httpx
import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import Running


@pytest.fixture
def session(server: Running) -> clew.Session:
    return server.store.create("a")


@pytest.fixture
def limited(server: Running) -> Iterator[Callable[..., httpx.Client]]:
    """A client with a token of its own: `limited("read", tags=[…])`."""
    numbers = count()
    with ExitStack() as opened:

        def make(*scopes: str, **binding: Any) -> httpx.Client:
            _, text = add_token(server.store, f"token {next(numbers)}", scopes=scopes, **binding)
            return opened.enter_context(server.client(text))

        yield make
