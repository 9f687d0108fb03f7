"""How a browser signs in and out."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from clew.server.access import audit
from clew.server.access.browser import CODE_LASTS, cookie_name, set_cookie
from clew.server.access.peer import is_own_user
from clew.server.access.principal import OWNER, Principal
from clew.server.access.sign_in import refused
from clew.server.call import Answer, Call
from clew.server.problems import Problem
from clew.server.routing import Routes

routes = Routes()


class Login(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a browser shows: a one-time code, or a token."""

    once: str | None = None
    token: str | None = None


class SignedIn(msgspec.Struct, frozen=True):
    """Who is signed in by the cookie that came with this answer."""

    name: str
    expires_at: datetime


class Code(msgspec.Struct, frozen=True):
    """A one-time code for a browser."""

    once: str
    path: str
    """Where a browser uses it, below the address of the server. The code stands in the fragment."""
    expires_at: datetime


@routes.post("/login", answer=SignedIn, scope=None)
def login(call: Call, body: Login) -> Answer:
    """Swap a one-time code, or a token, for a cookie.

    For browsers. Programs send their token in the Authorization header with each request.
    """
    if call.asked.origin is not None and not call.asked.is_own_page:
        raise Problem(
            403, "foreign_origin", "Pages of other sites cannot sign in here", "the Origin is another one"
        )
    principal = _shown(call, body)
    cookie, lasts = call.server.sign_in.new_cookie(principal)
    header = set_cookie(
        cookie_name(call.asked.port), cookie, path=_path(call), secure=call.asked.is_https, lasts=lasts
    )
    ends = datetime.fromtimestamp(call.server.sign_in.now() + lasts, UTC)
    audit.note("signed in", by=principal.name, client=call.client)
    return Answer(value=SignedIn(principal.name, ends), headers={"set-cookie": header})


@routes.post("/logout", scope=None, status=204)
def logout(call: Call) -> Answer:
    """End the session of this browser: its cookie is worth nothing any more."""
    name = cookie_name(call.asked.port)
    cookie = call.header("cookie") or ""
    credential = call.server.sign_in.credential({"cookie": cookie}, name)
    if credential is not None:
        call.server.guard.check_cookie(call.asked, "DELETE", call.headers)
        call.server.sign_in.end_cookie(credential)
    gone = set_cookie(name, "", path=_path(call), secure=call.asked.is_https, lasts=0)
    return Answer(status=204, headers={"set-cookie": gone})


@routes.post("/login/codes", answer=Code, scope="admin", status=201)
def new_code(call: Call) -> Code:
    """Make a one-time code, with which a browser signs in as the owner within two minutes."""
    if call.principal.kind != "owner":
        raise Problem(403, "forbidden", "Only the owner's token makes codes", "a code signs in as the owner")
    once = call.server.sign_in.new_code()
    ends = datetime.fromtimestamp(call.server.sign_in.now() + CODE_LASTS, UTC)
    return Code(once, call.url(f"/#once={once}"), ends)


def _shown(call: Call, body: Login) -> Principal:
    server = call.server
    if body.once is not None:
        if server.sign_in.take_code(body.once, lambda: _is_own(call)):
            return OWNER
        server.limits.failed(call.asked)
        raise refused(
            "this sign-in link has expired or was already used",
            next="clew serve --sign-in prints a new one",
        )
    if body.token is None:
        raise Problem(422, "invalid", "The request is not valid", "send `once` or `token`")
    try:
        principal = server.sign_in.find(server.sign_in.credential_of(body.token))
    except Problem:
        server.limits.failed(call.asked)
        raise
    if principal.kind == "share":
        raise refused(
            "the token of a share signs in nobody: open its link",
            next="programs send it in the Authorization header",
        )
    return principal


def _is_own(call: Call) -> bool:
    """Whether a program of the user of this server sent it, on this machine, and through no proxy."""
    client, server = call.asked.ends
    return call.asked.is_local and bool(client and server) and is_own_user(client, server)


def _path(call: Call) -> str:
    return call.server.settings.root_path.rstrip("/") or "/"
