"""From files of other programs, and from our own format, into a store.

To add one: a module that is a `Reader` (see contract.py), and its line here. The content of a file is shown
to them in this order: the telling formats before those that are hard to tell.
"""

from __future__ import annotations

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
REVISIONS: Final[dict[str, int]] = {"openrouter": 2}
"""Readers that read more, or otherwise, than they did before: raise the number of one (from 1), and its files
are read once more, though they did not change. A new release does that for all."""
