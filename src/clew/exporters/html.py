"""A session as one HTML file: readable on a phone, without a network, and without a script.

Tools and thinking fold with `details`; branches are switched by radio buttons and rules of style.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import nh3
from markdown_it import MarkdownIt

from clew.core.log.records import origin_of
from clew.exporters.blocks import RASTER, Block, Media
from clew.exporters.highlight import CLASSES, coloured
from clew.exporters.markdown import SPEAKERS
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.transcript import Outline, Transcript, Turn
from clew.exporters.visible import visible, visible_line

if TYPE_CHECKING:
    from clew.store import Store

# -- its looks: one style element

_PAGE: Final = Path(__file__).with_name("html.css")


def style(outline: Outline) -> str:
    """The whole of the style element."""
    return _PAGE.read_text("utf-8") + _switches(outline)


def _switches(outline: Outline) -> str:
    """With the button of a path pressed, its segments are shown, and its label is marked."""
    if len(outline.paths) < 2:
        return ""
    rules = ["section{display:none}"]
    for number, path in enumerate(outline.paths):
        shown = ",".join(f"#p{number}:checked~main>.s{segment}" for segment in path.segments)
        rules += [f"{shown}{{display:block}}"] if shown else []
        label = f"~nav>label[for=p{number}]"
        rules.append(f"#p{number}:checked{label}{{border-color:var(--user);font-weight:600}}")
        rules.append(f"#p{number}:focus-visible{label}{{outline:2px solid var(--user)}}")
    return "\n".join(rules)


# -- untrusted text inside the page
#
# Two walls: markdown-it makes no tag that stands in the text, and nh3 lets only known tags, attributes and
# schemes of links pass. The page's policy (no script, no request) is the third.

MOST_MARKDOWN: Final = 200_000
MOST_CODE: Final = 40_000
"""Letters. A longer text is shown as it is: colours would take seconds."""
MOST_CELLS: Final = 50_000
"""Of the tables of a text. A row of one letter gets as many cells as the head of its table has."""

_TAGS: Final = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_CLASSES: Final = {"span": set(CLASSES)}


def escape(text: str) -> str:
    """Any text, as letters, in an element or an attribute."""
    return html.escape(visible(text), quote=True)


def escape_line(text: str) -> str:
    return html.escape(visible_line(text), quote=True)


def prose(text: str) -> str:
    """Words of a message, which are Markdown, as HTML."""
    shown = visible(text)
    if len(shown) > MOST_MARKDOWN:
        return _plain(shown, "it is long")
    if _cells(shown) > MOST_CELLS:
        return _plain(shown, "its tables are large")
    try:
        page = _markdown().render(shown)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # The parser is not ours, and the text is untrusted: an error costs the formatting of this text alone.
        return _plain(shown, "it could not be read as Markdown")
    return nh3.clean(
        page,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _plain(shown: str, why: str) -> str:
    return (
        f'<p class="note">Without formatting, because {why}:</p>'
        f'<pre class="plain">{html.escape(shown, quote=True)}</pre>'
    )


def _cells(shown: str) -> int:
    """At most so many cells has the text in tables: a table ends with a blank line."""
    cells = lines = widest = 0
    for line in shown.split("\n"):
        if line and not line.isspace():
            lines += 1
            widest = max(widest, line.count("|"))
        else:
            cells += lines * widest
            lines = widest = 0
    return cells + lines * widest


def code(text: str, language: str = "") -> str:
    """Code with its colours, as the inside of an element."""
    shown = visible(text)
    return html.escape(shown) if len(shown) > MOST_CODE else coloured(shown, language)


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _highlight, "breaks": True})
    parser.enable(["table", "strikethrough"])
    # A picture from elsewhere would tell its server who reads this. What is left is a link.
    parser.disable(["image"])
    parser.core.ruler.push("lower_headings", _lower_headings)
    return parser


def _lower_headings(state: object) -> None:
    """Headings inside a message are below those of the page."""
    for token in state.tokens:  # type: ignore[attr-defined]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"


def _highlight(text: str, language: str, _attributes: str) -> str:
    return code(text, language)


# -- the page

_WITHOUT_BRACES: Final = str.maketrans('{}"\n', "    ")
_GIST: Final = 80
"""Letters of a call that are shown while it is folded."""


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
        whole: All branches, with a switch between them; else the path to the head.
        tools: With tool calls and their results.
        thinking: With what the model thought.
        redact: Without secrets. A `Redactor` of yours can report what it replaced.
    """
    transcript = Transcript(store, id, whole=whole, redactor=redactor_of(redact))
    hidden = (set() if tools else {"call", "result"}) | (set() if thinking else {"thinking"})
    yield "".join(_head(transcript)).encode()
    places = _places(transcript.outline)
    open_segment = -1
    for turn in transcript.turns():
        if turn.segment != open_segment:
            yield b"</section>\n" if open_segment >= 0 else b""
            yield f'<section class="s{turn.segment}">\n'.encode()
            yield places[turn.segment].encode() if places else b""
            open_segment = turn.segment
        blocks = [block for block in turn.blocks if block.kind not in hidden]
        if blocks:
            yield "".join(_turn(turn, blocks)).encode()
    yield b"</section>\n" if open_segment >= 0 else b""
    yield "".join(_foot(transcript)).encode()


def _head(transcript: Transcript) -> Iterator[str]:
    info = transcript.info
    looks = style(transcript.outline)
    seal = base64.b64encode(hashlib.sha256(looks.encode()).digest()).decode()
    title = escape_line(info.title or info.id)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'sha256-{seal}'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
    )
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="clew">\n'
    yield f"<title>{title}</title>\n<style>{looks}</style>\n</head>\n<body>\n"
    yield f"<header><h1>{title}</h1>\n<dl>"
    for name, value in _facts(transcript):
        yield f"<dt>{name}</dt><dd>{escape_line(value)}</dd>"
    yield "</dl></header>\n"
    yield from _switch(transcript)
    yield "<main>\n"


