"""What those ask who run the server: is it ready, and what does it do?"""

from __future__ import annotations

import logging

from clew.errors import ClewError
from clew.server.call import Answer, Call
from clew.server.problems import Problem
from clew.server.process.metrics import MEDIA_TYPE
from clew.server.routing import Routes
from clew.server.wire.store import Health

log = logging.getLogger("clew.server")
routes = Routes(prefix="")


@routes.get("/ready", answer=Health, scope=None)
def ready(call: Call) -> Health:
    """Whether requests are welcome now. Needs no token. 503 while the server starts or stops, while the
    store cannot be read, and while its disk is full: send requests elsewhere meanwhile."""
    if not call.server.is_ready:
        raise _not_ready("it is starting or stopping")
    try:
        call.store.find("-")
    except ClewError as exc:  # what is wrong with it is not for everyone: the log of the server has it
        log.warning("not ready: the store cannot be read: %s", type(exc).__name__)
        raise _not_ready("the store cannot be read") from None
    if (full := call.store._engine.backend.waits_for_room()) is not None:
        log.warning("not ready: %s", full)
        raise _not_ready("the disk of the store is full: nothing can be written until there is room")
    return Health("ready")


def _not_ready(reason: str) -> Problem:
    return Problem(
        503,
        "not_ready",
        "The server is not ready",
        reason,
        next="ask again in a moment",
        retryable=True,
        headers={"retry-after": "1"},
    )


@routes.get("/metrics", answer=None, media_type=MEDIA_TYPE)
def metrics(call: Call) -> Answer:
    """Numbers of this server in the text format of Prometheus, of all its workers. Needs an unbound token."""
    numbers = call.server.metrics
    numbers.see(call.server)
    return Answer(value=numbers.text())
