"""A PostgreSQL to measure: CLEW_BENCH_POSTGRES, or one to throw away, fsync and synchronous_commit on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.script import Lab, in_memory

NAMED = "CLEW_BENCH_POSTGRES"


@contextmanager
def server(lab: Lab, **settings: str) -> Iterator[str]:
    """Its address. The tests of the checkout know how to start one."""
    named = os.environ.get(NAMED)
    if named:
        yield named
        return
    from tests.backends.postgres.servers.cluster import Cluster

    # Not in the lab's folder, into which the server's user may not look.
    if in_memory(Path(tempfile.gettempdir())):
        lab.say("warning: the temporary directory is in memory, and fsync costs nothing: set TMPDIR")
    cluster = Cluster(**settings)
    try:
        cluster.start()
        yield cluster.url
    finally:
        cluster.remove()
