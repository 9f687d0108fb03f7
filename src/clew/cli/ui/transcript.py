"""A session as sections to read: prompts, answers, and what is folded to one line (tools, thinking, marks).

The result of a tool call is part of the call, as in the exports. No widgets: texts of rich, made visible by
`clew.cli.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec
from rich.text import Text

import clew
from clew.cli.text import clean, folded, local, one_line, pieces, plain, who
from clew.cli.views.ansi import translated
from clew.core.log.ids import parse_entry_id
from clew.exporters.blocks import Block, blocks_shown
from clew.exporters.changes import Line, changes_of, diff_lines, is_diff
from clew.exporters.tools import Gist, command_of, gist, output_of
from clew.model import Json

Kind = Literal["prompt", "answer", "call", "result", "thinking", "aside"]
"""`aside`: what no person and no model said: system texts, injected ones, compactions."""

MOST_LINES: Final = 2_000
"""Of one section. An export has all."""
AHEAD: Final = 50
"""So many entries are read behind a call to find its result."""
INDENT: Final = "    "
RULE: Final = 400
_MARKS: Final = {"+": "green", "-": "red", "@": "cyan"}


class Section:
    """A part of an entry, or a call with its result."""

    def __init__(self, kind: Kind, entry: clew.Entry, role: str) -> None:
        self.kind = kind
        self.role = role
        self.time = entry.time
        self.entries = [entry.id]
        """The ids of the entries that it shows: of a call, that of its result too."""
        self.is_open = kind in ("prompt", "answer")
        self.has_gap = False
        """An empty line comes before it."""
        self.text = ""
        self.call: Block | None = None
        self.result: Block | None = None
        self.workspace: str | None = None
        self.agent: str | None = None
        """Of a call that started a subagent: the id of its session."""
        self.agent_name = ""

    @property
    def can_fold(self) -> bool:
        return self.kind not in ("prompt", "answer")

    @property
    def place(self) -> clew.Head | None:
        """Where it ends: behind the result of a call."""
        return parse_entry_id(self.entries[-1])

    def texts(self) -> Iterator[Text]:
        if self.has_gap:
            yield Text("")
        match self.kind:
            case "prompt":
                yield from self._prompt()
            case "answer":
                yield from _cut(Text(line) for line in clean(self.text).strip("\n").split("\n"))
            case "call" | "result":
                yield self._tool_line()
                if self.is_open:
                    yield from _cut(_indented(self._tool_body()))
            case _:
                yield self._folded()
                if self.is_open:
                    style = "italic dim" if self.kind == "thinking" else "dim"
                    lines = clean(self.text).strip("\n").split("\n")
                    yield from _cut(_indented(Text(line, style) for line in lines))

    def _prompt(self) -> Iterator[Text]:
        rule = Text(f"── {one_line(self.role)} · {local(self.time)} ", "bold cyan", no_wrap=True)
        rule.overflow = "crop"
        yield rule.append("─" * RULE)
        yield from _cut(Text(line, "bold") for line in clean(self.text).rstrip("\n").split("\n"))

    def _sign(self) -> str:
        return "▾ " if self.is_open else "▸ "

    def _folded(self) -> Text:
        name = "thought" if self.kind == "thinking" else one_line(self.role)
        line = Text.assemble((self._sign(), "dim"), (f"{name}: ", "dim bold"), no_wrap=True)
        if self.is_open:
            return line
        return line.append(one_line(self.text[:400]), "italic dim" if self.kind == "thinking" else "dim")

    # -- tools

    def _gist(self) -> Gist:
        call, result = self.call, self.result
        return gist(
            call.name if call else (result.name if result else None),
            call.text if call else None,
            plain(result.text) if result else None,
            is_error=result is not None and result.is_error,
            workspace=self.workspace,
        )

    def _tool_line(self) -> Text:
        told = self._gist()
        line = Text(no_wrap=True).append(self._sign(), "magenta")
        if self.call is None:
            line.append("result of ", "dim")
        line.append(one_line(told.verb), "magenta").append(f" {one_line(told.subject)}")
        if self.agent is not None:
            line.append(f" → {one_line(self.agent_name)} (a)", "cyan")
        if told.outcome:
            style = "red" if told.failed else "dim"
            line.append(("" if told.outcome[0] in "(+−" else ":") + f" {one_line(told.outcome)}", style)
        return line

    def _tool_body(self) -> Iterator[Text]:
        if self.call is not None:
            yield from self._arguments(self.call)
        if self.result is not None and (said := self._output(self.result)).strip():
            lines = said.strip("\n").split("\n")
            if is_diff(said):
                yield from _diff(diff_lines(plain(said)))
            else:
                style = "red" if self.result.is_error else "dim"
                yield from (Text(style=style).append_text(line) for line in translated(lines))

    def _arguments(self, call: Block) -> Iterator[Text]:
        given = _decoded(call)
        changes = changes_of(given)
        command = command_of(given) if self._gist().family == "shell" else ""
        if changes:
            for change in changes:
                yield Text(one_line(change.path), "bold")
                yield from _diff(change.lines)
        elif command:
            for number, text in enumerate(clean(command).split("\n")):
                yield Text(f"{'$' if not number else '>'} {text}", "bold")
        else:
            yield from _named(given) if isinstance(given, dict) else _lines(call.text)

    def _output(self, result: Block) -> str:
        if self._gist().family == "shell":
            return folded(output_of(result.text).text)
        return folded(result.text)


def _diff(lines: Iterable[Line]) -> Iterator[Text]:
    for line in lines:
        mark = "" if line.mark == "@" else line.mark  # the text of such a line has it
        yield Text(f"{mark}{clean(plain(line.text))}", _MARKS.get(line.mark, ""))


def _named(arguments: dict[str, Json]) -> Iterator[Text]:
    """One line for each short argument; a long text begins below its name."""
    for name, value in arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if "\n" in text:
            yield Text(f"{one_line(name)}:", "bold")
            yield from _lines(text)
        else:
            yield Text.assemble((f"{one_line(name)}: ", "bold"), clean(text))


def _lines(text: str) -> Iterator[Text]:
    yield from (Text(line) for line in clean(text).split("\n") if line.strip())


def _decoded(call: Block) -> Json:
    if not call.is_json:
        return call.text
    try:
        return msgspec.json.decode(call.text)
    except msgspec.DecodeError:
        return call.text


def _indented(lines: Iterable[Text]) -> Iterator[Text]:
    for line in lines:
        yield Text(INDENT).append_text(line)


def _cut(lines: Iterable[Text]) -> Iterator[Text]:
    for number, line in enumerate(lines):
        if number >= MOST_LINES:
            yield Text(f"{INDENT}… more than {MOST_LINES:,} lines: an export (x) has all", "italic dim")
            return
        line.expand_tabs(4)
        yield line


# -- from entries to sections


def sections(entries: Iterable[clew.Entry], workspace: str | None) -> Iterator[Section | None]:
    """In the order of the entries; a call waits for its result, which comes in an entry behind it."""
    reader = _Reader(workspace)
    for entry in entries:
        yield None  # reading may take long: keys are looked at in between
        reader.take(entry)
        yield from reader.ready()
    yield from reader.ready(at_end=True)


class _Reader:
    def __init__(self, workspace: str | None) -> None:
        self._workspace = workspace
        self._held: list[Section] = []
        self._open: dict[str, Section] = {}
        self._since = 0
        self._last: Section | None = None

    def take(self, entry: clew.Entry) -> None:
        self._since = self._since + 1 if self._open else 0
        role = who(entry)
        if entry.kind != "message":
            said = "\n".join(piece.text for piece in pieces(entry))
            self._put(Section("aside", entry, entry.kind), said or f"({entry.kind})")
            return
        kind: Kind = {"user": "prompt", "assistant": "answer"}.get(role, "aside")  # type: ignore[assignment]
        if kind == "prompt":
            self._open.clear()  # what was not answered until now never will be
        last: Section | None = None
        for block in blocks_shown(entry):
            if block.kind == "call":
                self._call(entry, role, block)
                last = None
            elif block.kind == "result":
                self._result(entry, role, block)
                last = None
            elif block.kind == "thinking":
                self._put(Section("thinking", entry, role), block.text)
                last = None
            else:
                text = _media(block) if block.kind == "media" else folded(block.text)
                if last is not None:
                    last.text += f"\n{text}"
                else:
                    last = self._put(Section(kind, entry, role), text)

    def _put(self, section: Section, text: str) -> Section:
        section.text, section.workspace = text, self._workspace
        section.has_gap = self._last is not None and (not section.can_fold or not self._last.can_fold)
        self._last = section
        self._held.append(section)
        return section

    def _call(self, entry: clew.Entry, role: str, block: Block) -> None:
        section = self._put(Section("call", entry, role), "")
        section.call = block
        if block.call is not None:
            self._open[block.call] = section

    def _result(self, entry: clew.Entry, role: str, block: Block) -> None:
        section = self._open.pop(block.call, None) if block.call is not None else None
        if section is None:
            section = self._put(Section("result", entry, role), "")
        else:
            section.entries.append(entry.id)
        section.result = block

    def ready(self, *, at_end: bool = False) -> list[Section]:
        """The sections that nothing is missing of."""
        if self._open and not at_end and self._since < AHEAD:
            return []
        if self._since >= AHEAD:
            self._open.clear()
        found, self._held = self._held, []
        return found


def _media(block: Block) -> str:
    media = block.media
    if media is None:
        return f"[{block.text}]"
    kind = media.type or "media"
    return f"[{kind} {media.name}{f', {media.size:,} bytes' if media.size else ''}]"
