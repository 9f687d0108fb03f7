"""Tools to break a store with: a disk that loses what was not synced, and processes to kill.

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

import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import apsw
import msgspec

SECTOR: Final = 512
"""What a disk writes as a whole."""
EXHAUSTIVE: Final = 4
"""Up to so many unsynced writes, every combination is tried; of more, a fixed choice."""
SAMPLES: Final = 8

# ── The disk ──────────────────────────────────────────────────────────────────────────────────────

EventKind: TypeAlias = Literal["create", "write", "truncate", "sync", "delete", "mark"]


class Event(msgspec.Struct, frozen=True):
    """Something that the disk was told, or a mark that the workload made."""

    kind: EventKind
    file: str = ""
    """The name without its directory; of a mark, what it says."""
    offset: int = 0
    """Of a write; of a truncation, the new size; of a deletion, 1 if the directory was synced."""
    data: bytes = b""


class Disk:
    """The record of a disk. `mark` notes what the workload did, between the writes."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def mark(self, label: str) -> None:
        self.events.append(Event("mark", label))


class _RecordingVfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk, *, lying: bool) -> None:
        super().__init__(name, base="unix", makedefault=True)
        self.disk, self.lying = disk, lying

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _RecordingFile(self.disk, name, flags, lying=self.lying)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.disk.events.append(Event("delete", os.path.basename(filename), int(syncdir)))


