"""What tests do in processes of their own: under another umask, as another user, under limits."""

from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import clew
from tests.backends.sqlite.traces import SECRET, Words, fill, needles, traces
from tests.faults.crash.common import chain_of, message, quick_directory, texts
from tests.support.children import Child, forked

Tell = Callable[[Any], None]
NOBODY = 65534


@contextmanager
def masked(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def modes_under(umask: int, directory: str) -> dict[str, str]:
    """The modes of all that a store makes, under some umask."""
    root = Path(directory)
    with masked(umask), clew.open(root / "made" / "also made" / "a.db") as store:
        session = store.session("s")
        session.append(*(message("x" * 3000) for _ in range(50)))
        session.append_nowait(message("y"))
        store.flush()
        session.messages()
        store.create("gone").append(message("z"))
        store.delete("gone", purge=True)
        found = _modes(root)
    return {**found, **_modes(root)}


def _modes(root: Path) -> dict[str, str]:
    return {str(file.relative_to(root)): oct(stat.S_IMODE(file.stat().st_mode)) for file in root.rglob("*")}


def mode_behind_a_link(directory: str) -> str:
    """The mode of a file that is made where a symbolic link leads."""
    target = Path(directory, "target.db")
    link = Path(directory, "link.db")
    link.symlink_to(target)
    with masked(0):
        clew.open(link).close()
    return oct(stat.S_IMODE(target.stat().st_mode))


def prepare_store(path: Path) -> list[str]:
    """A small store; its texts."""
    with clew.open(path) as store:
        session = store.session("s")
        for number in range(5):
            session.append(message(f"{number}"), message("x" * 5000))
        return texts(session)


def as_somebody_else(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a fork that has given up root."""
    with quick_directory() as scratch:  # loads all modules while they can be read
        prepare_store(scratch / "a.db")
        read_it(str(scratch / "a.db"))

    def run() -> Any:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        return function(*args)

    return forked(run)


def error_of_opening(path: str) -> str:
    try:
        clew.open(path).close()
    except clew.ClewError as error:
        return error.code
    return "opened"


def read_it(path: str) -> dict[str, Any]:
    """All reads of a store that cannot be written, and what a write says."""
    with clew.open(path) as store:
        session = store.get("s")
        refused = []
        for write in (lambda: session.append(message("no")), lambda: store.create("no")):
            try:
                write()
                refused.append("written")
            except clew.ClewError as error:
                refused.append(error.code)
        with store._engine.read() as one, store._engine.read() as two:  # as two threads would
            counts = [one.totals(0).messages, two.totals(0).messages]
        return {
            "texts": texts(session),
            "again": counts,
            "wrong": chain_of(session),
            "listed": [info.id for info in store.list()],
            "stats": store.stats().messages,
            "refused": refused,
        }


def fill_up_to_a_limit(path: str, limit: int) -> dict[str, Any]:
    """F-07: append until the system refuses to let a file grow; then without the limit."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = clew.open(path)
    session = store.session("s")
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    said = append_until_refused(session)
    kept = texts(session)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    session.append(message("room again"))
    after = texts(session)
    store.close()
    return {**said, "kept": kept, "after": after}


def append_until_refused(session: clew.Session, size: int = 3000) -> dict[str, Any]:
    """Batches of two, until one is refused."""
    acknowledged: list[str] = []
    for number in range(100_000):
        values = [f"{number}a" + "x" * size, f"{number}b"]
        try:
            session.append(*map(message, values))
        except clew.ClewError as error:
            return {"acknowledged": acknowledged, "code": error.code, "retryable": error.retryable}
        acknowledged += values
    raise AssertionError("it was never refused")


def fill_the_disk(path: str, ballast: str) -> dict[str, Any]:
    """F-06: append until the disk is full, use what is there, free some space, go on."""
    store = clew.open(path)
    session = store.session("s")
    said = append_until_refused(session)
    kept = texts(session)
    refused = []
    for write in (
        lambda: session.append(message("z" * 9000)),
        lambda: session.replace([message("z" * 9000)]),
        lambda: session.set_var("k", "z" * 90_000),
    ):
        try:
            write()
            refused.append("written")
        except clew.ClewError as error:
            refused.append(error.code)
    reads = {
        "listed": [info.id for info in store.list()],
        "context": len(session.context()),
        "entries": sum(1 for _ in session.entries()),
        "counted": session.info.messages,
    }
    with clew.open(path) as second:  # another program comes while the disk is full
        reads["second"] = texts(second.get("s")) == kept
    os.unlink(ballast)
    session.append(message("room again"))
    after = texts(session)
    wrong = chain_of(session)
    store.close()
    return {**said, **reads, "kept": kept, "refused": refused, "after": after, "wrong": wrong}


def read_when_full(path: str) -> dict[str, Any]:
    """A program that starts when the disk is full already."""
    with clew.open(path) as store:
        return {"texts": texts(store.get("s")), "listed": [info.id for info in store.list()]}


def _hold_open(tell: Tell, path: str, go: int) -> None:
    """Another program: reads, idles, then is in the middle of a read, then reads on."""
    with clew.open(path) as store:
        texts(store.get("other-1"))
        tell("idle")
        os.read(go, 1)
        with store._engine.read() as reader:
            connection = reader._execute.__self__  # type: ignore[attr-defined]
            connection.execute("BEGIN")
            reader.totals(0)
            tell("reading")
            os.read(go, 1)
            connection.execute("COMMIT")
        tell(texts(store.get("other-1")) != [])


def purge_with_a_reader(path: str) -> dict[str, Any]:
    """P18 while another process has the store open, idle or in the middle of a read."""
    words = Words(21)
    directory = Path(path).parent
    store = clew.open(path)
    fill(store, words, rounds=4)
    wanted = needles(Path(path), words)
    store.close()
    waiting, go = os.pipe()
    other = Child(_hold_open, path, waiting)
    other.hear()
    store = clew.open(path, timeout=0.3)
    store.delete(SECRET, purge=True)
    idle = traces(directory, wanted)
    more = Words(22)
    fill(store, more, rounds=3, others=0)
    wanted = needles(Path(path), more)
    os.write(go, b".")
    other.hear()
    try:
        store.delete(SECRET, purge=True)
        busy = "purged"
    except clew.ClewError as error:
        busy = error.code
    os.write(go, b".")
    read_on = other.hear()
    other.wait()
    store.delete(SECRET, purge=True)
    after = traces(directory, wanted)
    store.close()
    return {"idle": idle, "busy": busy, "read on": read_on, "after": after}
