"""A session as a Markdown page: readable as it is, and on GitHub.

The text in it is untrusted. It keeps its look where that is harmless, and stays in its place.

What was said is rewritten line by line: tags, headings, definitions of links, images and links to anything
but web pages lose their effect; what a person said stands in a quote. Code stands in fences of our own,
longer than any run of fence characters inside. A tool call is one line that unfolds (`details`, the only tags
in the page). A backslash is written only where the text would be read as something else without it.
"""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote as percent

from clew.core.log.labels import mark_of
from clew.core.log.records import origin_of
from clew.core.messages.text import own_words, snippet, visible, visible_line
from clew.exporters.agents import Subagents
from clew.exporters.blocks import Block
from clew.exporters.changes import Line, changes_of, hunk_lines, is_diff, text_at
from clew.exporters.facts import amount, dollars, facts, many, secrets_in
from clew.exporters.pairs import paired
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.tools import Gist, command_of, gist, output_of, plan_items
from clew.exporters.tools.output import decoded
from clew.exporters.transcript import Part, Transcript, Turn

if TYPE_CHECKING:
    from datetime import datetime

    from clew.core.conversation.points import Point
    from clew.model import SessionInfo, Usage
    from clew.store import Store

_SPECIAL: Final = re.compile(r"\\+|`+|\*+|_+|~+|<|&|\[|\]\(|#+")
"""What may mean something in the middle of a line."""
_FENCE: Final = re.compile(
    r"^(?P<lead>[ \t]{0,12}(?:(?:[-+*]|\d{1,9}[.)])[ \t]{1,4})?)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$"
)
_CONTAINERS: Final = re.compile(r"^(?:[ \t]|>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))*")
_RULER: Final = re.compile(r"^(?P<lead>[ \t>]*)(?:=+|-+)[ \t]*$")
_TOKEN: Final = re.compile(r"\\.|`+|!\[|\]\(|\]:|<")
_HARMLESS_LINK: Final = re.compile(
    r"(?i)[ \t]*+<?+(?!//)(?:https?://|mailto:|#|[\w./~+-]++(?:[#?][\w=&.-]*+)?>?(?=[ )]|\Z))"
)
"""How a link begins that leads to a web page, or to a place in this page or beside it; without escapes."""
_TICKS: Final = re.compile("`+")
_NO_TAG: Final = " \t=-0123456789,;.)"
"""Behind a `<` none of these begins a tag."""
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,30}")


def inline(text: str) -> str:
    """A name or a title, as nothing but its letters, in the middle of a line."""
    line = visible_line(text)
    has_links = "](" in line
    return _SPECIAL.sub(lambda found: _escaped(found, has_links=has_links), line)


def _escaped(found: re.Match[str], *, has_links: bool) -> str:
    """A run of marks, with a backslash before each if the line would be read as something else."""
    run, line = found[0], found.string
    before, after = line[max(0, found.start() - 1) : found.start()], line[found.end() : found.end() + 1]
    match run[0]:
        case "\\":
            # One before a letter is one; two are one.
            means = len(run) > 1 or not after.isalnum()
        case "*":
            means = not (before.isspace() and after.isspace())
        case "_":
            means = not (before.isalnum() and after.isalnum())
        case "~":
            means = not (before.isspace() and after.isspace())
        case "<":
            means = not after.isspace() and not after.isdigit() and after not in "=-,;"
        case "&":
            means = after.isalnum() or after == "#"
        case "[" | "]":
            means = has_links
        case "#":
            means = not after and before in ("", " ")  # the end of a heading
        case _:
            means = True
    return "".join(f"\\{mark}" for mark in run) if means else run


def fence(text: str, language: str = "") -> Iterator[str]:
    """Lines of code, in a fence that nothing inside can close."""
    shown = visible(text)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    ticks = "`" * max(3, longest + 1)
    yield f"{ticks}{language if _LANGUAGE.fullmatch(language) else ''}"
    yield from shown.split("\n")
    yield ticks


def quote(text: str) -> Iterator[str]:
    """Lines of speech, in a quote."""
    for line in speech(text):
        yield f"> {line}" if line else ">"


