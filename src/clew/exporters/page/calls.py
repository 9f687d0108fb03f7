"""Tool calls: one folded line that says what happened; inside, what was asked for and what came of it.

A tool whose work has a look of its own is drawn so: a command with what the terminal showed, an edit as a
diff, a file with the numbers of its lines, a plan as a list. Of any other the arguments are shown, and the
result.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Final

import msgspec

from clew.exporters.blocks import RASTER, Block, Media
from clew.exporters.changes import PATHS, changes_of, diff_lines, hunk_lines, is_diff, patch_changes, text_at
from clew.exporters.page.colours import language_of
from clew.exporters.page.diff import diff
from clew.exporters.page.terminal import terminal
from clew.exporters.page.text import code_block, escape, escape_line, numbered, prose
from clew.exporters.tools import Gist, command_of, file_text, gist, output_of, plan_items
from clew.model import Json

_NUMBERED: Final = re.compile(r"[ \t]{0,8}(\d{1,7})(?:→|\t|:(?: |$)|\|)")
_CONTENTS: Final = ("content", "contents", "file_text", "text", "data", "new_source")
_DRAWN: Final = frozenset(
    {
        *PATHS, "command", "cmd", "script", "old_string", "new_string", "oldString", "newString", "old_str",
        "new_str", "oldText", "newText", "edits", "patch", "patchText", "input", "diff", "content",
        "contents", "file_text", "todos", "plan", "prompt", "new_source", "workdir", "cwd",
    }
)  # fmt: skip
"""Arguments that are drawn in a way of their own where they are."""
PDF: Final = "application/pdf"
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_LONG: Final = 200
"""Letters of an argument that fit a line."""

Folded = Callable[[Block], Iterable[str]]
"""What else belongs under a call: the subagents that it started."""


def no_more(call: Block) -> Iterable[str]:
    return ()


def draw_call(
    call: Block, *, workspace: str | None, prefix: str = "e", more: Folded = no_more, awaited: bool = False
) -> Iterator[str]:
    """A call with its result inside. `awaited`: a call without one is not told to have none."""
    result = next((answer for answer in call.answers if answer.kind == "result"), None)
    told = told_of(call, result, workspace)
    names = " ".join(filter(None, ("call", told.family, "bad" if told.failed else "")))
    line = _summary(told, answered=awaited or bool(call.answers))
    yield f'<details class="{names}"><summary>{line}</summary>\n'
    yield '<div class="in">'
    yield from draw_asked(call, told)
    yield from more(call)
    for answer in call.answers:
        where = f' id="{prefix}{escape(answer.place)}"' if answer.place else ""
        yield f'<div class="result"{where}>'
        yield from draw_answer(call, told, answer)
        yield "</div>\n"
    yield "</div></details>\n"


def told_of(call: Block, result: Block | None, workspace: str | None) -> Gist:
    """The line about a call, with what its result says, if there is one."""
    return gist(
        call.name,
        call.value if call.value is not None else call.text,
        None if result is None else result.text,
        is_error=result is not None and result.is_error,
        workspace=workspace,
    )


def draw_result(result: Block, call: Block | None = None, *, workspace: str | None = None) -> Iterator[str]:
    """A result that stands apart from its call, which may be known."""
    bad = " bad" if result.is_error else ""
    if call is not None:
        told = told_of(call, result, workspace)
        names = " ".join(filter(None, ("call", told.family, "bad" if told.failed else "")))
        yield f'<details class="{names}"><summary>{_summary(told, answered=True)}</summary>'
        yield '<div class="in"><div class="result">'
        yield from draw_answer(call, told, result)
        yield "</div></div></details>\n"
        return
    what = "Error of" if result.is_error else "Result of"
    name = escape_line(result.name or "a tool")
    first = escape_line(result.text.strip()[:200].partition("\n")[0])
    yield f'<details class="call{bad}"><summary><b>{what} {name}</b>'
    yield f' <span class="out">{first}</span></summary>'
    yield f'<div class="in">{draw_text(result)}</div></details>\n'


def _summary(told: Gist, *, answered: bool) -> str:
    subject = f' <span class="sub">{escape_line(told.subject)}</span>' if told.subject else ""
    outcome = told.outcome if answered or told.family in ("edit", "write") else "no result"
    words = [
        f'<i class="{"gi" if word[0] == "+" else "gd"}">{escape(word)}</i>'
        if told.family in ("edit", "shell") and word[0] in "+−" and word[1:].replace(",", "").isdigit()
        else escape(word)
        for word in outcome.split()
    ]
    said = f' <span class="out">{" ".join(words)}</span>' if words else ""
    return f"<b>{escape_line(told.verb)}</b>{subject}{said}"


# -- what was asked for


def draw_asked(call: Block, told: Gist) -> Iterator[str]:
    """What a call asks for: a command, a change as a diff, a plan, or its arguments."""
    given = _dict(call)
    changed = changes_of(given or call.value)
    known = next((lines for answer in call.answers if (lines := hunk_lines(answer.value))), [])
    if known and len(changed) < 2:
        yield diff(known)
    elif changed:
        for change in changed:
            if len(changed) > 1 or told.family != "edit":
                yield f'<p class="path">{escape_line(change.path)}</p>'
            yield diff(change.lines, folds=True) if change.lines else ""
    elif told.family == "shell" and (command := command_of(given or call.value)):
        yield f'<pre class="ask"><code>{escape(command)}</code></pre>\n'
    elif told.family == "write" and (content := text_at(given, _CONTENTS)):
        yield numbered(content.removesuffix("\n").split("\n"), 1, language_of(text_at(given, PATHS)))
    elif told.family == "agent" and (prompt := text_at(given, ("prompt", "message", "task"))):
        yield f'<div class="ask said">{prose(prompt)}</div>\n'
    elif told.family == "plan" and (items := _items(given)):
        yield items
    elif told.family == "read":
        pass
    else:
        yield code_block(call.text, "json" if call.is_json else "") if call.text else ""
        return
    if rest := [note for name, value in given.items() if name not in _DRAWN and (note := _note(name, value))]:
        yield f'<p class="note">{" · ".join(rest)}</p>'


def _dict(call: Block) -> dict[str, Json]:
    value = call.value
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _note(name: str, value: Json) -> str:
    told = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(told) > _LONG:
        return f"{escape_line(name)}: <code>{escape_line(told[: 4 * _LONG])}</code>" + (
            " …" if len(told) > 4 * _LONG else ""
        )
    return f"{escape_line(name)}: {escape_line(told)}"


def _items(given: dict[str, Json]) -> str:
    """A plan, as a list with what is done of it."""
    rows = [f'<li class="{state}">{escape_line(words)}</li>' for state, words in plan_items(given)]
    return f'<ul class="plan">{"".join(rows)}</ul>\n' if rows else ""


# -- what came of it


def draw_answer(call: Block, told: Gist, answer: Block) -> Iterator[str]:
    """What came of a call."""
    if answer.kind == "media":
        yield picture(answer.media, answer.text) if answer.media else ""
        return
    if told.family == "shell":
        yield _terminal(answer)
    elif told.family == "read" and not answer.is_error:
        yield _file(answer.text, language_of(text_at(_dict(call), PATHS)))
    elif told.family in ("agent", "web") and not answer.is_json and not answer.is_error:
        yield f'<div class="said">{prose(answer.text)}</div>\n'
    elif told.family in ("edit", "write", "plan") and not answer.is_error:
        yield _aside(answer)
    else:
        yield draw_text(answer)


def _terminal(answer: Block) -> str:
    output = output_of(answer.text)
    facts = [f"exit {output.code}"] if output.code is not None else []
    facts += [_time(answer.seconds)] if answer.seconds and answer.seconds >= 1 else []
    text = output.text.strip("\n")
    shown = _printed(text) if text.strip() else '<p class="note">No output.</p>'
    return shown + (f'<p class="note">{" · ".join(facts)}</p>' if facts else "") + "\n"


def _printed(text: str) -> str:
    """What a program printed: a diff as one, all else as its terminal showed it."""
    if "\x1b" not in text and is_diff(text):
        return diff(diff_lines(text))
    return f'<pre class="term"><code>{terminal(text)}</code></pre>\n'


def _file(text: str, language: str) -> str:
    """A file that was read, with the numbers that the tool put before its lines beside them."""
    text = file_text(text)
    lines = text.removesuffix("\n").split("\n")
    found = [_NUMBERED.match(line) for line in lines]
    first = found[0]
    count = next((at for at, one in enumerate(found) if one is None), len(found))
    if first is None or (len(lines) > 3 and count < 3):
        return code_block(text, language)
    inside = [line[one.end() :] for line, one in zip(lines[:count], found, strict=False) if one]
    after = "\n".join(lines[count:]).strip("\n")
    rest = f'<pre class="term"><code>{terminal(after)}</code></pre>\n' if after else ""
    return numbered(inside, int(first[1]), language) + rest


def _aside(answer: Block) -> str:
    """A result that says little more than that it went well."""
    if patch_changes(answer.text):
        return draw_text(answer)
    text = answer.text.strip()
    if "\n" not in text and len(text) <= _LONG:
        return f'<p class="note">{escape_line(text)}</p>' if text else ""
    first = escape_line(text[:80].partition("\n")[0])
    return f'<details class="more"><summary>{first} …</summary>{draw_text(answer)}</details>\n'


def draw_text(block: Block) -> str:
    """The text of a result, as its terminal showed it, or as JSON."""
    if not block.text.strip():
        return '<p class="note">Nothing.</p>'
    return code_block(block.text, "json") if block.is_json else _printed(block.text.strip("\n"))


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def picture(media: Media, name: str) -> str:
    """An image, if it is one that can only be an image; a PDF as a link that saves it; else that there is
    something."""
    data = _checked(media, RASTER)
    if data is not None:
        return f'<p class="img"><img src="data:{media.type};base64,{data}" alt="{escape_line(name)}"></p>\n'
    size = "" if media.size is None else f", {media.size:,} bytes"
    if (data := _checked(media, {PDF}, b"%PDF-")) is not None:
        file = f"{_UNSAFE.sub('-', name.removesuffix('.pdf'))[:80].strip('-.') or 'document'}.pdf"
        link = f'<a download="{file}" href="data:{PDF};base64,{data}">Save {file}</a>'
        return f'<p class="note">{link} (PDF{size})</p>\n'
    return (
        f'<p class="note">Not shown: {escape_line(media.type or "a file")} ({escape_line(name)}{size})</p>\n'
    )


def _checked(media: Media, types: Set[str], start: bytes = b"") -> str | None:
    """The data of an image or a document, if it is of one of these types, checked and encoded again."""
    if media.type not in types or media.data is None:
        return None
    try:
        content = base64.b64decode(media.data, validate=True)
    except ValueError:  # also of letters that base64 does not have
        return None
    return base64.b64encode(content).decode() if content.startswith(start) else None
