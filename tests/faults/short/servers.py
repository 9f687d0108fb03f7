"""F-35: a PostgreSQL server that stops at once, or whose disk loses its power, under load.

Run in a process of its own: the workers are forks of it.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.backends.postgres.servers.cluster import Cluster
from tests.faults.campaign import Result
from tests.faults.campaigns.power import LoopDisk, loop_disk
from tests.faults.subjects import Subject
from tests.faults.workload.judge import Judge
from tests.faults.workload.worker import Orders, hear_until_now, work
from tests.support.children import Child

MEGABYTES = 400


@contextmanager
def server_in(place: Path, server: Path, **settings: str) -> Iterator[Cluster]:
    """A cluster with its data below a directory; its address is in the file `server`."""
    with mock.patch.object(tempfile, "tempdir", str(place)):
        cluster = Cluster(**settings)
    cluster.start()
    server.write_text(cluster.url)
    try:
        yield cluster
    finally:
        cluster.stop(signal.SIGQUIT)


def stop_servers(
    subject: Subject, *, cycles: int, seed: int, filesystem: str = "", fsync: str = "on"
) -> Result:
    """Stop the server at random instants, at once, while a worker works; with a file system: by cutting
    its power. `fsync` "off" is a planted bug."""
    subject.place.mkdir(parents=True)
    server = subject.place / "server"
    result = Result()
    if not filesystem:
        subject.place.chmod(0o755)
        with server_in(subject.place, server, fsync=fsync) as cluster:
            _cycles(subject, cluster, None, result, cycles, seed)
        return result
    sizes = mock.patch.dict("tests.faults.campaigns.power.MEGABYTES", {filesystem: MEGABYTES})
    with sizes, loop_disk(subject.place / "disk", filesystem) as disk:
        disk.mount.chmod(0o755)
        for above in (disk.mount.parent, subject.place):
            above.chmod(0o755)
        with server_in(disk.mount, server, fsync=fsync) as cluster:
            cluster.stop()
            os.sync()  # initdb was told not to
            cluster.start()
            _cycles(subject, cluster, disk, result, cycles, seed)
    return result


def _cycles(
    subject: Subject, cluster: Cluster, disk: LoopDisk | None, result: Result, cycles: int, seed: int
) -> None:
    choose = random.Random(seed).randint
    judge = Judge(subject.at(subject.place / "store"), result)
    for cycle in range(cycles):
        orders = Orders(
            name=f"{cycle}",
            seed=seed * 1000 + cycle,
            appenders=3,
            retry=judge.retry,
            instant=choose(20, 200),
        )
        worker = Child(work, judge.subject, orders)
        heard = hear_until_now(worker)
        over = time.monotonic_ns()
        if disk is not None:
            disk.cut()
        cluster.stop(signal.SIGQUIT)
        worker.kill()
        heard += worker.hear_all()
        worker.wait()
        if disk is not None:
            disk.off()
            disk.on()
        cluster.start()
        judge.hear(heard, over=over)
        result.cycles += 1
        judge.judge(f"cycle {cycle} (seed {seed})")
