"""A small store that has something for every tool, and a call of each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import clew


class Call(NamedTuple):
    """A call of a tool, and words of its answer."""

    tool: str
    arguments: dict[str, Any]
    answer: str


CALLS: Final = (
    Call("search_sessions", {"query": "blue teapot", "include_current": True}, "I wrote it down"),
    Call("list_sessions", {}, "Tea for two"),
    Call("session_overview", {"session": "tea"}, "which teapot is for two?"),
    Call("read_session", {"place": "tea"}, "the blue teapot"),
    Call("diff_files", {"a": "tea@before", "b": "tea@after"}, "+blue"),
    Call("usage_summary", {"by": "model"}, "gpt-5"),
    Call("checkpoint", {"name": "noted", "session": "tea"}, "tea@noted"),
    Call("remember", {"note": "the blue teapot leaks", "place": "tea"}, "tea@"),
)
"""Every tool once, as an agent calls it."""
TEA: Final = "clew://session/tea"


def fill(address: Path, workspace: Path) -> None:
    """Write the sessions down: one with files before and after, one more."""
    workspace.mkdir(exist_ok=True)
    with clew.open(address) as store:
        tea = store.session("tea", title="Tea for two", workspace=workspace)
        tea.append({"role": "user", "content": "which teapot is for two?"})
        (workspace / "pots.txt").write_text("red\n")
        tea.checkpoint("before", files=workspace)
        tea.append({"role": "assistant", "content": "the blue teapot; I wrote it down"})
        (workspace / "pots.txt").write_text("blue\n")
        tea.checkpoint("after", files=workspace)
        tea.add_usage(model="gpt-5", input_tokens=100, output_tokens=20, cost="0.01")
        store.session("coffee", workspace=workspace).append({"role": "user", "content": "and coffee?"})
