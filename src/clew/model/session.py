"""The values of a conversation: entries, sessions, places, views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args, overload

import msgspec

from clew.errors import CorruptEntryError
from clew.model.agent_state import AgentState, Turn, state_at

if TYPE_CHECKING:
    from clew.model.files import RestoreReport
    from clew.model.run import Progress, RunInfo
    from clew.model.usage import FamilyUsage

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict."""

Message: TypeAlias = Mapping[str, Json]
"""A message as a caller may give it: any JSON object."""

EntryKind: TypeAlias = Literal["message", "compaction", "truncation", "summary", "turns", "removed"]
"""`removed`: a message that a retention rule took away; its place and its hash are kept."""

RedactionPolicy: TypeAlias = Literal["import", "all", "off"]
"""Where definite secrets are replaced before anything is stored: in what is imported, in all that comes in,
or nowhere."""

NO_ANNOTATIONS: Mapping[str, Json] = MappingProxyType({})


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def utc(since_1970: int) -> datetime:
    """The moment so many microseconds after 1970, as an aware datetime."""
    seconds, micros = divmod(since_1970, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)


def microseconds(moment: datetime) -> int:
    """The same the other way round, exactly."""
    return (moment - EPOCH) // timedelta(microseconds=1)


Status: TypeAlias = Literal["pending", "running", "completed", "failed", "interrupted", "expired", "closed"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
"""In the order of their numbers in storage."""


class Head(msgspec.Struct, frozen=True):
    """Where a session stands. Opaque; compare it, print it, pass it as `expect=`."""

    branch: str
    position: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Head):
            return NotImplemented
        return self.position == other.position and self.branch == other.branch

    def __hash__(self) -> int:
        return hash((self.branch, self.position))

    def __str__(self) -> str:
        return f"{self.branch}.{self.position}" if self.position >= 0 else "(empty)"


class Moved(Head, frozen=True):
    """The head after a rewind, an undo or a redo; equal to any `Head` of the same place."""

    files: RestoreReport | None = None
    """What was restored, deleted and kept; None: the files stayed where they were."""


MoveKind: TypeAlias = Literal["rewind", "clear", "replace", "compact", "truncate", "summary", "undo", "redo"]


class MoveInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One move of a session's head that was not an append: a line of its history of moves."""

    number: int
    """1 is the first move of the session."""
    kind: MoveKind
    at: datetime
    came_from: Head
    went_to: Head
    takes_back: int | None = None
    """Of an undo or a redo: the number of the move that it took back."""
    next: Literal["undo", "redo"] | None = None
    """The next `undo()`, or `redo()`, takes this move back."""
    root: str | None = None
    """Of a move that restored files too: the directory."""
    snapshot: str | None = None
    """What these files became."""
    safety: str | None = None
    """What they were before."""


