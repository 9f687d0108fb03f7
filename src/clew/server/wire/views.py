"""An entry as a caller asked for it: raw, as blocks, as HTML, as one line. Pages and live streams use it.

Nothing of a store is trusted here: a body that is not one JSON object is damage, never part of an answer;
HTML comes from the functions that draw exported pages, which escape and sanitise.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from clew.core.messages.text import own_words, snippet, visible_line
from clew.exporters.blocks import Block
from clew.exporters.html import draw_folded, draw_said
from clew.exporters.page.calls import (
    PDF,
    draw_answer,
    draw_asked,
    draw_call,
    draw_result,
    draw_text,
    picture,
    told_of,
)
from clew.exporters.page.text import code_block, prose
from clew.exporters.redact import Redactor
from clew.exporters.tools import Gist
from clew.exporters.transcript import Turn, turn_of
from clew.model import Entry
from clew.server.access.documents import ShareRedactor
from clew.server.wire.entries import BlockView, EntryMark, EntryView, LargeBody, MediaView, ToolLine, View

if TYPE_CHECKING:
    from clew.server.call import Call
    from clew.session import Session

LARGE_BODY: Final = 256 * 1024
"""Bytes of a message; a larger one is given as a link."""
SMALL_MEDIA: Final = 32 * 1024
"""Bytes of an image that is given inside its block."""
MOST_CALLS: Final = 1000
"""Tool calls that are remembered for their results."""
LINE: Final = 200
"""Letters of what was said, in one line."""

KEPT: Final = 16 * 1024 * 1024
"""Letters of HTML and its texts that are kept for the next reader,"""
LONGEST_KEPT: Final = 64 * 1024
"""and of one of them."""
LOOK_BACK: Final = 64
"""Entries before a page that are looked at for the calls whose results are on it."""

Earlier = Callable[[Entry], Iterable[Entry]]
"""Some entries of the path before an entry."""


def viewer_of(call: Call, session: Session, view: View, *, large: bool = False, notes: bool = True) -> Viewer:
    """What shows entries of a session to a caller: without secrets, if the caller is not to see them."""
    workspace = None if view == "raw" or call.principal.redact else session.info.workspace

    def earlier(entry: Entry) -> Iterator[Entry]:
        return session.entries(before=entry, at=entry, last=LOOK_BACK, damaged="skip")

    return Viewer(
        view,
        call.url(f"/api/v1/sessions/{quote(session.id, safe='')}/entries"),
        workspace=workspace,
        redactor=ShareRedactor() if call.principal.redact else None,
        large=large,
        notes=notes,
        earlier=earlier,
    )


def mark_of(entry: Entry) -> EntryMark:
    """An entry that was just written."""
    return EntryMark(
        id=entry.id,
        position=entry.position,
        kind=entry.kind,
        at=entry.time,
        hash=entry.hash,
        replaced=entry.replaced,
        redacted=entry.redacted,
    )


class Viewer:
    """Shows entries of one path, in the order of the path or backwards. Not for several threads at once."""

    def __init__(
        self,
        view: View,
        place: str,
        *,
        workspace: str | None = None,
        redactor: Redactor | None = None,
        large: bool = False,
        notes: bool = True,
        earlier: Earlier | None = None,
    ) -> None:
        """
        Args:
            view: How.
            place: The path of the entries of the session, for links: `/api/v1/sessions/ID/entries`.
            workspace: Of the session: paths inside of it are told without it.
            redactor: Takes secrets out of whatever is shown.
            large: Show large messages too.
            notes: With the annotations.
            earlier: Reads some entries before the first one that is shown, to know the calls whose results
                are shown; asked once at most.
        """
        self._view = view
        self._place = place
        self._workspace = workspace
        self._redactor = redactor
        self._large = large
        self._notes = notes
        self._earlier = earlier
        self._tools: dict[str, str] = {}
        self._calls: dict[str, Block] = {}

    def show(self, entry: Entry) -> EntryView:
        """CorruptEntryError: it cannot be read."""
        is_large = len(entry.raw) > LARGE_BODY and not self._large
        is_drawn = self._redactor is None and self._view != "raw"  # then it is decoded for that
        if entry.kind != "removed" and not is_drawn and not (is_large and self._view == "raw"):
            _ = entry.message  # a body that is no JSON object is found here
        if self._redactor is not None and not (is_large and self._view == "raw"):
            entry = self._redactor.entry(entry)
        shown = EntryView(
            id=entry.id,
            position=entry.position,
            kind=entry.kind,
            at=entry.time,
            hash=entry.hash,
            replaced=entry.replaced,
            injected=entry.injected,
            redacted=entry.redacted,
            epoch=entry.epoch,
            annotations=dict(entry.annotations) if self._notes and entry.annotations else msgspec.UNSET,
        )
        if self._view == "raw":
            if is_large:
                return self._linked(shown, entry)
            body = b"{}" if entry.kind == "removed" else entry.raw
            return msgspec.structs.replace(shown, message=msgspec.Raw(body))
        turn = turn_of(entry, self._tools)
        self._note(turn)
        shown = msgspec.structs.replace(shown, speaker=turn.speaker)
        if turn.prompt and self._view == "blocks":
            shown = msgspec.structs.replace(shown, prompt=turn.prompt[:LARGE_BODY])
        if self._view == "line":
            return msgspec.structs.replace(shown, line=self._line(turn, entry))
        if is_large and sum(len(block.text) for block in turn.blocks) > LARGE_BODY:
            return self._linked(shown, entry)
        if self._view == "html":
            return msgspec.structs.replace(shown, html=self._html(turn, entry))
        return msgspec.structs.replace(shown, blocks=tuple(self._blocks(turn, entry)))

    def _linked(self, shown: EntryView, entry: Entry) -> EntryView:
        link = LargeBody(link=f"{self._place}/{entry.id}", bytes=len(entry.raw))
        return msgspec.structs.replace(shown, large=link)

    # -- which call a result answers

    def _note(self, turn: Turn) -> None:
        for block in turn.blocks:
            if block.kind == "call" and block.call is not None:
                self._calls[block.call] = block
                if len(self._calls) > MOST_CALLS:
                    oldest = next(iter(self._calls))
                    del self._calls[oldest]
                    self._tools.pop(oldest, None)

    def _call_of(self, result: Block, entry: Entry) -> Block | None:
        if result.call is None:
            return None
        if result.call not in self._calls and self._earlier is not None:
            earlier, self._earlier = self._earlier, None
            for one in earlier(entry):
                if one.kind == "message":
                    self._note(
                        turn_of(one if self._redactor is None else self._redactor.entry(one), self._tools)
                    )
        return self._calls.get(result.call)

    def _told(self, block: Block, call: Block | None) -> Gist | None:
        if call is None:
            return None
        return told_of(call, None if block is call else block, self._workspace)

    # -- blocks

    def _blocks(self, turn: Turn, entry: Entry) -> Iterable[BlockView]:
        media = 0
        for block in turn.blocks:
            call = block if block.kind == "call" else self._call_of(block, entry)
            told = self._told(block, call) if block.kind in ("call", "result") else None
            shown = BlockView(
                kind=block.kind,
                text=block.text,
                name=block.name or (call.name if call else None),
                call=block.call,
                is_error=block.is_error,
                is_json=block.is_json,
                line=None if told is None else _tool_line(told),
                html="".join(self._inside(block, turn, call, told)),
            )
            if block.media is not None:
                shown = msgspec.structs.replace(shown, media=self._media(block, entry, media))
                media += 1
            yield shown

    def _media(self, block: Block, entry: Entry, number: int) -> MediaView:
        media = block.media
        assert media is not None
        size = media.size
        is_small = size is not None and size <= SMALL_MEDIA
        is_linked = size is not None and (not is_small or media.type == PDF)
        link = f"{self._place}/{entry.id}/media/{number}" if is_linked else None
        data = media.data if is_small else None
        return MediaView(type=media.type, name=block.text, bytes=size, data=data, link=link, url=media.url)

    def _inside(self, block: Block, turn: Turn, call: Block | None, told: Gist | None) -> Iterable[str]:
        """The HTML of a block that a page puts into a frame of its own."""
        match block.kind:
            case "text":
                return (_said(block, turn),)
            case "thinking":
                return (_fragments.get(("", block.text), lambda: prose(block.text)),)
            case "call" if told is not None:
                return draw_asked(block, told)
            case "result" if call is not None and told is not None:
                what = f"{told.family} {block.is_error} {block.is_json} {block.seconds}"
                key = (what, call.name or "", call.text, block.text)
                return (_fragments.get(key, lambda: "".join(draw_answer(call, told, block))),)
            case "result":
                return (draw_text(block),)
            case "media":
                return () if block.media is None else self._picture(block)
            case _:
                return (code_block(block.text, "json" if block.is_json else ""),)

    def _picture(self, block: Block) -> Iterable[str]:
        """A small one; a page gets the others by their links, and a PDF as well."""
        assert block.media is not None
        size = block.media.size
        is_linked = size is not None and (size > SMALL_MEDIA or block.media.type == PDF)
        return () if is_linked else (picture(block.media, block.text),)

    # -- one piece of HTML

    def _html(self, turn: Turn, entry: Entry) -> str:
        return "".join(piece for block in turn.blocks for piece in self._piece(block, turn, entry))

    def _piece(self, block: Block, turn: Turn, entry: Entry) -> Iterable[str]:
        match block.kind:
            case "text":
                return (_said(block, turn),)
            case "thinking":
                return (draw_folded("think", "Thinking", block.text),)
            case "call":
                return draw_call(block, workspace=self._workspace, awaited=True)
            case "result":
                return draw_result(block, self._call_of(block, entry), workspace=self._workspace)
            case "media":
                return () if block.media is None else (picture(block.media, block.text),)
            case _:
                inside = code_block(block.text, "json" if block.is_json else "")
                return (f'<details class="aside"><summary>Data</summary>{inside}</details>\n',)

    # -- one line

    def _line(self, turn: Turn, entry: Entry) -> str:
        said = [words for block in turn.blocks if (words := self._words(block, turn, entry))]
        return " · ".join(said)

    def _words(self, block: Block, turn: Turn, entry: Entry) -> str:
        match block.kind:
            case "text" if turn.mark:
                return f"{block.name}: {_short(block.text)}" if block.text else block.name or ""
            case "text":
                own = own_words(block.text) if turn.speaker == "user" else block.text
                return _short(own)
            case "call" | "result":
                told = self._told(block, block if block.kind == "call" else self._call_of(block, entry))
                return str(told) if told is not None else _short(block.text)
            case "media":
                return visible_line(f"[{block.media.type or block.text if block.media else block.text}]")
            case _:
                return "" if len(turn.blocks) > 1 else _short(block.text)


def _short(text: str) -> str:
    """The beginning of a text, on one line, without what acts on a terminal."""
    return snippet(visible_line(text[: 4 * LINE]), LINE)


def _said(block: Block, turn: Turn) -> str:
    key = (turn.speaker, block.name or "", block.text)
    return _fragments.get(key, lambda: "".join(draw_said(block, turn)))


class _Fragments:
    """HTML that was made of texts: Markdown and colours take most of the time of a page, and pages are read
    again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._found: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], make: Callable[[], str]) -> str:
        with self._lock:
            known = self._found.get(key)
            if known is not None:
                self._found.move_to_end(key)
                return known
        made = make()
        size = _size(key, made)
        if size <= LONGEST_KEPT:
            with self._lock:
                if key not in self._found:
                    self._size += size
                self._found[key] = made
                while self._size > self._most:
                    self._size -= _size(*self._found.popitem(last=False))
        return made


def _size(key: tuple[str, ...], made: str) -> int:
    """Letters, and what an item costs besides."""
    return sum(map(len, key)) + len(made) + 200


_fragments: Final = _Fragments(KEPT)


def _tool_line(told: Gist) -> ToolLine:
    return ToolLine(
        text=str(told),
        verb=told.verb,
        subject=told.subject,
        outcome=told.outcome,
        failed=told.failed,
        family=told.family,
    )
