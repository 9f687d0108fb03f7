"""Clew: the session store for AI agents.

import clew

with clew.open("agents.db") as store:
    s = store.session("login-bug")
    s.append({"role": "user", "content": "The login page returns 500"})

Here is what most programs need. All errors are in `clew.errors`, all values that come back in `clew.model`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from clew import errors as errors
    from clew import model as model
    from clew.aio import AsyncRun as AsyncRun
    from clew.aio import AsyncSession as AsyncSession
    from clew.aio import AsyncStore as AsyncStore
    from clew.aio import copy_async as copy_async
    from clew.aio import open_async as open_async
    from clew.backends.contract import Capabilities as Capabilities
    from clew.core.maintenance import Maintenance as Maintenance
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
    from clew.files.snapshot.watch import Watch as Watch
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
    from clew.model.files import Snapshot as Snapshot
    from clew.model.search import Hit as Hit
    from clew.model.search import SearchPage as SearchPage
    from clew.run import Run as Run
    from clew.session import Session as Session
    from clew.store import Store as Store
    from clew.store import copy as copy
    from clew.store import open as open
    from clew.version import __version__ as __version__

_NAMES = {
    "clew.aio": "AsyncRun AsyncSession AsyncStore copy_async open_async",
    "clew.backends.contract": "Capabilities",
    "clew.core.maintenance": "Maintenance",
    "clew.errors": "BackendError ClewError ConflictError CorruptError HeadMovedError InvalidError "
    "KeyReusedError LeaseHeldError LeaseLostError NotFoundError OutcomeUnknownError SessionDeletedError "
    "SessionExistsError SessionNotFoundError StoreBusyError",
    "clew.files.snapshot.watch": "Watch",
    "clew.model": "Branch Change Checkpoint Context Entry Event Head Page Retention SessionInfo Stats Status "
    "Tree Usage UsageTotals",
    "clew.model.files": "Snapshot",
    "clew.model.search": "Hit SearchPage",
    "clew.run": "Run",
    "clew.session": "Session",
    "clew.store": "Store copy open",
    "clew.version": "__version__",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("errors", "model")


def __getattr__(name: str) -> _Any:
    """Each name is loaded with its first use: help and completion of the command line need none of them, and
    the async face brings asyncio with it, which takes as long to import as all the rest."""
    from importlib import import_module

    if name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
    elif name in _MODULES:
        found = import_module(f"clew.{name}")
    else:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
