"""The values of runs: status, lease, what a worker can resume from."""

from __future__ import annotations

from datetime import datetime

import msgspec

from clew.model.session import Checkpoint, Head, Json, Status


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The latest run of a session: what was asked for, and what came of it."""

    owner: str
    """Who worked on it: the `owner` of the run, else host and process."""
    task: str | None
    epoch: int
    """The fencing epoch of its lease; 0: it had none."""
    started_at: datetime
    ended_at: datetime | None
    request: Json
    response: Json
    error: str | None


class StatusChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a session's status: from what to what, when, by whom."""

    was: Status
    status: Status
    at: datetime
    by: str
    epoch: int
    """Of the lease under which it was made; 0: without one."""


class LeaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who may write to a session now, and until when unless the lease is renewed."""

    owner: str
    epoch: int
    taken_at: datetime
    expires_at: datetime


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run had come when it set a checkpoint."""

    epoch: int
    number: int
    """Counts the checkpoints of all runs of the session."""
    task: str | None
    iteration: int | None
    input_tokens: int
    """Recorded by `add_usage` up to here; cache reads and writes included as their vendor counts them."""
    output_tokens: int
    model: str | None
    prompt_hash: str | None
    """BLAKE3 of the system prompt, in hex."""
    tools_hash: str | None


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go on: the newest checkpoint of a run, and the messages up to it."""

    checkpoint: Checkpoint
    messages: list[dict[str, Json]]
    """On the path of the checkpoint; what came after it is not among them."""
    ahead: bool
    """The head is elsewhere, as after a crash in mid-iteration: `run.rewind(resumption.head)` goes back."""
    changed: tuple[str, ...]
    """Which of system_prompt, tools_hash and model are not as they were, of those given to `resume`."""

    @property
    def head(self) -> Head:
        return self.checkpoint.head

    @property
    def state(self) -> Json:
        return self.checkpoint.state

    @property
    def iteration(self) -> int | None:
        return self.checkpoint.run.iteration if self.checkpoint.run else None
