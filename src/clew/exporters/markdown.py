"""A session as a Markdown page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from clew.core.log.origin import origin_of
from clew.exporters.blocks import Block
from clew.exporters.markdown_text import fence, inline, quote
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.transcript import Transcript, Turn

if TYPE_CHECKING:
    from clew.store import Store

SPEAKERS: Final = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
    "system": "System",
    "other": "Other",
    "mark": "Mark",
}


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
