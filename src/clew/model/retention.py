"""The values of expiry and retention: the rules, and what a sweep did."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

SweepVerb: TypeAlias = Literal["interrupt", "expire", "trash", "purge", "remove_messages"]


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep may do. Every rule is off (None) unless it is set.

    Sessions that run, that are leased, or that bear one of `keep_tags` are never touched.
    """

    idle_timeout: timedelta | None = None
    """A session expires after so long without activity."""
    lifetime: timedelta | None = None
    """A session expires so long after it was created, active or not."""
    trash_expired: bool = False
    """Expired sessions go to the trash."""
    max_idle: timedelta | None = None
    """Sessions without activity for longer go to the trash."""
    max_sessions: int | None = None
    """Only so many sessions stay; those without activity for the longest time go to the trash."""
    max_bytes: int | None = None
    """As `max_sessions`, for the size of all messages of the sessions that are not in the trash."""
    silent_after: timedelta | None = None
    """Sessions in which no human ever spoke go to the trash after so long without activity."""
    purge_after: timedelta | None = None
    """What was in the trash for so long is purged."""
    message_age: timedelta | None = None
    """Older messages are removed from their sessions, for good."""
    max_messages: int | None = None
    """Of each session only so many messages stay, the newest; the others are removed for good."""
    max_message_bytes: int | None = None
    """As `max_messages`, by size."""
    max_events: int | None = None
    """Of each session only so many events stay, the newest; applied as events are added."""
    keep_tags: tuple[str, ...] = ()
    """Sessions with one of these tags are exempt from every rule."""


class SweepAction(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a sweep did, or would do."""

    verb: SweepVerb
    session: str
    reason: str
    messages: int = 0
    """Of `remove_messages`: how many."""


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did; of a dry run: what it would do now."""

    dry_run: bool
    at: datetime
    """The time that the sweep went by."""
    clock_off_by: timedelta
    """How far the clock of this process is from that time; zero unless the clock jumped."""
    examined: int
    """Sessions that were looked at: those that could be due."""
    actions: tuple[SweepAction, ...]


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log of removals."""

    at: datetime
    verb: SweepVerb
    session: str
    reason: str
    messages: int = 0
