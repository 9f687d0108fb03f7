"""The store for the Claude Agent SDK does what every adapter does, and what the SDK asks of every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance

import clew
from clew.adapters.claude import ClewSessionStore
from clew.adapters.common import session_id
from clew.testing.adapter import AdapterConformance
from tests.adapters.claude.lines import PROJECT, Line, answers, calls, replies, says


class TestClaude(AdapterConformance):
    def make(self, store: clew.Store) -> ClewSessionStore:
        return ClewSessionStore(store)

    def messages(self) -> list[Line]:
        return [
            says("Is that a grey heron?", "m1"),
            calls("look_up", "m2"),
            answers("kingfisher", "m3"),
            replies("naïve 鷺 \0", "m4"),
        ]

    def numbered(self, number: str) -> list[Line]:
        return [says(number, f"{number}-q"), replies(number, f"{number}-a"), says(number)]

    def number_of(self, message: Line) -> str:
        content = message["message"]["content"]
        text: str = content if isinstance(content, str) else content[0]["text"]
        return text

    async def write(self, adapter: ClewSessionStore, name: str, messages: list[Any]) -> None:
        await adapter.append({"project_key": PROJECT, "session_id": name}, messages)

    async def read(self, adapter: ClewSessionStore, name: str) -> list[Any]:
        return await adapter.load({"project_key": PROJECT, "session_id": name}) or []

    def session_id(self, name: str) -> str:
        return session_id(PROJECT, name)


@pytest.mark.parametrize("face", [clew.Store, clew.AsyncStore])
def test_the_contracts_of_the_sdk_hold(url: str, face: type) -> None:
    with clew.open(url) as store:

        def empty() -> ClewSessionStore:
            store.clear(confirm=True)
            return ClewSessionStore(store if face is clew.Store else clew.AsyncStore.over(store))

        asyncio.run(run_session_store_conformance(empty))
        assert store.stats().deleted > 0
