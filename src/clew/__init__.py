"""Clew: the session store for AI agents.

import clew

with clew.open("agents.db") as store:
    s = store.session("login-bug")
    s.append({"role": "user", "content": "The login page returns 500"})

Here is what most programs need. All errors are in `clew.errors`, all values that come back in `clew.model`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from clew import errors as errors
from clew import model as model
from clew.backends.contract import Capabilities as Capabilities
from clew.errors import BackendError as BackendError
from clew.errors import ClewError as ClewError
from clew.errors import ConflictError as ConflictError
from clew.errors import CorruptError as CorruptError
from clew.errors import HeadMovedError as HeadMovedError
from clew.errors import InvalidError as InvalidError
from clew.errors import KeyReusedError as KeyReusedError
from clew.errors import LeaseHeldError as LeaseHeldError
from clew.errors import LeaseLostError as LeaseLostError
from clew.errors import NotFoundError as NotFoundError
from clew.errors import OutcomeUnknownError as OutcomeUnknownError
from clew.errors import SessionDeletedError as SessionDeletedError
from clew.errors import SessionExistsError as SessionExistsError
from clew.errors import SessionNotFoundError as SessionNotFoundError
from clew.errors import StoreBusyError as StoreBusyError
from clew.model import Branch as Branch
from clew.model import Change as Change
from clew.model import Checkpoint as Checkpoint
from clew.model import Context as Context
from clew.model import Entry as Entry
from clew.model import Event as Event
from clew.model import Head as Head
from clew.model import Page as Page
from clew.model import Retention as Retention
from clew.model import SessionInfo as SessionInfo
from clew.model import Stats as Stats
from clew.model import Status as Status
from clew.model import Tree as Tree
from clew.model import Usage as Usage
from clew.model import UsageTotals as UsageTotals
from clew.session import Session as Session
from clew.store import Store as Store
from clew.store import copy as copy
from clew.store import open as open

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from clew.aio import AsyncRun as AsyncRun
    from clew.aio import AsyncSession as AsyncSession
    from clew.aio import AsyncStore as AsyncStore
    from clew.aio import copy_async as copy_async
    from clew.aio import open_async as open_async
    from clew.core.maintenance import Maintenance as Maintenance
    from clew.files.snapshot.watch import Watch as Watch
    from clew.model.files import Snapshot as Snapshot
    from clew.model.search import Hit as Hit
    from clew.model.search import SearchPage as SearchPage
    from clew.run import Run as Run


_LAZY = {
    **dict.fromkeys(("AsyncRun", "AsyncSession", "AsyncStore", "copy_async", "open_async"), "clew.aio"),
    "Hit": "clew.model.search",
    "Maintenance": "clew.core.maintenance",
    "Run": "clew.run",
    "SearchPage": "clew.model.search",
    "Snapshot": "clew.model.files",
    "Watch": "clew.files.snapshot.watch",
}


def __getattr__(name: str) -> _Any:
    """What not every program needs is loaded with its first use. The async face brings asyncio with
    it, which takes as long to import as all the rest."""
    if name not in _LAZY:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
