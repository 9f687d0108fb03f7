"""The store as a whole, and the server itself."""

from __future__ import annotations

import msgspec

from clew.model import Json, Stats
from clew.server.call import Call
from clew.server.routing import Routes, Scope

routes = Routes()
outside = Routes(prefix="")


class Health(msgspec.Struct, frozen=True):
    """Whether the server answers."""

    status: str


class Me(msgspec.Struct, frozen=True):
    """The caller."""

    name: str
    kind: str
    scopes: tuple[Scope, ...]
    workspace: str | None
    tags: tuple[str, ...]
    session: str | None


@outside.get("/health", answer=Health, scope=None)
def health(call: Call) -> Health:
    """Whether the server answers. Needs no token, and says nothing else."""
    return Health("ok")


@routes.get("/me", answer=Me)
def me(call: Call) -> Me:
    """Who the caller is, and what it may do."""
    one = call.principal
    scopes: tuple[Scope, ...] = ("read", "write", "files", "admin")
    return Me(one.name, one.kind, tuple(filter(one.may, scopes)), one.workspace, one.tags, one.session)


@routes.get("/stats", answer=Stats)
def stats(call: Call) -> Stats:
    """Totals of the store."""
    return call.store.stats()


@routes.get("/openapi.json", answer=None, scope=None)
def openapi(call: Call) -> dict[str, Json]:
    """This description of the API, as OpenAPI 3.1."""
    from clew.server.openapi import document

    return document(call.server.router.routes)


routes.all += outside.all
