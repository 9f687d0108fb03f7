"""Runs and leases on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from clew.core.log.ids import MAX_POSITION
from clew.core.runs.lease import LONGEST, SHORTEST
from clew.model import Json, LeaseInfo

MOST_WAITED = 20.0
"""Seconds that a request may wait for a lease: less than proxies wait for an answer."""

LeaseSeconds = Annotated[float, msgspec.Meta(ge=SHORTEST, le=LONGEST)]
WaitSeconds = Annotated[float, msgspec.Meta(ge=0.0, le=MOST_WAITED)]


class NewRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to be started."""

    request: Json = None
    """What is asked for; kept with the run."""
    task: str | None = None
    """What kind of work it is."""
    lease: LeaseSeconds = 30.0
    """Seconds that the lease holds, unless it is renewed."""
    owner: str | None = None
    """Who works; null: the name of the token."""
    steal: bool = False
    """Take the lease even if a worker holds it; that one is refused from then on."""
    wait: WaitSeconds = 0.0
    """Seconds to wait for the lease of another worker. For longer waits ask again."""


class StartedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, and the lease that it has."""

    epoch: int
    secret: str
    """Send it as `Clew-Lease` with every write. Only this worker should know it."""
    owner: str
    task: str | None
    expires_at: datetime
    """When the lease ends unless it is renewed."""


class LeaseAnswer(msgspec.Struct, frozen=True):
    """Who works on a session."""

    lease: LeaseInfo | None
    """Null: no worker, or one that is gone."""


class CompletedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run ended well."""

    response: Json = None


class FailedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run failed."""

    error: str


class RunCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A checkpoint that a run can be resumed from."""

    name: str | None = None
    """Null: `run-<epoch>-<number>`."""
    state: Json = None
    """Whatever the worker needs to go on."""
    iteration: Annotated[int, msgspec.Meta(ge=0, le=MAX_POSITION)] | None = None
    """How often the worker's loop has gone round."""
    system_prompt: Json = None
    """Only its hash is kept."""
    tools_hash: str | None = None
    """Names the tools that the worker has."""
    model: str | None = None
    """Null: that of the session."""
    force: bool = False
    """Also while tool calls wait for their results."""


class ResumeQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the worker has now, to be compared with what it had then."""

    system_prompt: str | None = None
    tools_hash: str | None = None
    model: str | None = None
