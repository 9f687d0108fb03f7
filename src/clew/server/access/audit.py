"""One line in the log for what cannot be taken back, or changes who may come in: purges, restores, tokens and
shares. `clew serve --log-file` keeps them; in a program of your own it is the logger `clew.audit`.

Not in the store: what is purged should leave no trace there, and who may write to a store could remove it.
"""

from __future__ import annotations

import json
import logging
from typing import Final

log: Final = logging.getLogger("clew.audit")


def note(what: str, *, by: str = "local", **details: str | None) -> None:
    """`by`: the name of the caller. What is not plain is escaped: no text forges a line of the log."""
    told = " ".join(f"{name}={json.dumps(value)}" for name, value in details.items() if value is not None)
    log.info("%s by=%s %s", what, json.dumps(by), told)
