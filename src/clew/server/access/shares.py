"""Shares: one session that may be read by everyone who has the link, and what such a link reaches.

A share reads one session: as it was up to one entry, without a word of what came later, or live. It reaches
the routes that are named here, and no other; it never leads to other branches, to forks, to other sessions of
the tree or to files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.conversation.history import standing_at
from clew.core.conversation.points import Point, head_of
from clew.core.log.grants import ShareRecord, decode_share
from clew.errors import NotFoundError
from clew.model import Head
from clew.server.access import audit
from clew.server.access.secret import hash_of, new_id, new_secret
from clew.server.access.tokens import ending
from clew.server.problems import Problem

if TYPE_CHECKING:
    from datetime import timedelta

    from clew.server.access.principal import Principal
    from clew.server.routing import Route
    from clew.session import Session
    from clew.store import Store

_SESSION: Final = "/api/v1/sessions/{id}"
REACHED: Final = frozenset(
    {
        _SESSION,
        f"{_SESSION}/entries",
        f"{_SESSION}/entries/{{entry}}",
        f"{_SESSION}/entries/{{entry}}/media/{{number}}",
        f"{_SESSION}/context",
        f"{_SESSION}/summary",
        f"{_SESSION}/export",
        f"{_SESSION}/live",
        "/api/v1/me",
    }
)
"""The paths that a share may GET."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share, without its secret."""

    id: str
    session: str
    head: str | None
    """The entry up to which it is shared; None: live."""
    redact: bool
    created: int
    expires: int | None
    is_expired: bool


def place_of(session: Session, point: Point | None) -> Head:
    """Where a point of a session is; None: where it stands."""
    with session._look() as (reader, row):
        return head_of(reader, standing_at(reader, row, point).head)


def add_share(
    store: Store,
    session: Session,
    *,
    at: Head | None,
    redact: bool = True,
    lasts: timedelta | None = None,
) -> tuple[Share, str]:
    """A new share, and its token, which is nowhere else. `at`: only what leads to this place; None: live."""
    now = store._engine.host.now()
    id = new_id("s")
    text = new_secret(id)
    info = session.info
    record = ShareRecord(
        session=session.id,
        sid=session._sid,
        head=None if at is None else head_text(at),
        title=info.title if at == info.head and not info.title_is_auto else None,
        redact=redact,
        hash=hash_of(text),
        created=now,
        expires=ending(now, lasts),
    )
    store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "share", id, msgspec.json.encode(record)))
    audit.note("share made", id=id, session=session.id, head=record.head)
    return _share(id, record, now), text


def list_shares(store: Store, session: str | None = None) -> list[Share]:
    """In the order in which they were made; `session`: only those of the session of this id."""
    engine = store._engine
    with engine.read() as reader:
        found = [(id, decode_share(value)) for id, value in reader.scan_records(STORE_WIDE, "share")]
    now = engine.host.now()
    shares = (_share(id, record, now) for id, record in found if session in (None, record.session))
    return sorted(shares, key=lambda one: (one.created, one.id))


def remove_share(store: Store, id: str) -> Share:
    """Revoke a share: its link shows nothing any more. NotFoundError: there is none of this id."""
    now = store._engine.host.now()

    def work(tx: Transaction) -> Share:
        value = tx.get_record(STORE_WIDE, "share", id)
        if value is None:
            raise NotFoundError(f"there is no share {id!r}; clew share ls lists them")
        tx.drop_record(STORE_WIDE, "share", id)
        return _share(id, decode_share(value), now)

    removed = store._engine.run(work)
    audit.note("share removed", id=id, session=removed.session)
    return removed


def link(url: str, token: str) -> str:
    """Where a browser shows a share. The token stands in the fragment, which no browser sends anywhere."""
    return f"{url.rstrip('/')}/#share={quote(token)}"


def head_text(head: Head) -> str:
    """A place as the id of its entry; the empty beginning has none, and is written as `start`."""
    return f"{head.branch}.{head.position}" if head.position >= 0 else "start"


def check_reach(principal: Principal, route: Route) -> None:
    """Refuse whatever a share does not name."""
    if route.method == "GET" and route.path in REACHED:
        return
    raise Problem(
        403,
        "shared_only",
        "A share shows one session only",
        "this link reads the messages of one session, and nothing else",
        next=f"GET /api/v1/sessions/{quote(principal.session or '', safe='')}/entries shows it",
    )


def _share(id: str, record: ShareRecord, now: int) -> Share:
    return Share(
        id=id,
        session=record.session,
        head=record.head,
        redact=record.redact,
        created=record.created,
        expires=record.expires,
        is_expired=record.expires is not None and record.expires <= now,
    )