def speech(text: str) -> Iterator[str]:
    """Lines of speech, in which nothing acts."""
    yield from _speech(visible(text).split("\n"))


def _speech(said: list[str]) -> Iterator[str]:
    at = 0
    while at < len(said):
        opening = _FENCE.match(said[at])
        if opening is None:
            yield _prose(said[at])
            at += 1
            continue
        end = _closing(said, at, opening["fence"])
        if not opening["lead"].isspace() and opening["lead"]:
            yield ""  # behind a paragraph the mark alone would make a heading of it
            yield opening["lead"].rstrip()
        yield from fence("\n".join(said[at + 1 : end]), opening["info"].strip())
        at = end + 1


def _closing(said: list[str], start: int, fence: str) -> int:
    """The line that closes a fence; the end of the text if none does."""
    for at in range(start + 1, len(said)):
        line = said[at].strip(" \t")
        if len(line) >= len(fence) and line == fence[0] * len(line):
            return at
    return len(said)


def _prose(line: str) -> str:
    """A line outside of code: marks of lists, tables and emphasis work, the rest is letters."""
    if ruler := _RULER.match(line):  # also a mark of a list with nothing behind it
        return f"{ruler['lead']}\\{line[ruler.end('lead') :]}"
    start = _CONTAINERS.match(line)
    head = start[0] if start else ""
    rest = line[len(head) :]
    if rest.startswith(("#", "~~~")):
        head += "\\"
    return head + _inert(rest)


def _inert(text: str) -> str:
    """Without tags, images, definitions and doubtful links; code spans stay if they end on this line."""
    out: list[str] = []
    spans = _CodeSpans(text)
    at = 0
    while (found := _TOKEN.search(text, at)) is not None:
        out.append(text[at : found.start()])
        token, at = found[0], found.end()
        if token[0] == "`":
            span = spans.between(at, len(token))
            if span is None:
                out.append("\\`" * len(token))
            else:
                out.append(token + span + token)
                at += len(span) + len(token)
        elif token == "<":
            after = text[at : at + 1]
            out.append("<" if not after or after in _NO_TAG else "&lt;")
        elif token == "![":
            out.append("\\![")
        elif token == "](":
            out.append("](" if _HARMLESS_LINK.match(text, at) else "]\\(")
        elif token == "]:":
            # A definition begins its line, or its name began on a line before.
            before = text[: found.start()]
            is_name = before.lstrip().startswith("[") or "[" not in before
            out.append("]\\:" if is_name else "]:")
        else:
            out.append(token)
    return "".join(out) + text[at:]


