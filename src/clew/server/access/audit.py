"""One line in the log for what cannot be taken back, or changes who may come in: purges, restores, tokens and
shares. `clew serve --log-file` keeps them; in a program of your own it is the logger `clew.audit`.

Not in the store: what is purged should leave no trace there, and who may write to a store could remove it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from clew.server.call import Call

log: Final = logging.getLogger("clew.audit")


def note(what: str, *, by: str = "local", **details: str | None) -> None:
    """`by`: the name of the caller. What is not plain is escaped: no text forges a line of the log."""
    told = " ".join(f"{name}={json.dumps(value)}" for name, value in details.items() if value is not None)
    log.info("%s by=%s %s", what, json.dumps(by), told)


def note_call(call: Call, arguments: Mapping[str, Any]) -> None:
    """What a request did that cannot be taken back: it removed content, or wrote files."""
    route = call.route
    if route.method == "GET":
        return
    if getattr(arguments.get("query"), "purge", False):
        note("purged", by=call.principal.name, session=arguments.get("id"), client=call.client)
    elif "/restores" in route.path:
        note("files restored", by=call.principal.name, path=route.path, client=call.client)
