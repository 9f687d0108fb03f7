"""Moves of a head, forks and trees on the wire."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from clew.model import AgentBranch, Branch, Checkpoint, ForkPoint, Head, MoveInfo
from clew.model.files import OnConflict, RestoreReport
from clew.server.wire.entries import EntryMark, GivenMessage

PointInTree: TypeAlias = str | int | Head
"""A number is a position on the path; a text is the name of a checkpoint, the id of an entry, or `start`; an
object is a head."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class MovedView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the session stands now; of a dry run: where it would stand."""

    head: Head
    entry: EntryMark | None = None
    """The mark that was written, if one was."""
    files: RestoreReport | None = None
    """What was done to files, if something was; of a dry run: what would be done."""
    agent_branch: AgentBranch | None = None
    """Where the agent stands that the session was imported from, if that is elsewhere: then only Clew's view
    moves."""
    resume: str | None = None
    """Beside `agent_branch`: the command that continues from `head` in the agent."""


class RewindBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to go."""

    to: PointInTree
    files: bool | str = False
    """Restore the files of the checkpoint too: in the directory where they were, or in this one. Needs the
    scope files, and a server that was started with `--allow files`."""
    on_conflict: OnConflict = "overwrite"
    """What to do with files that were changed since the last snapshot."""
    dry_run: bool = False
    """Only say where it would go, and what would be done to the files. Nothing is changed."""


class StepBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to undo, or redo."""

    dry_run: bool = False
    """Only say where it would go, and what would be done to the files. Nothing is changed."""
    root: str | None = None
    """The directory of files that were restored with the move, if it has to be named."""


class FollowBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to go to where the agent stands."""

    dry_run: bool = False
    """Only say where it would go. Nothing is changed."""


class ForkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fork to be made."""

    id: str | None = None
    """null: `<id of the session>#fork-<n>`."""
    at: PointInTree | None = None
    """What it shares ends here; null: at the head."""
    checkpoints: Literal["path", "all"] = "path"
    """Which checkpoints it takes along: those on the way there, or also those that a rewind left ahead."""


class CompactBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands for the history: a text, or messages."""

    text: str | None = None
    """Becomes one user message."""
    messages: list[GivenMessage] | None = None
    upto: PointInTree | None = None
    """The last entry that it stands for; null: the head."""
    tokens: Count | None = None
    """How many tokens it stands for, if that is known."""


class TruncateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the context keeps."""

    keep_last: Count


class ReplaceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole history, as it is to be."""

    messages: list[GivenMessage]
    user_turns: Count | None = None
    """Sets the counter of user turns, which else counts those in `messages`."""
    strict: bool = False


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each message, those that were kept too."""

    data: list[EntryMark]
    head: Head


class SummaryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The summary of the conversation so far."""

    summary: str | None


class MovesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which moves."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    cursor: str | None = None


class MovePage(msgspec.Struct, frozen=True, kw_only=True):
    """The history of moves, newest first."""

    data: list[MoveInfo]
    cursor: str | None


class TreeView(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its relatives."""

    session: str
    branches: list[Branch]
    heads: dict[str, Head]
    """Where each session of the tree stands."""
    forks: dict[str, ForkPoint]
    checkpoints: list[Checkpoint]
    children: dict[str, str]
    """Subagents of this session, and theirs: each with the session that started it."""


class CompareQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which two paths. A point is a position, the name of a checkpoint or the id of an entry."""

    a: str
    """A session, by id or alias."""
    b: str
    """The other one; may be the same."""
    a_at: str | None = None
    """The path to this point of `a`, not to its head."""
    b_at: str | None = None
    """The same of `b`."""
