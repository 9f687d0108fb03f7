"""Run every benchmark and print one table: `python -m benchmarks [--quick] [--only turn,growth] [--dir D]`.

Results go to benchmarks/results: latest.json and cost-vs-history.png. A row that misses its target says so
and is not an error; a script that crashes is.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.harness import plot, report
from benchmarks.harness.report import Result
from benchmarks.harness.script import HERE, parser, scratch

SCRIPTS = {
    "turn": "sessions.turn",
    "growth": "sessions.growth",
    "writers": "sessions.writers",
    "reads": "sessions.reads",
    "tree_ops": "sessions.tree_ops",
    "listing": "sessions.listing",
    "filters": "sessions.filters",
    "leases": "sessions.leases",
    "resuming": "sessions.resuming",
    "events": "sessions.events",
    "sweep": "sessions.sweep",
    "holds": "sessions.holds",
    "files": "files.snapshots",
    "disk": "files.disk",
    "startup": "sessions.startup",
    "postgres": "postgres.backend",
    "search": "sessions.search",
    "importing": "imports.throughput",
    "hooks": "imports.hooks",
    "syncing": "syncing",
    "watching": "imports.watching",
    "adapters": "adapters",
    "felt": "cli.felt",
    "serving": "serving",
    "live": "live",
    "page": "page",
    "mcp": "mcp",
}
"""What `--only` takes, and the module that does it."""
RESULTS = HERE / "results"


def main() -> int:
    """Each script in a process of its own: what one imports or allocates does not slow the next."""
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help=f"some of {','.join(SCRIPTS)}")
    options.add_argument(
        "--results", type=Path, default=RESULTS, help="where to write latest.json and the plot"
    )
    chosen = options.parse_args()
    names = [name for name in chosen.only.split(",") if name] or list(SCRIPTS)
    if unknown := set(names) - set(SCRIPTS):
        options.error(f"no script {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    results: dict[str, Result] = {}
    started = time.monotonic()
    with scratch(chosen.dir) as directory:
        for number, name in enumerate(names, 1):
            say(f"[{number}/{len(names)}] {name}  ({time.monotonic() - started:.0f} s so far)")
            result = run(name, directory, quick=chosen.quick)
            if result is not None:
                results[name] = result
    print(report.table([row for result in results.values() for row in result.rows]))
    say(report.note(report.machine()))
    say(report.disturbance(results.values()))
    write(results, chosen.results, quick=chosen.quick, whole=len(names) == len(SCRIPTS))
    crashed = [name for name in names if name not in results]
    if crashed:
        say(f"crashed: {', '.join(crashed)}")
    return 1 if crashed else 0


def run(name: str, directory: Path, *, quick: bool) -> Result | None:
    """The result of one script; None when it crashed (it has printed why)."""
    found = directory / f"{name}.json"
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{SCRIPTS[name]}",
        "--dir",
        str(directory / name),
        "--json",
        str(found),
    ]
    child = subprocess.Popen(command + ["--quick"] * quick, cwd=HERE.parent)
    try:
        child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    return msgspec.json.decode(found.read_bytes(), type=Result) if found.exists() else None


def write(results: dict[str, Result], folder: Path, *, quick: bool, whole: bool) -> None:
    """Keep the numbers of a whole run, and the plot when its script ran."""
    if whole:
        report.save(folder / "latest.json", results, quick=quick)
        say(f"wrote {folder / 'latest.json'}")
    if "growth" in results:
        plot.draw(results["growth"].details["curves"], folder / "cost-vs-history.png")
        say(f"wrote {folder / 'cost-vs-history.png'}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
