"""A conversation for people to read: who said what, and each tool call in one line with what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.text import Text

import clew
from clew.cli.names import entry_name
from clew.cli.text import Kind, clean, folded, local, mark_style, one_line, pieces, plain, short_mark, who
from clew.cli.views.ansi import translated
from clew.core.log.ids import parse_entry_id
from clew.exporters.changes import Line, changes_of, diff_lines, is_diff
from clew.exporters.tools import Gist, gist, output_of

if TYPE_CHECKING:
    from clew.exporters.blocks import Block

COLOURS: Final = {"user": "bold bright_cyan", "assistant": "bold bright_green", "tool": "yellow"}
STYLES: Final[dict[Kind, str]] = {"thinking": "italic bright_black"}
DIFF: Final = {"+": "green", "-": "red", "@": "cyan", "": "bright_black"}
INDENT: Final = "  "
MANY: Final = 40
"""Lines of a tool's output that are shown of a place that was asked for, unless all are asked for."""
FEW: Final = 12
"""Lines of a change that are shown below its call."""
AHEAD: Final = 200
"""Entries that are looked at to find the result of a call."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of entries."""

    mark: int | None = None
    """The position of the place that was asked for."""
    left_out: frozenset[Kind] = frozenset()
    full: bool = False
    """Every line of what tools were asked and answered."""
    prompts: bool = False
    """Only what the user said."""
    names: Mapping[str, str] = {}
    """Of branches, as `branch_names` gives them."""
    checkpoints: Mapping[str, Sequence[str]] = {}
    """Their names, by the ids of entries."""
    agents: Mapping[str, str] = {}
    """For the id of a call the subagent that it started, as a line."""
    workspace: str | None = None
    """Paths in it are told without it."""


class _Item:
    """An entry with its blocks, of which some may be told elsewhere."""

    def __init__(self, entry: clew.Entry) -> None:
        self.entry = entry
        self.blocks: list[Block] = []
        self.has_moved = False
        if entry.kind == "message":
            from clew.exporters.blocks import blocks_shown

            self.blocks = blocks_shown(entry)


def transcript(entries: Iterable[clew.Entry], view: View) -> Iterator[Text]:
    """The lines of entries, each entry behind an empty line. Programs write one turn of the model as many
    entries: those that go on with it have a shorter heading, and those that only call a tool none, but
    their name behind the call."""
    before: clew.Entry | None = None
    is_open = False
    for item, answers in _paired(entries, view):
        body = _body(item, answers, view)
        if not body:
            continue
        goes_on = before is not None and _goes_on(before, item.entry) and item.entry.position != view.mark
        goes_on = goes_on and item.entry.id not in view.checkpoints
        is_call = goes_on and [block.kind for block in item.blocks] == ["call"] and bool(view.names)
        if is_call:
            body[0].append(f"  {_name(item.entry, view)}", style="yellow dim")
        if not is_call or not is_open:
            yield Text("")
        if not is_call:
            yield heading(item.entry, view, goes_on=goes_on)
        yield from body
        before, is_open = item.entry, item.blocks[-1:] != [] and item.blocks[-1].kind == "call"


def _goes_on(before: clew.Entry, entry: clew.Entry) -> bool:
    """Whether the model, or a tool, goes on with what it said just before."""
    return who(entry) == who(before) != "user" and entry.kind == before.kind == "message"


def _paired(entries: Iterable[clew.Entry], view: View) -> Iterator[tuple[_Item, dict[int, Sequence[Block]]]]:
    """Each entry with the results of its calls, by the number of the call among its blocks. An entry of which
    all was told with the calls before it is left out, unless it is the place that was asked for."""
    source = iter(entries)
    ahead: deque[_Item] = deque()
    while True:
        if not ahead:
            entry = next(source, None)
            if entry is None:
                return
            ahead.append(_Item(entry))
        item = ahead.popleft()
        if item.has_moved and not item.blocks:
            continue
        calls = {
            block.call: at for at, block in enumerate(item.blocks) if block.kind == "call" and block.call
        }
        yield item, _answers(calls, ahead, source, view) if calls else {}


def _answers(
    calls: Mapping[str, int], ahead: deque[_Item], source: Iterator[clew.Entry], view: View
) -> dict[int, Sequence[Block]]:
    found: dict[int, Sequence[Block]] = {}
    at = 0
    while len(found) < len(calls) and at < AHEAD:
        if at == len(ahead):
            entry = next(source, None)
            if entry is None:
                break
            ahead.append(_Item(entry))
        item = ahead[at]
        at += 1
        if who(item.entry) == "user":
            break
        if item.entry.position == view.mark:
            continue
        kept = []
        for block in item.blocks:
            call = calls.get(block.call or "") if block.kind == "result" else None
            if call is None or call in found:
                kept.append(block)
            else:
                found[call] = (block,)
                item.has_moved = True
        item.blocks = kept
    return found


def _body(item: _Item, answers: Mapping[int, Sequence[Block]], view: View) -> list[Text]:
    entry = item.entry
    if view.prompts and who(entry) != "user":
        return []
    if entry.kind != "message":
        told = [line for piece in pieces(entry) for line in _said(piece.text, "bright_black")]
        return [*told, *_note(entry)] or [Text("")]
    told = [
        line
        for at, block in enumerate(item.blocks)
        if block.kind not in view.left_out and (not view.prompts or block.kind == "text")
        for line in _block(block, answers.get(at, ()), view, is_marked=entry.position == view.mark)
    ]
    return [*told, *_note(entry)]


