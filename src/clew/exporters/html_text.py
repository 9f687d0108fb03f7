"""Untrusted text inside an HTML page.

Two walls: markdown-it makes no tag that stands in the text, and nh3 lets only known tags, attributes and
schemes of links pass. The page's policy (no script, no request) is the third.
"""

from __future__ import annotations

import html
from functools import cache
from typing import Final

import nh3
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from clew.exporters.visible import visible, visible_line

MOST_MARKDOWN: Final = 200_000
MOST_CODE: Final = 40_000
"""Letters. A longer text is shown as it is: it would take seconds, and nobody reads it for its colours."""

_TAGS: Final = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_CLASSES: Final = {"span": {name for name in STANDARD_TYPES.values() if name}}
_FORMATTER: Final = HtmlFormatter(nowrap=True)


def escape(text: str) -> str:
    """Any text, as letters, in an element or an attribute."""
    return html.escape(visible(text), quote=True)


def escape_line(text: str) -> str:
    return html.escape(visible_line(text), quote=True)


def prose(text: str) -> str:
    """What somebody said, as Markdown."""
    if len(text) > MOST_MARKDOWN:
        return f'<pre class="plain">{escape(text)}</pre>'
    return nh3.clean(
        _markdown().render(visible(text)),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def code(text: str, language: str = "") -> str:
    """Code with its colours, as the inside of an element."""
    shown = visible(text)
    if not language or len(shown) > MOST_CODE:
        return html.escape(shown)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return html.escape(shown)
    return str(highlight(shown, lexer, _FORMATTER))


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
