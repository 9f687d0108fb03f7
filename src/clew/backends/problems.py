"""What backends say of rows that are there and that nobody finds, the same words for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from clew.backends.contract import RecordKind


def stray(count: int, what: str, owner: str) -> str:
    """Of rows whose owner does not exist."""
    return f"{count} {what} belong to no {owner}: nobody finds them"


def nameless(names: Iterable[tuple[Any]]) -> list[str]:
    """Of records, by the bytes of their names."""
    count = sum(not _is_text(name) for (name,) in names)
    return [f"{count} records have a name that is no text: nobody finds them"] if count else []


def _is_text(name: object) -> bool:
    try:
        str(name, "utf-8")  # type: ignore[call-overload]
    except (UnicodeDecodeError, TypeError):
        return False
    return True


def unknown_kinds(kinds: Iterable[str]) -> list[str]:
    """Of records, by the kinds that are stored."""
    strange = sorted(set(kinds) - set(get_args(RecordKind)))
    return [f"records of the kind {kind!r} are not known here: nobody finds them" for kind in strange]
