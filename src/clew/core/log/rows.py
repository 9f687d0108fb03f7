"""What storage keeps: sessions, branches, entries, as plain values.

Numbers only: `sid`, `tree` and `branch` are a backend's own keys, never shown to users. Times are
microseconds since 1970 UTC. Positions of things that do not exist are -1.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.log.digest import ROOT
from clew.core.log.records import Count, Digest, Integer, Position, StatusNumber, Time
from clew.model import EntryKind

NOWHERE: Final = -1
NO_TIME: Final = -1

MESSAGE: Final = 0
COMPACTION: Final = 1
TRUNCATION: Final = 2
SUMMARY: Final = 3
TURNS: Final = 4
REMOVED: Final = 5
KIND_NAMES: Final[tuple[EntryKind, ...]] = (
    "message", "compaction", "truncation", "summary", "turns", "removed"
)  # fmt: skip
ERASED: Final = b"{}"
"""The body of an entry whose message was removed."""

PENDING: Final = 0
RUNNING: Final = 1
COMPLETED: Final = 2
FAILED: Final = 3
INTERRUPTED: Final = 4
EXPIRED: Final = 5
CLOSED: Final = 6

NOT_DUE: Final = 2**62
"""The `due` of a session with which no sweep has anything to do."""

REPLACED: Final = 1
"""Entry flag: lone surrogates were replaced."""
NOT_HUMAN: Final = 2
"""Entry flag: it has the shape of a user's message, but no person wrote it."""
REDACTED: Final = 4
"""Entry flag: secrets in it were replaced by markers before it was stored."""
ALL_FLAGS: Final = REPLACED | NOT_HUMAN | REDACTED


class HeadRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A place on a path, with its counters: all that the next entry needs to know of those before it.

    The counters make every question about a path arithmetic: a rewind reads one entry and knows
    how many messages, turns and bytes lie before it, and where the latest marks are.
    """

    branch: Count = 0
    position: Position = NOWHERE
    digest: Digest = ROOT
    messages: Count = 0
    turns: Count = 0
    size: Count = 0
    view_start: Position = NOWHERE
    """The latest compaction or truncation: what the model sees starts from it."""
    summary: Position = NOWHERE
    """The latest summary."""
    last_user_turn: Position = NOWHERE
    """The latest user turn."""


EMPTY: Final = HeadRow()


class EntryRow(msgspec.Struct, frozen=True, gc=False):
    """One entry in its place. The counters are those of `HeadRow`, this entry included."""

    position: Position
    kind: Count
    time: Time
    flags: Count
    digest: Digest
    messages: Count
    turns: Count
    size: Count
    view_start: Position
    summary: Position
    last_user_turn: Position
    body: bytes
    epoch: Count = 0
    """Of the lease under which it was written; 0: without one."""

    def tip(self, branch: int) -> HeadRow:
        return HeadRow(
            branch,
            self.position,
            self.digest,
            self.messages,
            self.turns,
            self.size,
            self.view_start,
            self.summary,
            self.last_user_turn,
        )


class BranchRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A branch. It continues the entry (parent, fork), or starts at the root (0, -1)."""

    branch: Count
    uid: str
    tree: Count
    owner: Count
    """The session that appends to it; 0 once that one was purged."""
    parent: Count
    fork: Position


class SessionRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The part of a session that changes with every append: kept small."""

    sid: Count
    id: str
    tree: Count
    created: Time
    updated: Time
    deleted: Time | None
    head: HeadRow
    grows: bool
    """The head is the tip of a branch of this session's own: the next append goes there."""
    title: str | None
    has_title: bool
    """The user set the title."""
    preview: str
    """The beginning of the user's last message on the path, unchanged."""
    workspace: str | None
    moves: Count = 0
    """Head moves logged so far; `undo` and `redo` are the numbers of those that come next, or 0."""
    undo: Count = 0
    redo: Count = 0
    forks: Count = 0
    status: StatusNumber = PENDING
    epoch: Count = 0
    """Leases taken so far: the number of the latest."""
    fence: Count = 0
    """The secret of the lease in force; 0: there is no lease. Positive, random, never shown."""
    due: Integer = 0
    """No sweep has anything to do with it before this time; 0: none has looked at it yet."""


class ForkOrigin(msgspec.Struct, frozen=True, gc=False):
    """Where a fork left its base."""

    sid: Count
    session: str
    branch: Count
    uid: str
    position: Position


