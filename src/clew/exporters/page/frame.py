"""What stands around the conversation: the policy, the head with its facts, the list of prompts, the foot."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from clew.core.log.records import origin_of
from clew.core.messages.text import snippet
from clew.exporters.agents import Subagents
from clew.exporters.facts import facts, secrets_in
from clew.exporters.page.text import direction, escape, escape_line
from clew.exporters.transcript import Outline, Transcript

if TYPE_CHECKING:
    from clew.model import SessionInfo

_FOLDER: Final = Path(__file__).parent
MOST_OF_A_PROMPT: Final = 90
"""Letters in the list of prompts."""


WITHOUT_MARKS: Final = str.maketrans("", "", "`*")
"""Marks of Markdown, in a line that is shown without its formatting."""


class Prompt(NamedTuple):
    anchor: str
    text: str
    segment: int


@cache
def script() -> str:
    """The whole of the page's script: one text, the same for every page."""
    return (_FOLDER / "page.js").read_text("utf-8")


@cache
def _looks() -> str:
    return (_FOLDER / "page.css").read_text("utf-8")


def style(outline: Outline) -> str:
    """The whole of the style element."""
    return _looks() + _switches(outline)


def _switches(outline: Outline) -> str:
    """With the button of a path pressed, its segments are shown, and its label is marked."""
    if len(outline.paths) < 2:
        return ""
    rules = ["section,#prompts li{display:none}"]
    for number, path in enumerate(outline.paths):
        shown = ",".join(
            f"#p{number}:checked~main>.s{segment},#p{number}:checked~#prompts .s{segment}"
            for segment in path.segments
        )
        rules += [f"{shown}{{display:revert}}"] if shown else []
        label = f"~nav>label[for=p{number}]"
        rules.append(f"#p{number}:checked{label}{{border-color:var(--user);font-weight:600}}")
        rules.append(f"#p{number}:focus-visible{label}{{outline:2px solid var(--user)}}")
    return "\n".join(rules)


def _seal(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def head(transcript: Transcript, *, agents: Subagents, links: Mapping[str, str]) -> Iterator[str]:
    """All before the conversation."""
    info = transcript.info
    looks = style(transcript.outline)
    title = escape_line(info.title or info.preview or info.id)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"script-src {_seal(script())}; style-src {_seal(looks)}; img-src data:; "
        "base-uri 'none'; form-action 'none'\">\n"
    )
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="clew">\n'
    yield f"<title>{title}</title>\n<style>{looks}</style>\n</head>\n<body>\n<header>\n"
    if above := [escape_line(text) for text in (info.agent, info.project) if text]:
        yield f'<p class="who">{" · ".join(above)}</p>\n'
    yield f"<h1{direction(title)}>{title}</h1>\n"
    yield from _parent(info, links)
    tags = "".join(f'<span class="tag">{escape_line(tag)}</span> ' for tag in info.tags)
    shown = "".join(f"<span>{escape_line(fact)}</span> " for fact in facts(transcript, agents))
    yield f'<p class="facts">{shown}</p>\n' + (f'<p class="tags">{tags}</p>\n' if tags else "")
    yield '<details class="more"><summary>Details</summary><dl>'
    for name, value in _details(transcript):
        yield f"<dt>{name}</dt><dd>{escape_line(value)}</dd>"
    yield "</dl></details>\n</header>\n"
    yield from _branches(transcript)
    yield (
        '<nav class="bar" aria-label="This page"><a class="list" href="#prompts">Prompts</a>'
        '<button type="button" id="back" title="Previous prompt (k)" hidden>↑ Previous</button>'
        '<button type="button" id="next" title="Next prompt (j)" hidden>↓ Next</button>'
        '<button type="button" id="fold" title="Everything (e)" hidden>Expand all</button></nav>\n'
    )
    yield "<main>\n"


def _parent(info: SessionInfo, links: Mapping[str, str]) -> Iterator[str]:
    if info.parent is None:
        return
    name = escape_line(info.parent)
    file = links.get(info.parent)
    yield f'<p class="note">Subagent of {link(name, file)}</p>\n'


def link(words: str, file: str | None) -> str:
    """To a page that lies beside this one. `words` are escaped; without a file they are words only."""
    return words if file is None else f'<a href="./{escape(quote(file, safe="~"))}">{words}</a>'


def _details(transcript: Transcript) -> Iterator[tuple[str, str]]:
    info = transcript.info
    yield "Session", info.id
    origin = origin_of(info.metadata)
    if origin is not None:
        program = origin.format or "another program"
        yield "Imported", f"from a file of {program}, which says who spoke"
    if info.workspace:
        yield "Directory", info.workspace
    if info.vendor or info.endpoint:
        yield "Served by", " · ".join(filter(None, (info.vendor, info.endpoint)))
    if info.forked_from is not None:
        yield "Forked from", f"{info.forked_from.session} at {info.forked_from.head.position}"
    usage = transcript.session.usage()
    if usage.calls:
        yield "Model calls", f"{usage.calls:,}"
        cached = f", of these {usage.cache_read_tokens:,} from the cache" if usage.cache_read_tokens else ""
        thought = f", of these {usage.reasoning_tokens:,} for thinking" if usage.reasoning_tokens else ""
        yield "Input tokens", f"{usage.input_tokens:,}{cached}"
        yield "Output tokens", f"{usage.output_tokens:,}{thought}"
    outline = transcript.outline
    if outline.unlisted:
        branches = len(outline.branches)
        yield (
            "Branches",
            f"{branches} branches are too many to switch between them: each is shown with its place",
        )


def _branches(transcript: Transcript) -> Iterator[str]:
    """Buttons to switch between the branches; they must stand before what they switch."""
    outline = transcript.outline
    if len(outline.paths) < 2:
        return
    for number in range(len(outline.paths)):
        checked = " checked" if number == 0 else ""
        yield f'<input class="pick" type="radio" name="path" id="p{number}"{checked}>\n'
    yield '<nav class="branches" aria-label="Branches">'
    for number, path in enumerate(outline.paths):
        at, position = path.leaf
        where = f"Branch {at + 1}, up to {position}" if at >= 0 else "Nothing"
        opening = f": {escape_line(words)}" if (words := transcript.opening(path)) else ""
        current = " (current)" if path.is_current else ""
        yield f'<label for="p{number}">{where}{current}{opening}</label>\n'
    yield "</nav>\n"


def foot(transcript: Transcript, prompts: Sequence[Prompt]) -> Iterator[str]:
    """All behind the conversation: the prompts, which stand at its side where there is room."""
    yield "</main>\n"
    yield '<nav id="prompts" aria-label="Prompts"><h2>Prompts</h2><ol>\n'
    for prompt in prompts:
        words = escape_line(snippet(prompt.text.translate(WITHOUT_MARKS), MOST_OF_A_PROMPT))
        entry = f'<a href="#{prompt.anchor}"{direction(words)}>{words or "…"}</a>'
        yield f'<li class="s{prompt.segment}">{entry}</li>\n'
    yield "</ol></nav>\n<footer>"
    if transcript.redactor is not None:
        yield f"{secrets_in(transcript.redactor.report())} replaced. "
    yield f"Session {escape_line(transcript.info.id)}, written by Clew.</footer>\n"
    yield f"<script>{script()}</script>\n</body>\n</html>\n"
