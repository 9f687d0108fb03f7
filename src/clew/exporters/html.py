"""The colours of code: comments, texts, numbers and words of the language, each in a `span` with a class.

Code in a transcript is untrusted, and so is the language that it says it is. Lexers that know a language
well go back and forth over what they do not understand, so that a few kilobytes keep them busy for minutes.
Here a language is a few expressions that read every character once, whatever it is. What they take for
something else than it is gets another colour, and no more.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import nh3
from markdown_it import MarkdownIt

from clew.core.log.records import origin_of
from clew.core.messages.text import visible, visible_line
from clew.exporters.blocks import RASTER, Block, Media
from clew.exporters.markdown import SPEAKERS
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.transcript import Outline, Transcript, Turn

if TYPE_CHECKING:
    from clew.store import Store

COMMENT: Final = "c"
TEXT: Final = "s"
NUMBER: Final = "n"
WORD: Final = "k"
NAME: Final = "t"
ADDED: Final = "gi"
REMOVED: Final = "gd"
PLACE: Final = "gu"

CLASSES: Final = frozenset({COMMENT, TEXT, NUMBER, WORD, NAME, ADDED, REMOVED, PLACE})

# Every part takes what it has read, also when its end is missing: nothing is read twice.
_HASH: Final = r"(?P<c>#[^\n]*+)"
_DASHES: Final = r"(?P<c>--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)"
_SLASHES: Final = r"(?P<c>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)"
_STARS: Final = r"(?P<c>/\*(?:[^*]|\*(?!/))*+(?:\*/)?)"
_DOUBLE: Final = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE: Final = r"'(?:[^'\\\n]|\\.)*+'?"
_BACK: Final = r"`(?:[^`\\]|\\.)*+`?"
_TRIPLE: Final = r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?' + r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?"
_NUMBER: Final = r"(?P<n>(?<![\w.])\d[\w.]*+)"
_WORD: Final = r"(?P<k>[^\W\d]\w*+)"


def _parts(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.DOTALL)


def _texts(*quotes: str) -> str:
    return f"(?P<s>{'|'.join(quotes)})"


class _Language(NamedTuple):
    parts: re.Pattern[str]
    """Groups have the names of classes; one of words counts if it is among `words`."""
    words: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_WORDS: Final = (
    "break case char class const continue default do double else enum extern false float for goto if int"
    " long namespace new null nullptr private protected public return short signed sizeof static struct"
    " switch this throw true try catch typedef union unsigned using virtual void volatile while auto bool"
    " operator template"
)
_PYTHON: Final = _words(
    "and as assert async await break case class continue def del elif else except False finally for from"
    " global if import in is lambda match None nonlocal not or pass raise return self True try while with"
    " yield"
)
_SCRIPT: Final = _words(
    "as async await break case catch class const continue debugger default delete do else enum export"
    " extends false finally for from function if implements import in instanceof interface let new null of"
    " private public readonly return static super switch this throw true try type typeof undefined var"
    " void while yield"
)
_SHELL: Final = _words(
    "case do done elif else esac exit export fi for function if in local return select set shift then"
    " unset until while echo cd source"
)
_GO: Final = _words(
    "break case chan const continue default defer else fallthrough false for func go goto if import"
    " interface map nil package range return select struct switch true type var"
)
_RUST: Final = _words(
    "as async await break const continue crate dyn else enum extern false fn for if impl in let loop"
    " match mod move mut pub ref return self Self static struct super trait true type unsafe use where"
    " while"
)
_JAVA: Final = _words(
    f"{_C_WORDS} abstract boolean byte extends final finally fun implements import in instanceof interface"
    "internal is let native object open override package record sealed string super synchronized throws"
    " val var when yield func guard nil self init extension protocol"
)
_RUBY: Final = _words(
    "alias and begin break case class def do else elsif end ensure false for if in module next nil not or"
    " redo rescue retry return self super then true undef unless until when while yield require"
)
_SQL: Final = _words(
    "add all alter and as asc begin between by case check column commit constraint create cross default"
    " delete desc distinct drop else end exists foreign from full group having in index inner insert into"
    " is join key left like limit not null offset on or order outer primary references returning right"
    " rollback select set table then union unique update using values view when where with"
)
_CONSTANTS: Final = _words("true false null yes no on off True False None")

_FAMILIES: Final = {
    "python py python3": _Language(_parts(_HASH, _texts(_TRIPLE, _DOUBLE, _SINGLE), _NUMBER, _WORD), _PYTHON),
    "bash sh shell zsh": _Language(_parts(_HASH, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _SHELL),
    "ruby rb perl pl r": _Language(_parts(_HASH, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _RUBY),
    "yaml yml toml ini cfg conf dockerfile docker make makefile": _Language(
        _parts(_HASH, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _CONSTANTS
    ),
    "javascript js jsx typescript ts tsx": _Language(
        _parts(_SLASHES, _texts(_DOUBLE, _SINGLE, _BACK), _NUMBER, _WORD), _SCRIPT
    ),
    "c h cpp c++ cc hpp": _Language(
        _parts(_SLASHES, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _words(_C_WORDS)
    ),
    "java kotlin kt scala csharp cs c# swift php dart": _Language(
        _parts(_SLASHES, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _JAVA
    ),
    "go golang": _Language(_parts(_SLASHES, _texts(_DOUBLE, _BACK), _NUMBER, _WORD), _GO),
    "rust rs": _Language(_parts(_SLASHES, _texts(_DOUBLE), _NUMBER, _WORD), _RUST),
    "css scss less": _Language(_parts(_STARS, _texts(_DOUBLE, _SINGLE), _NUMBER)),
    "sql": _Language(
        _parts(_DASHES, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _SQL | {word.upper() for word in _SQL}
    ),
    "json jsonc json5": _Language(
        _parts(rf"(?P<t>{_DOUBLE}(?=\s{{0,8}}:))|(?P<s>{_DOUBLE})", _NUMBER, _WORD), _CONSTANTS
    ),
    "html xml svg": _Language(
        _parts(r"(?P<c><!--(?:[^-]|-(?!->))*+(?:-->)?)", r"(?P<t></?[A-Za-z][\w:-]*+)", _texts(_DOUBLE))
    ),
    "diff patch": _Language(
        re.compile(r"(?m:^)(?:(?P<gu>@@[^\n]*+|[+-]{3} [^\n]*+)|(?P<gi>\+[^\n]*+)|(?P<gd>-[^\n]*+))")
    ),
}
LANGUAGES: Final = {name: language for names, language in _FAMILIES.items() for name in names.split()}


def coloured(code: str, language: str) -> str:
    """The code as the inside of an element; of a language that is not known: without colours."""
    known = LANGUAGES.get(language.lower())
    return html.escape(code) if known is None else "".join(_pieces(code, known))


def _pieces(code: str, language: _Language) -> Iterable[str]:
    done = 0
    for found in language.parts.finditer(code):
        kind = found.lastgroup
        if kind is None or (kind == WORD and found[0] not in language.words):
            continue
        start, end = found.span()
        yield html.escape(code[done:start])
        yield f'<span class="{kind}">{html.escape(found[0])}</span>'
        done = end
    yield html.escape(code[done:])


# ── A session as one HTML file: readable on a phone, without a network, and without a script ──────
# Tools and thinking fold with `details`; branches are switched by radio buttons and rules of style.

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