class _CodeSpans:
    """Where the runs of backticks of a line are, by their length: each is looked for once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: dict[int, deque[int]] | None = None

    def between(self, at: int, ticks: int) -> str | None:
        """What stands between so many backticks, which end here, and the next equal ones. A cell of a
        table would cut it."""
        if self._runs is None:
            self._runs = {}
            for found in _TICKS.finditer(self._text, at):
                self._runs.setdefault(len(found[0]), deque()).append(found.start())
        starts = self._runs.get(ticks, deque())
        while starts and starts[0] < at:
            starts.popleft()
        if not starts:
            return None
        span = self._text[at : starts[0]]
        return None if "|" in span and "<" in span else span


# -- the page


def pieces(
    store: Store,
    id: str,
    *,
    whole: bool = False,
    tools: bool = True,
    thinking: bool = True,
    calls: bool = False,
    last: int | None = None,
    before: Point | None = None,
    after: Point | None = None,
    redact: bool | Redactor = False,
    links: Mapping[str, str] | None = None,
) -> Iterator[bytes]:
    """The page, entry by entry.

    Args:
        store: Where the session is.
        id: Its id or alias.
        whole: All branches, each under a heading of its own; else the path to the head.
        tools: With tool calls and their results.
        thinking: With what the model thought.
        calls: With a list of the model calls: vendor, endpoint and model of each, tokens and cost.
        last: Only so many entries, from the end.
        before: Only entries before this point.
        after: Only entries after this point.
        redact: Without secrets. A `Redactor` of yours can report what it replaced.
        links: The names of the pages of other sessions that will lie beside this one, by their ids.
    """
    part = Part(last=last, before=before, after=after)
    transcript = Transcript(store, id, whole=whole, redactor=redactor_of(redact), part=part)
    numbers = {branch.uid: number for number, branch in enumerate(transcript.outline.branches, 1)}
    current = frozenset(transcript.outline.current.segments)
    page = _Page(transcript, Subagents(store, transcript.session.id), links or {})
    yield _text(page.head())
    hidden = _hidden(tools=tools, thinking=thinking)
    shown = _Shown(part)
    segment = -1
    for turn in paired(shown.noting(transcript.turns())):
        if turn.segment != segment:
            page.speaker = ""
            if whole:
                yield _text(_segment_head(transcript, turn.segment, numbers, current))
            elif turned := _turned(transcript, turn.segment):
                yield _text(iter([turned]))
        segment = turn.segment
        blocks = [block for block in turn.blocks if block.kind not in hidden]
        if blocks or turn.notes or turn.checkpoints:
            yield _text(page.turn(turn, blocks))
    if tools and (rest := page.agents.rest()):
        yield _text(line for info in rest for line in (page.agent(info), ""))
    if calls:
        yield _text(_calls(transcript, shown))
    if transcript.redactor is not None:
        yield f"*{secrets_in(transcript.redactor.report())} replaced.*\n".encode()


class _Shown:
    """Which entries are on the page, for the list of the calls that made them."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._times: list[datetime] = []
        self._positions: dict[str, int] = {}

    def noting(self, turns: Iterator[Turn]) -> Iterator[Turn]:
        for turn in turns:
            self._positions[turn.id] = turn.position
            self._times = [*self._times[:1], turn.time]
            yield turn

    def position(self, call: Usage) -> int | None:
        """Return the position of the entry that a call made, if it is on the page."""
        return None if call.entry is None else self._positions.get(call.entry)

    def has(self, call: Usage) -> bool:
        """Report whether a call belongs here: it made an entry of this part, or none and fell in its time."""
        if self._part.is_all:
            return True
        if call.entry is not None or not self._times:
            return call.entry in self._positions
        is_late = self._part.before is not None and call.at > self._times[-1]
        return self._times[0] <= call.at and not is_late


def _calls(transcript: Transcript, shown: _Shown) -> Iterator[str]:
    """A line for each model call."""
    yield "### Model calls"
    yield ""
    none, last = True, None
    while page := transcript.session.usage_records(after=last):
        last = page[-1]
        for call in filter(shown.has, page):
            none = False
            yield f"- {inline(_call_line(call, shown.position(call), transcript.redactor))}"
    if none:
        yield "No model call was recorded."


def _call_line(call: Usage, position: int | None, redactor: Redactor | None) -> str:
    endpoint = call.endpoint
    if redactor is not None and endpoint is not None:
        endpoint = redactor.text(endpoint, f"call {call.number}: endpoint")
    names = [name for name in (call.vendor, endpoint, call.model) if name]
    parts = [f"{call.at:%Y-%m-%d %H:%M:%S}", " / ".join(names) or "unknown model"]
    parts += [f"{amount(call.input_tokens)} tokens in, {amount(call.output_tokens)} out"]
    if call.cost:
        parts.append(dollars(call.cost) + (" (estimated)" if call.estimated else ""))
    if call.source:
        parts.append(call.source)
    return " · ".join(parts if position is None else [*parts, f"entry {position}"])


def _hidden(*, tools: bool, thinking: bool) -> set[str]:
    return (set() if tools else {"call", "result"}) | (set() if thinking else {"thinking"})


def _text(lines: Iterator[str]) -> bytes:
    return ("\n".join(lines).rstrip("\n") + "\n\n").encode()


def _segment_head(
    transcript: Transcript, number: int, numbers: Mapping[str, int], current: Collection[int]
) -> Iterator[str]:
    """Which branch goes on here, and where it comes from. Headings of entries are one level below.
    `numbers`: of the branches, by uid; `current`: the segments of the path."""
    outline = transcript.outline
    segment = outline.segments[number]
    branch = outline.branches[segment.branch]
    mark = " (current)" if number in current else ""
    yield f"## Branch {segment.branch + 1}, from {segment.first} to {segment.last}{mark}"
    if segment.first == branch.fork + 1 and branch.parent is not None:
        yield ""
        yield f"Continues branch {numbers[branch.parent]} after {branch.fork}."


