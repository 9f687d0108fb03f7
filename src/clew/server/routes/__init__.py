"""What the server answers: each route is a thin face of a call of the library."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from clew.server.process.settings import Settings
from clew.server.routing import Route

MODULES: Final = (
    "clew.server.routes.sessions",
    "clew.server.routes.entries",
    "clew.server.routes.moves",
    "clew.server.routes.checkpoints",
    "clew.server.routes.beside",
    "clew.server.routes.status",
    "clew.server.routes.runs",
    "clew.server.routes.streams",
    "clew.server.routes.search",
    "clew.server.routes.files",
    "clew.server.routes.restores",
    "clew.server.routes.transfer",
    "clew.server.routes.handoff",
    "clew.server.live.routes",
    "clew.server.routes.store",
    "clew.server.process.routes",
    "clew.server.routes.login",
    "clew.server.conversations.routes",
    "clew.server.rows.routes",
)
"""Each has `routes`, in the order in which the reference lists them."""
MCP: Final = "clew.server.mcp.http.routes"
PAGE: Final = "clew.server.page"


def all_routes(settings: Settings) -> list[Route]:
    """All routes that a server with these settings has."""
    names = [*MODULES, *([MCP] if settings.mcp else []), *([PAGE] if settings.page else [])]
    return [route for name in names for route in import_module(name).routes.all]
