"""Adding what was written since the last search to the index of words. Appends do not touch the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.backends.text_scan import read_texts
from clew.core.log.rows import MESSAGE, SessionRow
from clew.core.messages.search_text import TextRow
from clew.errors import CorruptEntryError, CorruptError, StoreBusyError, UnreadableEntryError

ENTRIES: Final = 500
SIZE: Final = 1 << 17
"""So many entries, or characters of them, go into one transaction: others write in between. To find the words
of this many characters takes up to 40 ms, if many are in camel case or not in Latin letters."""
TRIES: Final = 20

Tell = Callable[[int, int], object]
"""Is told, from time to time, how many messages were looked at, and about how many there are to look at."""
Read = Callable[[], AbstractContextManager[Reader]]
Run = Callable[[Callable[[Transaction], bool]], bool]


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Positions first..last of a branch, with this many messages."""

    branch: int
    first: int
    last: int
    messages: int


class Parcel:
    """What one transaction makes findable."""

    def __init__(self) -> None:
        self.rows: list[TextRow] = []
        self.stretches: list[Stretch] = []
        self.sessions: list[SessionRow] = []
        self._entries = 0
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self.stretches or self.sessions)

    @property
    def is_full(self) -> bool:
        return self._entries >= ENTRIES or self._size >= SIZE

    @property
    def room(self) -> int:
        return max(ENTRIES - self._entries, 1)

    def add(self, stretch: Stretch, rows: list[TextRow]) -> None:
        self.stretches.append(stretch)
        self.rows += [row for row in rows if row.said or row.tool]
        self._entries += stretch.last - stretch.first + 1
        self._size += sum(len(row.said) + len(row.tool) for row in rows)

    def put(self, tx: Transaction) -> bool:
        """False, and nothing is done: it is not as it was read any more."""
        expected: dict[int, int] = {}
        for each in self.stretches:
            upto = expected.get(each.branch)
            if upto is None:
                upto = tx.searched_upto(each.branch)
            is_next = each.first == upto + 1 or (upto < 0 and _is_first(tx, each))
            if not is_next or tx.count_entries(each.branch, each.first, each.last, MESSAGE) != each.messages:
                return False
            expected[each.branch] = each.last
        tx.add_texts(self.rows, expected)
        tx.set_searched(self.sessions)
        return True


def _is_first(tx: Transaction, stretch: Stretch) -> bool:
    try:
        return tx.get_branch(stretch.branch).fork + 1 == stretch.first
    except KeyError:
        return False


def _refuse_unreadable(damage: CorruptEntryError) -> None:
    if isinstance(damage, UnreadableEntryError):
        raise damage


def catch_up(read: Read, run: Run, tell: Tell | None = None) -> None:
    """Make findable all that was there when this was called. ReadOnlyError if that cannot be written."""
    with read() as reader:
        trees = reader.unsearched_trees()
        total = _waiting(reader, trees) if tell is not None else 0
    indexer = _Indexer(read, run, tell, total)
    for _ in range(TRIES):
        if not trees:
            return
        trees = indexer.index(trees)
    raise StoreBusyError("others changed what was to be searched, again and again; search again")


def _waiting(reader: Reader, trees: Iterable[int]) -> int:
    """About how many messages are not findable yet: those of the longest path of each tree, without what was
    made findable before."""
    total = 0
    for tree in trees:
        try:
            sessions = reader.tree_sessions(tree)
            known = sum(
                max(reader.searched_upto(branch.branch) - branch.fork, 0)
                for branch in reader.tree_branches(tree)
            )
        except CorruptError:
            continue
        total += max(max((row.head.messages for row in sessions), default=0) - known, 0)
    return total


class _Indexer:
    """Goes through trees, and gathers what is not findable yet into parcels."""

    def __init__(self, read: Read, run: Run, tell: Tell | None, total: int) -> None:
        self._read = read
        self._run = run
        self._tell = tell
        self._total = total
        self._done = 0
        self._parcel = Parcel()
        self._trees: set[int] = set()
        """Those with something in the parcel."""
        self._changed: set[int] = set()

    def index(self, trees: Iterable[int]) -> list[int]:
        """Sessions that changed meanwhile in a way that matters: they are indexed again."""
        self._changed = set()
        for tree in trees:
            self._trees.add(tree)
            self._gather(tree)
        self._send()
        return sorted(self._changed)

    def _send(self) -> None:
        if self._parcel and not self._run(self._parcel.put):
            self._changed |= self._trees
        self._done += sum(stretch.messages for stretch in self._parcel.stretches)
        if self._tell is not None:
            self._tell(self._done, max(self._done, self._total))
        self._parcel = Parcel()
        self._trees = set()

    def _gather(self, tree: int) -> None:
        with self._read() as reader:
            try:
                sessions = reader.tree_sessions(tree)  # first: what is written from now on is found later
                branches = reader.tree_branches(tree)
            except CorruptError:
                return  # what can be read of the others is found
        for branch in branches:
            with self._read() as reader:
                first = max(reader.searched_upto(branch.branch), branch.fork) + 1
                last = reader.last_position(branch.branch)
            while first <= last and tree not in self._changed:
                try:
                    first = self._take(branch.branch, first, last)
                except UnreadableEntryError:
                    return  # it may be read the next time: until then it is not called searched
                if self._parcel.is_full:
                    self._send()
                    self._trees.add(tree)
        if tree not in self._changed:  # else not all of it is findable
            self._parcel.sessions += sessions
            if len(self._parcel.sessions) >= ENTRIES:
                self._send()

    def _take(self, branch: int, first: int, last: int) -> int:
        """Put the next entries of a branch into the parcel; where to go on."""
        upto = min(last, first + self._parcel.room - 1)
        rows: list[TextRow] = []
        size = 0
        with self._read() as reader:
            for row in read_texts(reader, branch, first, upto, _refuse_unreadable):
                rows.append(row)
                size += len(row.said) + len(row.tool)
                if size >= SIZE:
                    upto = row.place.position
                    break
            # Counted, not taken from `rows`: those that are damaged are passed over.
            messages = reader.count_entries(branch, first, upto, MESSAGE)
        self._parcel.add(Stretch(branch, first, upto, messages), rows)
        return upto + 1
