"""The names of agents, and what people call them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

OTHER_NAMES: Final = {
    "claude": "claude-code",
    "claudecode": "claude-code",
    "gemini": "gemini-cli",
    "codex-cli": "codex",
    "open-code": "opencode",
    "open-router": "openrouter",
    "tingly": "tingly-box",
    "continue-dev": "continue",
    "code": "vscode",
    "vs-code": "vscode",
}
"""Short and other forms of names, and the names that they stand for."""


def agent_named(text: str, known: Collection[str]) -> str | None:
    """The one of some names that a text means, whatever its case: `claude` and `Claude Code` are
    `claude-code`. None: it means none of them."""
    if text in known:
        return text
    name = "-".join(text.lower().replace("_", " ").replace("-", " ").split())
    return next((one for one in (name, OTHER_NAMES.get(name)) if one in known), None)
