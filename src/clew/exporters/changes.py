"""What the edit tools of agents change in files, and diffs that tools print, as lines to be drawn or counted.

Pure, and in a time that grows with the text alone. Whatever cannot be read as a change is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from clew.model import Json

Mark: TypeAlias = Literal["+", "-", " ", "@", ""]
"""Added, removed, unchanged, the place of a hunk; empty: a line around the diff, as `diff --git` is."""
Kind: TypeAlias = Literal["edit", "add", "delete", "move"]


class Line(NamedTuple):
    mark: Mark
    text: str
    old: int | None = None
    """Its number in the file before, if that is known."""
    new: int | None = None


class Change(NamedTuple):
    path: str
    kind: Kind
    lines: tuple[Line, ...]

    @property
    def added(self) -> int:
        return sum(line.mark == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.mark == "-" for line in self.lines)


PATHS: Final = (
    "file_path", "filePath", "path", "absolute_path", "target_file", "notebook_path", "filename", "file",
    "uri",
)  # fmt: skip
"""Where the arguments of tools name a file."""
_OLD: Final = ("old_string", "oldString", "old_str", "oldText", "old_text", "old", "search")
_NEW: Final = ("new_string", "newString", "new_str", "newText", "new_text", "new", "replace", "new_source")
_PATCHES: Final = ("patch", "patchText", "patch_text", "input", "diff")
_MOST: Final = 2_000_000
"""Letters. What is longer is not compared line by line."""


def changes_of(arguments: Json) -> list[Change]:
    """What a call changes, by the shape of its arguments: old and new texts, or a patch."""
    if isinstance(arguments, str):
        return patch_changes(arguments)
    if not isinstance(arguments, dict):
        return []
    path = text_at(arguments, PATHS)
    pairs = list(_pairs(arguments))
    if pairs:
        lines = [line for old, new in pairs for line in compared(old, new)]
        return [Change(path, "edit", tuple(lines))]
    for field in _PATCHES:
        if isinstance(text := arguments.get(field), str) and (found := patch_changes(text, path)):
            return found
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list) and len(command) > 1 and command[0] == "apply_patch":
        return patch_changes(str(command[1]))
    if isinstance(command, list) and command and isinstance(command[-1], str):
        command = command[-1]
    if isinstance(command, str) and command.lstrip().startswith("apply_patch"):
        return patch_changes(command)
    return []


def text_at(holder: dict[str, Json], fields: Sequence[str]) -> str:
    """The first of these fields that is a text with something in it."""
    return next((value for field in fields if isinstance(value := holder.get(field), str) and value), "")


def _pairs(arguments: dict[str, Json]) -> Iterator[tuple[str, str]]:
    edits = arguments.get("edits")
    for edit in edits if isinstance(edits, list) else [arguments]:
        if isinstance(edit, dict):
            old = next((edit[field] for field in _OLD if isinstance(edit.get(field), str)), None)
            new = next((edit[field] for field in _NEW if isinstance(edit.get(field), str)), None)
            if new is not None and (old is not None or "old_string" in edit or "new_source" in edit):
                yield old or "", new


def compared(old: str, new: str, first: int | None = None) -> list[Line]:
    """The lines of two texts, in one row. `first`: the number of the first line, if it is known."""
    a, b = _split(old), _split(new)
    if len(old) + len(new) > _MOST:
        common: list[tuple[int, int, int]] = []
    else:
        from clew.files.diff.text import blocks  # difflib is slow to import

        common = blocks(a, b)
    found: list[Line] = []
    i = j = 0
    for x, y, count in [*common, (len(a), len(b), 0)]:
        found += [Line("-", a[at], _number(first, at)) for at in range(i, x)]
        found += [Line("+", b[at], None, _number(first, at)) for at in range(j, y)]
        found += [Line(" ", a[x + at], _number(first, x + at), _number(first, y + at)) for at in range(count)]
        i, j = x + count, y + count
    return found


def _number(first: int | None, at: int) -> int | None:
    return None if first is None else first + at


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


# -- patches: those of apply_patch, of `diff` and git, and blocks of SEARCH and REPLACE

_BEGIN: Final = "*** Begin Patch"
_FILE: Final[dict[str, Kind]] = {
    "*** Add File: ": "add",
    "*** Update File: ": "edit",
    "*** Delete File: ": "delete",
}
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SEARCH: Final = re.compile(r"[-<]{5,9} SEARCH\b")
_REPLACE: Final = re.compile(r"[+>]{5,9} REPLACE\b")
_DIVIDE: Final = re.compile(r"={5,9}$")


def patch_changes(text: str, path: str = "") -> list[Change]:
    """The changes that a patch makes; none, if it is no patch."""
    if len(text) > _MOST:
        return []
    if _BEGIN in text:
        return _of_envelope(text)
    if is_diff(text):
        return _of_files(diff_lines(text), path)
    lines = text.split("\n")
    if any(_SEARCH.match(line) for line in lines[:3]):
        return [Change(path, "edit", tuple(_of_blocks(lines)))]
    return []


def _of_envelope(text: str) -> list[Change]:
    found: list[Change] = []
    path, kind, lines = "", None, list[Line]()

    def done() -> None:
        if kind is not None:
            found.append(Change(path, kind, tuple(lines)))

    for line in text[text.index(_BEGIN) :].split("\n")[1:]:
        if line.startswith("*** "):
            head = next((head for head in _FILE if line.startswith(head)), None)
            if head is not None:
                done()
                path, kind, lines = line[len(head) :].strip(), _FILE[head], []
            elif line.startswith("*** Move to: "):
                path, kind = f"{path} → {line[13:].strip()}", "move"
            elif line.startswith("*** End Patch"):
                break
        elif line.startswith("@@"):
            lines.append(Line("@", line))
        elif line[:1] == "+":
            lines.append(Line("+", line[1:]))
        elif line[:1] == "-":
            lines.append(Line("-", line[1:]))
        elif kind is not None:
            lines.append(Line(" ", line[1:]))
    done()
    return found


def _of_blocks(lines: Sequence[str]) -> Iterator[Line]:
    old: list[str] = []
    new: list[str] = []
    side: list[str] | None = None
    for line in lines:
        if _SEARCH.match(line):
            old, new = [], []
            side = old
        elif side is old and _DIVIDE.match(line):
            side = new
        elif _REPLACE.match(line):
            yield from compared("\n".join(old), "\n".join(new))
            side = None
        elif side is not None and not line.startswith((":start_line:", ":end_line:", "-------")):
            side.append(line)


def _of_files(lines: Sequence[Line], path: str) -> list[Change]:
    found: list[Change] = []
    own: list[Line] = []
    kind: Kind = "edit"
    for line in lines:
        if line.mark == "" and line.text.startswith("--- "):
            if own:
                found.append(Change(path, kind, tuple(own)))
            own, kind = [], "add" if line.text.startswith("--- /dev/null") else "edit"
            path = _name(line.text) or path
        elif line.mark == "" and line.text.startswith("+++ "):
            if line.text.startswith("+++ /dev/null"):
                kind = "delete"
            path = _name(line.text) or path
        elif line.mark != "":
            own.append(line)
    return [*found, Change(path, kind, tuple(own))] if own else found


def _name(line: str) -> str:
    name = line[4:].partition("\t")[0].strip()
    return "" if name == "/dev/null" else name.removeprefix("a/").removeprefix("b/")


def hunk_lines(hunks: Json) -> list[Line]:
    """The lines of hunks as Claude Code keeps them: where each begins, and its lines."""
    found: list[Line] = []
    for hunk in hunks if isinstance(hunks, list) else []:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return []
        numbers = [hunk.get(field) for field in ("oldStart", "oldLines", "newStart", "newLines")]
        if not all(type(number) is int and 0 <= number < 10**9 for number in numbers):
            return []
        old, old_count, new, new_count = numbers
        found += diff_lines("\n".join([f"@@ -{old},{old_count} +{new},{new_count} @@", *lines]))
    return found


def is_diff(text: str) -> bool:
    """Whether a text holds a diff as `diff -u` and git print it."""
    at = 0
    for _ in range(50):  # a page of other hits is enough to call it something else
        at = text.find("@@ -", at)
        if at < 0:
            return False
        if (at == 0 or text[at - 1] == "\n") and _HUNK.match(text, at):
            return True
        at += 4
    return False


def diff_lines(text: str) -> list[Line]:
    """The lines of such a text; those of hunks with their numbers."""
    found: list[Line] = []
    old = new = left_old = left_new = 0
    for line in _split(text):
        mark = line[:1]
        if left_old <= 0 and left_new <= 0:
            if hunk := _HUNK.match(line):
                old, new = int(hunk[1]), int(hunk[3])
                left_old, left_new = int(hunk[2] or 1), int(hunk[4] or 1)
                found.append(Line("@", line))
            else:
                found.append(Line("", line))
        elif mark == "+":
            found.append(Line("+", line[1:], None, new))
            new, left_new = new + 1, left_new - 1
        elif mark == "-":
            found.append(Line("-", line[1:], old))
            old, left_old = old + 1, left_old - 1
        elif mark == "\\":
            found.append(Line("", line))
        elif mark in (" ", ""):
            found.append(Line(" ", line[1:], old, new))
            old, new, left_old, left_new = old + 1, new + 1, left_old - 1, left_new - 1
        else:  # cut off, or no diff after all
            left_old = left_new = 0
            found.append(Line("", line))
    return found