_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Entry(msgspec.Struct, frozen=True):
    """One immutable record of the log: a message, or a mark such as a compaction."""

    id: str
    position: int
    kind: EntryKind
    raw: bytes
    """The JSON text as it came, byte for byte."""
    stamp: int
    """Microseconds since 1970 UTC; `time` is the same as a datetime."""
    digest: bytes
    """BLAKE3 over the parent's digest and this entry; `hash` is the same in hex."""
    replaced: bool = False
    """Lone surrogates were replaced by U+FFFD when the message was stored."""
    annotations: Mapping[str, Json] = NO_ANNOTATIONS
    """What the session put beside it, else what came with it from another program."""
    epoch: int = 0
    """Of the lease under which it was written; 0: without one."""
    injected: bool = False
    """It has the shape of a user's message, but an importer found that no person wrote it."""
    redacted: int = 0
    """So many secrets in it were replaced by markers before it was stored: see `Store.redaction`."""

    @property
    def message(self) -> dict[str, Json]:
        """The message, decoded again on each call: you may change it.

        Of a compaction it is the `messages` and `tokens` that it was given, and the position `start` from
        which the context goes on; of a truncation that `start`; of a summary its `text`.
        """
        try:
            return _decode_object(self.raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            source, _, _ = self.id.rpartition(".")
            raise CorruptEntryError(
                source, self.position, f"its body is not a JSON object: {error}"
            ) from error

    @property
    def time(self) -> datetime:
        return utc(self.stamp)

    @property
    def hash(self) -> str:
        return self.digest.hex()

    def __repr__(self) -> str:
        return f"<Entry {self.id} {self.kind} {self.raw[:60]!r}>"


class ForkPoint(msgspec.Struct, frozen=True):
    """Where a fork left its base."""

    session: str
    head: Head


class AgentBranch(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent that owns an imported session stands, as its own files last said."""

    head: Head
    """The end of the agent's own branch: the head of the session, unless that was moved in Clew."""
    new: int
    """Messages that the agent wrote there since the head of the session was moved away."""
    written_at: datetime | None
    """When the agent wrote last; None: its files have no times."""
    turn: Turn | None
    """Whether the agent's turn has ended; None: its files do not tell for sure."""


def project_of(workspace: str | None) -> str:
    """The name of a workspace: the last part of its path, whichever system it is of; "" of none."""
    return (workspace or "").replace("\\", "/").rstrip("/").rpartition("/")[2]


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a session without reading its messages."""

    id: str
    title: str | None
    title_is_auto: bool
    preview: str
    """The beginning of the last thing the user said on the path."""
    workspace: str | None
    """Absolute, symlinks resolved."""
    workspace_given: str | None
    tags: tuple[str, ...]
    vendor: str | None
    endpoint: str | None
    model: str | None
    agent: str | None = None
    """The program or framework that writes it, such as "claude-code": metadata `agent`, else that of the
    adapter or the importer."""
    parent: str | None = None
    """The id of the session that this one is a subagent of: metadata `parent`."""
    metadata: dict[str, Json]
    aliases: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    messages: int
    user_turns: int
    entries: int
    bytes: int
    """Size of the messages on the path, as JSON text."""
    head: Head
    hash: str
    """Names the whole conversation: equal hashes, equal histories."""
    forked_from: ForkPoint | None
    status: Status
    run: RunInfo | None
    """The latest run; None if no run was ever started."""
    epoch: int
    """How many leases were taken so far."""
    expires_at: datetime | None = None
    """The end that was set for this session; None: the rules of the store apply."""
    never_expires: bool = False
    """This session is exempt from the expiry rules of the store."""
    idle_timeout: timedelta | None = None
    """Set for this session; None: that of the store applies."""
    agent_branch: AgentBranch | None = None
    """Where the agent that owns an imported session stands; None: no agent's file was read into it."""
    damaged: str | None = None
    """What is wrong with a session that cannot be read; then all else here is what can be believed of it;
    None: nothing was found to be wrong."""

    @property
    def project(self) -> str:
        """The name of the directory that it works in: the last part of `workspace`; "" without one."""
        return project_of(self.workspace)

    def state(self, now: datetime | None = None) -> AgentState | None:
        """Whether its agent is working, waits for you, is idle, or stale; None: its files do not tell.

        Args:
            now: The moment to judge by; None: the present one.
        """
        return state_at(self, datetime.now(UTC) if now is None else now)


class Page(msgspec.Struct, frozen=True):
    """One page of sessions. Pass `cursor` to `list()` for the next one; None: this was the last."""

    sessions: tuple[SessionInfo, ...]
    cursor: str | None
    usage: tuple[FamilyUsage, ...] = ()
    """Of `list(usage=True)`: what each of them and its subagents have used, in the order of the sessions."""

    def __iter__(self) -> Iterator[SessionInfo]:
        return iter(self.sessions)

    def __len__(self) -> int:
        return len(self.sessions)

    @overload
    def __getitem__(self, index: int) -> SessionInfo: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SessionInfo, ...]: ...
    def __getitem__(self, index: int | slice) -> SessionInfo | tuple[SessionInfo, ...]:
        return self.sessions[index]


class FacetValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value to filter by, and how many sessions have it."""

    value: str
    sessions: int


class ProjectValue(FacetValue, frozen=True, kw_only=True):
    """A project: the last part of the path of a workspace."""

    workspace: str
    """Where most of its sessions work: projects in several directories may have one name."""


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions of a store can be listed by, without the trash. Most frequent first, ties by name."""

    projects: tuple[ProjectValue, ...]
    agents: tuple[FacetValue, ...]
    models: tuple[FacetValue, ...]
    tags: tuple[FacetValue, ...]
    statuses: tuple[FacetValue, ...]


class Checkpoint(msgspec.Struct, frozen=True):
    """A name for a point on a path."""

    name: str
    session: str
    """The session it was set in; a fork sees those of its base that lie on its path."""
    head: Head
    created_at: datetime
    state: Json = None
    run: Progress | None = None
    """Of a checkpoint that a run set: how far it had come."""
    snapshot: str | None = None
    """Of a checkpoint with files: the id of their snapshot."""

    @property
    def position(self) -> int:
        return self.head.position


class Branch(msgspec.Struct, frozen=True):
    """A run of entries at consecutive positions, for drawing."""

    id: str
    session: str | None
    """The session that writes to it; None when that one was deleted."""
    parent: Head | None
    """The entry that it continues; None at the root."""
    first: int
    last: int


class Tree(msgspec.Struct, frozen=True):
    """A session with its relatives: every branch, where each session stands, every checkpoint."""

    session: str
    branches: tuple[Branch, ...]
    heads: Mapping[str, Head]
    forks: Mapping[str, ForkPoint]
    checkpoints: tuple[Checkpoint, ...]
    children: Mapping[str, str] = {}
    """Subagents of this session, and theirs, parents first: each with the session that started it."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a store."""

    sessions: int
    deleted: int
    """Sessions in the trash."""
    messages: int
    """Messages stored, on every branch; shared ones count once."""
    entries: int
    bytes: int
    """Size of all messages as JSON text."""
    bytes_on_disk: int
    by_status: Mapping[Status, int]
    """Sessions that are not in the trash, by status; every status is there."""
    active_24h: Mapping[Status, int]
    """Those of them that were active in the last 24 hours."""
    created_24h: int
    calls: int
    """Model calls recorded by `add_usage`; the next two are their tokens."""
    input_tokens: int
    output_tokens: int


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `context()` did to the history."""

    messages: int
    """Messages in the context."""
    tokens: int
    """Their size by `count_tokens`, or by the built-in estimate."""
    left_out: int
    """Messages of the path that are not in the context, for whatever reason."""
    compacted: int
    """Those of them that a compaction stands for, or a truncation cut off."""
    over_budget: int
    """Those of them that did not fit the budget."""
    repairs: tuple[str, ...]
    """One sentence for each repair that made the history well-formed."""


class Context(list[dict[str, Json]]):
    """The messages a model should get: a plain list that also knows what it left out."""

    def __init__(self, messages: Sequence[dict[str, Json]], report: ContextReport) -> None:
        super().__init__(messages)
        self.report = report


ChangeKind: TypeAlias = Literal["created", "changed", "deleted"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened in a session. Several things that happened soon after each other may be one."""

    kind: ChangeKind
    """created: no entry was written yet; deleted: it is in the trash."""
    session: str
    at: datetime
    head: Head
    messages: int
    """On its path."""
    status: Status
    cursor: str
    """Pass it as `after=` to go on from here, in this process or another."""
