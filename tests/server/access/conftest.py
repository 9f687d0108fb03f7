"""A server whose streams say soon that they have told all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.server.conftest import Running


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(heartbeat=0.01)
