"""What `make faults` runs: every campaign, on every backend that is installed here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import msgspec

from tests.faults.campaign import Result
from tests.faults.campaigns.calls import fail_at_calls, kill_at_calls, shorten_writes
from tests.faults.campaigns.crashes import crash_everywhere
from tests.faults.campaigns.flips import flip_bits, tear_tails
from tests.faults.campaigns.kills import kill_cycles
from tests.faults.campaigns.limits import few_files, little_memory
from tests.faults.campaigns.power import cut_power
from tests.faults.campaigns.serving import kill_servers
from tests.faults.campaigns.together import fence, fork_with_a_store, start_together, storm
from tests.faults.campaigns.unreadable import unreadable_files
from tests.faults.campaigns.watching import kill_watchers
from tests.faults.short.servers import stop_servers
from tests.faults.workload.steps import OPERATIONS

PACKAGES = {"strace": "strace", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs"}
TREES = [name for name in OPERATIONS if name != "restore files"]
"""The operations that change nothing but the store: of the others a record of its files is no record."""


class Planned(msgspec.Struct, frozen=True):
    """One row of the report."""

    key: str
    ids: str
    """Of the faults, in the reference."""
    title: str
    function: Callable[..., Result]
    options: dict[str, Any] = {}
    counted: str = ""
    """The option that says how often; the scale of a run multiplies it."""
    thinned: str = ""
    """The option that says of how many only one is taken; a scale below 1 divides it."""
    on_disk: bool = False
    needs: str = "files"
    """"files": a backend that keeps files; "processes": any; "server": one that has a server."""
    programs: tuple[str, ...] = ()
    """Of the system, that it cannot do without."""
    parts: int = 1
    """In how many parts it is run: none takes more than some minutes."""

    def is_for(self, subject: str) -> bool:
        has_server = subject == "postgresql"
        return self.needs == "processes" or (self.needs == "server") == has_server

    def scaled(self, scale: float) -> dict[str, Any]:
        """The options of the whole of it."""
        options = dict(self.options)
        if self.counted:
            options[self.counted] = max(int(options[self.counted] * scale), 2)
        if self.thinned and scale < 1:
            options[self.thinned] = max(int(options[self.thinned] / scale), 1)
        return options

    def part(self, number: int, scale: float) -> dict[str, Any]:
        """The options of one part, counted from 0: all parts together are the whole."""
        options = self.scaled(scale)
        if self.counted and self.parts > 1:
            count = options[self.counted]
            options[self.counted] = count * (number + 1) // self.parts - count * number // self.parts
        if self.thinned and self.parts > 1:
            options["first"] = number * options[self.thinned]
            options[self.thinned] *= self.parts
        return options

    def missing(self) -> str:
        """What must be installed before it can run; "": nothing."""
        lacks = [name for name in self.programs if shutil.which(name) is None]
        return ", ".join(f"{name} (Debian: {PACKAGES[name]})" for name in lacks)


PLAN = [
    Planned(
        "kills",
        "F-01",
        "kill -9 at random instants",
        kill_cycles,
        {"cycles": 300},
        "cycles",
        needs="processes",
        parts=5,
    ),
    Planned(
        "kills-4",
        "F-01",
        "kill -9 of four processes",
        kill_cycles,
        {"cycles": 60, "workers": 4},
        "cycles",
        needs="processes",
        parts=3,
    ),
    Planned(
        "kills-purges",
        "F-01",
        "kill -9 while others purge and scrub",
        kill_cycles,
        {"cycles": 200, "purges": True},
        "cycles",
        needs="processes",
        parts=5,
    ),
    Planned(
        "kills-watch",
        "F-01",
        "kill -9 of the watcher while agents write",
        kill_watchers,
        {"cycles": 300},
        "cycles",
        needs="processes",
        parts=5,
    ),
    Planned(
        "kills-serve",
        "F-01",
        "kill -9 of clew serve while 500 clients append and 100 follow",
        kill_servers,
        {"kills": 20, "clients": 500, "stores": 8, "followers": 100, "longest": 400},
        "kills",
        needs="processes",
    ),
    Planned(
        "power-ext4",
        "F-03",
        "power cuts, ext4",
        cut_power,
        {"cuts": 200},
        "cuts",
        on_disk=True,
        programs=("mkfs.ext4",),
        parts=4,
    ),
    Planned(
        "power-xfs",
        "F-03",
        "power cuts, XFS",
        cut_power,
        {"cuts": 60, "filesystem": "xfs"},
        "cuts",
        on_disk=True,
        programs=("mkfs.xfs",),
        parts=2,
    ),
    Planned(
        "power-purges",
        "F-03",
        "power cuts during purges and scrubs, ext4",
        cut_power,
        {"cuts": 200, "purges": True},
        "cuts",
        on_disk=True,
        programs=("mkfs.ext4",),
        parts=5,
    ),
    Planned(
        "kill-calls",
        "F-02",
        "kill -9 at every system call that writes",
        kill_at_calls,
        {"operations": list(OPERATIONS), "every": 1},
        thinned="every",
        programs=("strace",),
        parts=10,
    ),
    Planned(
        "fail-calls",
        "F-08",
        "EIO, ENOSPC, EINTR at the Nth call, once and for good",
        fail_at_calls,
        {
            "operations": ["begin", "append", "append a batch", "rewind", "compact", "purge", "rebuild"],
            "every": 2,
        },
        thinned="every",
        programs=("strace",),
        parts=10,
    ),
    Planned(
        "fail-reads",
        "F-08",
        "EIO at the Nth read, once and for good",
        fail_at_calls,
        {"operations": ["read", "append", "purge", "scrub", "rebuild"], "every": 2, "reads": True},
        thinned="every",
        programs=("strace",),
        parts=5,
    ),
    Planned("unreadable", "F-08", "each file unreadable for good", unreadable_files, programs=("strace",)),
    Planned(
        "short",
        "F-07, F-10",
        "short writes, by a limit to the size of files",
        shorten_writes,
        {"operations": ["append", "append a batch", "compact", "snapshot"], "samples": 40},
        "samples",
    ),
    Planned(
        "states",
        "F-04",
        "crash states, enumerated from recorded system calls",
        crash_everywhere,
        {"operations": TREES, "most": 300, "at_once": 30},
        "most",
        programs=("strace",),
        parts=10,
    ),
    Planned("flips", "F-12", "flipped bits in every file", flip_bits, {"samples": 2000}, "samples", parts=5),
    Planned("tails", "F-11", "tails torn at every byte", tear_tails, {"every": 1}, thinned="every", parts=4),
    Planned(
        "start",
        "F-21",
        "eight processes start at once",
        start_together,
        {"rounds": 50},
        "rounds",
        needs="processes",
    ),
    Planned(
        "storm",
        "F-22, F-23, F-24",
        "eight processes at once, some frozen for a moment",
        storm,
        {"processes": 8, "count": 100, "freezes": 200},
        "freezes",
        needs="processes",
    ),
    Planned(
        "fence",
        "F-24",
        "a frozen holder of a lease comes back",
        fence,
        {"rounds": 10},
        "rounds",
        needs="processes",
    ),
    Planned(
        "fork",
        "F-26",
        "fork with an open store",
        fork_with_a_store,
        {"children": 8, "count": 50},
        needs="processes",
    ),
    Planned(
        "memory",
        "F-17",
        "128 MiB of memory and a session of 2.5 GB",
        little_memory,
        {"megabytes": 2500},
        "megabytes",
        on_disk=True,
    ),
    Planned("files", "F-19", "32 open files and 200 sessions", few_files, needs="processes"),
]
PLAN += [
    Planned(
        "stops", "F-35", "the server stops at once", stop_servers, {"cycles": 50}, "cycles", needs="server"
    ),
    Planned(
        "server-power",
        "F-03, F-35",
        "power cuts of the server's disk, ext4",
        stop_servers,
        {"cycles": 50, "filesystem": "ext4"},
        "cycles",
        needs="server",
        programs=("mkfs.ext4",),
    ),
]
TAKES_SEED = {
    stop_servers, kill_cycles, kill_watchers, kill_servers, cut_power, flip_bits, crash_everywhere, storm
}  # fmt: skip
