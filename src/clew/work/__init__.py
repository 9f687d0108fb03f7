"""What happens inside a transaction: functions of a backend's primitives, the same for every backend.

Each checks before it writes and may run again after a rollback (see clew.commit). Modules that not
every program needs are loaded with their first use, `work.marks.compact(…)`: a store that is only
read should not have to wait for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.work import calls as calls
    from clew.work import checkpoints as checkpoints
    from clew.work import context as context
    from clew.work import events as events
    from clew.work import forks as forks
    from clew.work import marks as marks
    from clew.work import moves as moves
    from clew.work import notes as notes
    from clew.work import purge as purge
    from clew.work import replacing as replacing
    from clew.work import resuming as resuming
    from clew.work import retention as retention
    from clew.work import runs as runs
    from clew.work import snapshots as snapshots
    from clew.work import status as status
    from clew.work import sweep as sweep
    from clew.work import trees as trees
    from clew.work import usage as usage
else:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        try:
            return import_module(f"clew.work.{name}")
        except ModuleNotFoundError as exc:
            if exc.name != f"clew.work.{name}":
                raise
            raise AttributeError(f"module 'clew.work' has no attribute {name!r}") from exc
