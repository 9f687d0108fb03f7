"""Stores full of things, and all that is in a store as a value. Imports no pytest: the processes that the
tests start import it too."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.transfer.source import Source, fingerprint, read_image

WORDS = ("please", "föö", "🎉", "a\u2028b", "x" * 900)


def say(number: int, choose: Callable[[Any], Any] = lambda some: some[0]) -> dict[str, Any]:
    return {"role": choose(("user", "assistant")), "content": f"{number} {choose(WORDS)}"}


def wander(store: clew.Store, seed: int, steps: int = 120) -> None:
    """Do a bit of everything, in an order that the seed decides."""
    rng = random.Random(seed)
    names = [f"s{seed}-{n}" for n in range(3)]
    for number in range(steps):
        id = rng.choice(names)
        session = store.session(id, tags=["wandering"], metadata={"seed": seed})
        try:
            _step(store, session, rng, number, names)
        except (clew.errors.NothingToUndoError, clew.NotFoundError, clew.ConflictError):
            pass  # not everything can be done at any time


def _step(store: clew.Store, s: clew.Session, rng: random.Random, n: int, names: list[str]) -> None:
    last = s.info.entries - 1
    somewhere = rng.randint(0, max(last, 0))
    actions: list[Callable[[], object]] = [
        lambda: s.append(say(n, rng.choice)),
        lambda: s.append(say(n, rng.choice), say(n + 1, rng.choice), key=f"k{n}"),
        lambda: s.append(*(say(n + m, rng.choice) for m in range(12))),
        lambda: s.rewind(somewhere),
        s.undo,
        s.redo,
        lambda: s.checkpoint(f"c{n % 5}", state={"n": n}),
        lambda: names.append(s.fork(f"{s.id}/f{n}", at=somewhere).id),
        lambda: s.annotate(somewhere, label=rng.choice(("gold", "bad")), note=n),
        lambda: s.set_var(f"v{n % 4}", {"n": n}),
        lambda: s.add_events([{"type": "t", "data": {"n": n + m}} for m in range(3)]),
        lambda: s.add_usage(model="m", input_tokens=n, output_tokens=2 * n, cost="0.01", entry=somewhere),
        lambda: s.add_alias(f"alias-{n % 6}-{s.id}"),
        lambda: s.update(title=f"title {n}"),
        lambda: s.truncate(3),
        lambda: s.set_summary(f"summary {n}"),
        lambda: s.start({"n": n}),
        lambda: s.complete({"n": n}),
        lambda: store.delete(s.id),
        lambda: store.restore_deleted(rng.choice(names)),
    ]
    weights = [9, 4, 3, 3, 2, 1, 2, 1, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 2]
    rng.choices(actions, weights)[0]()


def run_sql(path: Path, statement: str, *values: Any) -> list[Any]:
    """Run a statement in the database of a store, behind the back of Clew."""
    with closing(apsw.Connection(str(path))) as connection:
        return list(connection.execute(statement, values))


def forks_of_forks(store: clew.Store, depth: int) -> clew.Session:
    """A session, its fork, the fork of that and so on; each with an entry of its own. The deepest."""

    def work(inside: clew.Store) -> str:
        session = inside.session(f"{depth}-0")
        session.append({"role": "user", "content": "the beginning"})
        for number in range(1, depth):
            session = session.fork(f"{depth}-{number}")
            session.append({"role": "user", "content": f"of fork {number}"})
        return session.id

    return store.get(store.transact(work))


def with_files(store: clew.Store, directory: Path) -> clew.Snapshot:
    """Checkpoints with files, a snapshot, and a rewind that restored files."""
    directory.mkdir()
    (directory / "sub").mkdir()
    (directory / "a.txt").write_bytes(b"one\n" * 500)
    (directory / "sub" / "b.bin").write_bytes(bytes(range(256)) * 40)
    s = store.session("with files")
    s.append(say(1))
    s.checkpoint("first", files=directory)
    s.append(say(2))
    (directory / "a.txt").write_bytes(b"two\n" * 500)
    s.checkpoint("second", files=directory)
    s.rewind("first", files=True)
    return store.snapshot(directory)


def dump(store: clew.Store) -> dict[str, Any]:
    """All that a store holds, but for numbers of its own."""
    engine = store._engine
    source = Source(engine.read, engine)
    found: dict[str, Any] = {}
    for tree in source.trees():
        with engine.read() as reader:
            image = read_image(reader, tree)
            name = image.sessions[0].row.id, image.sessions[0].row.created
            uids = {branch.number: branch.uid for branch in image.branches}
            found[str(name)] = {
                "fingerprint": fingerprint(image),
                "entries": {
                    branch.uid: reader.read_entries(branch.number, branch.fork + 1, branch.last)
                    for branch in image.branches
                },
                "events": [reader.read_events(one.row.sid, 0, 10_000) for one in image.sessions],
                "calls": [
                    [
                        (uids.get(call.branch), _without_branch(call))
                        for call in reader.read_usage(one.row.sid, 0, 10_000)
                    ]
                    for one in image.sessions
                ],
                "labels": image.labels,
                "records": [one.records for one in image.sessions],
            }
    with engine.read() as reader:
        found["removals"] = reader.scan_records(STORE_WIDE, "removal")
        found["objects"] = [name for name, _ in reader.scan_objects(b"", 100_000)]
    found["snapshots"] = store.snapshots(limit=1000)
    found["retention"] = store.retention
    return found


def _without_branch(call: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(call, branch=0)
