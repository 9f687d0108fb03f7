"""The tools, in the order in which clients list them."""

from __future__ import annotations

from typing import Final

from clew.server.mcp.schema import Tool
from clew.server.mcp.tools.files import DIFF_FILES
from clew.server.mcp.tools.marks import CHECKPOINT, REMEMBER
from clew.server.mcp.tools.overview import SESSION_OVERVIEW
from clew.server.mcp.tools.read import READ_SESSION
from clew.server.mcp.tools.search import SEARCH_SESSIONS
from clew.server.mcp.tools.sessions import LIST_SESSIONS
from clew.server.mcp.tools.usage import USAGE_SUMMARY
from clew.server.mcp.view import View

TOOLS: Final[tuple[Tool, ...]] = (
    SEARCH_SESSIONS,
    LIST_SESSIONS,
    SESSION_OVERVIEW,
    READ_SESSION,
    DIFF_FILES,
    USAGE_SUMMARY,
    CHECKPOINT,
    REMEMBER,
)
"""None of them deletes, purges, restores or rewinds."""


def tools_for(view: View) -> dict[str, Tool]:
    """Those that a caller may use, by name."""
    return {tool.name: tool for tool in TOOLS if view.may(tool.needs)}
