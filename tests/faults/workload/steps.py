"""Small programs of one to three operations, each atomic; and all that can be seen of a store, to be
compared: after a fault it must look as after one of the operations."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

import clew
from tests.faults.history.checker import check_whole
from tests.faults.subjects import Subject
from tests.faults.workload.moves import standing_of

Step: TypeAlias = Callable[[clew.Store, Path], object]
"""An operation on a store, and on the directory of files beside it."""
View: TypeAlias = dict[str, Any]
LARGE: Final = "x" * 9_000 + "y" * 9_000
PROBE: Final = "probe"
"""A session that is no part of any view."""


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def say(session: str, *words: str, key: str | None = None) -> Step:
    return lambda store, _: store.get(session).append(*map(message, words), key=key)


def do(session: str, method: str, *args: Any, **kwargs: Any) -> Step:
    return lambda store, _: getattr(store.get(session), method)(*args, **kwargs)


def _write_file(files: Path, text: str) -> None:
    files.mkdir(exist_ok=True)
    (files / "a.txt").write_text(text)
    (files / "large.bin").write_bytes(text.encode() * 20_000)


def _snapshot(store: clew.Store, files: Path) -> None:
    store.get("a").checkpoint("later", files=files)


def _read(store: clew.Store, files: Path) -> View:
    """Everything, in all ways in which it can be read."""
    store.search("beside")
    store.verify(full=True)
    return view_of(store, files)


def _lose_the_index(store: clew.Store, files: Path) -> View:
    """A cache that somebody removes: it comes back when it is needed next."""
    place = Path(store._engine.backend.location)
    for file in place.glob("index.db*") if place.is_dir() else ():
        with suppress(OSError):  # the fault may hit this very call: then a part of it stays
            file.unlink()
    return view_of(store, files)


def _run(store: clew.Store, _: Path) -> None:
    store.get("a").start("go")


def _append_as_a_group(store: clew.Store, _: Path) -> None:
    """As when several threads commit at once: batches to two sessions in one transaction."""
    batches = {"a": ["a2", "a3" * 400, "a4", LARGE], "b": ["b2", "b3" * 400, "b4"]}
    works = [
        work
        for name, words in batches.items()
        if (work := store.get(name)._appending([*map(message, words)], key=None, strict=False)) is not None
    ]
    store._engine.run(lambda tx: [work(tx) for work in works])


OPERATIONS: Final[dict[str, list[Step]]] = {
    "begin": [lambda store, _: store.create("a"), say("a", "a0"), lambda store, _: store.create("b")],
    "create": [lambda store, _: store.create("new", title="t", tags=["a"], metadata={"chat": "42"})],
    "append": [say("a", "a2"), say("b", "b2", key="k"), say("a", "a3")],
    "append a batch": [say("a", "a2", LARGE, "a4"), say("b", "b2", "b3")],
    "append as a group": [_append_as_a_group],
    "rewind": [do("a", "rewind", 0), say("a", "another way")],
    "undo": [do("a", "rewind", 0), do("a", "undo")],
    "fork": [do("a", "fork", "c", at=0), say("c", "c1"), say("a", "a2")],
    "compact": [do("a", "compact", "in short"), do("a", "truncate", 1)],
    "replace": [do("a", "replace", [message("z0")]), do("a", "set_summary", "z")],
    "checkpoint": [do("a", "checkpoint", "here", state={"n": 1}), do("a", "set_var", "k", [1, 2])],
    "annotate": [do("a", "annotate", 0, label="gold"), do("a", "add_alias", "also-a")],
    "delete": [lambda store, _: store.delete("a"), lambda store, _: store.restore_deleted("a")],
    "purge": [lambda store, _: store.delete("a", purge=True), say("b", "b2")],
    "snapshot": [_snapshot, say("a", "a2")],
    "restore files": [do("a", "rewind", "files", files=True)],
    "collect": [do("a", "delete_checkpoint", "files"), lambda store, _: store.gc()],
    "scrub": [lambda store, _: store.delete("b"), lambda store, _: store.sweep(scrub=True)],
    "vacuum": [lambda store, _: store.delete("b", purge=True), lambda store, _: store.vacuum()],
    "run": [_run],
    "read": [_read],
    "rebuild": [_lose_the_index, say("a", "a2")],
    "events": [do("a", "add_event", "tool", {"n": 1}), do("a", "add_usage", model="m", input_tokens=3)],
}
"""What is done to the store that `prepare` makes; that which begins does without."""
BEGINNING: Final = "begin"
IN_PARTS: Final = ("purge", "scrub", "vacuum", "collect", "snapshot", "restore files")
"""Several transactions each: an error says that they are not finished, and the next try finishes them."""


def prepare(subject: Subject, files: Path) -> None:
    """A small store: two sessions, a fork, a checkpoint with files that have changed since."""
    with subject.open() as store:
        _write_file(files, "first")
        for name in "ab":
            store.session(name).append(message(f"{name}0"), message(f"{name}1"))
        store.get("a").checkpoint("files", files=files)
        store.get("b").fork("b-fork", at=0).append(message("beside"))
        store.get("a").append(message("later"))
        _write_file(files, "second")


def view_of(store: clew.Store, files: Path) -> View:
    """All that matters of a store, without times and ids; JSON."""
    found: View = {}
    for info in store.list(limit=1000):
        if info.id == PROBE:
            continue
        found[info.id] = view_of_session(store.get(info.id))
    found["(trash)"] = sorted(info.id for info in store.list(deleted=True, limit=1000))
    found["(files)"] = {
        path.name: [len(content := _content(path)), content[:20].decode()]
        for path in sorted(files.iterdir() if files.is_dir() else ())
    }
    return found


def _content(path: Path) -> bytes:
    """Not by read(), which a test may let fail: this is not the store's."""
    handle = os.open(path, os.O_RDONLY)
    try:
        content = bytearray(os.fstat(handle).st_size)
        os.preadv(handle, [content], 0)
        return bytes(content)
    finally:
        os.close(handle)


def view_of_session(session: clew.Session) -> list[Any]:
    """All that matters of one; JSON."""
    info = session.info
    standing = standing_of(session)
    standing.path = [f"{text[:20]} {len(text)}" for text in standing.path]
    return [
        msgspec.to_builtins(standing),
        [info.title, info.status, list(info.tags), list(info.aliases), info.messages, info.user_turns],
        [dict(entry.annotations) for entry in session.entries()],
        [session.summary, len(list(session.events())), session.usage().calls],
        [change.status for change in session.status_changes()],
    ]


def look_again(subject: Subject, files: Path) -> dict[str, Any]:
    """What the next program finds, which has no faults. A restore that was cut off is finished first."""
    wrong: list[str] = []
    view: View = {}
    try:
        with subject.open() as store:
            for pending in store.pending_restores():
                store.finish_restore(pending.id)
            view = view_of(store, files)
            wrong += map(str, check_whole(store))
            store.session(PROBE).append(message("and on"))
        wrong += subject.check()
    except Exception:  # noqa: BLE001 (whatever it is, this store is bad)
        wrong.append(f"it cannot be used: {traceback.format_exc(limit=-5)}")
    return {"view": view, "wrong": wrong}