class AgentTip(msgspec.Struct, frozen=True, gc=False):
    """Where the program that a session is loaded from stands, as its files last said."""

    uid: str
    """The branch; "": before the first entry."""
    position: Position
    messages: Count
    """On the path to there,"""
    left: Count
    """and how many of them were there when the head of the session was moved away; all, if it was not."""
    time: Time
    """When the program wrote last; NO_TIME: its files do not say."""
    turn: Literal["", "open", "ended"] = ""
    """"": not known for sure."""


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a session that seldom changes."""

    workspace_given: str | None = None
    vendor: str | None = None
    endpoint: str | None = None
    model: str | None = None
    tags: tuple[str, ...] = ()
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    aliases: tuple[str, ...] = ()
    origin: ForkOrigin | None = None
    expires: Time | None = None
    """The end that was set for it; NEVER: exempt from expiry."""
    idle: Count | None = None
    """Its own idle timeout, in microseconds."""
    agent: AgentTip | None = None
    """None: it was not loaded from another program."""


NEVER: Final = -1


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """An event. Numbers count from 1 in each session, without a gap."""

    number: Count
    time: Time
    stream: str
    type: str
    id: str | None
    data: bytes


class UsageRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One model call, and the sums over all calls of the session up to it (`all_…`).

    Money is in millionths of a millionth. Numbers count from 1 in each session.
    """

    number: Count
    time: Time
    id: str | None
    model: str | None
    vendor: str | None
    endpoint: str | None
    source: str | None
    branch: Count
    """The entry it belongs to: (branch, position); (0, -1): none."""
    position: Position
    input: Count
    output: Count
    cache_read: Count
    cache_write: Count
    reasoning: Count
    cost: Count | None
    priced_by: str | None
    all_input: Count
    all_output: Count
    all_cache_read: Count
    all_cache_write: Count
    all_reasoning: Count
    all_cost: Count
    all_unpriced: Count
    all_estimated: Count


UsageColumn: TypeAlias = Literal[
    "model", "vendor", "endpoint", "source", "day", "quarter", "workspace", "session", "branch"
]  # fmt: skip
"""What storage can group calls by."""


class UsageSum(msgspec.Struct, frozen=True, gc=False):
    """Sums over the calls that have `group` in common, a value for each column that they are grouped by."""

    group: tuple[str | None, ...]
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost: int
    unpriced: int
    estimated: int


class ObjectPlace(msgspec.Struct, frozen=True, gc=False):
    """Where an object of a snapshot lies: within the raw content of a pack."""

    pack: Count
    offset: Count
    size: Count


class PackInfo(msgspec.Struct, frozen=True, gc=False):
    """A pack of objects."""

    pack: Count
    size: Count
    """Of its raw content."""
    stored: Count
    """As it is kept, compressed."""
    objects: Count
    """Objects that lie in it by now."""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list: newest activity first, ties by id."""

    limit: int
    oldest: bool = False
    """The same order from its end: longest without activity first."""
    workspace: str | None = None
    tags: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    """Top-level metadata keys with their scalar values as JSON text."""
    after: tuple[int, str] | None = None
    """(updated, id) of the last one seen."""
    deleted: bool = False
    nonempty: bool = False
    status: int | None = None
    since: int | None = None
    """Only those that are listed by this time or a later one,"""
    until: int | None = None
    """and by an earlier one than this."""
    damaged: bool = False
    """Those too whose row, or settings, are damaged."""
    min_cost: int | None = None
    """Those may be left out whose own calls cost less and that have no subagents, which may cost more: a hint
    for storage that finds out fast."""


SessionColumn: TypeAlias = Literal["workspace", "status", "tag", "agent", "model"]
"""What storage can count sessions by."""


class SessionName(msgspec.Struct, frozen=True, gc=False):
    """A session by its id."""

    id: str
    sid: Count
    deleted: bool
    """It is in the trash."""

    @property
    def own(self) -> str:
        """What follows the first colon: of `claude-code:0b1c` the id that Claude Code knows. Without a colon
        nothing does."""
        return self.id.partition(":")[2]


class Listed(msgspec.Struct, frozen=True, gc=False):
    """A session as it is listed: its row, its details, and its record of kind "run", if it has one."""

    row: SessionRow
    details: Details
    run: bytes | None
    damage: str = ""
    """What is wrong with it: then its row holds what can be believed of it,"""
    behind: tuple[int, str] | None = None
    """and this is where the list goes on."""


class Damaged(msgspec.Struct, frozen=True, gc=False):
    """A session that cannot be read."""

    row: SessionRow
    """What can be believed of it; the id may be one that only stands for it."""
    reason: str


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What `stats()` counts in storage."""

    sessions: int
    deleted: int
    kept_size: int
    """Bytes of the messages on the paths of `sessions`; those that several share count for each."""
    messages: int
    entries: int
    size: int
    by_status: dict[int, int]
    """Sessions that are not in the trash, by status."""
    active: dict[int, int]
    """Those of them whose last activity is not before `since`."""
    created: int
    """Sessions created since then."""


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An entry that has no place yet."""

    kind: int
    body: bytes
    flags: int = 0
    is_turn: bool = False
    turns: int | None = None
    """Sets the user-turn counter."""
