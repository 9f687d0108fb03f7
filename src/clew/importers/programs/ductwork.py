"""ductwork: the newest state of each run that did not end, `.agent/sessions/<run>.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from clew.importers.contract import (
    OnBytes,
    OnProblem,
    SourceCheckpoint,
    SourceEntry,
    SourceRun,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading import values
from clew.importers.reading.jsonlines import decoded, members_of_file, objects
from clew.importers.reading.values import link, session_id
from clew.model import Json

NAME: Final = "ductwork"
_BEGUN: Final = re.compile(r"-(\d{13})\Z")
"""A run's id ends with the milliseconds at which it began."""
_NULL: Final[dict[str, Json]] = {"content": None, "role": ""}
"""What Go makes of a message that is null."""
_BEGINS: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"run_id"\s*:\s*"')


def recognises(path: Path, beginning: bytes) -> bool:
    """Not a left-over .json.tmp: that is half a save, and the file beside it is whole."""
    known = b'"iteration"' in beginning or b'"task_name"' in beginning
    return path.suffix != ".tmp" and known and _BEGINS.match(beginning) is not None


def known_places(home: Path) -> list[Path]:
    return [home / ".agent" / "sessions"]


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    state = {name: decoded(raw) for name, raw in members_of_file(path, on_problem, on_bytes).items()}
    if not state:
        return
    said = state.pop("messages", ())
    if isinstance(said, list):
        said = [_NULL if one is None else one for one in said]
    messages = objects(said, "the messages", path, on_problem)
    run = values.text(state.get("run_id")) or path.stem
    begun = _BEGUN.search(run)
    chain = list(_chain(messages, values.when(state.get("created_at"))))
    last = chain[-1].uid if chain else None

    iteration = values.count(state.get("iteration"))
    name = f"iteration-{iteration}"
    task = values.text(state.get("task_name")) or ""

    def saved() -> Iterable[SourceCheckpoint]:
        kept = {**state, "messages": None} if said is None else state
        at = values.when(state.get("created_at"))
        # A run that begins again counts from the start: then its newest round has the name.
        return [SourceCheckpoint(name=name, entry=last, at=at, state=kept, moves=True)]

    yield SourceSession(
        id=session_id(NAME, run),
        aliases=(run,),
        entries=chain,
        head=lambda: "" if said is None else last,
        created_at=values.when(begun[1]) if begun else None,
        title=task[:500] or None,
        metadata=state,
        checkpoints=saved,
        usage=lambda: _totals(run, state),
        run=lambda: SourceRun(
            status="interrupted",  # a run that ends well takes its file away
            task=task or None,
            started_at=values.when(begun[1]) if begun else None,
            checkpoint=name,
            iteration=iteration,
            input_tokens=values.count(state.get("input_tokens")),
            output_tokens=values.count(state.get("output_tokens")),
            system_prompt=state.get("system_prompt"),
        ),
    )


def _chain(messages: list[dict[str, Json]], saved: datetime | None) -> Iterator[SourceEntry]:
    parent = None
    for index, message in enumerate(messages, start=1):
        uid = link(parent, message)
        at = saved if index == len(messages) else None
        notes: dict[str, Json] = {"null": True} if message is _NULL else {}
        yield SourceEntry(uid=uid, parent=parent, message=message, at=at, notes=notes)
        parent = uid


def _totals(run: str, state: dict[str, Json]) -> list[SourceUsage]:
    """One number for the whole run: what single calls cost was never written down."""
    spent, said = values.count(state.get("input_tokens")), values.count(state.get("output_tokens"))
    if not spent and not said:
        return []
    at = values.when(state.get("created_at"))
    return [SourceUsage(id=f"{run}:total", input_tokens=spent, output_tokens=said, at=at, is_sum=True)]
