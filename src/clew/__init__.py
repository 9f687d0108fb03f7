"""Clew: the session store for AI agents.

import clew

with clew.open("agents.db") as store:
    s = store.session("login-bug")
    s.append({"role": "user", "content": "The login page returns 500"})
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from clew.backends.contract import Capabilities as Capabilities
from clew.errors import AliasExistsError as AliasExistsError
from clew.errors import BackendError as BackendError
from clew.errors import BackendUnavailableError as BackendUnavailableError
from clew.errors import BranchMissingError as BranchMissingError
from clew.errors import CheckpointNotFoundError as CheckpointNotFoundError
from clew.errors import ClewError as ClewError
from clew.errors import ConflictError as ConflictError
from clew.errors import CorruptEntryError as CorruptEntryError
from clew.errors import CorruptError as CorruptError
from clew.errors import CorruptSessionError as CorruptSessionError
from clew.errors import DiskFullError as DiskFullError
from clew.errors import EntryNotFoundError as EntryNotFoundError
from clew.errors import HeadMovedError as HeadMovedError
from clew.errors import InvalidEntryError as InvalidEntryError
from clew.errors import InvalidError as InvalidError
from clew.errors import InvalidQueryError as InvalidQueryError
from clew.errors import InvalidTransitionError as InvalidTransitionError
from clew.errors import InvalidUrlError as InvalidUrlError
from clew.errors import KeyReusedError as KeyReusedError
from clew.errors import LeaseHeldError as LeaseHeldError
from clew.errors import LeaseLostError as LeaseLostError
from clew.errors import NotFoundError as NotFoundError
from clew.errors import NothingToUndoError as NothingToUndoError
from clew.errors import ObjectMissingError as ObjectMissingError
from clew.errors import OpenCallsError as OpenCallsError
from clew.errors import OutcomeUnknownError as OutcomeUnknownError
from clew.errors import QuotaExceededError as QuotaExceededError
from clew.errors import ReadOnlyError as ReadOnlyError
from clew.errors import RestoreConflictError as RestoreConflictError
from clew.errors import RestoreFailedError as RestoreFailedError
from clew.errors import RootNotNamedError as RootNotNamedError
from clew.errors import RootRefusedError as RootRefusedError
from clew.errors import SchemaTooNewError as SchemaTooNewError
from clew.errors import SessionDeletedError as SessionDeletedError
from clew.errors import SessionExistsError as SessionExistsError
from clew.errors import SessionNotFoundError as SessionNotFoundError
from clew.errors import SessionTakenError as SessionTakenError
from clew.errors import SnapshotFailedError as SnapshotFailedError
from clew.errors import SnapshotNotFoundError as SnapshotNotFoundError
from clew.errors import StoreBusyError as StoreBusyError
from clew.errors import StoreClosedError as StoreClosedError
from clew.errors import StoreNotFoundError as StoreNotFoundError
from clew.errors import UnreadableEntryError as UnreadableEntryError
from clew.errors import UnsupportedError as UnsupportedError
from clew.errors import VersionError as VersionError
from clew.model import Branch as Branch
from clew.model import Checkpoint as Checkpoint
from clew.model import Context as Context
from clew.model import ContextReport as ContextReport
from clew.model import Entry as Entry
from clew.model import Event as Event
from clew.model import EventCounts as EventCounts
from clew.model import ForkPoint as ForkPoint
from clew.model import Head as Head
from clew.model import LeaseInfo as LeaseInfo
from clew.model import Moved as Moved
from clew.model import Page as Page
from clew.model import Progress as Progress
from clew.model import Removal as Removal
from clew.model import Resumption as Resumption
from clew.model import Retention as Retention
from clew.model import RunInfo as RunInfo
from clew.model import SessionInfo as SessionInfo
from clew.model import Stats as Stats
from clew.model import Status as Status
from clew.model import StatusChange as StatusChange
from clew.model import SweepAction as SweepAction
from clew.model import SweepReport as SweepReport
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
    from clew.core.retention.maintenance import Maintenance as Maintenance
    from clew.files.snapshot.watch import Watch as Watch
    from clew.model.files import FileChange as FileChange
    from clew.model.files import FileDiff as FileDiff
    from clew.model.files import FileFailure as FileFailure
    from clew.model.files import FileProgress as FileProgress
    from clew.model.files import FileVersion as FileVersion
    from clew.model.files import GcReport as GcReport
    from clew.model.files import KeptFile as KeptFile
    from clew.model.files import PendingRestore as PendingRestore
    from clew.model.files import RestoreReport as RestoreReport
    from clew.model.files import Skipped as Skipped
    from clew.model.files import Snapshot as Snapshot
    from clew.model.files import VerifyProblem as VerifyProblem
    from clew.model.files import VerifyReport as VerifyReport
    from clew.model.search import Hit as Hit
    from clew.model.search import SearchPage as SearchPage
    from clew.model.session import Change as Change
    from clew.model.transfer import BackupReport as BackupReport
    from clew.model.transfer import CopyProgress as CopyProgress
    from clew.model.transfer import CopyReport as CopyReport
    from clew.model.transfer import ImportedSession as ImportedSession
    from clew.model.transfer import ImportReport as ImportReport
    from clew.model.transfer import LostRecord as LostRecord
    from clew.model.transfer import RepairReport as RepairReport
    from clew.run import Run as Run


_LAZY = {
    **dict.fromkeys(("AsyncRun", "AsyncSession", "AsyncStore", "copy_async", "open_async"), "clew.aio"),
    **dict.fromkeys(
        ("BackupReport", "CopyProgress", "CopyReport", "LostRecord", "RepairReport"), "clew.model.transfer"
    ),
    **dict.fromkeys(
        (
            "FileChange",
            "FileDiff",
            "FileFailure",
            "FileProgress",
            "FileVersion",
            "GcReport",
            "KeptFile",
            "PendingRestore",
            "RestoreReport",
            "Skipped",
            "Snapshot",
            "VerifyProblem",
            "VerifyReport",
        ),
        "clew.model.files",
    ),
    "Change": "clew.model.watch",
    "ImportReport": "clew.model.transfer",
    "ImportedSession": "clew.model.transfer",
    "Hit": "clew.model.search",
    "SearchPage": "clew.model.search",
    "Maintenance": "clew.core.retention.maintenance",
    "Watch": "clew.files.snapshot.watch",
    "Run": "clew.run",
}


def __getattr__(name: str) -> _Any:
    """What not every program needs is loaded with its first use. The async face brings asyncio with
    it, which takes as long to import as all the rest."""
    if name not in _LAZY:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
