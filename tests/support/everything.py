"""A small store that holds something of every kind, and a look at all of it by every public way to read.

For tests that harm one session of it: what the others say must stay the same, and of the harmed one comes
what was written, or an error of ours.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import clew
from clew.backends.rows import make_cursor
from clew.model import Retention, UsageKey

HARMED = "two"
OTHERS = ("one", "three")
ALL = ("one", HARMED, "three")


def build(store: clew.Store, files: Path) -> None:
    """`files`: an empty directory, of which snapshots are taken."""
    (files / "note.txt").write_text("a file\n" * 100)
    store.set_retention(Retention(purge_after=timedelta(days=3650), max_sessions=1000))
    for name in ALL:
        session = store.session(
            name, title=f"title of {name}", tags=["shared", name], metadata={"of": name}, model="m",
            vendor="v", endpoint="e", workspace="/somewhere",
        )  # fmt: skip
        session.add_alias(f"{name}-alias")
        for turn in range(3):
            session.append({"role": "user", "content": f"question {turn} of {name}"}, key=f"k{turn}")
            session.append({"role": "assistant", "content": f"answer {turn} of {name}"})
        session.annotate(1, label="gold", note="kept")
        session.checkpoint("here", state={"n": name}, files=files)
        session.append({"role": "user", "content": f"left behind by {name}"})
        session.rewind("here")
        session.append({"role": "user", "content": f"large {name} " + "x" * 20_000})
        session.set_summary("it was said")
        session.set_var("var", {"is": name})
        session.set_document("doc", b"document of " + name.encode())
        session.add_event("step", {"of": name}, stream="log", id=f"event-{name}")
        session.add_event("step", {"of": name})
        session.add_usage(model="m", vendor="v", input_tokens=5, output_tokens=6, cost="0.5", id=f"u-{name}")
        session.add_usage(model="m", input_tokens=7)
        session.start({"ask": name})
        session.complete({"done": name})
        fork = session.fork(f"{name}-fork")
        fork.append({"role": "user", "content": f"fork of {name}"})
        gone = store.session(f"{name}-gone")
        gone.append({"role": "user", "content": f"deleted of {name}"})
        store.delete(gone.id)
    store.search("question")


class Look(NamedTuple):
    said: dict[str, Any]
    """What each call returned, or the error of ours."""
    leaks: list[str]
    """Errors that are not ours."""


def look(store: clew.Store, place: Path) -> Look:
    """Read everything in every way. `place`: a directory for what is written elsewhere."""
    told = Look({}, [])
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()

    def ask(what: str, call: Callable[[], Any]) -> Any:
        try:
            found = call()
            told.said[what] = found.id if isinstance(found, clew.Session) else found
            return found
        except clew.ClewError as error:
            told.said[what] = error
        except Exception as error:  # noqa: BLE001 (collected for the test)
            told.leaks.append(f"{what}: {error!r}")
        return None

    ask("list", lambda: _by_id(store.list(limit=500)))
    ask("pages", lambda: _paged(store))
    ask("trash", lambda: _by_id(store.list(deleted=True)))
    ask("tag", lambda: _by_id(store.list(tag="shared")))
    ask("where", lambda: _by_id(store.list(where={"of": "one"})))
    ask("status", lambda: _by_id(store.list(status="completed")))
    ask("workspace", lambda: _by_id(store.list(workspace="/somewhere")))
    ask("latest", store.latest)
    ask("interrupted", store.interrupted)
    ask("watch", lambda: {change.session: change.kind for change in store.watch(_FROM_START, wait=False)})
    ask("search newest", lambda: _found(store.search("question", limit=100)))
    ask("search best", lambda: _found(store.search("question", limit=100, order="best")))
    ask("search tag", lambda: _found(store.search("answer", tag="shared", limit=100)))
    ask("stats", store.stats)
    groups: tuple[UsageKey, ...] = get_args(UsageKey)
    ask("usage by None", store.usage)
    for by in groups:
        ask(f"usage by {by}", partial(store.usage, by=by))
    ask("retention", lambda: store.retention)
    ask("removals", store.removals)
    ask("pending", store.pending_restores)
    snapshots = ask("snapshots", store.snapshots)
    for snapshot in snapshots or ():
        ask("files", partial(store.read_file, snapshot, "note.txt"))
    for name in ALL:
        for id in (name, f"{name}-fork"):
            look_at(store, id, ask)
        ask(f"{name} alias", partial(store.find, f"{name}-alias"))
    ask("sweep", lambda: store.sweep(dry_run=True))
    ask("gc", lambda: store.gc(dry_run=True))
    ask("verify", lambda: store.verify(full=True).problems)
    ask("verify quick", lambda: store.verify(full=False).problems)
    with clew.open("memory:") as copied:
        ask("copy", lambda: clew.copy(store, copied))
        told.said["copied"] = {info.id for info in copied.list(limit=500)}
    ask("repair", lambda: store.repair(to=place / "repaired.db").lost)
    if (place / "repaired.db").exists():
        with clew.open(place / "repaired.db") as repaired:
            ask("repaired", lambda: {info.id for info in repaired.list(limit=500)})
            ask("repaired sound", lambda: repaired.verify(full=True).problems)
            with clew.open("memory:") as copied:
                ask("repaired copied", lambda: clew.copy(repaired, copied).sessions)
    ask("backup", lambda: store.backup(place / "backup.db"))
    return told


def look_at(store: clew.Store, id: str, ask: Callable[[str, Callable[[], Any]], Any]) -> None:
    """All that one session says."""
    session = ask(f"{id} get", lambda: store.find(id))
    if session is None:
        return
    for what, call in {
        "info": lambda: session.info,
        "head": lambda: session.head,
        "messages": session.messages,
        "last": lambda: session.messages(last=2, newest_first=True),
        "at": lambda: session.messages(at="here"),
        "entries": lambda: list(session.entries()),
        "backwards": lambda: list(session.entries(newest_first=True)),
        "skip": lambda: list(session.entries(damaged="skip")),
        "label": lambda: list(session.entries(label="gold")),
        "context": lambda: list(session.context()),
        "few": lambda: list(session.context(max_messages=2)),
        "tokens": lambda: list(session.context(max_tokens=50)),
        "summary": lambda: session.summary,
        "tree": session.tree,
        "checkpoints": session.checkpoints,
        "checkpoint": lambda: session.get_checkpoint("here"),
        "vars": session.vars,
        "var": lambda: session.get_var("var"),
        "documents": session.documents,
        "document": lambda: session.get_document("doc"),
        "events": session.events,
        "stream": lambda: session.events(stream="log"),
        "counts": session.count_events,
        "usage": session.usage,
        "by model": lambda: session.usage(by="model"),
        "by branch": lambda: session.usage(by="branch"),
        "calls": session.usage_records,
        "changes": session.status_changes,
        "lease": lambda: session.lease,
        "file": lambda: session.file_history("note.txt"),
        "html": lambda: store.export(id, "html"),
        "jsonl": lambda: store.export(id, "jsonl"),
    }.items():
        ask(f"{id} {what}", call)


_FROM_START = make_cursor(60_000_001, "")


def _found(page: clew.SearchPage) -> set[str]:
    return {f"{hit.session} {hit.position}" for hit in page}


def _by_id(page: clew.Page) -> dict[str, Any]:
    return {info.id: info for info in page}


def _paged(store: clew.Store) -> dict[str, Any]:
    found: dict[str, Any] = {}
    cursor = None
    for _ in range(100):
        page = store.list(limit=1, cursor=cursor)
        found |= _by_id(page)
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("the pages have no end")


LISTS = ("list", "pages", "trash", "tag", "where", "status", "workspace")
WIDE = ("watch", "search newest", "search best", "search tag", "stats", "usage by None", "copied", "repaired")


def harm_done(before: Look, now: Look, *, is_shared: bool) -> list[str]:
    """What a harmed session did to the others, and what came out that is no error of ours. `is_shared`: what
    was harmed belongs to no session, so all may be told of it; but they are listed all the same."""
    told = [f"leaked {leak}" for leak in now.leaks]
    if "open" in now.said:
        return told
    told += _unrepaired(now)
    for what, said in before.said.items():
        found = now.said.get(what)
        if what == "copied" and is_shared and isinstance(now.said.get("copy"), Exception):
            continue  # what needs the harmed thing stays behind, and that was said
        if what == "repaired" and isinstance(now.said.get("repair"), clew.errors.BackendUnavailableError):
            continue  # a repair that cannot reach what it is to save leaves nothing, and says how it can
        if what in LISTS:
            told += [f"{what}: {error}" for error in _unlisted(said, found)]
        elif what in WIDE:
            told += [f"{what}: {error}" for error in _narrowed(said, found)]
        elif _is_others(what.split(" ")[0]) and not is_shared and not same(said, found):
            told.append(f"{what}: {found!r:.200}")
    return told


LOST_FILES = re.compile("the object [0-9a-f]{64} is missing|it names the snapshot .* deleted, or is lost")


def _unrepaired(now: Look) -> list[str]:
    """What is wrong with the repaired store. Files that are lost stay so: snapshots that had them are told of
    by `verify`, and the sessions that need them are not copied."""
    sound, copied = now.said.get("repaired sound", ()), now.said.get("repaired copied")
    if isinstance(sound, tuple):
        sound = tuple(problem for problem in sound if not LOST_FILES.search(problem))
    told = [f"repaired, and not sound: {sound!r:.300}"] if sound != () else []
    if isinstance(copied, Exception) and not isinstance(copied.__cause__, clew.errors.ObjectMissingError):
        told.append(f"repaired, and not copied: {copied!r:.300}")
    return told


def _is_others(id: str) -> bool:
    return id.startswith(OTHERS)


def _unlisted(said: dict[str, Any], found: Any) -> list[str]:
    if not isinstance(found, dict):
        return [repr(found)]
    return [
        f"{id} is {found.get(id)!r:.200}"
        for id in said
        if _is_others(id) and not same(said[id], found.get(id))
    ]


def _narrowed(said: Any, found: Any) -> list[str]:
    if found is None or isinstance(found, Exception):
        return [repr(found)]
    if not isinstance(said, (set, dict)):
        return []
    return [f"without {one}" for one in said if _is_others(str(one)) and one not in found]


def same(one: Any, other: Any) -> bool:
    return bool(one == other)
