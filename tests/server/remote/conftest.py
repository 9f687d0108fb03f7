"""A store that is served, a client of it, and tokens that may do less than everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import TOKEN, Running


@pytest.fixture
def store(server: Running) -> Iterator[clew.Store]:
    """The store of `server`, over HTTP, with the token of the owner."""
    with clew.open(server.url, token=TOKEN) as found:
        yield found


@pytest.fixture
def opened(server: Running) -> Iterator[Callable[..., clew.Store]]:
    """Opens the store of `server` with a new token of these scopes."""
    with ExitStack() as stack:

        def open(*scopes: str, **bounds: Any) -> clew.Store:
            _, text = add_token(server.store, "-".join(("t", *scopes)), scopes=scopes, **bounds)
            return stack.enter_context(clew.open(server.url, token=text))

        yield open
