"""Which retention rules are accepted: a wrong one would cost somebody's conversations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import msgspec

from clew.core.log.ids import check_id
from clew.errors import InvalidError
from clew.model import Retention

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
