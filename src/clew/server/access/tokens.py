"""Stored tokens: made, listed and removed by `clew token`, kept as hashes in the store itself.

The own token of a server, which needs no store, is in `state.py`; both are asked for here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.conversation.sessions import normalised
from clew.core.log.grants import MAX_NAME, SCOPES, Scope, TokenRecord, decode_grant, decode_token
from clew.core.log.ids import check_id
from clew.core.messages.text import escape_json
from clew.errors import ConflictError, InvalidError, NotFoundError
from clew.server.access import audit
from clew.server.access.secret import hash_of, new_id, new_secret
from clew.server.access.state import new_own_token, own_token, token_path

if TYPE_CHECKING:
    from datetime import timedelta

    from clew.store import Store

__all__ = ["Token", "add_token", "has_token", "list_tokens", "new_own_token", "own_token", "remove_token",
           "scopes_of", "token_path"]  # fmt: skip


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token, without its secret."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    workspace: str | None
    tags: tuple[str, ...]
    created: int
    """In microseconds since 1970."""
    expires: int | None
    is_expired: bool


def add_token(
    store: Store,
    name: str,
    *,
    scopes: Iterable[str] = ("read",),
    workspace: str | None = None,
    tags: Sequence[str] = (),
    lasts: timedelta | None = None,
) -> tuple[Token, str]:
    """A new token, and its text, which is nowhere else: it is shown once. ConflictError: there is one of this
    name. InvalidError: `store` cannot be bound to some sessions. Without `lasts` it has no end."""
    _check_name(name)
    scopes = scopes_of(scopes)
    if "store" in scopes and (workspace is not None or tags):
        raise InvalidError(
            "the scope `store` opens the whole store: leave out the workspace and the tags, or take one of"
            " the scopes read, write and files, which can be bound to them"
        )
    now = store._engine.host.now()
    record = TokenRecord(
        name=name,
        hash="",
        scopes=scopes,
        workspace=None if workspace is None else normalised(workspace),
        tags=tuple(dict.fromkeys(check_id(tag, "tag") for tag in tags)),
        created=now,
        expires=ending(now, lasts),
    )
    id = new_id("t")
    text = new_secret(id)
    record = msgspec.structs.replace(record, hash=hash_of(text))

    def work(tx: Transaction) -> None:
        if any(decode_token(value).name == name for _, value in tx.scan_records(STORE_WIDE, "token")):
            raise ConflictError(f"there is a token {name!r} already: remove it first, or take another name")
        tx.put_record(STORE_WIDE, "token", id, msgspec.json.encode(record))

    store._engine.run(work)
    audit.note("token made", name=name, id=id, scopes=",".join(record.scopes))
    return _token(id, record, now), text


def list_tokens(store: Store) -> list[Token]:
    """In the order in which they were made."""
    engine = store._engine
    with engine.read() as reader:
        found = [(id, decode_token(value)) for id, value in reader.scan_records(STORE_WIDE, "token")]
    now = engine.host.now()
    return sorted((_token(id, record, now) for id, record in found), key=lambda one: (one.created, one.id))


def has_token(store: Store) -> bool:
    """Whether there is one that is in force: beyond this machine no server listens without."""
    return any(not token.is_expired for token in list_tokens(store))


def remove_token(store: Store, name: str) -> Token:
    """Revoke the token of this name or id: servers soon refuse it. NotFoundError: there is none."""
    now = store._engine.host.now()

    def work(tx: Transaction) -> Token:
        for id, value in tx.scan_records(STORE_WIDE, "token"):
            record = decode_grant("token", id, value)
            assert isinstance(record, TokenRecord)
            if name in (record.name, id):
                tx.drop_record(STORE_WIDE, "token", id)
                return _token(id, record, now)
        raise NotFoundError(f"there is no token {name!r}; clew token ls lists them")

    removed = store._engine.run(work)
    audit.note("token removed", name=removed.name, id=removed.id)
    return removed


def scopes_of(names: Iterable[str]) -> tuple[Scope, ...]:
    """Scopes by their names, each once."""
    given = list(names)
    unknown = [name for name in given if name not in SCOPES]
    if unknown or not given:
        raise InvalidError(f"a scope is one of {', '.join(SCOPES)}, not {unknown[0] if unknown else ''!r}")
    return tuple(scope for scope in SCOPES if scope in given)


def ending(now: int, lasts: timedelta | None) -> int | None:
    """When something ends that begins now."""
    return None if lasts is None else now + round(lasts.total_seconds() * 1_000_000)


def _check_name(name: str) -> None:
    if not name or len(name) > MAX_NAME or not name.isprintable() or name != name.strip():
        shown = escape_json(name[:40])
        raise InvalidError(
            f"{shown!r} cannot name a token: a name has 1 to {MAX_NAME} letters that can be printed"
        )


def _token(id: str, record: TokenRecord, now: int) -> Token:
    return Token(
        id=id,
        name=record.name,
        scopes=record.scopes,
        workspace=record.workspace,
        tags=record.tags,
        created=record.created,
        expires=record.expires,
        is_expired=record.expires is not None and record.expires <= now,
    )
