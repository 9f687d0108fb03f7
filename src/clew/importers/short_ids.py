"""Short ids of sessions: what is shown, and what a text means that somebody typed.

A session goes by the beginning of its id, as git's commits do. The name of the program that it came from is
left out: `claude-code:0b1c2d3e-…` is `0b1c2d3e`. A subagent goes by the beginnings of both parts of its id:
`claude-code:0b1c2d3e-…/agent-a1b2c3d4` is `0b1c2d3e/a1b2`; and a fork by its number behind its source:
`claude-code:0b1c2d3e-…#fork-1` is `0b1c2d3e#1`.

docs/how-to/list-on-the-command-line.md tells users what they may type for a session. Here is how it is found:
a text is the beginning of an id, of what follows the colon of one, or of an alias; each of the three is one
look at an index of the store, however many sessions there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple, Protocol

from clew.backends.contract import STORE_WIDE, Reader
from clew.core.log.records import number_in
from clew.core.log.rows import SessionName
from clew.errors import CorruptError
from clew.importers import READERS
from clew.store import Store

# -- what leads to sessions: their ids, what follows the colon in them, aliases

LETTERS: Final = 8
"""Letters to show of a long id, if no other begins like it."""
AGENT_LETTERS: Final = 4
"""Letters to show of what follows the `/` in the id of a subagent."""
WHOLE: Final = 24
"""An id of so many letters or fewer that no program made is shown whole: a person may have chosen it."""
SPOKEN: Final = {"/": "agent-", "#": "fork-"}
"""What parts an id, and what the second part of a subagent's and of a fork's begins with; it need not be
typed."""
FIRST_PAGE: Final = 4
LARGEST_PAGE: Final = 4096
MOST: Final = 100
"""Sessions that a text may mean before it is only said that there are more."""
MANY: Final = 400
"""Sessions to name from which on it is faster to read all names of the store."""


ID, ALIAS, OWN = range(3)
"""Whole ids, aliases, and what follows the colon of an id."""


class Key(NamedTuple):
    """A text that leads to a session."""

    text: str
    session: SessionName
    rank: int
    """ID, ALIAS or OWN. Of two sessions with the same text as a key that of the lower rank is meant."""


class Keys(Protocol):
    """Everything that leads to the sessions of a store, in order."""

    def page(self, beginning: str, first: str, limit: int) -> tuple[list[Key], bool]:
        """Some keys with a beginning, from `first` on in the order of their UTF-8 bytes; and whether there
        may be more of them behind these."""


class IndexedKeys:
    """Asks the store for the few keys that are needed."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def page(self, beginning: str, first: str, limit: int) -> tuple[list[Key], bool]:
        by_id = [Key(name.id, name, ID) for name in self._reader.scan_ids(first, limit)]
        by_own = [Key(name.own, name, OWN) for name in self._reader.scan_ids(first, limit, own=True)]
        aliases = self._reader.scan_records(STORE_WIDE, "alias", first, limit=limit)
        known = {key.session.sid: key.session for key in (*by_id, *by_own)}
        by_alias = list(self._of_aliases(aliases, beginning, known))
        full = [
            some[-1].text
            for some, count in ((by_id, len(by_id)), (by_own, len(by_own)), (by_alias, len(aliases)))
            if count == limit and some and some[-1].text.startswith(beginning)
        ]
        end = min((text.encode() for text in full), default=None)
        found = [key for some in (by_id, by_own, by_alias) for key in some if key.text.startswith(beginning)]
        found = [key for key in found if end is None or key.text.encode() <= end]
        return sorted(found, key=_order), end is not None

    def _of_aliases(
        self, aliases: Iterable[tuple[str, bytes]], beginning: str, known: dict[int, SessionName]
    ) -> Iterator[Key]:
        for alias, value in takewhile(lambda pair: pair[0].startswith(beginning), aliases):
            session = self._session(alias, value, known)
            if session is not None:
                yield Key(alias, session, ALIAS)

    def _session(self, alias: str, value: bytes, known: dict[int, SessionName]) -> SessionName | None:
        """None: it leads to none, or to one that cannot be read."""
        try:
            sid = number_in(value, f"the alias {alias!r}")
            if sid in known:
                return known[sid]
            row = self._reader.get_session(sid)
        except CorruptError:
            return None
        return None if row is None else SessionName(row.id, row.sid, row.deleted is not None)


