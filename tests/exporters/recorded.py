"""Sessions of real agents, and what another agent should see of them."""

from __future__ import annotations

from typing import Any

import clew
from clew.core.messages.dialects import role_of, text_of
from clew.exporters.programs.turns import Turn, read_turns, without_setup

LOGIN = "claude-code:4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21"
"""Thoughts, parallel calls, errors, a compaction, commands."""
PASSWORDS = "codex:01a1deb8-bf60-73a2-af7e-daebb74aea2f"
USERS = "pi:01a1cf6f-43d0-7661-8aa0-6c35780954b4"
REVIEW = "gemini-cli:56798506-8af5-468e-95d7-499e72736cad"
HINTS = "opencode:ses_e1bd929b5ffeYl52784S2StCVh"
INVOICES = "claude-code:9c2f51d8-06ba-4b7e-8a43-e1d7c05f9b36"
GERMAN = "gemini-cli:0db0cf82-5357-4a16-ad90-ade902cac7b8"
ALL = [LOGIN, INVOICES, PASSWORDS, USERS, GERMAN, HINTS, f"{LOGIN}/agent-a24433f5b25410bcc"]
PLACES = (".claude/projects", ".codex", ".pi", ".gemini/tmp", ".local/share/opencode")


def whole(store: clew.Store, id: str, **at: Any) -> list[tuple[Any, ...]]:
    """All that was said, called and answered, without what belongs to the first agent."""
    return seen(without_setup(read_turns(store.get(id), **at).turns))


def in_view(store: clew.Store, id: str, **at: Any) -> list[tuple[Any, ...]]:
    return seen(without_setup(read_turns(store.get(id), **at).view()))


def seen(turns: list[Turn]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for turn in turns:
        if turn.text:
            found.append(("assistant" if turn.speaker == "assistant" else "user", turn.text))
        found += [("call", c.name, c.arguments, c.answer.text, c.answer.is_error) for c in turn.calls]
    return found


def said_by_user(store: clew.Store, id: str) -> list[str]:
    """What a person said on the path, since the last compaction."""
    found: list[str] = []
    for entry in store.get(id).entries():
        if entry.kind == "compaction":
            found = []
        elif entry.kind == "message" and role_of(entry.message) == "user" and not entry.injected:
            found.append(text_of(entry.message))
    return [text for text in found if text]
