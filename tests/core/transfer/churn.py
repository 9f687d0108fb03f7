"""A process that sets checkpoints with files, purges sessions and collects, over and over, until its input
ends. Run as a module: the address of a store, a directory to work in."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import clew


def work(store: clew.Store, root: Path, stopped: threading.Event) -> None:
    """Three sessions, two checkpoints each, whose files are others at each turn."""
    root.mkdir()
    (root / "sub").mkdir()
    turn = 0
    while not stopped.is_set():
        turn += 1
        session = store.session(f"{root.name}-{turn % 3}")
        session.append({"role": "user", "content": f"{turn}"})
        (root / "a").write_text(f"{root.name} {turn}")
        (root / "sub" / f"{turn % 4}").write_text(f"{root.name} {turn}")
        session.checkpoint(f"{turn % 2}", files=root)
        if turn % 4 == 0:
            store.delete(session.id, purge=True)


def collect(store: clew.Store, stopped: threading.Event) -> None:
    while not stopped.wait(0.003):  # without a gap others get their turn by luck
        try:
            store.gc()
        except clew.LeaseHeldError:
            pass  # a snapshot or a copy has to get on


def main(address: str, directory: str) -> None:
    stopped = threading.Event()
    with clew.open(address) as store:
        threads = [
            threading.Thread(target=work, args=(store, Path(directory, name), stopped))
            for name in ("one", "two")
        ]
        threads.append(threading.Thread(target=collect, args=(store, stopped)))
        for thread in threads:
            thread.start()
        sys.stdout.write("busy\n")
        sys.stdout.flush()
        sys.stdin.read()
        stopped.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
