"""Numbers of a server in the text format of Prometheus.

Labels are only what a client cannot invent: route templates, methods that a route has, classes of statuses,
and the number of the worker. So their number is bounded, and no id of a session leaves the server by this
way.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from clew.server.application import Finished, Server

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_STARTED: Final = time.time()
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Numbers(msgspec.Struct, kw_only=True):
    """Those of one process, as they are told to the others."""

    worker: int = 0
    requests: dict[str, int] = {}
    """By "METHOD route class"."""
    durations: dict[str, list[int]] = {}
    """By route: how many took how long, for each of BUCKETS and beyond."""
    seconds: dict[str, float] = {}
    received: int = 0
    sent: int = 0
    refused: int = 0
    in_flight: int = 0
    streams: int = 0
    connections: int = 0
    memory: int = 0
    cpu: float = 0.0
    started: float = 0.0


class Metrics:
    """Counts what ends."""

    def __init__(self) -> None:
        self.numbers = Numbers(started=_STARTED)
        self.folder: Path | None = None
        """Where the processes of one server leave their numbers for each other; None: there is only this
        one."""
        self._told = b""

    def count(self, done: Finished) -> None:
        """A request was answered. Streams are counted, but say nothing of how long an answer takes."""
        numbers = self.numbers
        route = done.route or "-"
        method = done.method if done.method in _METHODS else "-"
        name = f"{method} {route} {done.status // 100}xx" if done.status else f"{method} {route} -"
        numbers.requests[name] = numbers.requests.get(name, 0) + 1
        numbers.received += done.received
        numbers.sent += done.sent
        if done.is_live:
            return
        buckets = numbers.durations.get(route)
        if buckets is None:
            buckets = numbers.durations[route] = [0] * (len(BUCKETS) + 1)
        buckets[bisect_left(BUCKETS, done.seconds)] += 1
        numbers.seconds[route] = numbers.seconds.get(route, 0.0) + done.seconds

    def see(self, server: Server) -> None:
        """What is under way now."""
        self.numbers.in_flight, self.numbers.streams = server.in_flight, server.hub.streams

    def text(self) -> bytes:
        """All of them, and those of the other workers as they were a moment ago."""
        self._measure()
        return "".join(_lines([self.numbers, *self._of_others()])).encode()

    def tell(self) -> None:
        """Leave the numbers for the other workers. Cheap if nothing happened."""
        if self.folder is None:
            return
        self._measure()
        data = msgspec.json.encode(self.numbers)
        if data == self._told:
            return
        new = self.folder / f".{self.numbers.worker}.new"
        try:
            self.folder.mkdir(0o700, exist_ok=True)  # what cleans temporary files may have removed it
            new.write_bytes(data)
            os.replace(new, self.folder / f"{self.numbers.worker}.json")
        except OSError:  # no room: the numbers of the others are older then, and nothing else is worse
            return
        self._told = data

    def _measure(self) -> None:
        times = os.times()
        self.numbers.cpu = round(times.user + times.system, 2)
        self.numbers.memory = _memory()

    def _of_others(self) -> Iterable[Numbers]:
        for path in sorted(self.folder.glob("*.json")) if self.folder else ():
            if path.stem == str(self.numbers.worker):
                continue
            try:
                yield msgspec.json.decode(path.read_bytes(), type=Numbers)
            except (OSError, msgspec.DecodeError):
                continue


def _memory() -> int:
    """Bytes of memory that the process has now."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):  # not Linux: the most that it ever had
        import resource
        import sys

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


# -- the text


def _lines(workers: list[Numbers]) -> Iterable[str]:
    yield from _head("clew_requests_total", "counter", "Requests that were answered.")
    for one in workers:
        for name, number in sorted(one.requests.items()):
            method, route, status = name.split(" ")
            labels = _labels(method=method, route=route, status=status, worker=str(one.worker))
            yield f"clew_requests_total{labels} {number}\n"
    yield from _head("clew_request_seconds", "histogram", "How long requests took, without streams.")
    for one in workers:
        for route, buckets in sorted(one.durations.items()):
            yield from _histogram(one, route, buckets)
    for name, kind, help, values in _simple(workers):
        yield from _head(name, kind, help)
        for one, value in zip(workers, values, strict=True):
            yield f"{name}{_labels(worker=str(one.worker))} {_number(value)}\n"


def _simple(workers: list[Numbers]) -> list[tuple[str, str, str, list[float]]]:
    return [
        ("clew_received_bytes_total", "counter", "Bytes of requests.", [one.received for one in workers]),
        ("clew_sent_bytes_total", "counter", "Bytes of answers.", [one.sent for one in workers]),
        (
            "clew_refused_total",
            "counter",
            "Connections closed because of a limit or a request that could not be read.",
            [one.refused for one in workers],
        ),
        (
            "clew_requests_in_flight",
            "gauge",
            "Requests that are being answered, with streams.",
            [one.in_flight for one in workers],
        ),
        ("clew_streams", "gauge", "Streams that are open.", [one.streams for one in workers]),
        ("clew_connections", "gauge", "Connections that are open.", [one.connections for one in workers]),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            [one.memory for one in workers],
        ),
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            [one.cpu for one in workers],
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            [one.started for one in workers],
        ),
    ]


def _histogram(one: Numbers, route: str, buckets: list[int]) -> Iterable[str]:
    so_far = 0
    for limit, number in zip((*BUCKETS, float("inf")), buckets, strict=True):
        so_far += number
        labels = _labels(route=route, worker=str(one.worker), le=_number(limit))
        yield f"clew_request_seconds_bucket{labels} {so_far}\n"
    labels = _labels(route=route, worker=str(one.worker))
    yield f"clew_request_seconds_sum{labels} {_number(one.seconds.get(route, 0.0))}\n"
    yield f"clew_request_seconds_count{labels} {so_far}\n"


def _head(name: str, kind: str, help: str) -> Iterable[str]:
    yield f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


def _labels(**labels: str) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(value) if isinstance(value, int) else repr(float(value))
