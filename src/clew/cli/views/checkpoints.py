"""Checkpoints in lists: their names, or the prompts at which an agent set them by itself."""

from __future__ import annotations

import clew
from clew.cli.table import Cell
from clew.cli.text import first_words, one_line
from clew.core.log.labels import mark_of
from clew.core.messages.text import snippet
from clew.core.search.outline import LONGEST


def checkpoint_cells(session: clew.Session) -> dict[str, Cell]:
    """What to show for each checkpoint, by its name."""
    points = session.checkpoints()
    if all(mark_of(one.name) is None for one in points):
        return {}
    prompts = {one.text: one.label for one in session.outline().items if one.label}
    return {
        one.name: Cell(prompts.get(one.name) or _said_at(session, one) or one.name, behind=f"  ◆ {mark}")
        for one in points
        if (mark := mark_of(one.name)) is not None
    }


def _said_at(session: clew.Session, checkpoint: clew.Checkpoint) -> str:
    """The entry of a checkpoint that is not on the path."""
    entry = next(iter(session.entries(at=checkpoint.head, last=1, damaged="skip")), None)
    return "" if entry is None else snippet(one_line(first_words(entry)), LONGEST)
