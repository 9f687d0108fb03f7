"""The store as a whole, on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clew.core.log.grants import Scope
from clew.model import RedactionPolicy, Removal, Retention, SessionInfo
from clew.model.files import VerifyProblem
from clew.server.process.settings import MOST_LISTED

MOST_REMOVALS = 1000
LONGEST_LOOK = 600.0
"""Seconds that a check of the store may take."""


class Health(msgspec.Struct, frozen=True):
    """Whether the server answers."""

    status: str


class Me(msgspec.Struct, frozen=True):
    """The caller."""

    name: str
    kind: str
    """"owner", "token" or "share"."""
    scopes: tuple[Scope, ...]
    workspace: str | None
    """Only sessions that work there are the caller's to see."""
    tags: tuple[str, ...]
    """Only sessions with all of these are."""
    session: str | None
    """Only this one is."""
    restores: bool = False
    """Files of the machine of the server can be restored by this caller, from where it asks."""
    read_only: bool = False
    """The server refuses whatever changes the store."""


class LatestQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session is meant."""

    workspace: str | None = None


class FacetsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of each."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)] = 50


class InterruptedQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)] = 50


class SessionList(msgspec.Struct, frozen=True):
    """Some sessions."""

    data: list[SessionInfo]


class RemovalsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_REMOVALS)] = 100


class RemovalList(msgspec.Struct, frozen=True):
    """What sweeps have removed, newest first."""

    data: list[Removal]


class NewRetention(Retention, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules from now on; what is left out is off. Lengths of time are of ISO 8601, as P30D or PT12H."""


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where definite secrets are replaced by markers before anything is stored."""

    policy: RedactionPolicy
    """In what is imported, in all that comes in, or nowhere."""


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to sweep."""

    dry_run: bool = False
    """Only say what would be done."""
    scrub: bool = False
    """Rewrite the store's file at the end, so that no byte of what was removed is left in it."""


class GcRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to collect garbage."""

    dry_run: bool = False
    """Only say what would be removed."""
    thorough: bool = False
    """Pack anew whatever has a gap, so that no byte of what is removed stays."""
    merge: bool = False
    """Join the small packs that small snapshots leave."""


class DoctorQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How closely to look."""

    full: bool = False
    """Read all entries and objects and compare them with their hashes; else only whether all is there."""
    time_limit: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_LOOK)] = 10.0
    """Seconds after which to end with what was found."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the store."""

    ok: bool
    """Nothing is wrong with what was looked at."""
    complete: bool
    """False: the time was over before all was looked at."""
    sessions: int
    entries: int
    objects: int
    bytes: int
    problems: tuple[VerifyProblem, ...]
