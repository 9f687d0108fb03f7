"""F-03: real power cuts. A file system in a file, which forgets at an instant all that was not synced.

Needs root, loop devices, and the programs that make the file systems.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.faults.campaign import Result
from tests.faults.campaigns.kills import ANSWERS, CALLS, OPENING
from tests.faults.subjects import Subject
from tests.faults.workload.judge import Judge
from tests.faults.workload.worker import Orders, hear_until_now, work
from tests.support.children import Child, ProcessFailed
from tests.support.waiting import until

FS_IOC_SHUTDOWN: Final = 0x8004587D
NO_LOG_FLUSH: Final = 2
"""Not even the file system's own journal is written any more: as when the current fails."""
MEGABYTES: Final = {"ext4": 96, "xfs": 320}
MAKERS: Final = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
OPTIONS: Final = {"ext4": "loop,commit=300", "xfs": "loop"}
"""What nobody syncs is not written by and by, however slow the machine is."""


def why_not(filesystem: str) -> str:
    """Why no power can be cut here; "" when it can."""
    if os.geteuid() != 0:
        return "only root can mount a file system and cut its power"
    if shutil.which(MAKERS[filesystem][0]) is None:
        return f"{MAKERS[filesystem][0]} is not installed"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices here"
    return ""


class LoopDisk:
    """A disk in a file. Mounted at `mount`, unless it is off."""

    def __init__(self, directory: Path, filesystem: str) -> None:
        self.mount = directory / "mount"
        self.mount.mkdir(parents=True)
        self._image = directory / "image"
        self._filesystem = filesystem
        with self._image.open("wb") as image:
            image.truncate(MEGABYTES[filesystem] << 20)
        _run(*MAKERS[filesystem], str(self._image))

    def on(self) -> None:
        options = OPTIONS[self._filesystem]
        _run("mount", "-t", self._filesystem, "-o", options, str(self._image), str(self.mount))

    def cut(self) -> None:
        """The current fails: nothing reaches the disk any more."""
        handle = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def off(self) -> None:
        """Unmount; whoever used it has ended, but the kernel may need a moment to see that."""
        until(
            lambda: subprocess.run(["umount", self.mount], capture_output=True, check=False).returncode == 0
        )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise ProcessFailed(f"{' '.join(command)}: {done.stderr.decode()}")


@contextmanager
def loop_disk(directory: Path, filesystem: str) -> Iterator[LoopDisk]:
    """A disk that is switched on; off whatever happens."""
    disk = LoopDisk(directory, filesystem)
    disk.on()
    try:
        yield disk
    finally:
        if os.path.ismount(disk.mount):
            disk.off()


def cut_power(
    subject: Subject,
    *,
    cuts: int,
    seed: int,
    filesystem: str = "ext4",
    longest: int = 0,
    in_turn: bool = False,
    renew: int = 8,
    purges: bool = False,
    planted: str = "",
) -> Result:
    """Let a worker work for up to `longest` steps, cut the power, switch it on, look, and again.

    Args:
        longest: 0: as many as its work needs.
        in_turn: Cut under a worker with one thread at the first begin or end of a commit, under the next one
            at the second, and so on: the same on every run.
        purges: Let it purge and scrub, and do little else.
    """
    choose = random.Random(seed).randint
    longest = longest or (60 if purges else 200)
    result = Result()
    judge: Judge | None = None
    with loop_disk(subject.place, filesystem) as disk:
        for cut in range(cuts):
            if judge is None or cut % renew == 0:
                if judge is not None:
                    shutil.rmtree(judge.subject.place)
                judge = Judge(subject.at(disk.mount / f"store-{cut}" / "below"), result, planted)
                files = subject.place / f"files-{cut}"
            while_opening = cut % OPENING == 1 and not in_turn
            orders = Orders(
                name=f"{cut}",
                seed=seed * 100_000 + cut,
                appenders=1 if purges or in_turn else 3,
                mover=not purges and not in_turn,
                files=str(files),
                retry=judge.retry,
                purges=purges,
                planted=planted,
                instant=cut + 1 if in_turn else choose(1, CALLS if while_opening else longest),
                answers_before=0 if in_turn or cut % renew else ANSWERS,
                only_commits=in_turn,
                while_opening=while_opening,
            )
            heard, over = cut_off(disk, judge.subject, orders)
            judge.hear(heard, over=over)
            result.cycles += 1
            if not judge.judge(f"cut {cut} ({filesystem}, seed {seed})") and planted:
                break
    return result


def cut_off(disk: LoopDisk, subject: Subject, orders: Orders) -> tuple[list[object], int]:
    """What a worker told, and when the power was cut: at its instant. Then it is on again."""
    worker = Child(work, subject, orders)
    try:
        heard = hear_until_now(worker)
        over = time.monotonic_ns()
        disk.cut()
    finally:
        worker.kill()
    heard += worker.hear_all()
    worker.wait()
    disk.off()
    disk.on()
    return heard, over
