"""Requests made up from the description of the API, by schemathesis, against a running server.

`python -m tests.server.fuzzing --max-examples 1000` tries so many of each operation; all options are those
of `schemathesis run`. It starts a server of its own, with a few sessions in it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import clew
from clew.server.application import Finished
from tests.server.conftest import TOKEN, running

EXCLUDED: Final = ("positive_data_acceptance",)
"""A cursor, a query or an id that fits its type need not be a good one."""
STREAMS: Final = "/live$"
"""They never end."""
BOUND: Final = {
    "header.Clew-Lease": ("leases", 0.9),
    "header.If-Match": ("anything", 0.9),
    "path.id": ("ids", 0.7),
    "path.conversation_id": ("conversations", 0.9),
    "path.item_id": ("items", 0.7),
    "path.entry": ("entries", 0.7),
    "path.name": ("names", 0.5),
    "path.alias": ("names", 0.5),
    "path.number": ("numbers", 0.8),
    "path.epoch": ("epochs", 0.7),
    "query.at": ("points", 0.5),
    "query.after": ("points", 0.5),
    "query.before": ("points", 0.5),
    "query.q": ("words", 0.7),
    "query.a": ("snapshots", 0.7),
    "query.b": ("snapshots", 0.7),
    "body.to": ("points", 0.7),
    "body.at": ("points", 0.7),
    "body.upto": ("points", 0.7),
    "body.wait": ("nothing", 1.0),
}
"""Which parameters are taken from which list of what is in the store, and how often."""
DELETES: Final = ("DELETE /api/v1/sessions/{id}", "DELETE /v1/conversations/{conversation_id}")
"""These go for other sessions: else there is nothing left for the rest."""
NO_LIMITS: Final = {"rate": 1e9, "burst": 10**9, "sign_ins": 10**9}


def fuzz(
    folder: Path, *options: str, tell: Callable[[Finished], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run schemathesis against a new store. `tell` hears of each request."""
    with clew.open(folder / "store.db", durability="process") as store:
        (folder / "schemathesis.toml").write_text(_settings(fill(store, folder)))
        with running(store, **NO_LIMITS) as server:
            server.app.on_finished += [] if tell is None else [tell]
            return _run(server.url, folder, options)


def _run(url: str, folder: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json"),
        *("--header", f"Authorization: Bearer {TOKEN}"),
        *("--checks", "all", "--exclude-checks", ",".join(EXCLUDED)),
        *("--exclude-path-regex", STREAMS),
        *("--suppress-health-check", "all", "--request-timeout", "300", "--no-color"),
        *options,
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def _settings(known: dict[str, list[Any]]) -> str:
    """The settings of schemathesis: a made-up id finds nothing, so some are real."""
    lines = [f"[dictionaries.{name}]\nvalues = {json.dumps(values)}" for name, values in known.items()]
    lines.append("[parameters]")
    for parameter, (name, probability) in BOUND.items():
        lines.append(f'"{parameter}" = {{ dictionary = "{name}", probability = {probability} }}')
    for name in DELETES:
        lines.append(f'[[operations]]\ninclude-name = "{name}"\n[operations.parameters]')
        elsewhere = '{ dictionary = "others", probability = 1.0 }'
        lines += [f'"{parameter}" = {elsewhere}' for parameter in ("path.id", "path.conversation_id")]
    lines.append('[[operations]]\ninclude-path-regex = "/snapshots/"\n[operations.parameters]')
    lines.append('"path.id" = { dictionary = "snapshots", probability = 0.9 }')
    lines.append('[[operations]]\ninclude-path-regex = "/runs/"\n[operations.parameters]')
    lines.append('"path.id" = { dictionary = "workers", probability = 0.9 }')
    return "\n".join(lines)


def fill(store: clew.Store, folder: Path) -> dict[str, list[Any]]:
    """A few sessions, so that requests find something; and what there is to be found."""
    plain = store.create("plain", tags=["a"], metadata={"topic": "birds"}, expires_at="never")
    plain.append({"role": "user", "content": "the heron?"}, {"role": "assistant", "content": "At the pond."})
    for data in ("iVBORw0KGgo=", "not base64"):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        plain.append({"role": "user", "content": [image]})
    plain.checkpoint("0", state={"a": 1})
    plain.set_var("0", [1, 2])
    plain.set_document("0", b"\x00\xff")
    plain.add_event("0", {"a": 1})
    plain.add_usage(model="gpt-4.1", input_tokens=10, output_tokens=3)
    plain.compact("they spoke of herons")
    plain.append({"role": "user", "content": "the owl?"})
    plain.rewind(3)
    plain.fork("fork")
    item = {"type": "message", "id": "msg_0", "role": "user", "content": "the heron?"}
    framework = {"framework": "openai-conversations"}
    store.create("conv_0", metadata=framework, expires_at="never").append(item)
    run = store.create("worker", expires_at="never").run(lease=86_400, detached=True)
    (folder / "files").mkdir()
    (folder / "files" / "0").write_text("a\nb\n")
    snapshot = store.snapshot(folder / "files")
    return {
        "ids": ["plain", "fork", "conv_0"],
        "names": ["0"],
        "others": ["0", "1"],
        "workers": ["worker"],
        "conversations": ["conv_0"],
        "words": ["heron", "pond*"],
        "nothing": [0],
        "anything": ["*"],
        "leases": ["*", run.secret],
        "epochs": [str(run.epoch)],
        "points": ["0", "1", "start"],
        "items": ["msg_0"],
        "numbers": ["0"],
        "entries": [entry.id for entry in plain.entries()],
        "snapshots": [snapshot.id],
    }


def main(options: Sequence[str]) -> int:
    logging.basicConfig(level=logging.ERROR)
    seen: Counter[tuple[str, bool]] = Counter()

    def tell(done: Finished) -> None:
        seen[f"{done.method} {done.route}", 200 <= done.status < 400] += 1

    with TemporaryDirectory() as folder:
        done = fuzz(Path(folder), *options, tell=tell)
    sys.stdout.write(done.stdout + done.stderr)
    for name in sorted({name for name, _ in seen}):
        sys.stdout.write(f"{seen[name, True]:6} successes, {seen[name, False]:6} refusals: {name}\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
