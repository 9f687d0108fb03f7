"""The words of the person in a prompt, for titles and previews: agents put a lot around them.

Cline and Roo mark what the person wrote; they and others add what their model is to know: open files, the
environment, reminders. A prompt is looked through once for each mark, however it was made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_OF_PEOPLE: Final = ("task", "user_message", "feedback", "answer")
_OF_PROGRAMS: Final = (
    "environment_details",
    "system-reminder",
    "explicit_instructions",
    "file_content",
    "folder_content",
    "url_content",
    "terminal_output",
    "workspace_diagnostics",
    "git_working_state",
    "git_commit",
    "hook_context",
    "session_context",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
)
_EDITOR: Final = "# Context from my IDE setup:"
_REQUEST: Final = "## My request for Codex:"
"""Codex in an editor puts the prompt behind this, and what is open there before it."""


def own_words(text: str) -> str:
    """What the person wrote; all of it if nothing was put around it."""
    if text.startswith(_EDITOR) and _REQUEST in text:
        return text.rpartition(_REQUEST)[2].strip()
    if "</" not in text:
        return text
    for tag in _OF_PROGRAMS:
        text = without(text, tag)
    return marked_words(text) or text.strip()


def marked_words(text: str) -> str:
    """What is marked as the words of the person; empty if nothing is."""
    begins = len(text) - len(text.lstrip())
    found = [
        (start, words)
        for tag in _OF_PEOPLE
        for start, words in inside(text, tag)
        if start == begins or words.startswith(("\n", "\r"))
    ]
    return "\n\n".join(words.strip() for _, words in sorted(found))


def without(text: str, tag: str) -> str:
    """The text without such tags and what is in them."""
    opening, closing = f"<{tag}", f"</{tag}>"
    kept: list[str] = []
    at = look = 0
    while (start := text.find(opening, look)) >= 0:
        look = start + len(opening)
        if not text.startswith((">", " ", "\n"), look):
            continue  # a longer name
        end = text.find(closing, look)
        if end < 0:
            break
        kept.append(text[at:start])
        at = look = end + len(closing)
    return "".join([*kept, text[at:]]) if kept else text


def inside(text: str, tag: str) -> Iterator[tuple[int, str]]:
    """Where each such tag begins, and what is in it."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    at = 0
    while (start := text.find(opening, at)) >= 0:
        inside = start + len(opening)
        end = text.find(closing, inside)
        if end < 0:
            return
        yield start, text[inside:end]
        at = end + len(closing)
