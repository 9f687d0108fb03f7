"""Who sends a request: by the token in its Authorization header, or by the cookie of a browser.

Stored tokens and shares are read from the store, and remembered for a second at most: what was revoked is
refused by then, in cookies and open streams too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from clew.backends.contract import STORE_WIDE
from clew.core.log.grants import ShareRecord, TokenRecord, decode_share, decode_token
from clew.errors import CorruptError
from clew.server.access import audit, browser
from clew.server.access.principal import OWNER, Principal, with_lesser
from clew.server.access.secret import OWN, is_hash_of, is_same, parsed
from clew.server.access.state import own_token
from clew.server.problems import Problem

if TYPE_CHECKING:
    from clew.store import Store

FRESH: Final = 1.0
"""Seconds for which a record is believed to be as it was read."""
_MOST: Final = 1000
_SECOND: Final = 1_000_000


class Credential(NamedTuple):
    """What a request shows. Never printed with its token."""

    id: str
    """Of the principal that it claims to be."""
    token: str | None
    """None: a cookie, whose signature was found to be right."""
    until: int | None = None
    """Of a cookie, in seconds since 1970."""
    nonce: str = ""

    def __repr__(self) -> str:
        return f"<credential of {self.id}>"


class SignIn:
    """Recognises callers. Safe to use from any thread; `find` and `is_valid` may read the store."""

    def __init__(self, store: Store, token: str | None) -> None:
        """`token`: that of the owner; None: the one that is kept for this store."""
        self._store = store
        self._host = store._engine.host
        self._given = token
        self._own = ""
        self._era = -1
        self._key = b""
        self._known: dict[str, tuple[float, TokenRecord | ShareRecord | None]] = {}
        self._told: set[str] = set()
        """Tokens and shares of which the log has a line."""
        self._ended: dict[str, int] = {}
        """Cookies that were signed out, by their nonces."""
        self.forget()

    def forget(self) -> None:
        """Read everything again: the own token, and what is stored. For SIGHUP."""
        self._known.clear()
        own = self._given or own_token(self._store.location)
        if own != self._own:
            self._own, self._era, self._key = own, self._era + 1, browser.cookie_key(own)

    def forget_one(self, id: str) -> None:
        """Read a token or a share again: it was removed just now."""
        self._known.pop(id, None)

    # -- what a request shows

    def credential(self, headers: Mapping[str, str], cookie: str) -> Credential | None:
        """None: nothing. `cookie`: the name that it has here. No cookie makes up for a wrong token."""
        given = headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != "bearer":
                raise refused("the Authorization header is not of the form `Bearer TOKEN`")
            return self.credential_of(token.strip())
        for text in browser.cookies_in(headers.get("cookie", ""), cookie):
            found = browser.read_cookie(self._key, text, self.now())
            if found is not None and found.nonce not in self._ended:
                return Credential(found.id, None, found.until, found.nonce)
        return None

    def credential_of(self, token: str) -> Credential:
        if is_same(token, self._own):
            return Credential(OWN, token)
        found = parsed(token)
        if found is None or found.id == OWN:
            raise refused()
        return Credential(found.id, token)

    def is_known(self, credential: Credential) -> bool:
        """Whether `find` can answer without the store."""
        return credential.id == OWN or self._fresh(credential.id) is not None

    def find(self, credential: Credential) -> Principal:
        """The caller. Problem 401: there is none, the secret is wrong, or it was revoked or is over."""
        principal = self._find(credential.id, credential.token)
        if credential.token is None:
            assert credential.until is not None
            ends = [one for one in (credential.until * _SECOND, principal.expires) if one is not None]
            # A page has no use for the rows of the store: what runs in one must not have the database.
            scopes = principal.scopes - {"store"}
            principal = msgspec.structs.replace(
                principal, scopes=scopes, by_cookie=True, cookie=credential.nonce, expires=min(ends)
            )
        return principal

    def is_valid(self, principal: Principal) -> bool:
        """Whether this caller may still be served: streams ask every second or two."""
        if principal.expires is not None and principal.expires <= self._host.now():
            return False
        if principal.cookie in self._ended:
            return False
        if principal.kind == "owner":
            return principal.era == self._era
        try:
            self._find(principal.id, None)
        except Problem:
            return False
        return True

    # -- cookies

    def new_cookie(self, principal: Principal) -> tuple[str, int]:
        """The value of a cookie for this caller, and for how many seconds."""
        lasts = browser.COOKIE_LASTS
        if principal.expires is not None:
            lasts = max(0, min(lasts, (principal.expires - self._host.now()) // _SECOND))
        return browser.signed_cookie(self._key, principal.id, int(self.now()) + lasts), lasts

    def end_cookie(self, credential: Credential) -> None:
        """Refuse a cookie from now on."""
        now = int(self.now())
        self._ended = {nonce: until for nonce, until in self._ended.items() if until > now}
        if credential.until is not None:
            self._ended[credential.nonce] = credential.until

    def take_code(self, code: str, is_own: Callable[[], bool]) -> bool:
        """Whether it is a one-time code of this server, the first time. `is_own`: whether a program of this
        user shows it."""
        return browser.take_code(self._store.location, code, self.now(), is_own)

    def new_code(self) -> str:
        return browser.new_code(self._store.location, self.now())

    # -- records

    def _find(self, id: str, token: str | None) -> Principal:
        if id == OWN:
            return msgspec.structs.replace(OWNER, era=self._era)
        record = self._record(id)
        if record is None or (token is not None and not is_hash_of(token, record.hash)):
            raise refused()
        if record.expires is not None and record.expires <= self._host.now():
            raise refused("the token has expired", next="ask for a new one: clew token add")
        if isinstance(record, TokenRecord):
            return Principal(
                id=id,
                name=record.name,
                kind="token",
                scopes=with_lesser(record.scopes),
                workspace=record.workspace,
                tags=record.tags,
                expires=record.expires,
            )
        return Principal(
            id=id,
            name=f"share {id}",
            kind="share",
            scopes=frozenset({"read"}),
            session=record.session,
            head=record.head,
            title=record.title,
            redact=record.redact,
            expires=record.expires,
        )

    def _record(self, id: str) -> TokenRecord | ShareRecord | None:
        known = self._fresh(id)
        if known is not None:
            return known[1]
        found = self._read(id)
        self._tell(id, found)
        if found is not None:  # what is not there is not remembered: made-up ids would fill the memory
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[id] = (self._host.elapsed(), found)
        else:
            self._known.pop(id, None)
        return found

    def _tell(self, id: str, found: TokenRecord | ShareRecord | None) -> None:
        """The log says when a token or a share was used first, and that it was removed: `clew token` may have
        been called where there is no log."""
        if found is None and id in self._told:
            self._told.discard(id)
            audit.note("removed", by=id)
        elif found is not None and id not in self._told:
            if len(self._told) >= _MOST:
                self._told.clear()
            self._told.add(id)
            name = found.name if isinstance(found, TokenRecord) else found.session
            audit.note("first use", by=id, name=name)

    def _fresh(self, id: str) -> tuple[float, TokenRecord | ShareRecord | None] | None:
        known = self._known.get(id)
        return known if known is not None and self._host.elapsed() - known[0] < FRESH else None

    def _read(self, id: str) -> TokenRecord | ShareRecord | None:
        with self._store._engine.read() as reader:
            try:
                if id.startswith("t"):
                    value = reader.get_record(STORE_WIDE, "token", id)
                    return None if value is None else decode_token(value)
                value = reader.get_record(STORE_WIDE, "share", id)
                share = None if value is None else decode_share(value)
            except CorruptError:
                return None
            if share is None:
                return None
            row = reader.find_session(share.session)
            return share if row is not None and row.sid == share.sid else None

    def now(self) -> float:
        """Seconds since 1970, by the clock of the store."""
        return self._host.now() / _SECOND


def refused(detail: str = "the token is not valid here", *, next: str | None = None) -> Problem:
    """The same answer for a token that is unknown, wrong, or revoked."""
    return Problem(
        401,
        "unauthorized",
        "A token is needed",
        detail,
        next=next or "send Authorization: Bearer TOKEN; clew serve says where the token is kept",
        headers={"www-authenticate": "Bearer"},
    )