def _turned(transcript: Transcript, number: int) -> str:
    segment = transcript.outline.segments[number]
    branch = transcript.outline.branches[segment.branch]
    if branch.parent is None or segment.first != branch.fork + 1 or branch.fork < 0:
        return ""
    return f"*Rewound to entry {branch.fork}; what had come after it is on another branch.*"


class _Page:
    def __init__(self, transcript: Transcript, agents: Subagents, links: Mapping[str, str]) -> None:
        self._transcript = transcript
        self.agents = agents
        self._links = links
        self.speaker = ""

    def head(self) -> Iterator[str]:
        info = self._transcript.info
        yield f"# {inline(info.title or info.preview or info.id)}"
        yield ""
        above = [text for text in (info.agent, info.project) if text]
        yield inline(" · ".join([*above, *facts(self._transcript, self.agents)]))
        yield ""
        yield f"- Session: {inline(info.id)}"
        if info.parent is not None:
            yield f"- Subagent of {self._link(info.parent, info.parent)}"
        origin = origin_of(info.metadata)
        if origin is not None:
            program = inline(origin.format) if origin.format else "another program"
            yield f"- Imported from a file of {program}, which says who spoke"
        if info.workspace:
            yield f"- Directory: {inline(info.workspace)}"
        if info.vendor or info.endpoint:
            names = (info.vendor, info.endpoint, info.model)
            yield f"- Vendor: {inline(' / '.join(name for name in names if name))}"
        if info.tags:
            yield f"- Tags: {inline(', '.join(info.tags))}"

    def turn(self, turn: Turn, blocks: list[Block]) -> Iterator[str]:
        """An entry. What the same one says in a row has one heading."""
        if turn.speaker != self.speaker or turn.prompt or turn.speaker == "mark":
            yield f"### {turn.name} · {turn.position} · {turn.time:%Y-%m-%d %H:%M:%S}"
            yield ""
        self.speaker = turn.speaker
        for block in blocks:
            yield from self._block(block, turn)
            yield ""
        yield from _notes(turn)
        for name in turn.checkpoints:
            yield f"*Checkpoint: {inline(mark_of(name) or name)}*"
            yield ""

    def _block(self, block: Block, turn: Turn) -> Iterator[str]:
        match block.kind:
            case "text":
                yield from _said(block, turn)
            case "thinking":
                yield from _folded(f"Thinking: {snippet(block.text, _FIRST_WORDS)}", quote(block.text))
            case "call":
                yield from self._call(block)
            case "result":
                what = "Error of" if block.is_error else "Result of"
                first = snippet(block.text, _FIRST_WORDS)
                yield from _folded(f"{what} {block.name or 'a tool'}: {first}", _result(block))
            case "media":
                yield f"*{inline(_media(block))}*"
            case _:
                yield from _folded("Data", fence(block.text, "json" if block.is_json else ""))

    # -- tools

    def _gist(self, call: Block) -> Gist:
        result = next((answer for answer in call.answers if answer.kind == "result"), None)
        return gist(
            call.name,
            call.value if call.value is not None else call.text,
            None if result is None else result.text,
            is_error=result is not None and result.is_error,
            workspace=self._transcript.info.workspace,
        )

    def _call(self, call: Block) -> Iterator[str]:
        """What a call asked for, and what came of it, behind one line."""
        told = self._gist(call)
        title = str(told) if call.answers else f"{told} (no result)"
        yield from _folded(title, self._inside(call, told.family))

    def _inside(self, call: Block, family: str) -> Iterator[str]:
        yield from _asked(call, family)
        for info in self.agents.started_by(call):
            yield ""
            yield self.agent(info)
        for answer in call.answers:
            yield ""
            if answer.kind == "media":
                yield f"*{inline(_media(answer))}*"
            elif family == "shell":
                yield from _printed(output_of(answer.text).text)
            elif family in ("agent", "web") and not answer.is_json and answer.text.strip():
                yield from quote(answer.text)
            else:
                yield from _result(answer)

    def agent(self, info: SessionInfo) -> str:
        """A line about a subagent."""
        title = info.title or info.preview or info.id
        if self._transcript.redactor is not None:
            title = self._transcript.redactor.uncounted().text(title, "")
        return (
            f"Subagent: {self._link(snippet(title, _FIRST_WORDS), info.id)}, {many(info.messages, 'message')}"
        )

    def _link(self, words: str, id: str) -> str:
        file = self._links.get(id)
        return inline(words) if file is None else f"[{inline(words)}](./{percent(file, safe='~')})"


