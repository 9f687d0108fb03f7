"""Untrusted text inside the page.

Two walls: markdown-it makes no tag that stands in the text, and nh3 lets only known tags, attributes and
schemes of links pass. The page's policy (no script but its own, no request) is the third.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

import nh3
from markdown_it import MarkdownIt

from clew.core.messages.text import visible, visible_line
from clew.exporters.page.colours import CLASSES, coloured
from clew.exporters.page.dialect import DIRECTED, NOTES, TASK, extend, is_right_to_left

MOST_MARKDOWN: Final = 200_000
MOST_CODE: Final = 40_000
"""Letters. A longer text is shown as it is: colours would take seconds."""
MOST_CELLS: Final = 50_000
"""Of the tables of a text. A row of one letter gets as many cells as the head of its table has."""

_PLAIN: Final = re.compile(r"[^\W\d_](?>(?:[^\W_]|[,.;?!'\"()/%]|:(?!//)| (?! ))*)(?<! )")
"""One line that means the same in Markdown, as most of what people type. It holds nothing to be escaped."""
_TAGS: Final = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_CLASSES: Final = {"span": {*CLASSES, TASK}, "li": {TASK}, "ol": {NOTES}}
_DIRECTIONS: Final = {tag: {"dir": {"auto"}} for tag in DIRECTED}


def escape(text: str) -> str:
    """Any text, as letters, in an element or an attribute."""
    return html.escape(visible(text), quote=True)


def escape_line(text: str) -> str:
    return html.escape(visible_line(text), quote=True)


def direction(text: str) -> str:
    """Return the attribute of an element whose text may be written from right to left; else nothing."""
    return ' dir="auto"' if is_right_to_left(text) else ""


def prose(text: str) -> str:
    """Words of a message, which are Markdown, as HTML."""
    shown = visible(text)
    if _PLAIN.fullmatch(shown):
        return f"<p{direction(shown)}>{shown}</p>\n"
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
        tag_attribute_values=_DIRECTIONS,
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


def code_block(text: str, language: str = "") -> str:
    return f"<pre><code>{code(text, language)}</code></pre>\n"


def numbered(lines: Sequence[str], first: int, language: str = "") -> str:
    """Code beside the numbers of its lines, which are not part of what is selected and copied."""
    numbers = "\n".join(str(number) for number in range(first, first + len(lines)))
    inside = code("\n".join(lines), language)
    return (
        f'<pre class="num"><span class="ln" aria-hidden="true">{numbers}</span><code>{inside}</code></pre>\n'
    )


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _highlight, "breaks": True})
    parser.enable(["table", "strikethrough"])
    # A picture from elsewhere would tell its server who reads this. What is left is a link.
    parser.disable(["image"])
    parser.core.ruler.push("lower_headings", _lower_headings)
    extend(parser)
    return parser


def _lower_headings(state: object) -> None:
    """Headings inside a message are below those of the page."""
    for token in state.tokens:  # type: ignore[attr-defined]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"


def _highlight(text: str, language: str, _attributes: str) -> str:
    return code(text, language)
