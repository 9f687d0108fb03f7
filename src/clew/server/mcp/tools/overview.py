"""`session_overview`: what a session was about, in one look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.errors import CorruptEntryError
from clew.exporters.blocks import blocks_shown
from clew.exporters.changes import PATHS, changes_of, text_at
from clew.exporters.programs.resume_command import clew_in, resume_of
from clew.exporters.programs.resuming import is_changed
from clew.exporters.tools.output import decoded
from clew.exporters.tools.summary import gist, shorter_path
from clew.model import Entry, SessionInfo
from clew.server.mcp.budget import room_in, within
from clew.server.mcp.entries import ShownEntry, Teller, role_of
from clew.server.mcp.places import escaped
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.text import Text
from clew.server.mcp.view import View
from clew.server.wire.listed import used_by
from clew.session import Session

PROMPT: Final = 500
"""Letters of a prompt, or of an answer."""
FIRST: Final = 50
"""Entries at the beginning in which the first prompt is looked for."""
LAST: Final = 6
"""Messages of people and of the assistant: three turns."""
LOOKED_AT: Final = 400
"""Entries at the end in which turns and files are looked for."""
COMMAND: Final = 1000
MOST: Final = 20
"""Checkpoints, forks, files and subagents that are told, the newest ones."""


class OverviewArguments(Arguments, frozen=True, kw_only=True):
    session: Annotated[str, Meta(min_length=1, max_length=4096)]


class CheckpointMark(msgspec.Struct, kw_only=True):
    place: str
    at: str
    files: bool


class OverviewAnswer(Answer, kw_only=True):
    id: str
    title: str | None
    agent: str | None
    status: str
    messages: int
    updated: str
    cost: float | None
    first_prompt: str | None
    last: list[ShownEntry]
    checkpoints: list[CheckpointMark]
    files: list[str]
    forks: list[str]
    subagents: list[str]
    resume: str | None


def session_overview(view: View, args: OverviewArguments) -> OverviewAnswer:
    session = view.find(args.session)
    text, info = view.text(), session.info
    used = used_by(session, view.seer)
    recent = list(islice(session.entries(newest_first=True, damaged="skip"), LOOKED_AT))[::-1]
    answer = OverviewAnswer(
        id=escaped(info.id),
        title=text.title(info.title),
        agent=text.title(info.agent),
        status=info.status,
        messages=info.messages,
        updated=info.updated_at.isoformat(timespec="seconds"),
        cost=round(float(used.cost), 4) if used.calls else None,
        first_prompt=_first_prompt(session, text),
        last=[],
        checkpoints=[],
        files=[],
        forks=[],
        subagents=[],
        resume=_resume(session, info, text),
    )
    children = view.store.list(parent=info.id, limit=MOST)
    answer.last = within(reversed(_last(info, text, recent)), room_in(answer))[::-1]
    answer.checkpoints = within(_checkpoints(session, text), room_in(answer))
    answer.files = within(_files(info, text, recent), room_in(answer))
    answer.forks = within(_seen(view, _forks(session)), room_in(answer))
    answer.subagents = within(_seen(view, (one.id for one in children)), room_in(answer))
    answer.redacted = text.redacted
    return answer


def _first_prompt(session: Session, text: Text) -> str | None:
    for entry in islice(session.entries(damaged="skip"), FIRST):
        if role_of(entry) == "user":
            return Teller(session.info, text, "none").tell(entry, PROMPT).text
    return None


def _last(info: SessionInfo, text: Text, recent: list[Entry]) -> list[ShownEntry]:
    """The last turns: what people said, and what the assistant said and did."""
    teller = Teller(info, text, "fold")
    for entry in recent:
        teller.hear(entry)
    said = [entry for entry in recent if role_of(entry) in ("user", "assistant")]
    return [teller.tell(entry, PROMPT) for entry in said[-LAST:]]


def _checkpoints(session: Session, text: Text) -> list[CheckpointMark]:
    """The newest first."""
    return [
        CheckpointMark(
            place=text.checkpoint(session.id, one.name),
            at=one.created_at.isoformat(timespec="seconds"),
            files=one.snapshot is not None,
        )
        for one in session.checkpoints()[: -MOST - 1 : -1]
    ]


def _files(info: SessionInfo, text: Text, recent: list[Entry]) -> list[str]:
    """Files that the latest calls of tools changed, the last one first."""
    found: dict[str, None] = {}
    for entry in reversed(recent):
        try:
            blocks = blocks_shown(entry) if entry.kind == "message" else []
        except CorruptEntryError:
            continue
        for block in reversed(blocks):
            if block.kind != "call" or gist(block.name, block.value).family not in ("edit", "write"):
                continue
            given = decoded(block.value)
            paths = [change.path for change in changes_of(given)]
            if not paths and isinstance(given, dict):
                paths = [text_at(given, PATHS)]
            found.update(dict.fromkeys(shorter_path(path, info.workspace) for path in paths if path))
    return [text.line(path) for path in islice(found, MOST)]


def _forks(session: Session) -> list[str]:
    tree = session.tree()
    others = [id for id, fork in tree.forks.items() if fork.session == session.id and id != session.id]
    return others[: -MOST - 1 : -1]


def _seen(view: View, ids: Iterable[str]) -> Iterator[str]:
    """Those of other sessions that are this caller's to see."""
    return (shown for id in ids if (shown := view.shown_id(id)) is not None)


def _resume(session: Session, info: SessionInfo, text: Text) -> str | None:
    """A command that is not as it would have to be typed is none."""
    found = resume_of(info, is_changed=bool(is_changed(session)), clew=clew_in(None)).command
    return found if found is not None and len(found) <= COMMAND and text.clean(found) == found else None


SESSION_OVERVIEW: Final = Tool(
    name="session_overview",
    description="A session at a glance: first prompt, last turns, checkpoints, files, forks, resume command.",
    arguments=OverviewArguments,
    answer=OverviewAnswer,
    run=session_overview,
)
