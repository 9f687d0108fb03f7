"""Rows with their targets, the table of all of them, and the notes that make numbers mean something."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

LIBRARIES = ("apsw", "msgspec", "openai-agents", "langgraph-checkpoint-sqlite", "google-adk", "SQLAlchemy")
BUSY = 0.15


@dataclass(frozen=True)
class Row:
    """One line of the table: what was done, by whom, and how far from the target."""

    work: str
    clew: str
    against: str
    ratio: float
    limit: float | None = None
    at_least: bool = False
    """The ratio has to reach the limit, not to stay below it."""

    @property
    def target(self) -> str:
        return "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g}"

    @property
    def ok(self) -> bool | None:
        if self.limit is None:
            return None
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit


@dataclass
class Result:
    """What one script found."""

    rows: list[Row] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    """Anything else worth keeping: medians of every contender, counts, curves."""
    neighbours: float = 0.0
    """The share of the processors that other programs used meanwhile."""


def ms(seconds: float) -> str:
    """Seconds, readable."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def size(count: float) -> str:
    """Bytes, readable."""
    for unit in ("B", "KB", "MB"):
        if abs(count) < 1000:
            return f"{count:.1f} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    return f"{count:.2f} GB"


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    head = ("work", "clew", "limit or peer", "ratio", "target", "ok?")
    verdict = {True: "yes", False: "NO", None: ""}
    lines: list[tuple[str, ...]] = [head]
    lines += [(r.work, r.clew, r.against, f"{r.ratio:.2f}", r.target, verdict[r.ok]) for r in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines.insert(1, tuple("-" * width for width in widths))
    text = (" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(f"| {line} |" for line in text)


def disturbance(results: Iterable[Result]) -> str:
    """Say so when the machine was not ours."""
    worst = max((result.neighbours for result in results), default=0.0)
    advice = " Too much: run it again on a quiet machine." if worst > BUSY else ""
    return f"Other programs used up to {worst:.0%} of the processors during a script.{advice}"


def machine() -> dict[str, Any]:
    """What the numbers depend on, without naming anybody's machine."""
    libraries = {}
    for name in LIBRARIES:
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpus": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": libraries,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
    }


def note(found: dict[str, Any]) -> str:
    """`machine()` in one line."""
    libraries = ", ".join(f"{name} {version}" for name, version in found["libraries"].items())
    return f"{found['cpus']} cpus, {found['memory_gb']} GB, Python {found['python']}; {libraries}"


def save(path: Path, results: dict[str, Result], *, quick: bool) -> None:
    """Write what was found as JSON."""
    scripts = {
        name: {
            "rows": [
                {
                    "work": row.work,
                    "clew": row.clew,
                    "against": row.against,
                    "ratio": round(row.ratio, 3),
                    "target": row.target,
                    "ok": row.ok,
                }
                for row in result.rows
            ],
            "details": result.details,
            "neighbours": result.neighbours,
        }
        for name, result in results.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(
        msgspec.json.encode({"machine": machine(), "quick": quick, "scripts": scripts})
    )
    path.write_bytes(re.sub(rb"(\d+\.\d{6})\d+", rb"\1", text) + b"\n")
