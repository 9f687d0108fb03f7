"""Plant bugs one by one, and say which tier of the tests finds each.

    python -m tests.planted                        all plants, up to `make test-full`
    python -m tests.planted --tier test            no further than `make test`
    python -m tests.planted --tier test fork       those whose names have this word
    python -m tests.planted --own                  the tests that plant a bug themselves
    python -m tests.planted --tier check --write   and put what is known into docs/explanation/reliability.md

Results are kept in build/planted.json as they come: a run that was stopped goes on where it was, as long as
code and tests are the same. The tables are written to build/planted.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.planted.copy import Copy, digest_of
from tests.planted.hunt import Caught, Hunt, upto
from tests.planted.own import OwnResult, own_tests, run_own
from tests.planted.plants import PLANTS, Plant
from tests.support.tiers import TIERS

CHECKOUT: Final = Path(__file__).parents[2]
PAGE: Final = CHECKOUT / "docs" / "explanation" / "reliability.md"
BEGIN, END = "<!-- planted: begin -->", "<!-- planted: end -->"


class State:
    """What is known so far, in a file."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path = path
        fresh: dict[str, Any] = {"digest": digest, "ids": {}, "reach": {}, "found": {}, "own": {}}
        known = json.loads(path.read_text()) if path.exists() else fresh
        self.data = known if known.get("digest") == digest else fresh

    def save(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(self.data, indent=1))
        beside.replace(self._path)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="plants whose names have this text (default: all)")
    parser.add_argument("--tier", choices=TIERS, default="full", help="the largest tier to run")
    parser.add_argument("--in", dest="where", action="append", default=[], help="only tests of this folder")
    parser.add_argument("--own", action="store_true", help="run the tests that plant a bug themselves")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    parser.add_argument("-n", dest="workers", type=int, default=2, help="processes of one run (default: 2)")
    given = parser.parse_args(arguments)
    plants = [
        (number, plant)
        for number, plant in enumerate(PLANTS)
        if not given.names or any(name in plant.name for name in given.names)
    ]
    if not plants:
        parser.error("no plant has such a name")
    name = "planted.json" if not given.where else "planted-part.json"
    state = State(CHECKOUT / "build" / name, digest_of(CHECKOUT) + "".join(given.where))
    with contextlib.suppress(KeyboardInterrupt), _copy() as copy:
        hunt = Hunt(copy, say, given.workers)
        if given.own:
            run_own(hunt, state.data["own"], state.save, say)
        else:
            look_for(hunt, plants, given.tier, given.where, state)
    table = report(plants, state.data, given.tier)
    (CHECKOUT / "build").mkdir(exist_ok=True)
    (CHECKOUT / "build" / "planted.md").write_text(table)
    sys.stdout.write(table)
    if given.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


def look_for(
    hunt: Hunt, plants: Sequence[tuple[int, Plant]], largest: str, where: Sequence[str], state: State
) -> None:
    """Find each plant in the smallest tier. A larger tier is run for what the smaller ones miss only."""
    ids, reach, found = state.data["ids"], state.data["reach"], state.data["found"]
    asked: set[str] = set()
    for tier in upto(largest):
        left = [(number, plant) for number, plant in plants if not _is_done(found, plant, tier)]
        if not left:
            continue
        if tier not in ids:
            ids[tier] = sorted(hunt.ids(tier, where))
            state.save()
        # `check` is part of `test`: one run of the larger tier tells the reach of both.
        run = tier if tier == "full" or largest == "check" else "test"
        known = reach.setdefault(run, {})
        unknown = [(number, plant) for number, plant in left if plant.name not in known]
        if unknown:
            say(f"running tier {run} once, to see which tests reach {len(unknown)} plants")
            reached = hunt.reach(run, unknown, where)
            known.update({plant.name: reached[number] for number, plant in unknown})
            state.save()
        own = set(ids[tier]) - asked
        for _, plant in left:
            tests = [test for test in known[plant.name] if test in own]
            say(f"{tier}: {plant.name} ({len(tests)} tests)")
            caught = hunt.find(plant, tests)
            if not caught.surely and tier != "check":
                # A process that several tests share notes the first of them only.
                files = {one.partition("::")[0] for one in tests}
                beside = sorted(one for one in own - set(tests) if one.partition("::")[0] in files)
                more = hunt.find(plant, beside)
                caught = Caught(more.surely, caught.by_chance or more.by_chance)
            row = found.setdefault(plant.name, {"tier": None, "test": "", "chance": "", "reached": 0})
            row["asked"] = tier
            row["reached"] += len(tests)
            if caught.surely:
                row["tier"], row["test"] = tier, caught.surely
            if caught.by_chance and not row["chance"]:
                row["chance"] = f"{tier}: {caught.by_chance}"
            state.save()
            by_chance = f", by chance {caught.by_chance}" if caught.by_chance else ""
            say(f"  {caught.surely or 'not found'}{by_chance}")
        asked |= own


def _is_done(found: dict[str, Any], plant: Plant, tier: str) -> bool:
    known = found.get(plant.name)
    return known is not None and (
        known["tier"] is not None or TIERS.index(known["asked"]) >= TIERS.index(tier)
    )


def report(plants: Sequence[tuple[int, Plant]], data: dict[str, Any], largest: str) -> str:
    """The tables, in Markdown."""
    lines = ["| planted bug | where | found by | test |", "|---|---|---|---|"]
    counts: Counter[str] = Counter()
    for _, plant in plants:
        known = data["found"].get(plant.name)
        if known is None:
            counts["not looked for"] += 1
            lines.append(f"| {plant.name} | `{plant.file}` | not looked for | |")
            continue
        chance = f" by chance `{known['chance']}`" if known["chance"] else ""
        if known["tier"]:
            tier, test = known["tier"], f"`{known['test']}`"
        else:
            tier, test = f"**nothing** up to {known['asked']}", f"{known['reached']} tests reach it;{chance}"
        counts[known["tier"] or ("chance" if chance else "nothing")] += 1
        lines.append(f"| {plant.name} | `{plant.file}` | {tier} | {test.rstrip(';')} |")
    total = 0
    sums = []
    for tier in upto(largest):
        total += counts[tier]
        sums.append(f"`{tier}` finds {total}")
    lines += ["", f"Of {len(plants)} plants {', '.join(sums)} on every run."]
    lines.append(
        f"Random examples or a race alone find {counts['chance']} more, by chance; nothing finds"
        f" {counts['nothing']}, and {counts['not looked for']} were not looked for."
    )
    if data["own"]:
        results = [OwnResult(**row) for row in data["own"].values()]
        lines += [
            "",
            "| tests that plant a bug themselves | cases | smallest tier | result |",
            "|---|--:|---|---|",
        ]
        lines += [f"| `{row.name}` | {row.cases} | {row.tier} | {row.result} |" for row in results]
        left = len(own_tests(CHECKOUT)) - len(results)
        lines += ["", f"{left} were not run yet." if left else "All were run."]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def _copy() -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="clew-planted-") as directory:
        Path(directory).chmod(0o755)  # some tests run a process as another user
        copy = Copy(CHECKOUT, Path(directory))
        copy.make()
        yield copy


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
