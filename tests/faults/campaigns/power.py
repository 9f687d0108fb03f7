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
from tests.faults.subjects import Subject
from tests.faults.workload.judge import Judge
from tests.faults.workload.worker import Orders, work
from tests.support.children import Child, ProcessFailed

FS_IOC_SHUTDOWN: Final = 0x8004587D
NO_LOG_FLUSH: Final = 2
"""Not even the file system's own journal is written any more: as when the current fails."""
MEGABYTES: Final = {"ext4": 96, "xfs": 320}
MAKERS: Final = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
PATIENCE: Final = 200
OPENING: Final = 5
"""Every so manyth cut may come while the store is being opened."""


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
        _run("mount", "-t", self._filesystem, "-o", "loop", str(self._image), str(self.mount))

    def cut(self) -> None:
        """The current fails: nothing reaches the disk any more."""
        handle = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def off(self) -> None:
        """Unmount; whoever used it has ended, but the kernel may need a moment to see that."""
        for attempt in range(PATIENCE):
            done = subprocess.run(["umount", str(self.mount)], capture_output=True, check=False)
            if done.returncode == 0:
                return
            time.sleep(0.005 * min(attempt, 10))
        raise ProcessFailed(f"{self.mount} cannot be unmounted: {done.stderr.decode()}")


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
    longest: float = 0,
    renew: int = 8,
    purges: bool = False,
    planted: str = "",
) -> Result:
    """Let a worker work for up to `longest` seconds, cut the power, switch it on, look, and again.

    Args:
        longest: 0: as long as its work needs.
        purges: Let it purge and scrub, and do little else.
    """
    wait = random.Random(seed).uniform
    longest = longest or (2.0 if purges else 0.25)
    result = Result()
    judge: Judge | None = None
    with loop_disk(subject.place, filesystem) as disk:
        for cut in range(cuts):
            if judge is None or cut % renew == 0:
                if judge is not None:
                    shutil.rmtree(judge.subject.place)
                judge = Judge(subject.at(disk.mount / f"store-{cut}" / "below"), result, planted)
                files = subject.place / f"files-{cut}"
            orders = Orders(
                name=f"{cut}",
                seed=seed * 100_000 + cut,
                appenders=1 if purges else 3,
                mover=not purges,
                files=str(files),
                retry=judge.retry,
                purges=purges,
                planted=planted,
            )
            has_opened = cut % OPENING != 1
            heard, over = _until_the_cut(
                disk, judge.subject, orders, wait(0.002, longest), has_opened=has_opened
            )
            judge.hear(heard, over=over)
            result.cycles += 1
            if not judge.judge(f"cut {cut} ({filesystem}, seed {seed})") and planted:
                break
    return result


def _until_the_cut(
    disk: LoopDisk, subject: Subject, orders: Orders, seconds: float, *, has_opened: bool
) -> tuple[list[object], int]:
    """What the worker told, and when the power was cut: so many seconds after it has opened the store,
    or after it has begun."""
    worker = Child(work, subject, orders)
    heard = [worker.hear()] if has_opened else []
    try:
        time.sleep(seconds)
        over = time.monotonic_ns()
        disk.cut()
    finally:
        worker.kill()
    heard += worker.hear_all()
    worker.wait()
    disk.off()
    disk.on()
    return heard, over
