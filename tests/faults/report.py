"""The report of `make faults`: build/faults.json, and from it the tables in the documentation.

`python -m tests.faults.report` writes them between the marks in docs/explanation/reliability.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from tests.faults.plan import PLAN

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "faults.json"
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"


class Row(msgspec.Struct):
    """One part of a campaign on one backend; or the sum of its parts."""

    backend: str
    ids: str
    fault: str
    cycles: int
    acknowledged: int
    unknown: int
    wrong: list[str]
    losses: int
    seen: dict[str, int]
    seconds: int
    seed: int
    scale: float
    share: float = 1.0
    """How much of the campaign it is."""
    code: str = ""
    """A digest of the code that was tested."""


def read(path: Path = RESULTS) -> dict[str, Row]:
    """By campaign and backend."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Row]) if path.exists() else {}


def write(rows: dict[str, Row], path: Path = RESULTS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1))


def summed(rows: dict[str, Row]) -> dict[str, Row]:
    """By campaign and backend: the sum of the parts."""
    sums: dict[str, Row] = {}
    for key, row in rows.items():
        name = f"{key.split()[0]} {row.backend}"
        so_far = sums.get(name)
        sums[name] = row if so_far is None else _added(so_far, row)
    return sums


def _added(one: Row, other: Row) -> Row:
    return msgspec.structs.replace(
        one,
        cycles=one.cycles + other.cycles,
        acknowledged=one.acknowledged + other.acknowledged,
        unknown=one.unknown + other.unknown,
        wrong=one.wrong + other.wrong,
        losses=one.losses + other.losses,
        seen={kind: one.seen.get(kind, 0) + other.seen.get(kind, 0) for kind in {**one.seen, **other.seen}},
        seconds=one.seconds + other.seconds,
        share=one.share + other.share,
    )


def table(rows: dict[str, Row]) -> str:
    """Markdown: what was tried, how much was promised, what was lost."""
    lines = [
        "| fault | backend | cycles | acknowledged, looked for | no answer | broken promises |",
        "|---|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row.fault} ({row.ids}){_part(row)} | {row.backend} | {row.cycles:,} | {row.acknowledged:,}"
        f" | {row.unknown:,} | {row.losses} |"
        for row in sorted(rows.values(), key=lambda row: (_place(row), row.backend != "sqlite", row.backend))
    ]
    return "\n".join(lines)


def _part(row: Row) -> str:
    """A run that was not the whole plan says so."""
    done = row.scale * row.share
    return f", {done:.0%} of the plan" if done < 0.995 else ""


def _place(row: Row) -> int:
    """Where the plan has it."""
    titles = [each.title for each in PLAN]
    return titles.index(row.fault) if row.fault in titles else len(titles)


def damage(rows: dict[str, Row]) -> str:
    """Markdown: what became of flipped bits."""
    flips = {row.backend: row for key, row in rows.items() if key.startswith("flips ")}
    kinds = sorted({kind for row in flips.values() for kind in row.seen})
    lines = [f"| of the flipped bits | {' | '.join(flips)} |", "|---|" + "--:|" * len(flips)]
    lines += [
        f"| {kind} | {' | '.join(str(row.seen.get(kind, 0)) for row in flips.values())} |" for kind in kinds
    ]
    return "\n".join(lines) if flips else ""


def put_into(page: str, rows: dict[str, Row]) -> str:
    """The page with the tables between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    rows = summed(rows)
    parts = [part for part in (table(rows), damage(rows)) if part]
    return f"{before}{BEGIN}\n" + "\n\n".join(parts) + f"\n{END}{after}"


def main() -> int:
    rows = read()
    if not rows:
        sys.stderr.write("there is no build/faults.json: run make faults first\n")
        return 1
    PAGE.write_text(put_into(PAGE.read_text("utf-8"), rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
