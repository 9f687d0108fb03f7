"""Change a JSON file that a person wrote: only what has to change, every other byte stays as it is.

The text is parsed to values that know where they stand. A change is made in the text; order of keys, indent,
line ends and comments stay.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

DEEPEST: Final = 100
BOM: Final = "\ufeff"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_TEXT: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_PLAIN: Final = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LINE_END: Final = re.compile(r"[ \t]*(\r?\n)?")
_INDENT: Final = re.compile(r'\n([ \t]+)["\[{]')


class NotJsonError(Exception):
    """The text is not valid; `line` says where."""

    def __init__(self, reason: str, text: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = text.count("\n", 0, at) + 1


class Node(NamedTuple):
    """A value, and where it stands."""

    value: Any
    """A text, number, true, false or null; a dict of nodes; a list of nodes."""
    start: int
    end: int
    keys: dict[str, int]
    """Of an object: where each key begins."""
    is_commented: bool = False
    """Of an object or list: a comment stands in it, outside of its values."""

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def parse(text: str, *, comments: bool = False, last_commas: bool = False) -> Node:
    """The whole text as one value. NotJsonError: it is not valid. `comments`: they are allowed;
    `last_commas`: a comma may stand behind the last value of a list."""
    parser = _Parser(text, comments=comments, last_commas=last_commas)
    at = parser.skip(1 if text.startswith(BOM) else 0)
    node = parser.node(at, 0)
    end = parser.skip(node.end)
    if end != len(text):
        raise NotJsonError("something follows the end of the value", text, end)
    return node


class _Parser:
    def __init__(self, text: str, *, comments: bool, last_commas: bool) -> None:
        self._text = text
        self._allows_comments = comments
        self._allows_last_commas = last_commas
        self._comments = 0

    def skip(self, at: int) -> int:
        """Behind spaces and comments."""
        while True:
            at = _behind_spaces(self._text, at)
            if not self._text.startswith("/", at):
                return at
            comment = _COMMENT.match(self._text, at)
            if comment is None:
                raise NotJsonError("a comment does not end", self._text, at)
            if not self._allows_comments:
                raise NotJsonError("comments are not allowed in this file", self._text, at)
            self._comments += 1
            at = comment.end()

    def node(self, at: int, level: int) -> Node:
        if level > DEEPEST:
            raise NotJsonError(f"more than {DEEPEST} values are nested", self._text, at)
        match self._text[at : at + 1]:
            case "{":
                return self._object(at, level)
            case "[":
                return self._list(at, level)
            case '"':
                text, end = self._string(at)
                return Node(text, at, end, {})
        found = _PLAIN.match(self._text, at)
        if found is None:
            raise NotJsonError(self._unexpected(at, "a value"), self._text, at)
        return Node(json.loads(found[0]), at, found.end(), {})

    def _object(self, start: int, level: int) -> Node:
        members: dict[str, Node] = {}
        keys: dict[str, int] = {}
        before = self._comments
        own = 0
        at = self.skip(start + 1)
        while not self._text.startswith("}", at) or members:
            if not self._text.startswith('"', at):
                raise NotJsonError(self._unexpected(at, "a key in double quotes"), self._text, at)
            key, end = self._string(at)
            if key in members:
                raise NotJsonError(f"the key {key!r} is there twice", self._text, at)
            colon = self.skip(end)
            if not self._text.startswith(":", colon):
                raise NotJsonError(self._unexpected(colon, "a colon"), self._text, colon)
            begin = self.skip(colon + 1)
            own += self._comments - before
            keys[key], members[key] = at, self.node(begin, level + 1)
            before = self._comments
            at = self.skip(members[key].end)
            if self._text.startswith("}", at):
                break
            at = self._comma(at, "}")
            if self._text.startswith("}", at):
                break
        own += self._comments - before
        return Node(members, start, at + 1, keys, own > 0)

    def _list(self, start: int, level: int) -> Node:
        items: list[Node] = []
        before = self._comments
        own = 0
        at = self.skip(start + 1)
        while not self._text.startswith("]", at) or items:
            own += self._comments - before
            items.append(self.node(at, level + 1))
            before = self._comments
            at = self.skip(items[-1].end)
            if self._text.startswith("]", at):
                break
            at = self._comma(at, "]")
            if self._text.startswith("]", at):
                break
        own += self._comments - before
        return Node(items, start, at + 1, {}, own > 0)

    def _comma(self, at: int, closing: str) -> int:
        if not self._text.startswith(",", at):
            raise NotJsonError(self._unexpected(at, "a comma or the end"), self._text, at)
        behind = self.skip(at + 1)
        if self._text.startswith(closing, behind) and not self._allows_last_commas:
            raise NotJsonError("a comma stands before the end of a list", self._text, at)
        return behind

    def _string(self, at: int) -> tuple[str, int]:
        found = _TEXT.match(self._text, at)
        if found is None:
            raise NotJsonError("a text in double quotes is not valid or does not end", self._text, at)
        return json.loads(found[0]), found.end()

    def _unexpected(self, at: int, wanted: str) -> str:
        letter = self._text[at : at + 1]
        return f"the file ends where {wanted} should be" if not letter else f"{letter!r} is not {wanted}"


# -- changes in the text


def with_member(text: str, node: Node, key: str, value: Any) -> str:
    """The text with a new last member in an object of it."""
    return _with_last(text, node, list(node.value.values()), key, value, closing="}")


def with_item(text: str, node: Node, value: Any) -> str:
    """The text with a new last item in a list of it."""
    return _with_last(text, node, node.value, None, value, closing="]")


def _with_last(
    text: str, node: Node, children: list[Node], key: str | None, value: Any, *, closing: str
) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indent_of(text)
    closing_at = node.end - 1
    inside = text[node.start + 1 : closing_at]
    is_one_line = "\n" not in inside if children else "\n" not in text.strip() and len(text.strip()) > 2
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if is_one_line:
        new = label + json.dumps(value, ensure_ascii=False)
        at = children[-1].end if children else node.start + 1
        return text[:at] + (", " if children else "") + new + text[at:]
    outer = _margin(text, node.start)
    margin = _margin(text, _first(node, children)) if children else outer + unit
    dumped = json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + margin)
    end = children[-1].end if children else node.start + 1
    kept = text[end:closing_at]  # spaces, and comments behind the last one
    last = kept.rstrip()
    has_comma = bool(children) and _comma_after(text, end, closing_at) is not None
    comma = "," if children and not has_comma else ""
    dumped += "," if has_comma else ""
    return text[:end] + comma + last + newline + margin + label + dumped + newline + outer + text[closing_at:]


def with_value(text: str, node: Node, value: Any) -> str:
    """The text with another value in the place of one of it."""
    if "\n" in text[node.start : node.end]:
        newline = "\r\n" if "\r\n" in text else "\n"
        dumped = json.dumps(value, ensure_ascii=False, indent=_indent_of(text))
        dumped = dumped.replace("\n", newline + _margin(text, node.start))
    else:
        dumped = json.dumps(value, ensure_ascii=False)
    return text[: node.start] + dumped + text[node.end :]


def without_member(text: str, node: Node, key: str) -> str:
    """The text without a member of an object."""
    return _without(text, node, node.keys[key], node.value[key].end)


def without_item(text: str, node: Node, index: int) -> str:
    """The text without an item of a list."""
    return _without(text, node, node.value[index].start, node.value[index].end)


def _without(text: str, node: Node, start: int, end: int) -> str:
    """Without a child, one comma, and the line if nothing else stands in it. Comments stay."""
    after = _comma_after(text, end, node.end - 1)
    if after is not None:
        end = after + 1 if not text[end:after].strip() else end
        text = text if end == after + 1 else text[:after] + text[after + 1 :]
    else:
        before = _comma_before(text, node, start)
        if before is not None:
            text = text[:before] + text[before + 1 :]
            start, end = start - 1, end - 1
    line = text.rfind("\n", 0, start) + 1
    rest = _LINE_END.match(text, end)
    assert rest is not None
    begins_line = not text[line:start].strip()
    if begins_line and rest[1]:
        return text[:line] + text[rest.end() :]
    if begins_line or after is None:
        return text[:start].rstrip(" \t") + text[end:]
    return text[:start] + text[rest.end() if not rest[1] else end :]


def _comma_after(text: str, at: int, limit: int) -> int | None:
    """The comma behind a value; spaces and comments may stand between."""
    at = _behind(text, at)
    return at if at < limit and text[at] == "," else None


def _comma_before(text: str, node: Node, start: int) -> int | None:
    """The comma between the value before `start` and it."""
    ends = [child.end for child in (node.value.values() if isinstance(node.value, dict) else node.value)]
    before = [end for end in ends if end <= start]
    return _comma_after(text, before[-1], start) if before else None


def _behind(text: str, at: int) -> int:
    while True:
        at = _behind_spaces(text, at)
        comment = _COMMENT.match(text, at)
        if comment is None:
            return at
        at = comment.end()


def _behind_spaces(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _first(node: Node, children: list[Node]) -> int:
    return min(node.keys.values()) if node.keys else children[0].start


def _margin(text: str, at: int) -> str:
    """The spaces that begin the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_of(text: str) -> str:
    """What the file indents with: that of its first indented line, else two spaces."""
    found = _INDENT.search(text)
    return found[1] if found else "  "
