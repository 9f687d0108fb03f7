"""A session as one HTML file: readable on a phone, without a network, and without a script of anyone else.

Tools and thinking fold with `details`, and branches are switched by radio buttons and rules of style, so that
everything can be read where no script runs. The script of the page unfolds all, jumps and copies: see
docs/adr/0045-one-script-in-an-exported-page.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from clew.core.log.labels import mark_of
from clew.core.messages.text import own_words, snippet
from clew.errors import CorruptError
from clew.exporters.agents import DEEPEST, MOST_MESSAGES, Subagents
from clew.exporters.blocks import Block
from clew.exporters.facts import many
from clew.exporters.page.calls import draw_call, draw_result, picture
from clew.exporters.page.frame import WITHOUT_MARKS, Prompt, foot, head, link
from clew.exporters.page.text import code_block, escape, escape_line, prose
from clew.exporters.pairs import paired, place_of
from clew.exporters.redact import Redactor, redactor_of
from clew.exporters.transcript import Outline, Transcript, Turn

if TYPE_CHECKING:
    from clew.model import SessionInfo
    from clew.store import Store

_FIRST_WORDS: Final = 100
"""Letters of a thought, or of what a program added, that are seen while it is folded."""
_FOLDED_SPEAKERS: Final = ("system", "other")


def pieces(
    store: Store,
    id: str,
    *,
    whole: bool = False,
    tools: bool = True,
    thinking: bool = True,
    redact: bool | Redactor = False,
    links: Mapping[str, str] | None = None,
) -> Iterator[bytes]:
    """The page, entry by entry.

    Args:
        store: Where the session is.
        id: Its id or alias.
        whole: All branches, with a switch between them; else the path to the head.
        tools: With tool calls, their results, and the subagents that they started.
        thinking: With what the model thought.
        redact: Without secrets. A `Redactor` of yours can report what it replaced.
        links: The names of the pages of other sessions that will lie beside this one, by their ids.
    """
    transcript = Transcript(store, id, whole=whole, redactor=redactor_of(redact))
    hidden = (set() if tools else {"call", "result"}) | (set() if thinking else {"thinking"})
    page = Page(store, transcript, hidden, links or {})
    yield "".join(head(transcript, agents=page.agents, links=page.links)).encode()
    yield from map(str.encode, page.conversation())
    yield "".join(foot(transcript, page.prompts)).encode()


class Page:
    """The conversation of one session; those of its subagents are such pages inside of it."""

    def __init__(
        self, store: Store, transcript: Transcript, hidden: set[str], links: Mapping[str, str], depth: int = 0
    ) -> None:
        self._store = store
        self._transcript = transcript
        self._hidden = hidden
        self.links = links
        self.prompts: list[Prompt] = []
        self.agents = Subagents(store, transcript.session.id)
        self._depth = depth
        self._prefix = "e"
        self._room = [MOST_MESSAGES]
        """For messages of subagents; shared with their pages."""
        self._shown = [0]
        """How many subagents were shown so far; shared as well."""
        self._speaker = ""
        self._day = ""

    def conversation(self) -> Iterator[str]:
        """The entries, in sections that a switch of branches can show and hide."""
        outline = self._transcript.outline
        places = _places(outline)
        open_segment = -1
        for turn in paired(self._transcript.turns()):
            if turn.segment != open_segment:
                yield "</section>\n" if open_segment >= 0 else ""
                yield f'<section class="s{turn.segment}">\n' if not self._depth else "<section>\n"
                yield places[turn.segment] if places else _turned(outline, turn.segment)
                open_segment = turn.segment
                self._speaker = ""
            yield from self.turn(turn)
        if "call" not in self._hidden:
            for info in self.agents.rest():
                if open_segment < 0:
                    yield "<section>\n"
                    open_segment = 0
                yield from self._agent(info)
        yield "</section>\n" if open_segment >= 0 else ""

    def turn(self, turn: Turn) -> Iterator[str]:
        """One entry; nothing, if nothing of it is to be shown."""
        blocks = [block for block in turn.blocks if block.kind not in self._hidden]
        if not blocks and not turn.notes and not turn.checkpoints:
            return
        anchor = f"{self._prefix}{place_of(turn)}"
        names: list[str] = [turn.speaker]
        is_first = turn.speaker != self._speaker or bool(turn.prompt) or turn.speaker == "mark"
        names += (["first"] if is_first else []) + (["prompt"] if turn.prompt else [])
        day = f"{turn.time:%Y-%m-%d}"
        shown = f"{turn.time:%H:%M}" if day == self._day else f"{turn.time:%Y-%m-%d %H:%M}"
        full = f"entry {turn.position}, {turn.time:%Y-%m-%d %H:%M:%S} UTC"
        at = (
            f'<a class="at" href="#{anchor}" title="{full}">{shown if is_first else f"{turn.time:%H:%M}"}</a>'
        )
        self._speaker, self._day = turn.speaker, day if is_first else self._day
        yield f'<article class="{" ".join(names)}" id="{anchor}">'
        is_named = is_first and turn.speaker != "mark"
        is_task = turn.speaker == "other" and turn.position == 0 and self._transcript.info.parent is not None
        name = "Task" if is_task else turn.name
        yield f"<h2>{name}{at}</h2>\n" if is_named else f"{at}\n"
        for block in blocks:
            yield from self.block(block, turn)
        for name, text in turn.notes:
            words = f'<span dir="auto">{escape(text.strip())}</span>'
            yield f'<p class="remark"><b>{name.capitalize()}</b> {words}</p>\n'
        for name in turn.checkpoints:
            yield _flag(name)
        yield "</article>\n"
        if turn.prompt and not self._depth:
            self.prompts.append(Prompt(anchor, turn.prompt, turn.segment))

    def block(self, block: Block, turn: Turn) -> Iterator[str]:
        match block.kind:
            case "text":
                yield from draw_said(block, turn)
            case "thinking":
                yield draw_folded("think", "Thinking", block.text)
            case "call":
                yield from draw_call(
                    block,
                    workspace=self._transcript.info.workspace,
                    prefix=self._prefix,
                    more=self._started,
                )
            case "result":
                yield from draw_result(block)
            case "media":
                yield picture(block.media, block.text) if block.media else ""
            case _:
                inside = code_block(block.text, "json" if block.is_json else "")
                yield f'<details class="aside"><summary>Data</summary>{inside}</details>\n'

    # -- subagents

    def _started(self, call: Block) -> Iterator[str]:
        for info in self.agents.started_by(call):
            yield from self._agent(info)

    def _agent(self, info: SessionInfo) -> Iterator[str]:
        """A subagent, folded; a line about it, if the page has no room for it."""
        page = self._inside(info)
        title = escape_line(snippet(info.title or info.preview or info.id, _FIRST_WORDS))
        if page is not None:
            shown = page._transcript.info
            title = escape_line(snippet(shown.title or shown.preview or shown.id, _FIRST_WORDS))
        elif self._transcript.redactor is not None:
            title = escape_line(self._transcript.redactor.uncounted().text(info.title or info.id, ""))
        beside = self.links.get(info.id)
        if page is None:
            yield f'<p class="note">Subagent: {link(title, beside)}, {many(info.messages, "message")}</p>\n'
            return
        yield f'<details class="sa agent"><summary><b>Subagent</b> <span class="sub">{title}</span>'
        yield f' <span class="out">({many(info.messages, "message")})</span></summary>\n'
        yield f'<p class="note">{link("On a page of its own", beside)}</p>' if beside else ""
        try:
            yield from page.conversation()
        except CorruptError as error:
            yield f'</section><p class="note">The rest cannot be read: {escape_line(str(error))}</p>'
        yield "</details>\n"

    def _inside(self, info: SessionInfo) -> Page | None:
        """The page of a subagent, if there is room for it."""
        if info.damaged or self._depth >= DEEPEST or info.messages > self._room[0]:
            return None
        try:
            transcript = Transcript(self._store, info.id, whole=False, redactor=self._transcript.redactor)
        except CorruptError:
            return None
        self._room[0] -= max(1, info.messages)
        self._shown[0] += 1
        page = Page(self._store, transcript, self._hidden, self.links, self._depth + 1)
        page._prefix = f"a{self._shown[0]}-"
        page._room, page._shown = self._room, self._shown
        return page


def draw_said(block: Block, turn: Turn) -> Iterator[str]:
    """What was said, as its speaker is shown: folded, if no person and no model says it."""
    if turn.speaker == "mark":
        yield from _mark(block)
    elif turn.speaker in _FOLDED_SPEAKERS:
        yield draw_folded("aside", "", block.text)
    else:
        own = own_words(block.text) if turn.speaker == "user" else ""
        if own and own.strip() != block.text.strip():
            yield f'<div class="said">{prose(own)}</div>\n'
            yield draw_folded("aside", "With what the agent added", block.text, peek=False)
        else:
            yield f'<div class="said">{prose(block.text)}</div>\n' if block.text else ""


def _mark(block: Block) -> Iterator[str]:
    name = escape_line(block.name or "")
    if block.text:
        inside = f'<div class="said">{prose(block.text)}</div>'
        yield f'<details class="mark"><summary><b>{name}</b></summary>{inside}</details>\n'
    else:
        yield f'<p class="note">{name}</p>'


def draw_folded(kind: str, name: str, text: str, *, peek: bool = True) -> str:
    """A text that is seen when it is unfolded; its first words are seen before."""
    words = escape_line(snippet(text.translate(WITHOUT_MARKS), _FIRST_WORDS)) if peek else ""
    title = f"<b>{name}</b>" if name else ""
    seen = f' <span class="out">{words}</span>' if words else ""
    inside = f'<div class="said">{prose(text)}</div>'
    return f'<details class="{kind}"><summary>{title}{seen}</summary>{inside}</details>\n'


def _flag(name: str) -> str:
    """A checkpoint: its name, or a mark."""
    return f'<p class="flag" title="{escape_line(name)}">Checkpoint: {escape_line(mark_of(name) or name)}</p>'


def _turned(outline: Outline, number: int) -> str:
    """That the conversation went back, and on from here."""
    segment = outline.segments[number]
    branch = outline.branches[segment.branch]
    if branch.parent is None or segment.first != branch.fork + 1 or branch.fork < 0:
        return ""
    return (
        f'<p class="turned">Rewound to entry {branch.fork}; what had come after it is on another branch</p>\n'
    )


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
