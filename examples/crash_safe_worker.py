"""A worker is killed in the middle of its work with kill -9; a second process goes on where it was.

    python examples/crash_safe_worker.py

Each round of the worker ends with a checkpoint. Whoever comes next takes the lease, which is free as soon as
its holder is dead, goes back to the newest checkpoint, and does again only what came after it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import clew

FILES = ["notes.txt", "plan.txt", "draft.txt", "letter.txt", "list.txt"]
STUCK_AT = 2
"""The round in which the first worker waits, with a tool call open, until it is killed."""


def call(id: str, file: str) -> dict[str, Any]:
    function = {"name": "tidy", "arguments": f'{{"file": "{file}"}}'}
    return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}


def tidy(id: str, file: str) -> dict[str, Any]:
    """The tool. A lease does not reach what a tool does outside of the store: a real one would hand this
    id, which is the same when the round is repeated, to whatever it calls."""
    return {"role": "tool", "tool_call_id": id, "content": f"{file} is tidy"}


def begin(run: clew.Run) -> int:
    """The round to begin with: the first one, or the one after the newest checkpoint."""
    try:
        point = run.resume()
    except clew.errors.CheckpointNotFoundError:
        run.append({"role": "user", "content": "Tidy my files."}, key="request")
        run.checkpoint(iteration=0)
        return 0
    if point.ahead:  # half a round is on the path: leave it
        run.rewind(point.head)
    return point.iteration or 0


def work(path: Path, *, until_killed: bool) -> None:
    with clew.open(path) as store, store.session("tidy").run(task="tidy", wait=60) as run:
        first = begin(run)
        print(f"epoch {run.epoch}: begins with round {first}", flush=True)
        for number in range(first, len(FILES)):
            file, id = FILES[number], f"tidy-{number}"
            run.append(call(id, file))
            if until_killed and number == STUCK_AT:
                print(f"epoch {run.epoch}: in the middle of round {number}", flush=True)
                sys.stdin.read()  # nobody writes to it: a tool that takes its time
            run.append(tidy(id, file))
            run.checkpoint(iteration=number + 1)
        run.complete({"files": len(FILES)})


def worker(path: Path, *options: str) -> subprocess.Popen[str]:
    """A process of its own that runs `work`."""
    command = [sys.executable, __file__, os.fspath(path), *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main(path: Path) -> None:
    with worker(path, "--until-killed") as first:
        assert first.stdout is not None
        for line in first.stdout:
            print(line, end="")
            if "in the middle" in line:
                first.kill()  # SIGKILL: no handler runs, nothing is tidied up

    with clew.open(path) as store:
        print(f"after kill -9: {[s.id for s in store.interrupted()]} interrupted")

    with worker(path) as second:
        print(second.communicate()[0], end="")

    with clew.open(path) as store:
        s = store.get("tidy")
        calls = [entry for entry in s.entries() if "tool_calls" in entry.message]
        results = [entry.epoch for entry in s.entries() if entry.message["role"] == "tool"]
        print(f"{s.info.status}: {len(calls)} calls, {len(results)} results, written in epochs {results}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]), until_killed="--until-killed" in sys.argv)
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "agents.db")
