"""The tools of `clew mcp` as functions over the library."""

from __future__ import annotations

from clew.server.mcp.budget import tokens
from clew.server.mcp.factory import described
from clew.server.mcp.tools import TOOLS
from tests.server.mcp import reference


def test_the_definitions_take_little_room_in_the_context_of_a_model() -> None:
    told = [described(tool).model_dump(by_alias=True, exclude_none=True) for tool in TOOLS]
    in_context = [{name: one[name] for name in ("name", "description", "inputSchema")} for one in told]
    assert tokens(in_context) < 1200
    assert tokens(told) < 2200, "with the output schemas, which clients keep to themselves"


def test_no_tool_deletes_purges_restores_or_rewinds() -> None:
    assert [tool.name for tool in TOOLS] == [
        "search_sessions",
        "list_sessions",
        "session_overview",
        "read_session",
        "diff_files",
        "usage_summary",
        "checkpoint",
        "remember",
    ]
    assert [tool.name for tool in TOOLS if tool.needs == "write"] == ["checkpoint", "remember"]


def test_the_reference_is_that_of_the_tools() -> None:
    _, _, rest = reference.PAGE.read_text("utf-8").partition(reference.BEGIN)
    written, _, _ = rest.partition(reference.END)
    assert written.strip() == reference.reference().strip(), "run python -m tests.server.mcp.reference"
