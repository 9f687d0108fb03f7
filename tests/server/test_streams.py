"""Answers that are sent piece by piece."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest

from clew.server.call import Answer, Call
from clew.server.routing import Router, Routes
from tests.server.conftest import Running

ended = threading.Event()


async def endless() -> AsyncIterator[bytes]:
    try:
        while True:
            yield b"one\n"
            await asyncio.sleep(0)
    finally:
        ended.set()


def endless_in_a_thread() -> Iterator[bytes]:
    try:
        while True:
            yield b"one\n" * 1000
    finally:
        ended.set()


def failing() -> Iterator[bytes]:
    yield b"one\n"
    raise OSError("the disk is gone")


@pytest.fixture
def streaming(serve: Callable[..., Running]) -> Running:
    ended.clear()
    server = serve()
    routes = Routes()
    for name, source in (("a", endless), ("b", endless_in_a_thread), ("c", failing)):

        def handler(call: Call, source: Callable[[], Iterator[bytes]] = source) -> Answer:  # type: ignore[assignment]
            return Answer(stream=source(), media_type="text/plain")

        routes.get(f"/stream/{name}", slow=True)(handler)
    server.app.router = Router(routes.all)
    return server


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_stream_ends_when_its_client_goes_away(streaming: Running, name: str) -> None:
    with streaming.client() as client, client.stream("GET", f"/api/v1/stream/{name}") as answer:
        assert next(answer.iter_bytes()).startswith(b"one\n")
    ended.wait()


def test_a_stream_that_fails_is_cut_off_not_ended_well(streaming: Running) -> None:
    with streaming.client() as client, pytest.raises(httpx.RemoteProtocolError):
        client.get("/api/v1/stream/c")