class AllKeys:
    """Reads all of them once."""

    def __init__(self, reader: Reader) -> None:
        found, _ = IndexedKeys(reader).page("", "", 2**31 - 1)
        self._keys = found
        self._texts = [key.text.encode() for key in found]

    def page(self, beginning: str, first: str, limit: int) -> tuple[list[Key], bool]:
        at = bisect_left(self._texts, first.encode())
        found = self._keys[at : at + limit]
        some = list(takewhile(lambda key: key.text.startswith(beginning), found))
        return some, len(some) == limit


def _order(key: Key) -> tuple[bytes, int]:
    return key.text.encode(), key.session.sid


# -- what a text means


def meant(reader: Reader, text: str, *, in_trash: bool = False) -> list[SessionName]:
    """The sessions, in the trash or not, that a text may mean, each id once: one, if it is long enough. More
    than `MOST` are not looked for. A whole id or alias means one session, whatever else begins with it.
    `in_trash`: as if there were no others."""
    return _meant(IndexedKeys(reader), text, MOST, in_trash=in_trash)


def keys_of(keys: Keys, text: str, most: int) -> list[Key]:
    """What leads to the sessions that a text may mean, if it is the beginning of one."""
    return [*(_beginning(keys, text, most) if text else ()), *_by_both_parts(keys, text, most)]


def _meant(keys: Keys, text: str, most: int, *, in_trash: bool = False) -> list[SessionName]:
    found = keys_of(keys, text, most)
    if in_trash:
        found = [key for key in found if key.session.deleted]
    best = min((key.rank for key in found if key.text == text), default=None)
    exact = [key for key in found if key.text == text and key.rank == best]
    by_id: dict[str, SessionName] = {}
    for key in exact or found:
        before = by_id.get(key.session.id)
        if before is None or before.deleted:
            by_id[key.session.id] = key.session
    return list(by_id.values())[:most]


def stands_for(text: str, id: str) -> bool:
    """Whether a text that fits an id may be taken for it. What ends before a `/` or a `#` means the session
    up to there, even if that is gone, and never its only subagent or fork; nor does fork 1 mean fork 10."""
    own = id.partition(":")[2]
    return all(_is_part(text, rest) for name in (id, own) if name for rest in _behind_text(name, text))


def was_shown_as(text: str, id: str) -> bool:
    """Whether a session was shown by this text at some time, with few or many others in the store."""
    fits = any(_behind_text(name, text) for name in (id, id.partition(":")[2]) if name)
    return fits and len(text) >= len(_alone(id))


def _behind_text(name: str, text: str) -> list[str]:
    """What of an id is left behind a text that fits it, in both ways of writing a subagent or a fork."""
    if name.startswith(text):
        return [name[len(text) :]]
    parent = _base(text, 0)
    base = _base(name, len(parent))
    if not name.startswith(parent) or base == name or text[len(parent) : len(parent) + 1] != name[len(base)]:
        return []
    mark, typed = name[len(base)], text[len(parent) + 1 :]
    tail = name[len(base) + 1 :]
    return [tail[len(one) :] for one in (typed, SPOKEN[mark] + typed) if tail.startswith(one)]


def _is_part(text: str, rest: str) -> bool:
    is_number_cut = "#" in text and text[-1:].isdecimal() and rest[:1].isdecimal()
    return not rest or not (is_number_cut or any(mark in rest for mark in SPOKEN))


def _beginning(keys: Keys, beginning: str, most: int) -> Iterator[Key]:
    """The keys with this beginning, about as many as are wanted. Those of subagents and forks are left out
    behind that of their parent: a text that fits up to the `/` or the `#` means the parent."""
    first, limit, is_more = beginning, FIRST_PAGE, True
    parents: set[str] = set()
    seen: set[str] = set()
    while is_more and len(seen) <= most:
        found, is_more = keys.page(beginning, first, limit)
        for key in found:
            base = _base(key.text, len(beginning))
            if base in parents and base != key.text:
                continue
            if base == key.text:
                parents.add(base)
            seen.add(key.session.id)
            yield key
        if found:
            last = found[-1].text
            first = _behind(last, skips=_base(last, len(beginning)) in parents, length=len(beginning))
        limit = min(limit * 4, LARGEST_PAGE)


def _base(text: str, length: int) -> str:
    """A key up to its first `/` or `#` behind so many letters."""
    found = [at for mark in SPOKEN if (at := text.find(mark, length)) >= 0]
    return text[: min(found)] if found else text


def _behind(text: str, *, skips: bool, length: int) -> str:
    """Where to go on behind a key; `skips`: behind all subagents, or all forks, of the same parent."""
    base = _base(text, length)
    if not skips or base == text:
        return f"{text}\0"
    return base + chr(ord(text[len(base)]) + 1)


