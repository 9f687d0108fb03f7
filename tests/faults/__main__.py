"""The long version of the fault tests: `python -m tests.faults [--only kills,power-ext4] [--scale 0.1]`.

Rows go to build/faults.json, those of other runs stay; `python -m tests.faults.report` puts them into the
documentation. Every broken promise is printed with the seed that shows it again. Ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.testing.faults.campaign import Result, campaign
from clew.testing.faults.power import why_not
from clew.testing.faults.processes import ProcessFailed
from clew.testing.faults.subjects import SUBJECTS, PostgresSubject, Subject, available
from tests.crash.helper import quick_directory
from tests.crash.servers import server_in
from tests.faults.plan import PLAN, TAKES_SEED, Planned
from tests.faults.report import Row, read, write
from tests.postgres_server import NoServerError, find_programs

PATIENCE = 3600


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help=f"some of {','.join(each.key for each in PLAN)}")
    options.add_argument("--subjects", default=",".join([*available(), *servers()]))
    options.add_argument("--scale", type=float, default=1.0, help="so much of everything")
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    chosen = options.parse_args()
    wanted = [key for key in chosen.only.split(",") if key] or [each.key for each in PLAN]
    losses = 0
    for planned in (each for each in PLAN if each.key in wanted):
        for name in filter(planned.is_for, chosen.subjects.split(",")):
            row = run(planned, name, chosen.scale, chosen.seed)
            losses += len(row.wrong)
            write({**read(), f"{planned.key} {name}": row})
            _say(row)
    return 1 if losses else 0


def run(planned: Planned, name: str, scale: float, seed: int) -> Row:
    """Run a campaign; one that could not run at all says so."""
    options = planned.scaled(scale)
    if planned.function in TAKES_SEED:
        options["seed"] = seed
    began = time.monotonic()
    reason = why_not(options.get("filesystem", "ext4")) if "power" in planned.key else ""
    if reason:
        result = Result(wrong=[f"NO POWER WAS CUT: {reason}"])
    else:
        with _subject(name, planned) as subject:
            try:
                result = campaign(planned.function, subject, timeout=PATIENCE, **options)
            except ProcessFailed as error:
                result = Result(wrong=[str(error)[-2000:]])
    return Row(
        backend=name,
        ids=planned.ids,
        fault=planned.title,
        cycles=result.cycles,
        acknowledged=result.acknowledged,
        unknown=result.unknown,
        wrong=result.wrong[:50],
        losses=len(result.wrong),
        seen=result.seen,
        seconds=round(time.monotonic() - began),
        seed=seed,
        scale=scale,
    )


def servers() -> list[str]:
    """Backends with a server of which there is one to start."""
    try:
        find_programs()
    except NoServerError as error:
        sys.stdout.write(f"NOT TESTED, no PostgreSQL: {error}\n")
        return []
    return ["postgresql"]


@contextmanager
def _subject(name: str, planned: Planned) -> Iterator[Subject]:
    if name in SUBJECTS:
        place = tempfile.TemporaryDirectory(prefix="clew-") if planned.on_disk else quick_directory()
        with place as directory:
            yield SUBJECTS[name](Path(directory) / "subject")
        return
    with tempfile.TemporaryDirectory(prefix="clew-") as directory:
        Path(directory).chmod(0o755)  # the server runs as another user
        if planned.needs == "server":
            yield PostgresSubject(Path(directory) / "subject")
            return
        with server_in(Path(directory), Path(directory, "server")):
            yield PostgresSubject(Path(directory) / "subject")


def _say(row: Row) -> None:
    verdict = "ok" if not row.losses else f"{row.losses} BROKEN PROMISES"
    line = f"{row.backend:8} {row.fault:58} {row.cycles:6} cycles {row.acknowledged:7} acknowledged"
    sys.stdout.write(f"{line} {row.seconds:5} s  {verdict}\n")
    for wrong in row.wrong[:5]:
        sys.stdout.write(f"    (seed {row.seed}) {wrong[:600]}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