def _facts(transcript: Transcript) -> Iterator[tuple[str, str]]:
    info = transcript.info
    yield "Session", info.id
    origin = origin_of(info.metadata)
    if origin is not None:
        yield "Imported", f"from a file of {origin.format or 'another program'}, which says who spoke"
    for name, value in (("Model", info.model), ("Workspace", info.workspace), ("Tags", ", ".join(info.tags))):
        if value:
            yield name, value
    yield "Time", f"{info.created_at:%Y-%m-%d %H:%M} – {info.updated_at:%Y-%m-%d %H:%M} UTC"
    yield "Messages", str(info.messages)


def _switch(transcript: Transcript) -> Iterator[str]:
    """One radio button for each path, before all that depends on them, and their labels."""
    outline = transcript.outline
    if outline.unlisted:
        yield (
            f'<p class="note">{outline.unlisted + 1:,} branches are too many to switch between them. '
            "All are on this page, each behind the one that it continues.</p>\n"
        )
    if len(outline.paths) < 2:
        return
    for number in range(len(outline.paths)):
        checked = " checked" if number == 0 else ""
        yield f'<input class="pick" type="radio" name="path" id="p{number}"{checked}>\n'
    yield '<nav aria-label="Branches">'
    for number, path in enumerate(outline.paths):
        at, position = path.leaf
        where = f"Branch {at + 1}, up to {position}" if at >= 0 else "Nothing"
        opening = f": {escape_line(words)}" if (words := transcript.opening(path)) else ""
        current = " (current)" if path.is_current else ""
        yield f'<label for="p{number}">{where}{current}{opening}</label>\n'
    yield "</nav>\n"


def _places(outline: Outline) -> list[str]:
    """Where each segment belongs, for a page without switches."""
    if not outline.unlisted:
        return []
    numbers = {branch.uid: number for number, branch in enumerate(outline.branches, 1)}
    current = frozenset(outline.current.segments)
    found = []
    for number, segment in enumerate(outline.segments):
        branch = outline.branches[segment.branch]
        mark = " (current)" if number in current else ""
        place = f"Branch {segment.branch + 1}, from {segment.first} to {segment.last}{mark}"
        if segment.first == branch.fork + 1 and branch.parent is not None:
            place += f". Continues branch {numbers[branch.parent]} after {branch.fork}."
        found.append(f'<p class="note">{place}</p>\n')
    return found


def _turn(turn: Turn, blocks: list[Block]) -> Iterator[str]:
    anchor = f"e{turn.segment}-{turn.position}"
    yield f'<article class="{turn.speaker}" id="{anchor}"><h2>{SPEAKERS[turn.speaker]}'
    yield f'<a href="#{anchor}">{turn.position} · {turn.time:%Y-%m-%d %H:%M:%S}</a></h2>\n'
    if turn.label:
        yield f'<p class="note">Label: {escape_line(turn.label)}</p>'
    for name in turn.checkpoints:
        yield f'<p class="note">Checkpoint: {escape_line(name)}</p>'
    for block in blocks:
        yield from _block(block)
    yield "</article>\n"


def _block(block: Block) -> Iterator[str]:
    match block.kind:
        case "text":
            if block.name:
                yield f'<p class="note">{escape_line(block.name)}</p>'
            yield f'<div class="said">{prose(block.text)}</div>\n' if block.text else ""
        case "thinking":
            yield f"<details><summary>Thinking</summary>{prose(block.text)}</details>\n"
        case "call":
            gist = visible_line(block.text[: 4 * _GIST].translate(_WITHOUT_BRACES))[:_GIST]
            name = escape_line(block.name or "a tool")
            yield f"<details><summary><b>{name}</b> {escape(gist)}</summary>"
            yield f"{_code(block)}</details>\n"
        case "result":
            bad = ' class="bad"' if block.is_error else ""
            what = "Error of" if block.is_error else "Result of"
            name = escape_line(block.name or "a tool")
            yield f"<details{bad}><summary>{what} <b>{name}</b>, {len(block.text):,} characters</summary>"
            yield f"{_code(block)}</details>\n"
        case "media":
            yield _media(block.media, block.text) if block.media else ""
        case _:
            yield f"<details><summary>Data</summary>{_code(block)}</details>\n"


def _code(block: Block) -> str:
    return f"<pre>{code(block.text, 'json' if block.is_json else _language(block.text))}</pre>"


def _language(text: str) -> str:
    return "diff" if text.startswith(("diff --git ", "--- a/", "@@ -", "*** Begin Patch")) else ""


def _media(media: Media, name: str) -> str:
    data = _picture(media)
    if data is not None:
        return f'<p><img src="data:{media.type};base64,{data}" alt="{escape_line(name)}"></p>\n'
    size = "" if media.size is None else f", {media.size:,} bytes"
    return (
        f'<p class="note">Not shown: {escape_line(media.type or "a file")} ({escape_line(name)}{size})</p>\n'
    )


def _picture(media: Media) -> str | None:
    """The data of an image that can only be an image, checked and encoded again."""
    if media.type not in RASTER or media.data is None:
        return None
    try:
        return base64.b64encode(base64.b64decode(media.data, validate=True)).decode()
    except ValueError:  # also of letters that base64 does not have
        return None


def _foot(transcript: Transcript) -> Iterator[str]:
    yield "</main>\n<footer>"
    if transcript.redactor is not None:
        yield f"{transcript.redactor.report().total} secrets were replaced. "
    yield f"Session {escape(transcript.info.id)}, written by Clew.</footer>\n</body>\n</html>\n"
