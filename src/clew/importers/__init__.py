"""From files of other programs, and from our own format, into a store.

To add one: a module that is a `Reader` (see contract.py), and its line here. The content of a file is shown
to them in this order: the telling formats before those that are hard to tell.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

READERS: Final[dict[str, str]] = {
    "claude-code": "clew.importers.programs.claude_code.reader",
    "codex": "clew.importers.programs.codex.reader",
    "gemini-cli": "clew.importers.programs.gemini_cli.reader",
    "opencode": "clew.importers.programs.opencode.reader",
    "pi": "clew.importers.programs.pi",
    "cline": "clew.importers.programs.cline",
    "goose": "clew.importers.programs.goose",
    "llm": "clew.importers.programs.llm",
    "ggcode": "clew.importers.programs.ggcode",
    "picoclaw": "clew.importers.programs.picoclaw",
    "tingly-box": "clew.importers.programs.tingly_box",
    "ductwork": "clew.importers.programs.ductwork",
    "openrouter": "clew.importers.programs.openrouter",
    "continue": "clew.importers.programs.continue_dev",
    "aider": "clew.importers.programs.aider",
}
OWN: Final = "jsonl"
"""Clew's own format, in which a session comes back with everything, ids and hashes too."""
REVISIONS: Final[dict[str, int]] = {
    "claude-code": 2,
    "codex": 2,
    "gemini-cli": 2,
    "openrouter": 2,
    "pi": 2,
    "tingly-box": 2,
}
"""Readers that read more, or otherwise, than they did before: raise the number of one (from 1), and its files
are read once more, though they did not change. A new release does that for all."""
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
