"""Tokens and shares as a store keeps them: who may come in over HTTP, and to what.

The secret itself is in no store: what is kept is its hash, which is of no use to a reader of the store.
They belong to one store. No copy, export or backup takes them along: a store that was copied, or brought back
from a backup, must not open for a key that was meant for another one, or that was revoked since.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from clew.core.log.records import Count, Time, decoder
from clew.errors import CorruptError

Scope: TypeAlias = Literal["read", "write", "admin", "files", "store"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

GrantKind: TypeAlias = Literal["token", "share"]
GRANTS: Final[tuple[GrantKind, ...]] = get_args(GrantKind)
"""The kinds of records that stay where they are."""

MAX_NAME: Final = 100
ID: Final = re.compile(r"[ts][a-z0-9]{9}")
"""The id of a token or a share: the name of its record, and the second part of the secret text."""
HexHash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token that `clew token add` made. The name of its record is its id."""

    name: Name
    hash: HexHash
    """BLAKE3 of the secret."""
    scopes: tuple[Scope, ...]
    workspace: str | None = None
    """Only sessions that work there. None: all."""
    tags: tuple[str, ...] = ()
    """Only sessions that have all of these."""
    created: Time
    expires: Time | None = None


class ShareRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One session that may be read by everyone who has the link."""

    session: str
    sid: Count
    """A new session with the id of a purged one is not the one that was shared."""
    head: str | None
    """The id of the entry up to which it is shared; None: live, wherever the session goes."""
    title: str | None = None
    """Of a share that ended where the session stood when it was made: the title that the session had then,
    unless that follows from its messages. What the session was called later is not shared."""
    redact: bool
    hash: HexHash
    created: Time
    expires: Time | None = None


decode_token: Callable[[bytes], TokenRecord] = decoder(TokenRecord, "the record of a token")
decode_share: Callable[[bytes], ShareRecord] = decoder(ShareRecord, "the record of a share")


def decode_grant(kind: GrantKind, name: str, value: bytes) -> TokenRecord | ShareRecord:
    """CorruptError: it is none that Clew wrote."""
    if not ID.fullmatch(name):
        raise CorruptError(f"the record of a {kind} is damaged: {name[:40]!r} is no id")
    return decode_token(value) if kind == "token" else decode_share(value)
