"""Whether the events and the calls of a session can be read, are all there, and add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from clew.backends.contract import Reader
from clew.core.check.scan import UNREADABLE, Read
from clew.core.log.rows import EventRow, UsageRow
from clew.core.messages.codec import decode_json

PAGE: Final = 256
LATEST: Final = 253_402_300_799_999_999
"""The end of the year 9999."""
_SUMMED: Final = ("input", "output", "cache_read", "cache_write", "reasoning")

Fetch: TypeAlias = Callable[[Reader, int, int], Sequence[Any]]
"""Takes a number and how many; gives the rows with numbers above it."""


def is_time(moment: int) -> bool:
    """Whether it is one that a calendar knows."""
    return 0 <= moment <= LATEST


class StreamCheck:
    """A look at what one session has beside its conversation."""

    def __init__(self, read: Read, sid: int, looked: Callable[..., None]) -> None:
        """`looked` is called after each page; it may raise to end the check."""
        self._read = read
        self._sid = sid
        self._looked = looked

    def events(self) -> Iterator[str]:
        """What is wrong with its events."""
        try:
            with self._read() as reader:
                first, last = reader.event_bounds(self._sid)
        except UNREADABLE as error:
            yield f"its events cannot be counted: {error}"
            return

        def fetch(reader: Reader, after: int, count: int) -> Sequence[EventRow]:
            return [_sound_event(row) for row in reader.read_events(self._sid, after, count)]

        yield from _told("event", self._wrong(fetch, first, last, lambda row: None))

    def calls(self) -> Iterator[str]:
        """What is wrong with its model calls, and with the sums that are kept with each."""
        try:
            with self._read() as reader:
                newest = reader.last_usage(self._sid)
        except UNREADABLE as error:
            yield f"its model calls cannot be counted: {error}"
            return

        def fetch(reader: Reader, after: int, count: int) -> Sequence[UsageRow]:
            return [_sound_call(row) for row in reader.read_usage(self._sid, after, count)]

        last = 0 if newest is None else newest.number
        yield from _told("model call", self._wrong(fetch, 1, last, _Sums().wrong))

    def _wrong(
        self, fetch: Fetch, first: int, last: int, judge: Callable[[Any], str | None]
    ) -> Iterator[tuple[int, str]]:
        """Numbers, and what is wrong with each."""
        for low in range(first, last + 1, PAGE):
            high = min(low + PAGE - 1, last)
            found = self._page(fetch, low, high)
            for number in range(low, high + 1):
                row = found.get(number)
                wrong = "it is missing" if row is None else row if isinstance(row, str) else judge(row)
                if wrong is not None:
                    yield number, wrong
            self._looked()

    def _page(self, fetch: Fetch, first: int, last: int) -> dict[int, Any]:
        """The rows by their numbers; of one that cannot be read, why. So one costs no other."""
        try:
            with self._read() as reader:
                rows = fetch(reader, first - 1, last - first + 1)
            return {row.number: row for row in rows if row.number <= last}
        except UNREADABLE as error:
            if first == last:
                return {first: f"it cannot be read: {error}"}
        middle = (first + last) // 2
        return self._page(fetch, first, middle) | self._page(fetch, middle + 1, last)


def _sound_event(row: EventRow) -> EventRow:
    _check_time(row.time)
    decode_json(row.data)
    return msgspec.convert(msgspec.structs.asdict(row), EventRow)


def _sound_call(row: UsageRow) -> UsageRow:
    _check_time(row.time)
    return msgspec.convert(msgspec.structs.asdict(row), UsageRow)


def _check_time(moment: int) -> None:
    if not is_time(moment):
        raise ValueError(f"its time is {moment}")


class _Sums:
    """The sums that a call should have follow from the call before it. They are made anew from what that one
    says, and from what it should say; so one wrong call is one problem, not one for each call behind it."""

    def __init__(self) -> None:
        self._bases: list[dict[str, int]] = [{}]
        self._number = 0

    def wrong(self, row: UsageRow) -> str | None:
        stored = {name: getattr(row, f"all_{name}") for name in (*_SUMMED, "cost", "unpriced", "estimated")}
        is_next = row.number == self._number + 1
        self._number = row.number
        expected = [after(base, row) for base in self._bases] if is_next else []
        self._bases = [stored, *expected[-1:]]
        if not expected or stored in expected:
            self._bases = [stored]
            return None
        others = [name for name in stored if all(stored[name] != one[name] for one in expected)]
        return f"its sums are wrong: {', '.join(others) or 'they do not fit together'}"


def after(base: dict[str, int], row: UsageRow) -> dict[str, int]:
    """The sums behind a call, by their names."""
    own = {name: getattr(row, name) for name in _SUMMED}
    own |= {
        "cost": row.cost or 0,
        "unpriced": int(row.cost is None),
        "estimated": int(row.priced_by is not None),
    }
    return {name: base.get(name, 0) + value for name, value in own.items()}


def _told(what: str, found: Iterator[tuple[int, str]]) -> Iterator[str]:
    """One sentence for each run of numbers of which the same is wrong."""
    first = last = 0
    said = ""
    for number, wrong in found:
        if said and (number, wrong) == (last + 1, said):
            last = number
            continue
        if said:
            yield _sentence(what, first, last, said)
        first = last = number
        said = wrong
    if said:
        yield _sentence(what, first, last, said)


def _sentence(what: str, first: int, last: int, wrong: str) -> str:
    return f"{what} {first}: {wrong}" if first == last else f"{what}s {first} to {last}, of each: {wrong}"
