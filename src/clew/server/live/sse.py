"""Server-sent events as bytes: https://html.spec.whatwg.org/multipage/server-sent-events.html.

    event: entry
    id: 01k….17
    data: {"session":"login","id":"01k….17",…}

An id stands only on frames that tell of something durable: a client that has seen it has all up to there.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""No proxy keeps it, and none waits until it has enough of it."""
RETRY: Final = b"retry: 1000\n"
HELLO: Final = RETRY + b": hello\n\n"
HEARTBEAT: Final = b": still here\n\n"

_NAME: Final = re.compile(r"[a-z_]+")
_ID: Final = re.compile(r"[\x21-\x7e]*")
_NO_LINES: Final = bytes.maketrans(b"\r\n", b"  ")

encode = msgspec.json.Encoder().encode


def frame(event: str, data: Any, id: str | None = None) -> bytes:
    """One event. `data` is encoded as JSON. `id` is visible ASCII: it comes back in a header.

    JSON has ends of lines only between its values, where a blank will do: so data is always one line, also
    of messages that are kept as they came."""
    if _NAME.fullmatch(event) is None:
        raise ValueError(f"{event!r} is no name of an event")
    if id is not None and _ID.fullmatch(id) is None:
        raise ValueError("an event id is visible ASCII")
    text = encode(data).translate(_NO_LINES)
    named = b"" if id is None else b"id: %s\n" % id.encode("ascii")
    return b"event: %s\n%sdata: %s\n\n" % (event.encode("ascii"), named, text)


def farewell(reason: str) -> bytes:
    """The last frame of a stream that the server ends. Its client connects again, after a second."""
    return RETRY + frame("bye", {"reason": reason})
