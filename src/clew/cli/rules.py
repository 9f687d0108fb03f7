"""Retention rules as they are typed: `max_idle=30d`, `max_messages=500`, `keep_tags=a,b`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

import clew
from clew.cli.text import span
from clew.core.retention.rules import COUNTS, LENGTHS

_NAMES: Final = (*LENGTHS, *(name for name in COUNTS if name != "max_events"), "trash_expired", "keep_tags")


def rules_of(given: Iterable[str]) -> clew.Retention | None:
    """The rules of these `NAME=VALUE`; None: there are none."""
    found: dict[str, object] = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in _NAMES:
            raise click.UsageError(f"{one!r} is no rule: write NAME=VALUE, with one of {', '.join(_NAMES)}")
        found[name] = _value(one, name, value)
    return clew.Retention(**found) if found else None  # type: ignore[arg-type]  # checked by the sweep


def _value(given: str, name: str, value: str) -> object:
    if name == "keep_tags":
        return tuple(tag for tag in value.split(",") if tag)
    if name == "trash_expired":
        if value not in ("", "yes", "no"):
            raise click.UsageError(f"{given!r}: write trash_expired=yes or trash_expired=no")
        return value != "no"
    if name in LENGTHS:
        length = span(value)
        if length is None:
            raise click.UsageError(f"{given!r} is no length of time: write 90m, 12h, 30d or 2w")
        return length
    if not (value.isascii() and value.isdecimal()):
        raise click.UsageError(f"{given!r} is no number")
    return int(value)
