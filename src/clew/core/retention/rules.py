"""Retention rules: which are valid, what they say about a session, and when to look again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import msgspec

from clew.core.log.ids import check_id
from clew.core.log.lease import Now
from clew.core.log.records import Integer, Time
from clew.core.log.rows import EXPIRED, NEVER, NOT_DUE, RUNNING, Details, SessionRow
from clew.core.messages.dialects import Part, dialect_of, is_user_turn
from clew.core.messages.dialects.base import is_blank
from clew.core.runs.status import LEGAL
from clew.errors import InvalidError
from clew.model import Message, Retention, SweepVerb

# ── Which retention rules are accepted: a wrong one would remove conversations ────────────────────

LENGTHS: Final = (
    "idle_timeout", "lifetime", "max_idle", "silent_after", "purge_after", "message_age"
)  # fmt: skip
COUNTS: Final = ("max_sessions", "max_bytes", "max_messages", "max_message_bytes", "max_events")
LONGEST: Final = timedelta(days=36525)
"""A hundred years: who wants longer leaves the rule out."""
LARGEST: Final = 2**62


def checked(rules: Retention) -> Retention:
    """The rules, if each of them makes sense; InvalidError names the one that does not."""
    if not isinstance(rules, Retention):
        raise InvalidError(f"rules must be a Retention, not {type(rules).__name__}")
    for name in LENGTHS:
        _check_length(name, getattr(rules, name))
    for name in COUNTS:
        _check_count(name, getattr(rules, name))
    if not isinstance(rules.trash_expired, bool):
        raise InvalidError(f"trash_expired must be True or False, not {rules.trash_expired!r}")
    return msgspec.structs.replace(rules, keep_tags=_tags(rules.keep_tags))


def _check_length(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, timedelta):
        raise InvalidError(f"{name} must be a timedelta or None, not {value!r}")
    if not timedelta(0) < value <= LONGEST:
        raise InvalidError(
            f"{name} must be longer than nothing and at most {LONGEST.days} days, not {value!r}"
        )


def _check_count(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InvalidError(f"{name} must be a whole number from 1 to 2**62, or None; not {value!r}")


def _tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, (tuple, list, set, frozenset)):
        raise InvalidError(f"keep_tags must be a list of texts, not {tags!r}")
    return tuple(dict.fromkeys(check_id(tag, "keep_tags") for tag in tags))


# ── What a sweep may do with a session, and when it has to look at it again ───────────────────────
# Everything here is arithmetic over what is stored: the time is given, nothing is read. Times are
# microseconds since 1970 UTC. When in doubt the answer is to keep.

TOLERANCE: Final = 60_000_000
"""A clock may be wrong by this much and is believed; slow drift can thus correct itself."""
LOOK_AGAIN: Final = 300_000_000
"""How soon a sweep looks again at a session with a lease: its holder may die without a notice."""
DAY: Final = 86_400_000_000


class Anchor(msgspec.Struct, frozen=True):
    """A moment by the wall clock that is believed, and by the clock that no user can set."""

    wall: Time
    steady: Integer
    domain: str


def trusted_time(now: Now, anchor: Anchor | None) -> int:
    """The time to go by, whatever the wall clock of this process says.

    A clock that jumped disagrees with the one that no user can set: then that one counts, from the
    anchor on. After a restart of the machine there is nothing to compare with; time never goes back.
    """
    if anchor is None:
        return now.wall
    if not anchor.domain or anchor.domain != now.domain:
        return max(now.wall, anchor.wall)
    expected = anchor.wall + max(0, now.steady - anchor.steady)
    return now.wall if abs(now.wall - expected) <= TOLERANCE else expected


def micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


class Step(msgspec.Struct, frozen=True):
    """One thing to do with a session, and why."""

    verb: SweepVerb
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """What to do with a session now, and when to look at it again."""

    steps: tuple[Step, ...] = ()
    due: int = NOT_DUE


def is_kept(details: Details, rules: Retention) -> bool:
    """Whether a tag exempts a session from every rule."""
    return not set(details.tags).isdisjoint(rules.keep_tags)


def may_be_silent(row: SessionRow, details: Details, rules: Retention, now: int) -> bool:
    """Whether it is worth reading the log of a session to learn if a human ever spoke in it."""
    if rules.silent_after is None or row.head.turns or row.deleted is not None:
        return False
    at_rest = row.status != RUNNING and not row.fence
    return at_rest and not is_kept(details, rules) and row.updated + micros(rules.silent_after) <= now


def verdict_on(
    row: SessionRow,
    details: Details,
    rules: Retention,
    now: int,
    *,
    held: bool = False,
    expired_at: int | None = None,
    silent: bool | None = None,
) -> Verdict:
    """Judge a session.

    Args:
        held: A process that may still be alive holds a lease on it.
        expired_at: When its status became expired; None: it is not.
        silent: No human ever spoke in it; None: not looked at yet.
    """
    if held:
        return Verdict(due=now + LOOK_AGAIN)
    if row.deleted is not None:
        return _on_trash(row.deleted, details, rules, now)
    if row.fence:
        return Verdict((Step("interrupt", "the worker of its run is gone"),), 0)
    if row.status == RUNNING or is_kept(details, rules):
        return Verdict()
    return _on_resting(row, details, rules, now, expired_at, silent)


def _on_trash(deleted: int, details: Details, rules: Retention, now: int) -> Verdict:
    """No worker can go on with it, whatever its status says."""
    if is_kept(details, rules):
        return Verdict()
    due = purge_time(deleted, rules)
    if due > now:
        return Verdict(due=due)
    return Verdict((Step("purge", f"in the trash for {rules.purge_after}"),), NOT_DUE)


def purge_time(deleted: int, rules: Retention) -> int:
    return NOT_DUE if rules.purge_after is None else deleted + micros(rules.purge_after)


def _on_resting(
    row: SessionRow,
    details: Details,
    rules: Retention,
    now: int,
    expired_at: int | None,
    silent: bool | None,
) -> Verdict:
    steps: tuple[Step, ...] = ()
    ends: list[tuple[int, str]] = []
    """When it goes to the trash, by which rule."""
    expires, why = expiry(row, details, rules)
    ahead = NOT_DUE
    if row.status == EXPIRED:
        if rules.trash_expired:
            ends.append((_end_of_expired(row, details, rules, now, expired_at), "it expired"))
    elif EXPIRED in LEGAL[row.status]:
        if expires > now:
            ahead = expires
        else:
            steps = (Step("expire", why),)
            if rules.trash_expired:
                ends.append((max(now, row.updated), f"it expired: {why}"))
    if rules.max_idle is not None:
        ends.append((row.updated + micros(rules.max_idle), f"no activity for {rules.max_idle}"))
    if rules.silent_after is not None and not row.head.turns and silent is not False:
        ends.append((row.updated + micros(rules.silent_after), "no human ever spoke in it"))
    for moment, reason in ends:
        if moment <= now:
            return Verdict((*steps, Step("trash", reason)), purge_time(now, rules))
    return Verdict(steps, min([ahead, *(moment for moment, _ in ends)]))


def expiry(row: SessionRow, details: Details, rules: Retention) -> tuple[int, str]:
    """When a session expires, and by which rule; NOT_DUE: never."""
    ends: list[tuple[int, str]] = [(NOT_DUE, "")]
    if details.expires == NEVER:
        return ends[0]
    if details.expires is not None:
        ends.append((details.expires, "the end that was set for it"))
    elif rules.lifetime is not None:
        ends.append((row.created + micros(rules.lifetime), f"created {rules.lifetime} ago"))
    idle = _idle(details, rules)
    if idle is not None:
        ends.append((row.updated + idle, f"no activity for {timedelta(microseconds=idle)}"))
    return min(ends)


def _idle(details: Details, rules: Retention) -> int | None:
    if details.idle is not None:
        return details.idle
    return None if rules.idle_timeout is None else micros(rules.idle_timeout)


def _end_of_expired(
    row: SessionRow, details: Details, rules: Retention, now: int, expired_at: int | None
) -> int:
    """When an expired session goes to the trash: at once, unless it was active since it expired, or was
    given another end. Activity renews it for as long as the rule gives a session at all."""
    expires, _ = expiry(row, details, rules)
    if details.expires == NEVER or expired_at is None:
        return NOT_DUE
    if now < expires < NOT_DUE:
        return expires
    if row.updated <= expired_at:
        return now
    renewal = _idle(details, rules)
    if renewal is None and details.expires is None and rules.lifetime is not None:
        renewal = micros(rules.lifetime)
    return NOT_DUE if renewal is None else row.updated + renewal


def may_be_speech(message: Message) -> bool:
    """Whether a human may have spoken: words, an image, or anything that we cannot read.

    Stricter than `is_user_turn` the other way round: here a doubt must speak for the human.
    """
    if is_user_turn(message):
        return True
    dialect = dialect_of(message)
    role = dialect.role(message)
    if role != "user":
        return role == "other"
    return any(map(_may_be_speech, dialect.parts(message)))


def _may_be_speech(part: Part) -> bool:
    if part.kind == "result":
        return part.placement is None  # of a call that is not known
    if part.kind == "text":
        return not is_blank(part.text)
    return part.kind != "other" or bool(part.value)
