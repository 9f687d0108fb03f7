"""The characters that act instead of being seen: the one table of them, for terminals and exports alike.

A transcript is untrusted. What a model, a tool or a web page wrote can hold terminal sequences, marks that
turn the writing direction, so that code reads otherwise than it runs, and instructions that are not seen.
All code that shows text asks here what to make visible. The joiner U+200D is not among them: emojis need it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

_BEYOND_ASCII: Final = (
    "\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # writing direction
    "\u2028\u2029"  # line ends
    "\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # nothing is seen of these
    "\ud800-\udfff"  # halves of surrogate pairs
)

ACTING: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
"""One such character; not a tab, nor a line feed."""
_RAW_IN_JSON: Final = re.compile(f"[{_BEYOND_ASCII}]")
"""JSON itself escapes the first 32 characters."""
_NOT_IN_A_LINE: Final = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")


def for_a_log(value: object) -> object:
    """A value as it may stand in a line of a log: whatever it is, it begins no line of its own."""
    if isinstance(value, (int, float)):
        return value
    text = str(value)
    return text if text.isprintable() else _NOT_IN_A_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


def picture_of(char: str, opening: str, closing: str) -> str:
    """Such a character as one that is seen: ␛ for a control character, else its code point in brackets."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"{opening}U+{code:04X}{closing}"


def escape_json(text: str) -> str:
    """JSON that means the same, in which no such character stands as itself."""
    return text if text.isascii() and "\x7f" not in text else _RAW_IN_JSON.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


# ── Texts for titles and previews: the beginning of a text, and the words of a person in a prompt ───

_ELLIPSIS: Final = "…"
_ZERO_WIDTH_JOINER: Final = "\u200d"


@cache
def _unprintable() -> re.Pattern[str]:
    """Controls that are not white space, halves of surrogate pairs, and the marks that switch the writing
    direction until another mark that the cut might lose. Seldom needed, and slow to compile."""
    return re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def snippet(text: str, limit: int) -> str:
    """At most `limit` code points of `text` on one line, cut between characters as people see them."""
    if limit <= 0:
        return ""
    line = _line(text, limit)
    if len(line) <= limit:
        return line
    cut = limit - len(_ELLIPSIS)
    while cut > 0 and _joins(line, cut):
        cut -= 1
    return line[:cut].rstrip() + _ELLIPSIS


def _line(text: str, limit: int) -> str:
    """The text on one line; of a long text no more than shows whether it exceeds the limit."""
    read = 2 * limit + 32
    while True:
        line = " ".join(text[:read].split())
        if not line.isprintable():  # seldom, and the test is much faster than the substitution
            line = " ".join(_unprintable().sub("", text[:read]).split())
        if len(line) > limit or read >= len(text):
            return line
        read *= 8


def _joins(text: str, cut: int) -> bool:
    """Do the code points on both sides of the cut make one visible character?"""
    after = text[cut]
    if after == _ZERO_WIDTH_JOINER or text[cut - 1] == _ZERO_WIDTH_JOINER:
        return True
    if unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    return _is_modifier(after) or (_is_flag_half(after) and _flag_halves_before(text, cut) % 2 == 1)


def _is_modifier(char: str) -> bool:
    """Skin tones, the tags of regional flags, the later letters of a Hangul syllable."""
    return (
        "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or "\u1160" <= char <= "\u11ff"
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_halves_before(text: str, cut: int) -> int:
    start = cut
    while start > 0 and _is_flag_half(text[start - 1]):
        start -= 1
    return cut - start


# -- the words of a person in a prompt
#
# Agents put a lot around them. Cline and Roo mark what the person wrote; they and others add what their model
# is to know: open files, the environment, reminders. A prompt is looked through once for each mark.

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


# ── Characters that act, made visible ─────────────────────────────────────────────────────────────
# Characters that act instead of being seen, made visible: terminal sequences, writing directions, tags.
#
# A transcript is untrusted. A reversed file name or an invisible instruction must not look like something
# else in an export, and a file that is shown in a terminal must not move its cursor.

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")


def visible(text: str) -> str:
    """The text with control characters as pictures, and colours of terminals left out."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return ACTING.sub(lambda found: picture_of(found[0], "\u27e6", "\u27e7"), text)


def visible_line(text: str) -> str:
    """The same on one line, for titles and names."""
    return " ".join(visible(text).split())