_FIRST_WORDS: Final = 100
"""Letters of a thought or a result that are seen while it is folded."""


def _folded(title: str, inside: Iterator[str]) -> Iterator[str]:
    """A line that unfolds. The two lines with tags are ours; what is between them is quotes and fences."""
    yield f"<details><summary>{html.escape(visible_line(title), quote=False)}</summary>"
    yield ""
    yield from inside
    yield ""
    yield "</details>"


def _notes(turn: Turn) -> Iterator[str]:
    """What was written beside the entry: a line, or a quote if it has several."""
    for name, text in turn.notes:
        if "\n" in text.strip():
            yield f"*{name.capitalize()}:*"
            yield ""
            yield from quote(text.strip())
        else:
            yield f"*{name.capitalize()}: {inline(text)}*"
        yield ""


def _said(block: Block, turn: Turn) -> Iterator[str]:
    if turn.speaker == "mark":
        if block.text:
            yield from _folded(block.name or "", quote(block.text))
        else:
            yield f"*{inline(block.name or '')}*"
    elif turn.speaker == "user":
        own = own_words(block.text)
        if own and own.strip() != block.text.strip():
            yield from quote(own)
            yield ""
            yield from _folded("With what the agent added", quote(block.text))
        else:
            yield from quote(block.text)
    elif turn.speaker == "assistant":
        yield from speech(block.text)
    else:
        yield from _folded(snippet(block.text, _FIRST_WORDS), quote(block.text))


def _headed(path: str, lines: tuple[Line, ...]) -> Iterator[Line]:
    yield Line("", f"# {path}")
    yield from lines


def _mark_of(line: Line) -> str:
    return line.mark if line.mark in ("+", "-", " ") else ""


def _asked(call: Block, family: str) -> Iterator[str]:
    """The arguments of a call, each in the form in which it reads best."""
    given = decoded(call.value)
    changed = changes_of(given)
    known = next((lines for answer in call.answers if (lines := hunk_lines(answer.value))), [])
    given = given if isinstance(given, dict) else {}
    if known or changed:
        lines = known or [line for change in changed for line in _headed(change.path, change.lines)]
        yield from fence("\n".join(f"{_mark_of(line)}{line.text}" for line in lines), "diff")
    elif family == "shell" and (command := command_of(call.value)):
        yield from fence(command, "sh")
    elif family == "write" and (content := text_at(given, ("content", "contents", "file_text"))):
        yield from fence(content)
    elif family == "agent" and (prompt := text_at(given, ("prompt", "message", "task"))):
        yield from quote(prompt)
    elif family == "plan" and (items := plan_items(given)):
        for state, words in items:
            yield f"- [{'x' if state == 'done' else ' '}] {inline(words)}"
    elif family != "read" and call.text:
        yield from fence(call.text, "json" if call.is_json else "")


def _result(answer: Block) -> Iterator[str]:
    if not answer.text.strip():
        yield "*No output.*"
    elif answer.is_json:
        yield from fence(answer.text, "json")
    else:
        yield from _printed(answer.text)


def _printed(text: str) -> Iterator[str]:
    shown = text.strip("\n")
    yield from fence(shown, "diff" if is_diff(shown) else "") if shown.strip() else iter(["*No output.*"])


def _media(block: Block) -> str:
    media = block.media
    if media is None:
        return "Media"
    size = "" if media.size is None else f", {media.size:,} bytes"
    return f"Not shown: {media.type or 'a file'} ({block.text or 'without a name'}{size})"
