"""Requests made up from the description of the API, by schemathesis, against a running server.

`python -m tests.server.fuzzing --max-time 1200` goes on for so many seconds; all options are those of
`schemathesis run`. It starts a server of its own, with a few sessions in it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import clew
from tests.server.conftest import TOKEN, running

EXCLUDED: Final = ("positive_data_acceptance",)
"""A cursor, a query or an id that fits its type need not be a good one."""
STREAMS: Final = "/live$"
"""They never end."""
KNOWN: Final = """
[dictionaries.ids]
values = ["0", "1", "2"]

[parameters]
"path.id" = { dictionary = "ids", probability = 0.7 }
"path.conversation_id" = { dictionary = "ids", probability = 0.7 }
"path.name" = { dictionary = "ids", probability = 0.5 }
"""
"""Ids of what is in the store: a made-up one finds nothing."""
NO_LIMITS: Final = {"rate": 1e9, "burst": 10**9, "sign_ins": 10**9}


def fuzz(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run schemathesis against a new store."""
    (folder / "schemathesis.toml").write_text(KNOWN)
    with clew.open(folder / "store.db", durability="process") as store:
        fill(store)
        with running(store, **NO_LIMITS) as server:
            return _run(server.url, folder, options)


def _run(url: str, folder: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json"),
        *("--header", f"Authorization: Bearer {TOKEN}"),
        *("--checks", "all", "--exclude-checks", ",".join(EXCLUDED)),
        *("--exclude-path-regex", STREAMS),
        *("--suppress-health-check", "all", "--request-timeout", "20", "--no-color"),
        *options,
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def fill(store: clew.Store) -> None:
    """A few sessions, so that requests find something."""
    plain = store.create("0", title="plain", tags=["a"], metadata={"topic": "birds"})
    plain.append({"role": "user", "content": "the heron?"}, {"role": "assistant", "content": "At the pond."})
    plain.checkpoint("0", state={"a": 1})
    plain.set_var("0", [1, 2])
    plain.set_document("0", b"\x00\xff")
    plain.add_event("0", {"a": 1})
    plain.add_usage(model="gpt-4.1", input_tokens=10, output_tokens=3)
    plain.compact("they spoke of herons")
    plain.append({"role": "user", "content": "the owl?"})
    plain.rewind(1)
    plain.fork("1")
    items = ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "the heron?"}]},)
    store.create("2", metadata={"framework": "openai-conversations"}).append(*items)


def main(options: Sequence[str]) -> int:
    logging.basicConfig(level=logging.ERROR)
    with TemporaryDirectory() as folder:
        done = fuzz(Path(folder), *options)
    sys.stdout.write(done.stdout + done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