def _note(entry: clew.Entry) -> Iterator[Text]:
    """What somebody wrote beside it: a search finds it by that."""
    note = entry.annotations.get("note")
    if isinstance(note, str) and note:
        yield from _said(note, "italic yellow", "note: ")


def heading(entry: clew.Entry, view: View, *, goes_on: bool) -> Text:
    """Its name, who speaks, and when."""
    is_marked = entry.position == view.mark
    name = _name(entry, view)
    if goes_on:
        return _marked(Text(name, style="yellow dim"), entry, view)
    role = one_line(who(entry))
    line = Text.assemble(
        ("▶ " if is_marked else "", "bold yellow"),
        (name, "bold yellow" if is_marked else "yellow"),
        "  ",
        (role, COLOURS.get(role, "bold")),
        (f"  {local(entry.time)}", "bright_black"),
    )
    return _marked(line, entry, view)


def _marked(line: Text, entry: clew.Entry, view: View) -> Text:
    for name in view.checkpoints.get(entry.id, ()):
        line.append(f"  ◆ {short_mark(name)}", style=mark_style(name))
    return line


def _name(entry: clew.Entry, view: View) -> str:
    place = parse_entry_id(entry.id)
    return str(entry.position) if place is None or not view.names else entry_name(dict(view.names), place)


def _block(block: Block, answers: Sequence[Block], view: View, *, is_marked: bool) -> Iterator[Text]:
    most = None if view.full else MANY
    if block.kind == "call":
        yield from _call(block, answers, view, is_marked=is_marked)
    elif block.kind == "result":
        yield from _output(block, most)
    elif block.kind == "media":
        kind = block.media.type or block.text if block.media else block.text
        yield _line(f"[{one_line(kind)}]", "bright_black")
    else:
        sign = "~ " if block.kind == "thinking" else ""
        text = block.text if view.full else folded(block.text)
        yield from _said(text, STYLES.get(block.kind, ""), sign)


def _said(text: str, style: str = "", sign: str = "") -> Iterator[Text]:
    for number, line in enumerate(clean(text).strip("\n").split("\n")):
        lead = sign if not number else " " * len(sign)
        yield _line(f"{lead}{line}".rstrip(), style)


def _line(text: str, style: str = "", *, deeper: bool = False) -> Text:
    return Text(f"{INDENT * (2 if deeper else 1)}{text}".rstrip(), style=style, overflow="fold")


# -- a call, and what came of it


def _call(block: Block, answers: Sequence[Block], view: View, *, is_marked: bool) -> Iterator[Text]:
    arguments = _decoded(block)
    result = answers[0] if answers else None
    told = gist(
        block.name,
        arguments,
        None if result is None else result.text,
        is_error=result is not None and result.is_error,
        workspace=view.workspace,
    )
    yield _gist(told)
    agent = view.agents.get(block.call or "")
    if agent is not None:
        yield _line(f"↳ {agent}", "bright_blue", deeper=True)
    changed = [line for change in changes_of(arguments) for line in change.lines]
    if changed:
        yield from _diff(changed, None if view.full else FEW)
    elif view.full and block.text:
        yield from _lines(clean(block.text).split("\n"), None, "bright_black")
    if result is not None and (view.full or is_marked):
        yield from _output(result, None if view.full else MANY)


def _decoded(block: Block) -> Any:
    if not block.is_json:
        return block.text
    try:
        return msgspec.json.decode(block.text)
    except (msgspec.DecodeError, RecursionError):
        return block.text


def _gist(told: Gist) -> Text:
    """`→ Ran pytest -q: 2 failed`."""
    line = Text.assemble(INDENT, ("→ ", "magenta"), (clean(told.verb), "magenta"), overflow="fold")
    if told.subject:
        line.append(f" {clean(told.subject)}")
    if told.outcome:
        joined = " " if told.outcome[0] in "(+−" else ": "
        line.append(f"{joined}{clean(told.outcome)}", style="red" if told.failed else "bright_black")
    return line


def _output(block: Block, most: int | None) -> Iterator[Text]:
    """What a tool answered: with its colours, without anything else that acts on a terminal."""
    text = output_of(block.text).text if not block.is_json else block.text
    text = text if most is None else folded(text)
    if is_diff(plain(text)):
        yield from _diff(list(diff_lines(plain(text))), most)
        return
    lines = text.strip("\n").split("\n")
    for number, line in enumerate(translated(lines[:most])):
        lead = "← " if not number else "  "
        yield Text.assemble(INDENT * 2, (lead, "bright_black"), line, overflow="fold")
    yield from _more(len(lines), most)


def _diff(lines: Sequence[Line], most: int | None) -> Iterator[Text]:
    shown = [line for line in lines if line.mark in ("+", "-", "@")] if most == FEW else lines
    for line in shown[:most]:
        mark = line.mark if line.mark in "+-" else " "
        yield _line(f"{mark} {clean(plain(line.text))}", DIFF.get(line.mark, ""), deeper=True)
    yield from _more(len(shown), most)


def _lines(lines: Sequence[str], most: int | None, style: str) -> Iterator[Text]:
    for line in lines[:most]:
        yield _line(line, style, deeper=True)
    yield from _more(len(lines), most)


def _more(count: int, most: int | None) -> Iterator[Text]:
    if most is not None and count > most:
        yield _line(f"… {count - most:,} more lines: --full", "bright_black", deeper=True)
