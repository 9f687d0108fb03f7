"""The long version of the fault tests: `python -m tests.faults [--minutes 20] [--only kills,power-ext4]`.

It is run in parts of some minutes. A part that is done is kept in build/faults.json and not run again as long
as the code is the same: so the whole may be run at once, or 20 minutes at a time. When all is done,
`python -m tests.faults.report` puts the sums into the documentation. Every broken promise is printed with the
seed that shows it again. Ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

import clew
from tests.backends.postgres.servers.cluster import NoServerError, find_programs
from tests.faults.campaign import Result, campaign
from tests.faults.campaigns.power import why_not
from tests.faults.crash.common import quick_directory
from tests.faults.plan import PLAN, TAKES_SEED, Planned
from tests.faults.report import Row, read, write
from tests.faults.short.servers import server_in
from tests.faults.subjects import SUBJECTS, PostgresSubject, Subject, available
from tests.support.children import ProcessFailed


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help=f"some of {','.join(each.key for each in PLAN)}")
    options.add_argument("--subjects", default=",".join([*available(), *servers()]))
    options.add_argument("--scale", type=float, default=1.0, help="so much of everything")
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options.add_argument("--minutes", type=float, default=0, help="begin no part later than this; 0: run all")
    options.add_argument("--again", action="store_true", help="run also what is done")
    chosen = options.parse_args()
    wanted = [key for key in chosen.only.split(",") if key] or [each.key for each in PLAN]
    code = digest_of_code()
    todo = [
        Part(planned, name, number)
        for planned in PLAN
        if planned.key in wanted
        for name in filter(planned.is_for, chosen.subjects.split(","))
        for number in range(planned.parts)
    ]
    if not chosen.again:
        done = read()
        todo = [part for part in todo if not part.is_done(done, code, chosen.scale)]
    end = time.monotonic() + chosen.minutes * 60
    losses = left = 0
    for part in todo:
        if chosen.minutes and time.monotonic() > end:
            left += 1
            continue
        row = run(part, chosen.scale, chosen.seed, code)
        losses += row.losses
        write({**part.without_others(read(), code), part.key: row})
        _say(row)
    sys.stdout.write(f"{left} parts are left: run it again\n" if left else "all parts are done\n")
    return 1 if losses else 0


class Part(NamedTuple):
    """A part of a campaign, on one backend."""

    planned: Planned
    name: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.planned.key} {self.name} {self.number + 1}/{self.planned.parts}"

    def is_done(self, rows: dict[str, Row], code: str, scale: float) -> bool:
        row = rows.get(self.key)
        return row is not None and row.code == code and row.scale == scale and not row.losses

    def without_others(self, rows: dict[str, Row], code: str) -> dict[str, Row]:
        """The rows without those that this campaign has of other code: only the same is summed up."""
        mine = f"{self.planned.key} {self.name} "
        return {key: row for key, row in rows.items() if not key.startswith(mine) or row.code == code}


def digest_of_code() -> str:
    """Of the package that is tested, without what tests it."""
    package = Path(clew.__file__).parent
    files = sorted(file for file in package.rglob("*.py") if "testing" not in file.parts)
    return blake3(b"".join(file.read_bytes() for file in files)).hexdigest(8)


def run(part: Part, scale: float, seed: int, code: str) -> Row:
    """Run a part; one that could not run at all says so."""
    planned, name, number = part
    options = planned.part(number, scale)
    seed += number
    if planned.function in TAKES_SEED:
        options["seed"] = seed
    began = time.monotonic()
    reason = why_not(options.get("filesystem", "ext4")) if "power" in planned.key else ""
    if missing := planned.missing():
        result = Result(wrong=[f"NOT RUN: install {missing}"])
    elif reason:
        result = Result(wrong=[f"NO POWER WAS CUT: {reason}"])
    else:
        with _subject(name, planned) as subject:
            try:
                result = campaign(planned.function, subject, **options)
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
        share=1 / planned.parts,
        code=code,
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