def _by_both_parts(keys: Keys, text: str, most: int) -> Iterator[Key]:
    """Subagents and forks by the beginnings of both parts of their id, with `agent-` or `fork-` or not."""
    parent = _base(text, 0)
    mark, rest = text[len(parent) : len(parent) + 1], text[len(parent) + 1 :]
    if not parent or not mark:
        return
    for base in _bases(keys, parent, most):
        for beginning in dict.fromkeys((f"{base}{mark}{rest}", f"{base}{mark}{SPOKEN[mark]}{rest}")):
            if beginning == text:  # it is found already
                continue
            found = list(_beginning(keys, beginning, most))
            yield from [key for key in found if key.text == beginning] or found


def _bases(keys: Keys, beginning: str, most: int) -> list[str]:
    """What stands before the `/` or the `#` in the keys with this beginning."""
    first, limit, is_more = beginning, FIRST_PAGE, True
    bases: list[str] = []
    while is_more and len(bases) < most:
        found, is_more = keys.page(beginning, first, limit)
        for key in found:
            base = _base(key.text, len(beginning))
            if base != key.text and base not in bases:
                bases.append(base)
        if found:
            first = _behind(found[-1].text, skips=True, length=len(beginning))
        limit = min(limit * 4, LARGEST_PAGE)
    return bases


# -- what a session is called


def short_ids(store: Store, ids: Iterable[str]) -> dict[str, str]:
    """For each id of a session the shortest text that is shown for it, and that leads to it: no other session
    of the store, not even one in the trash, is meant by it. Costs some looks at indices for each id."""
    wanted = list(dict.fromkeys(ids))
    with store._engine.read() as reader:
        keys: Keys = AllKeys(reader) if len(wanted) > MANY else IndexedKeys(reader)
        return {id: _short(keys, id) for id in wanted}


def short_id(store: Store, id: str) -> str:
    """Return the short id of one session."""
    return short_ids(store, [id])[id]


def _short(keys: Keys, id: str) -> str:
    name, is_cut = _shown(id)
    if is_cut:
        text = _cut(keys, id, name)
        if text is not None:
            return text
    own = id.partition(":")[2]
    return next((text for text in (name, own) if text and _is_free(keys, text, id)), id)


def _shown(id: str) -> tuple[str, bool]:
    """Return the part of an id to show, and whether it was cut."""
    program, _, own = id.partition(":")
    is_made = program in READERS
    name = own if own and (is_made or len(id) > WHOLE) else id
    return name, len(name) > (LETTERS if is_made else WHOLE)


def _alone(id: str) -> str:
    """What a session is called in a store without any other."""
    name, is_cut = _shown(id)
    if not is_cut:
        return name
    base, mark, rest = _parts(name)
    return f"{base[:LETTERS]}{mark}{rest[: _rest_letters(mark, rest)]}"


def _parts(name: str) -> tuple[str, str, str]:
    """An id, and for a subagent or a fork the mark and the second part, without the word that need not be
    typed."""
    base = _base(name, 0)
    mark, rest = name[len(base) : len(base) + 1], name[len(base) + 1 :]
    return base, mark, rest.removeprefix(SPOKEN.get(mark, ""))


def _rest_letters(mark: str, rest: str) -> int:
    return len(rest) if mark == "#" else AGENT_LETTERS if mark else 0


def _cut(keys: Keys, id: str, name: str) -> str | None:
    """As much of the beginning of a name as it takes; of the name of a subagent or a fork, of both parts.
    None: all of it is not enough."""
    base, mark, rest = _parts(name)
    letters, more = LETTERS, _rest_letters(mark, rest)
    is_cut = True
    while is_cut:
        is_cut = letters < len(base) or more < len(rest)
        text = f"{base[:letters]}{mark}{rest[:more]}"
        others = [one for one in _meant(keys, text, MOST) if one.id != id]
        if not others:
            return text
        before = letters, more
        for one in others:
            for other in (one.id, one.own):
                if common_letters(other, base) >= letters:
                    if mark and other.startswith(f"{base}{mark}"):
                        other_rest = other[len(base) + 1 :].removeprefix(SPOKEN[mark])
                        more = max(more, common_letters(other_rest, rest) + 1)
                    else:
                        letters = max(letters, common_letters(other, base) + 1)
        if (letters, more) == before:  # an alias of another session begins like this
            letters, more = letters + 1, more + 1 if mark else 0
    return None


def _is_free(keys: Keys, text: str, id: str) -> bool:
    """Whether a text means this session and no other one."""
    return all(one.id == id for one in _meant(keys, text, 2))


def common_letters(one: str, other: str) -> int:
    """How many letters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
