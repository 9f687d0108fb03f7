"""OpenAI's own client, pointed at a server of ours."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.server.conftest import TOKEN, Running


@pytest.fixture
def sdk(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
        yield client