class _RecordingFile(apsw.VFSFile):
    def __init__(
        self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int], *, lying: bool
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        is_new = path is not None and not os.path.exists(path)
        super().__init__("unix", name, flags)
        self._disk, self._lying = disk, lying
        self._file = os.path.basename(path) if path else ""
        if self._file and is_new:
            disk.events.append(Event("create", self._file))

    def _note(self, kind: EventKind, offset: int = 0, data: bytes = b"") -> None:
        if self._file:  # files without a name are temporary: no crash matters to them
            self._disk.events.append(Event(kind, self._file, offset, data))

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._note("write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._note("truncate", newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        if not self._lying:
            self._note("sync")


_numbers = itertools.count(1)


@contextmanager
def recording(*, lying: bool = False) -> Iterator[Disk]:
    """Record all that SQLite writes in this process while the block runs. Close what you open in it.

    `lying` disks say that they synced and did not: a test that finds nothing wrong with one is none.
    """
    disk = Disk()
    before = apsw.vfs_names()[0]
    vfs = _RecordingVfs(f"clew-recorder-{next(_numbers)}", disk, lying=lying)
    try:
        yield disk
    finally:
        apsw.set_default_vfs(before)
        vfs.unregister()


class CrashState(msgspec.Struct, frozen=True):
    """The files as a crash may have left them, and the marks made before it."""

    files: Mapping[str, bytes]
    marks: tuple[str, ...]
    story: str
    """What was lost, to be shown when this state is bad."""

    def write_to(self, directory: Path) -> None:
        for name, content in self.files.items():
            (directory / name).write_bytes(content)


class _Inode:
    """A file's content: what is safe, and what is still on its way."""

    def __init__(self, content: bytes = b"", *, is_new: bool = False) -> None:
        self.safe = content
        self.is_new = is_new
        self.pending: list[Event] = []


class _Model:
    """A disk as far as a crash is concerned: names lead to contents, and both arrive late."""

    def __init__(self, base: Mapping[str, bytes]) -> None:
        self.names: dict[str, list[_Inode | None]] = {
            name: [_Inode(content)] for name, content in base.items()
        }
        """For each name what it may lead to after a crash: what is safe first, what is newest last."""
        self.order: list[Event] = []

    def take(self, event: Event) -> None:
        chain = self.names.setdefault(event.file, [None])
        inode = chain[-1]
        if event.kind == "create":
            chain.append(_Inode(is_new=True))
        elif event.kind == "delete":
            chain.append(None)
            if event.offset:
                del chain[:-1]
        elif inode is None:  # a file that was there before the recording began
            chain[-1] = inode = _Inode()
        if inode is not None and event.kind in ("write", "truncate"):
            inode.pending.append(event)
            self.order.append(event)
        if inode is not None and event.kind == "sync":
            inode.safe, inode.pending = _applied(inode.safe, inode.pending), []
            # With the first sync of a new journal or log SQLite syncs the directory, hence all names.
            for names in self.names.values() if inode.is_new else [chain]:
                del names[:-1]
            inode.is_new = False
        newest = (chain[-1] for chain in self.names.values())
        live = {id(pending) for inode in newest if inode is not None for pending in inode.pending}
        self.order = [pending for pending in self.order if id(pending) in live]

    def files(self, survivors: Mapping[int, Event], *, old_names: bool = False) -> dict[str, bytes]:
        """The files when of the pending writes only these (by identity) arrived, perhaps torn."""
        found: dict[str, bytes] = {}
        for name, chain in self.names.items():
            inode = chain[0] if old_names else chain[-1]
            if inode is not None:
                arrived = [survivors[id(event)] for event in inode.pending if id(event) in survivors]
                found[name] = _applied(inode.safe, arrived)
        return found


def _applied(content: bytes, events: Sequence[Event]) -> bytes:
    if not events:
        return content
    result = bytearray(content)
    for event in events:
        if event.kind == "truncate":
            del result[event.offset :]
        end = event.offset + len(event.data)
        if len(result) < end:
            result += bytes(end - len(result))
        result[event.offset : end] = event.data
    return bytes(result)


def crash_states(
    events: Sequence[Event], base: Mapping[str, bytes] | None = None, *, seed: int = 0
) -> Iterator[CrashState]:
    """Every state (of many unsynced writes: a fixed choice) in which a crash may have left the disk.

    `base` holds the files that were there, safely, before the recording began. A state with fewer
    writes than another is made at the latest moment at which it is possible: when most is promised.
    """
    model = _Model(base or {})
    chooser = random.Random(seed)
    marks: tuple[str, ...] = ()
    seen: set[bytes] = set()
    for event in [*events, None]:
        if event is None or event.kind in ("sync", "delete", "create"):
            for story, files in _states_now(model, chooser):
                state = CrashState(files, marks, story)
                name = _digest(state)
                if name not in seen:
                    seen.add(name)
                    yield state
        if event is not None and event.kind == "mark":
            marks = (*marks, event.file)
        elif event is not None and not event.file.endswith("-shm"):  # no crash survives in -shm
            model.take(event)


def _states_now(model: _Model, chooser: random.Random) -> Iterator[tuple[str, dict[str, bytes]]]:
    pending = model.order
    for lost in _losses(len(pending), chooser):
        kept = {id(event): event for place, event in enumerate(pending) if place not in lost}
        yield f"lost {sorted(lost)} of {len(pending)} unsynced writes", model.files(kept)
        if not kept and any(len(chain) > 1 for chain in model.names.values()):
            yield "lost all unsynced writes and names", model.files(kept, old_names=True)
    for place, event in enumerate(pending):
        for part in _torn(event):
            story = f"write {place} of {len(pending)} torn to {len(part.data)} bytes at {part.offset}"
            for others in (pending[:place], pending):
                yield story, model.files({**{id(other): other for other in others}, id(event): part})


def _losses(count: int, chooser: random.Random) -> Iterator[frozenset[int]]:
    """Which of `count` writes may be lost together."""
    if count <= EXHAUSTIVE:
        for chosen in itertools.product((False, True), repeat=count):
            yield frozenset(place for place, lost in enumerate(chosen) if lost)
        return
    everything = frozenset(range(count))
    for place in range(count + 1):
        yield frozenset(range(place, count))  # all prefixes
    for place in range(count):
        yield frozenset({place})
        yield everything - {place}
    for _ in range(SAMPLES):
        yield frozenset(place for place in range(count) if chooser.random() < 0.5)


def _torn(event: Event) -> Iterator[Event]:
    """The first part, or the last part, of a write that crosses sectors."""
    first = (event.offset // SECTOR + 1) * SECTOR
    cuts = list(range(first, event.offset + len(event.data), SECTOR))
    for cut in sorted({*cuts[:1], *cuts[len(cuts) // 2 :][:1], *cuts[-1:]}):
        size = cut - event.offset
        yield msgspec.structs.replace(event, data=event.data[:size])
        yield msgspec.structs.replace(event, offset=cut, data=event.data[size:])


def _digest(state: CrashState) -> bytes:
    hasher = blake2b(repr(state.marks).encode(), digest_size=16)
    for name, content in sorted(state.files.items()):
        hasher.update(f"\0{name}\0{len(content)}\0".encode())
        hasher.update(content)
    return hasher.digest()


# ── Processes ─────────────────────────────────────────────────────────────────────────────────────


class ProcessFailed(AssertionError):
    """A process that should have ended well did not. Its output is in the message."""


_START: Final = """
import importlib, json, pathlib, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
function = getattr(importlib.import_module(given["module"]), given["function"])
pathlib.Path(given["answer"]).write_text(json.dumps(function(*given["args"])))
"""


def call(
    function: Callable[..., Any],
    *args: Any,
    under: Sequence[str] = (),
    timeout: float = 60,
    expect: int | None = 0,
) -> Any:
    """Call a function of some module in a new interpreter; its answer, which like `args` must be JSON.

    Args:
        under: A command to run the interpreter under, such as strace with its arguments.
        timeout: In seconds. A process that takes longer is killed, and counts as failed.
        expect: The exit status that is right; None: any. A killed process has minus its signal.
    """
    with tempfile.TemporaryDirectory(prefix="clew-call-") as directory:
        answer = Path(directory, "answer")
        given = {
            "path": sys.path,
            "module": function.__module__,
            "function": function.__name__,
            "args": args,
            "answer": str(answer),
        }
        command = [*under, sys.executable, "-X", "faulthandler", "-c", _START]
        with subprocess.Popen(
            [*command, msgspec.json.encode(given).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGABRT)  # faulthandler says where it hung
                words = process.communicate(timeout=10)[0].decode(errors="replace")
                raise ProcessFailed(f"{function.__name__} hung for {timeout:g} s:\n{words}") from None
            finally:
                if process.poll() is None:  # whatever stops a test stops its processes too
                    os.killpg(process.pid, signal.SIGKILL)
        if expect is not None and process.returncode != expect:
            text = output.decode(errors="replace")
            raise ProcessFailed(f"{function.__name__} ended with {process.returncode}, not {expect}:\n{text}")
        return msgspec.json.decode(answer.read_bytes()) if answer.exists() else None


class Child:
    """A function in a fork of this process. What it says through `tell` arrives here line by line.

    The child never returns into the caller's code: it leaves by `os._exit`, without cleaning up.
    """

    def __init__(self, function: Callable[..., None], *args: Any) -> None:
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._reading)
                function(lambda value: _tell(writing, value), *args)
                status = 0
            except BaseException:  # noqa: BLE001 (there is nobody above to catch it)
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(writing)
        self._buffer = b""
        self.status: int | None = None

    def hear(self) -> Any:
        """The next thing it says; None when it has ended."""
        while b"\n" not in self._buffer:
            data = os.read(self._reading, 65536)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return msgspec.json.decode(line)

    def hear_all(self) -> list[Any]:
        """All else that it says, until it ends."""
        return list(iter(self.hear, None))

    def kill(self, signum: int = signal.SIGKILL) -> None:
        os.kill(self.pid, signum)

    def wait(self) -> int:
        """Its exit status, or minus the signal that killed it."""
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
            os.close(self._reading)
        return self.status


def _tell(descriptor: int, value: Any) -> None:
    os.write(descriptor, msgspec.json.encode(value) + b"\n")
