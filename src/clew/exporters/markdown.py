"""A session as a Markdown page.

The text in it is untrusted. It keeps its look where that is harmless, and stays in its place.

What was said stands in a quote, and every line of it is rewritten here: tags, headings, definitions of links,
images and links to anything but web pages lose their effect. Code stands in fences of our own, longer than
any run of fence characters inside.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from clew.core.log.records import origin_of
from clew.core.messages.text import visible, visible_line
from clew.exporters.blocks import Block
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.transcript import SPEAKERS, Transcript, Turn

if TYPE_CHECKING:
    from clew.store import Store

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


# -- the page


def pieces(
    store: Store,
    id: str,
    *,
    whole: bool = False,
    tools: bool = True,
    thinking: bool = True,
    redact: bool | Redactor = False,
) -> Iterator[bytes]:
    """The page, entry by entry.

    Args:
        store: Where the session is.
        id: Its id or alias.
        whole: All branches, each under a heading of its own; else the path to the head.
        tools: With tool calls and their results.
        thinking: With what the model thought.
        redact: Without secrets. A `Redactor` of yours can report what it replaced.
    """
    transcript = Transcript(store, id, whole=whole, redactor=redactor_of(redact))
    numbers = {branch.uid: number for number, branch in enumerate(transcript.outline.branches, 1)}
    current = frozenset(transcript.outline.current.segments)
    yield _text(_head(transcript))
    hidden = _hidden(tools=tools, thinking=thinking)
    segment = -1
    for turn in transcript.turns():
        if turn.segment != segment and whole:
            yield _text(_segment_head(transcript, turn.segment, numbers, current))
        segment = turn.segment
        blocks = [block for block in turn.blocks if block.kind not in hidden]
        if blocks:
            yield _text(_turn(turn, blocks))
    if transcript.redactor is not None:
        yield f"*{transcript.redactor.report().total} secrets were replaced.*\n".encode()


def _hidden(*, tools: bool, thinking: bool) -> set[str]:
    return (set() if tools else {"call", "result"}) | (set() if thinking else {"thinking"})


def _text(lines: Iterator[str]) -> bytes:
    return ("\n".join(lines) + "\n\n").encode()


def _head(transcript: Transcript) -> Iterator[str]:
    info = transcript.info
    yield f"# {inline(info.title or info.id)}"
    yield ""
    yield f"- Session: {inline(info.id)}"
    origin = origin_of(info.metadata)
    if origin is not None:
        program = inline(origin.format) if origin.format else "another program"
        yield f"- Imported from a file of {program}, which says who spoke"
    if info.model:
        yield f"- Model: {inline(info.model)}"
    if info.workspace:
        yield f"- Workspace: {inline(info.workspace)}"
    if info.tags:
        yield f"- Tags: {inline(', '.join(info.tags))}"
    yield f"- From {info.created_at:%Y-%m-%d %H:%M} to {info.updated_at:%Y-%m-%d %H:%M} UTC"
    yield f"- Messages: {info.messages}"


def _segment_head(
    transcript: Transcript, number: int, numbers: Mapping[str, int], current: Collection[int]
) -> Iterator[str]:
    """Which branch goes on here, and where it comes from. Headings of entries are one level below.
    `numbers`: of the branches, by uid; `current`: the segments of the path."""
    outline = transcript.outline
    segment = outline.segments[number]
    branch = outline.branches[segment.branch]
    mark = " (current)" if number in current else ""
    yield f"## Branch {segment.branch + 1}, from {segment.first} to {segment.last}{mark}"
    if segment.first == branch.fork + 1 and branch.parent is not None:
        yield ""
        yield f"Continues branch {numbers[branch.parent]} after {branch.fork}."


def _turn(turn: Turn, blocks: list[Block]) -> Iterator[str]:
    yield f"### {SPEAKERS[turn.speaker]} · {turn.position} · {turn.time:%Y-%m-%d %H:%M:%S}"
    notes = [f"Label: {inline(turn.label)}"] if turn.label else []
    notes += [f"Checkpoint: {inline(name)}" for name in turn.checkpoints]
    for note in notes:
        yield ""
        yield f"*{note}*"
    for block in blocks:
        yield ""
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block.kind:
        case "text":
            if block.name:
                yield f"**{inline(block.name)}**"
                yield ""
            yield from quote(block.text) if block.text else ()
        case "thinking":
            yield "**Thinking**"
            yield ""
            yield from quote(block.text)
        case "call" | "result":
            what = "Call of" if block.kind == "call" else "Error of" if block.is_error else "Result of"
            yield f"**{what} {inline(block.name or 'a tool')}**"
            yield ""
            yield from fence(block.text, "json" if block.is_json else "")
        case "media":
            yield f"*{inline(_media(block))}*"
        case _:
            yield from fence(block.text, "json" if block.is_json else "")


def _media(block: Block) -> str:
    media = block.media
    if media is None:
        return "Media"
    size = "" if media.size is None else f", {media.size:,} bytes"
    return f"Not shown: {media.type or 'a file'} ({block.text or 'without a name'}{size})"
