"""The rows door as routes. Private: they may change with every version, as the protocol number says.

Every route asks for the scope `store`, which no other one includes: whoever has it has the database (ADR 73).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from clew.backends.http.calls import Step, decode_read, decode_step
from clew.backends.http.wire import (
    MOST_ASKED,
    MOST_SENT,
    TIME_HEADER,
    Hello,
    Outcome,
    OutcomeQuestion,
    Pause,
    Upkeep,
    encode,
    packed,
)
from clew.core.messages.search_text import PageQuery
from clew.server.call import Answer, Call
from clew.server.problems import Problem
from clew.server.routing import Routes
from clew.server.rows.door import Door

routes = Routes()
LARGE: Final = 64 * 1024
"""Bytes that are decoded in a thread: others need not wait for it."""


def _door(call: Call) -> Door:
    return call.server.rows


def _answer(call: Call, value: Any) -> Answer:
    encoding, body = packed(encode(value), call.header("accept-encoding") or "")
    headers = {TIME_HEADER.lower(): str(_door(call).now)}
    if encoding:
        headers["content-encoding"] = encoding
    return Answer(value=body, headers=headers, media_type="application/json")


def _decoded(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(422, "invalid", "The request is not valid", str(error)[:300]) from error


@routes.post("/rows/hello", scope="store", private=True)
def greet(call: Call, body: bytes) -> Answer:
    """What a client has to know of this store."""
    door = _door(call)
    found: Hello = door.hello()
    return _answer(call, found)


@routes.post("/rows/read", scope="store", slow=True, private=True, max_body=MOST_ASKED)
def read(call: Call, body: bytes) -> Answer:
    """Calls that only read."""
    door = _door(call)
    return _answer(call, door.read(_decoded(decode_read, body)))


@routes.post("/rows/snapshot", scope="store", slow=True, private=True, max_body=MOST_ASKED)
async def look(call: Call, body: bytes) -> Answer:
    """Calls that only read, all of which see the store as it was at one moment."""
    door = _door(call)
    step: Step = _decoded(decode_step, body)
    return _answer(call, await door.look(door.caller(call.principal), step))


@routes.post("/rows/transaction", scope="store", slow=True, private=True, max_body=MOST_SENT)
async def transact(call: Call, body: bytes) -> Answer:
    """A transaction, or a step of one."""
    door = _door(call)
    caller = door.caller(call.principal)
    step: Step
    if len(body) < LARGE:
        step = _decoded(decode_step, body)
    else:
        step = await call.server.in_thread(lambda: _decoded(decode_step, body))
    return _answer(call, await door.step(caller, step))


@routes.post("/rows/outcome", scope="store", slow=True, private=True)
async def outcome(call: Call, body: OutcomeQuestion) -> Answer:
    """What became of a commit."""
    found: Outcome = await _door(call).outcome(body)
    return _answer(call, found)


@routes.post("/rows/pause", scope="store", slow=True, private=True)
async def pause(call: Call, body: Pause) -> Answer:
    """Wait for news."""
    return _answer(call, await _door(call).pause(body))


@routes.post("/rows/search", scope="store", slow=True, private=True)
def search(call: Call, body: PageQuery) -> Answer:
    """A page of hits."""
    return _answer(call, _door(call).search(body))


@routes.post("/rows/upkeep", scope="store", slow=True, private=True)
def maintain(call: Call, body: Upkeep) -> Answer:
    """Sizes, damage, and leaving no byte behind."""
    door = _door(call)
    if body.what == "scrub":
        door.scrub()
        return _answer(call, None)
    if body.what == "damage":
        return _answer(call, door.damage(full=body.full, seconds=body.seconds))
    return _answer(call, door.bytes_on_disk())
