"""Tools to break a store with: disks that lose what was not synced, power cuts, processes to kill,
system calls that fail, flipped bits. For the backends of Clew, and for yours.

**Campaigns.** `subjects.Subject` says where a backend keeps its files and how it is opened. A campaign
takes one, runs a workload on it in real processes, breaks something, and holds what is left against what
was acknowledged. `campaign.campaign` runs it in a process of its own and gives a `Result`: what was tried,
what was promised, what is wrong. Each has a module here: `kills`, `power`, `calls`, `crashing`, `flips`,
`together`, `limits`. `plants` holds bugs to see that they are found.

**The disk.** `recording()` watches all that SQLite tells the disk. `crash_states()` then makes every
state in which a crash may have left it: of the writes that no sync had followed yet, any may be lost,
kept, or torn at a sector. A store must open from each of them, with everything in it that was
acknowledged by then.

    with recording() as disk:
        run_some_operations(disk.mark)
    for state in crash_states(disk.events):
        state.write_to(directory)
        open the store, compare with state.marks

**Processes.** `call` runs a function in a new interpreter (under strace, if you like), `Child` in a
fork of this one; both by real processes, to be killed by real signals.
"""

from __future__ import annotations

from clew.testing.faults.processes import Child, ProcessFailed, call
from clew.testing.faults.recorder import Disk, Event, EventKind, recording
from clew.testing.faults.states import EXHAUSTIVE, SAMPLES, SECTOR, CrashState, crash_states

__all__ = [
    "EXHAUSTIVE",
    "SAMPLES",
    "SECTOR",
    "Child",
    "CrashState",
    "Disk",
    "Event",
    "EventKind",
    "ProcessFailed",
    "call",
    "crash_states",
    "recording",
]
