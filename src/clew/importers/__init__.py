"""From files of other programs, and from our own format, into a store.

To add one: a module that is a `Reader` (see contract.py), and its line here. The content of a file is shown
to them in this order: the telling formats before those that are hard to tell.
"""

from __future__ import annotations

from typing import Final

READERS: Final[dict[str, str]] = {
    "claude-code": "clew.importers.claude_code",
    "codex": "clew.importers.codex",
    "gemini-cli": "clew.importers.gemini_cli",
    "opencode": "clew.importers.opencode",
    "pi": "clew.importers.pi",
    "cline": "clew.importers.cline",
    "goose": "clew.importers.goose",
    "llm": "clew.importers.llm",
    "ggcode": "clew.importers.seed_ggcode",
    "picoclaw": "clew.importers.seed_picoclaw",
    "tingly-box": "clew.importers.seed_tingly",
    "ductwork": "clew.importers.seed_ductwork",
    "openrouter-agent-sdk": "clew.importers.seed_openrouter",
    "continue": "clew.importers.continue_dev",
    "aider": "clew.importers.aider",
}
OWN: Final = "jsonl"
"""Clew's own format, in which a session comes back with everything, ids and hashes too."""
