"""Sessions, entries and trees as Markdown, for a model to read.

What was recorded is untrusted. Each entry stands below a heading of ours, inside a fence that is longer than
any run of backticks in it: whatever it says, it begins no heading, ends no fence and is no part of our text.
Ids and places stand in code spans, titles in one line in which no mark means anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from clew.core.log.ids import entry_id
from clew.errors import EntryNotFoundError
from clew.exporters.facts import many
from clew.exporters.markdown import fence, inline
from clew.model import Branch, Entry, Head, SessionInfo, Tree
from clew.server.call import check_own_point
from clew.server.mcp.budget import TOKENS, cut_to_tokens, tokens
from clew.server.mcp.entries import ShownEntry, Teller, role_of
from clew.server.mcp.places import escaped, place_in
from clew.server.mcp.resources.uris import entry_uri
from clew.server.mcp.text import RECORDED, Text
from clew.server.mcp.view import View

LETTERS: Final = 2000
"""Of an entry in the page of its session, and of the notes beside it."""
MOST_READ: Final = 1000
"""Entries that are looked at for one page."""
MOST_RELATIVES: Final = 200
"""Sessions of a tree that are looked at."""
END: Final = 50
"""Tokens for the last line."""

_TICKS: Final = re.compile("`+")


# -- a session


def session_page(view: View, id: str) -> str:
    """The latest messages of a session, oldest first: as many whole entries as fit."""
    session = view.find(escaped(id))
    text, info = view.text(), session.info
    teller = Teller(info, text, "fold")
    parts: list[str] = []
    left: Entry | None = None
    head = _head(text, info)
    room = TOKENS - tokens(_page(head)) - END
    for number, entry in enumerate(session.entries(newest_first=True, damaged="skip")):
        teller.hear(entry)
        part = _part(info, text, teller, entry)
        room -= tokens(part) + 1 if part else 0
        if number >= MOST_READ or (parts and room < tokens(_way_back(info, entry))):
            left = entry
            break
        if part:
            parts.append(part)
    way_back = [] if left is None else [_way_back(info, left)]
    return _page([*head, *way_back, *reversed(parts), *_replaced(text)])


def _part(info: SessionInfo, text: Text, teller: Teller, entry: Entry) -> str:
    """An entry with the notes beside it; nothing, if nobody says anything in it. Results of tools are told in
    the lines of their calls."""
    if role_of(entry) not in ("user", "assistant"):
        return ""
    told = teller.tell(entry, LETTERS)
    note = entry.annotations.get("note")
    if not told.text.strip() and not isinstance(note, str):
        return ""
    lines = [*_entry(told)]
    if told.truncated:
        lines += ["", f"Cut here. All of it: {entry_uri(info.id, entry.id)}"]
    if isinstance(note, str):
        lines += ["", "A note beside it:", "", *fence(text.part(note, LETTERS)[0])]
    return _lines(lines)


def _head(text: Text, info: SessionInfo) -> list[str]:
    title = inline(text.title(info.title or info.preview) or "A session without a title")
    facts = ", ".join(filter(None, [text.title(info.agent), info.status, many(info.messages, "message")]))
    return [
        f"# {title}",
        f"Session {code(escaped(info.id))}: {inline(facts)}, active {_time(info.updated_at)}",
    ]


def _way_back(info: SessionInfo, left: Entry) -> str:
    place = code(place_in(info.id, left.id))
    return f"What came before is left out. To read it: read_session with place {place} and after=0."


# -- an entry


def entry_page(view: View, id: str, place: Head) -> str:
    """One entry, with its calls and results of tools. It says nothing that could change later: no title, no
    notes."""
    session = view.find(escaped(id))
    check_own_point(session, place)
    entry = next(session.entries(at=place, last=1), None)
    if entry is None:
        raise EntryNotFoundError(id, place)
    text = view.text()
    told = Teller(session.info, text, "full").tell(entry, 4 * TOKENS)
    for share in (1, 3):  # a fence around nothing but backticks is twice as long as they are
        told.text, is_cut = cut_to_tokens(told.text, (TOKENS - 4 * END) // share)
        told.truncated = told.truncated or is_cut
        page = _page([_lines(_entry(told)), *_end(told), *_replaced(text)])
        if tokens(page) <= TOKENS:
            break
    return page


def _end(told: ShownEntry) -> Iterator[str]:
    if told.truncated:
        yield "Cut here. The rest is too long to be told."


def _entry(told: ShownEntry) -> Iterator[str]:
    yield f"## {told.role} · {told.at} · {code(told.place)}"
    yield ""
    yield from fence(told.text)


# -- a tree


def tree_page(view: View, id: str) -> str:
    """The branches, checkpoints, forks and subagents of a session: those that the caller may see."""
    session = view.find(escaped(id))
    text, info, tree = view.text(), session.info, session.tree()
    head, seen = _head(text, info), _seen(view, tree)
    lines = [
        *_section("Branches", _branches(tree, seen)),
        *_section("Checkpoints", _checkpoints(text, tree, seen)),
        *_section("Forks", _forks(tree, seen)),
        *_section("Subagents", (f"- {code(seen[one])}" for one in tree.children if one in seen)),
    ]
    room, shown = TOKENS - tokens(_page(head)) - END, []
    for line in lines:
        room -= tokens(line)
        if room < 0:
            break
        shown.append(line)
    rest = len(lines) - len(shown)
    more = [f"{many(rest, 'more line')} left out."] if rest else []
    return _page([*head, _lines(shown), *more, *_replaced(text)])


def _seen(view: View, tree: Tree) -> Mapping[str, str]:
    """The sessions of a tree that the caller may see, and how answers name them."""
    others = [*dict.fromkeys([tree.session, *tree.heads, *tree.children])][:MOST_RELATIVES]
    return {id: shown for id in others if (shown := view.shown_id(id)) is not None}


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", f"## {title}", "", *found)


def _branches(tree: Tree, seen: Mapping[str, str]) -> Iterator[str]:
    shown = [branch for branch in tree.branches if branch.session in seen]
    numbers = {branch.id: number for number, branch in enumerate(shown, 1)}
    for branch in shown:
        assert branch.session is not None
        owner = "this session" if branch.session == tree.session else code(seen[branch.session])
        last = code(place_in(branch.session, entry_id(branch.id, branch.last)))
        about = [
            f"{numbers[branch.id]}: entries {branch.first} to {branch.last} of {owner}",
            *_origin(branch, numbers),
            *(
                f"{'this session' if one == tree.session else code(seen[one])} stands at {head.position}"
                for one, head in tree.heads.items()
                if head.branch == branch.id and one in seen
            ),
            f"last {last}",
        ]
        yield f"- {', '.join(about)}"


def _origin(branch: Branch, numbers: Mapping[str, int]) -> Iterator[str]:
    if branch.parent is not None:
        base = numbers.get(branch.parent.branch)
        yield f"behind {branch.parent.position} of {f'branch {base}' if base else 'another session'}"


def _checkpoints(text: Text, tree: Tree, seen: Mapping[str, str]) -> Iterator[str]:
    for one in tree.checkpoints:
        if one.session in seen:
            files = ", with files" if one.snapshot else ""
            yield f"- {code(text.checkpoint(one.session, one.name))}, {_time(one.created_at)}{files}"


def _forks(tree: Tree, seen: Mapping[str, str]) -> Iterator[str]:
    for id, fork in tree.forks.items():
        if id in seen:
            base = code(seen[fork.session]) if fork.session in seen else "another session"
            yield f"- {code(seen[id])}: of {base}, behind entry {fork.head.position}"


# -- parts of every page


def code(line: str) -> str:
    """A line as nothing but its letters: in backticks, more than any run of them inside."""
    longest = max((len(run) for run in _TICKS.findall(line)), default=0)
    ticks = "`" * (longest + 1)
    edge = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{ticks}{edge}{line}{edge}{ticks}"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join([RECORDED, *(part.strip("\n") for part in parts)]) + "\n"


def _replaced(text: Text) -> Iterator[str]:
    if text.redacted:
        yield f"{text.secrets} replaced."


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
