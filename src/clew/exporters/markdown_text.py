"""Untrusted text inside a Markdown page: it keeps its look where that is harmless, and stays in its place.

What was said stands in a quote, and every line of it is rewritten here: tags, headings, definitions of links,
images and links to anything but web pages lose their effect. Code stands in fences of our own, longer than
any run of fence characters inside.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Final

from clew.exporters.visible import visible, visible_line

_PUNCTUATION: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")
_FENCE: Final = re.compile(
    r"^(?P<lead>[ \t]{0,12}(?:(?:[-+*]|\d{1,9}[.)])[ \t]{1,4})?)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$"
)
_CONTAINERS: Final = re.compile(r"^(?:[ \t]|>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))*")
_RULER: Final = re.compile(r"^(?P<lead>[ \t>]*)(?:=+|-+)[ \t]*$")
_TOKEN: Final = re.compile(r"\\.|`+|!\[|\]\(|\]:|<")
_HARMLESS_LINK: Final = re.compile(
    r"(?i)[ \t]*+<?+(?!//)(?:https?://|mailto:|#|[\w./~+-]++(?:[#?][\w=&.-]*+)?>?(?=[ )]|\Z))"
)
"""How a link begins that leads to a web page, or to a place in this page or beside it; without escapes."""
_TICKS: Final = re.compile("`+")
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,30}")


def inline(text: str) -> str:
    """A name or a title, as nothing but its letters."""
    return _PUNCTUATION.sub(r"\\\1", visible_line(text))


def fence(text: str, language: str = "") -> Iterator[str]:
    """Lines of code, in a fence that nothing inside can close."""
    shown = visible(text)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    ticks = "`" * max(3, longest + 1)
    yield f"{ticks}{language if _LANGUAGE.fullmatch(language) else ''}"
    yield from shown.split("\n")
    yield ticks


def quote(text: str) -> Iterator[str]:
    """Lines of speech, in a quote."""
    for line in _speech(visible(text).split("\n")):
        yield f"> {line}" if line else ">"


def _speech(said: list[str]) -> Iterator[str]:
    at = 0
    while at < len(said):
        opening = _FENCE.match(said[at])
        if opening is None:
            yield _prose(said[at])
            at += 1
            continue
        end = _closing(said, at, opening["fence"])
        if not opening["lead"].isspace() and opening["lead"]:
            yield opening["lead"].rstrip()
        yield from fence("\n".join(said[at + 1 : end]), opening["info"].strip())
        at = end + 1


def _closing(said: list[str], start: int, fence: str) -> int:
    """The line that closes a fence; the end of the text if none does."""
    for at in range(start + 1, len(said)):
        line = said[at].strip(" \t")
        if len(line) >= len(fence) and line == fence[0] * len(line):
            return at
    return len(said)


def _prose(line: str) -> str:
    """A line outside of code: marks of lists, tables and emphasis work, the rest is letters."""
    if ruler := _RULER.match(line):  # also a mark of a list with nothing behind it
        return f"{ruler['lead']}\\{line[ruler.end('lead') :]}"
    start = _CONTAINERS.match(line)
    head = start[0] if start else ""
    rest = line[len(head) :]
    if rest.startswith(("#", "~~~")):
        head += "\\"
    return head + _inert(rest)


def _inert(text: str) -> str:
    """Without tags, images, definitions and doubtful links; code spans stay if they end on this line."""
    out: list[str] = []
    spans = _CodeSpans(text)
    at = 0
    while (found := _TOKEN.search(text, at)) is not None:
        out.append(text[at : found.start()])
        token, at = found[0], found.end()
        if token[0] == "`":
            span = spans.between(at, len(token))
            if span is None:
                out.append("\\`" * len(token))
            else:
                out.append(token + span + token)
                at += len(span) + len(token)
        elif token == "<":
            out.append("&lt;")
        elif token == "![":
            out.append("\\![")
        elif token == "](":
            out.append("](" if _HARMLESS_LINK.match(text, at) else "]\\(")
        elif token == "]:":
            out.append("]\\:")
        else:
            out.append(token)
    return "".join(out) + text[at:]


class _CodeSpans:
    """Where the runs of backticks of a line are, by their length: each is looked for once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: dict[int, deque[int]] | None = None

    def between(self, at: int, ticks: int) -> str | None:
        """What stands between so many backticks, which end here, and the next equal ones. A cell of a
        table would cut it."""
        if self._runs is None:
            self._runs = {}
            for found in _TICKS.finditer(self._text, at):
                self._runs.setdefault(len(found[0]), deque()).append(found.start())
        starts = self._runs.get(ticks, deque())
        while starts and starts[0] < at:
            starts.popleft()
        if not starts:
            return None
        span = self._text[at : starts[0]]
        return None if "|" in span and "<" in span else span
