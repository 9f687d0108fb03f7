"""`clew serve --sync`: the agents of this machine are followed by a thread of the server."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clew.importers.follow.lease import Lease
    from clew.importers.follow.watcher import Watcher
    from clew.server.process.access_log import Log
    from clew.store import Store

_RETRY: Final = 15.0
"""Seconds until it is tried again to be the one that follows."""
_END: Final = 5.0


class Follower:
    """Follows from `start` to `stop`. One process follows for each store and user of a machine: while another
    one does, as `clew watch`, this one waits until it ends."""

    def __init__(self, store: Store, address: str | None, log: Log) -> None:
        self._store = store
        self._address = address
        self._log = log
        self._watcher: Watcher | None = None
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clew-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rescan(self) -> None:
        """Look at everything again."""
        if self._watcher is not None:
            self._watcher.rescan()

    def stop(self) -> None:
        """Between two steps of a pass; what was brought is kept."""
        self._is_stopped.set()
        if self._watcher is not None:
            self._watcher.stop()
        self._thread.join(_END)

    def _run(self) -> None:
        from clew.errors import ClewError
        from clew.importers.follow.lease import HeldError, Lease

        is_told = False
        while not self._is_stopped.is_set():
            try:
                lease = Lease(self._address)
            except HeldError as exc:
                if not is_told:
                    who = f"process {exc.holder.pid}" if exc.holder and exc.holder.pid else "another process"
                    self._log.note(f"sync: {who} follows the agents; this one takes over when it ends")
                    is_told = True
                self._is_stopped.wait(_RETRY)
                continue
            except OSError as exc:
                self._log.failed("sync: the agents cannot be followed", exc)
                return
            try:
                self._follow(lease)
            except (ClewError, OSError) as exc:
                self._log.failed("sync: following ended, and is tried again", exc)
                self._is_stopped.wait(_RETRY)
            finally:
                lease.end()

    def _follow(self, lease: Lease) -> None:
        import clew
        from clew.backends.registry import parse
        from clew.importers.follow.lease import Following, state_directory
        from clew.importers.follow.watcher import Watcher
        from clew.importers.sync import Sync
        from clew.importers.wake import wake_directory

        scheme, place, _ = parse(self._address)
        ours = [str(state_directory()), str(wake_directory())]
        following = Following(
            pid=os.getpid(), since=time.time(), store=self._store.location, version=clew.__version__
        )
        lease.tell(following)
        sync = Sync(lambda *, writes: self._store, None, on_progress=lambda _: watcher.check())
        watcher = Watcher(
            self._store,
            sync,
            following=following,
            ignored=[*ours, place] if scheme in ("sqlite", "jsonl") else ours,
            on_state=lease.tell,
        )
        self._watcher = watcher
        if not self._is_stopped.is_set():
            watcher.run()
