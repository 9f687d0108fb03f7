"""What people and models write beyond CommonMark: bare links, task lists, footnotes, text from right to left.

The rules are our own, not a plugin's: each reads a text once, whatever it is, and none makes an id or a link
into the page, because one page holds the messages of many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

TASK: Final = "task"
"""Class of the box of a task, and of its list item."""
NOTES: Final = "notes"
"""Class of the list of footnotes."""
DIRECTED: Final = frozenset({"p", "h3", "h4", "h5", "h6", "ul", "ol", "blockquote", "table", "td", "th"})
"""Elements that get their own direction, where a text has letters that are written from right to left."""

_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_LINK: Final = re.compile(
    r"(?<![\w/:.@])https?://[\w-]++(?:\.[\w-]++)*+(?::\d{1,5}+)?+"
    r"(?:[/?#][^\s<>\[\]\"`、。，；：！？）」』】》”’]*+)?+",
    re.IGNORECASE,
)
_AFTER_A_LINK: Final = frozenset("?!.,:;*_~'")
"""Punctuation that belongs to the sentence if it stands at the end."""
_TASK: Final = re.compile(r"\[([ xX])\][ \t]")
_BOXES: Final = {" ": "☐", "x": "☑", "X": "☑"}
_NOTE: Final = re.compile(r"\[\^([^\]\[\s]{1,60})\]")


def is_right_to_left(text: str) -> bool:
    """Report whether a text has letters that are written from right to left."""
    return _RIGHT_TO_LEFT.search(text) is not None


def extend(parser: MarkdownIt) -> None:
    """Add the rules to a parser."""
    parser.block.ruler.before("reference", "note", _definition, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("link", "note_mark", _note_mark)
    parser.core.ruler.push("bare_links", _bare_links)
    parser.core.ruler.push("tasks", _tasks)
    parser.core.ruler.push("notes", _notes)
    parser.core.ruler.push("directions", _directions)
    parser.add_render_rule("note_mark", _draw_mark)
    parser.add_render_rule("task_box", _draw_box)


# -- bare links


def _bare_links(state: StateCore) -> None:
    for token in state.tokens:
        if token.children and "://" in token.content:
            token.children = list(_linked(state.md, token.children))


def _linked(parser: MarkdownIt, children: list[Token]) -> Iterator[Token]:
    depth = 0
    for child in children:
        depth += child.nesting if child.type in ("link_open", "link_close") else 0
        if depth or child.type != "text" or "://" not in child.content:
            yield child
            continue
        done = 0
        for match in _LINK.finditer(child.content):
            url = _without_punctuation(match[0])
            address = parser.normalizeLink(url)
            if not parser.validateLink(address):
                continue
            yield _text(child.content[done : match.start()])
            yield Token("link_open", "a", 1, attrs={"href": address})
            yield _text(url)
            yield Token("link_close", "a", -1)
            done = match.start() + len(url)
        yield _text(child.content[done:])


def _without_punctuation(url: str) -> str:
    """Cut what ends the sentence, and a bracket that was opened before the link."""
    unopened = url.count(")") - url.count("(")
    end = len(url)
    while url[end - 1] in _AFTER_A_LINK or (url[end - 1] == ")" and unopened > 0):
        unopened -= url[end - 1] == ")"
        end -= 1
    return url[:end]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


# -- task lists


def _tasks(state: StateCore) -> None:
    tokens = state.tokens
    for item, inner, token in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type != "list_item_open" or inner.type != "paragraph_open" or not token.children:
            continue
        first = token.children[0]
        match = _TASK.match(first.content) if first.type == "text" else None
        if match is None:
            continue
        first.content = first.content[match.end() :]
        token.children.insert(0, Token("task_box", "", 0, content=_BOXES[match[1]]))
        item.attrSet("class", TASK)


def _draw_box(_: object, tokens: list[Token], at: int, *rest: object) -> str:
    return f'<span class="{TASK}">{tokens[at].content}</span> '


# -- footnotes: their marks are numbers, and what they say stands below the text


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """`[^1]: what it says`, with lines that are indented by four below it."""
    if state.is_code_block(start):
        return False
    first = state.bMarks[start] + state.tShift[start]
    match = _NOTE.match(state.src, first, state.eMarks[start])
    known: dict[str, int] = state.env.setdefault("notes", {})
    if match is None or match[1] in known or state.src[match.end() : match.end() + 1] != ":":
        return False
    if silent:
        return True
    known[match[1]] = 0
    state.push("note_open", "li", 1).meta = {"label": match[1]}
    before = state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType
    after = match.end() + 1
    blanks = len(state.src[after : state.eMarks[start]]) - len(
        state.src[after : state.eMarks[start]].lstrip()
    )
    state.blkIndent += 4
    state.bMarks[start], state.tShift[start], state.sCount[start] = after, blanks, state.blkIndent
    state.parentType = "note"
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= 4
    state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType = before
    state.push("note_close", "li", -1)
    return True


def _note_mark(state: StateInline, silent: bool) -> bool:
    match = _NOTE.match(state.src, state.pos, state.posMax)
    known: dict[str, int] = state.env.get("notes", {})
    if match is None or match[1] not in known:
        return False
    if not silent:
        if not known[match[1]]:
            known[match[1]] = state.env["marks"] = state.env.get("marks", 0) + 1
        state.push("note_mark", "sup", 0).content = str(known[match[1]])
    state.pos = match.end()
    return True


def _draw_mark(_: object, tokens: list[Token], at: int, *rest: object) -> str:
    return f"<sup>{tokens[at].content}</sup>"


def _notes(state: StateCore) -> None:
    """Move what footnotes say below the text, in the order of their marks; those without a mark come last."""
    known: dict[str, int] = state.env.get("notes", {})
    if not known:
        return
    text: list[Token] = []
    notes: list[tuple[int, list[Token]]] = []
    open_ones = [text]
    for token in state.tokens:
        if token.type == "note_open":
            open_ones.append([])
            notes.append((known[token.meta["label"]] or len(known) + 1, open_ones[-1]))
        open_ones[-1].append(token)
        if token.type == "note_close":
            open_ones.pop()
    notes.sort(key=lambda note: note[0])
    around: dict[str, Any] = {"block": True}
    state.tokens = [
        *text,
        Token("ordered_list_open", "ol", 1, attrs={"class": NOTES}, **around),
        *(token for _, note in notes for token in note),
        Token("ordered_list_close", "ol", -1, **around),
    ]


# -- text from right to left


def _directions(state: StateCore) -> None:
    if not is_right_to_left(state.src):
        return
    for token in state.tokens:
        if token.nesting == 1 and token.tag in DIRECTED:
            token.attrSet("dir", "auto")
