"""Text for people: untrusted text made visible; numbers, sizes, times and ids; what an entry says."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import click

import clew
from clew.core.log.labels import mark_of
from clew.core.messages.shell import quoted
from clew.core.messages.text import ACTING, picture_of
from clew.model import Json, times

if TYPE_CHECKING:
    from clew.cli.app import Settings
    from clew.exporters.blocks import Block

# -- untrusted text
#
# Text of a model, a tool or a web page can hold escape sequences that recolour the screen, set its title or
# type for the user; or marks that turn the writing direction, so that code reads differently than it runs.
# All of them are shown, not sent to the terminal.

_SPACE: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    """The text with its invisible characters made visible; tabs and line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return ACTING.sub(_visible, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line: white space of any kind and length is one blank."""
    return clean(" ".join(text.split()))


def flat(text: str) -> str:
    """The same for a piece of a line: white space at its ends stays, as one blank."""
    return clean(_SPACE.sub(" ", text))


_ACTS: Final = re.compile(
    r"\x1b\[[0-9;:?<=>!]{0,40}[ -/]{0,4}[@-~]"  # colours, moves of the cursor, clearing
    r"|\x1b\][^\x07\x1b]{0,4000}(?:\x07|\x1b\\)"  # titles, links, the clipboard
    r"|\x1b[()][0-9A-Za-z]|\x1b[=>78cDEHMNOZ]"
)


def plain(text: str) -> str:
    """The output of a tool without colours, moves of the cursor, titles and links."""
    return _ACTS.sub("", text) if "\x1b" in text else text


def _visible(found: re.Match[str]) -> str:
    is_surrogate = "\ud800" <= found[0] <= "\udfff"
    return "\ufffd" if is_surrogate else picture_of(found[0], "<", ">")


_DATA: Final = re.compile(
    r"(data:[\w.+-]{1,60}/[\w.+-]{1,60}(?:;[\w.=+-]{1,60}){0,4};base64,)([A-Za-z0-9+/_-]{64,}={0,2})"
)


def folded(text: str) -> str:
    """The text with the content of each data URI told by its size."""
    if ";base64," not in text:
        return text
    return _DATA.sub(lambda found: f"{found[1]}… ({size(len(found[2]) * 3 // 4)})", text)


# -- numbers, sizes, times and ids

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
DAYS_SHOWN: Final = 14
"""What is older goes by its day."""
_UNITS_OF_TIME: Final = {"min": "m", "minute": "m", "h": "h", "hour": "h", "day": "d", "week": "w"}


def size(count: int) -> str:
    """1536 → 1.5 KiB."""
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


def clew_command(settings: Settings, *words: str) -> str:
    """A command to be typed that works on the same store as this one. An address with a password in it is
    left out."""
    store = settings.store
    if store is not None:
        from clew.backends.registry import masked_addresses

        if masked_addresses(store) == store:
            words = ("--store", store, *words)
    is_option = any(word.startswith("-") for word in words[-1:])
    shown = [quoted(word) for word in words]
    return " ".join(["clew", *shown[:-1], *(["--"] if is_option else []), *shown[-1:]])


def is_path(text: str) -> bool:
    """Whether what names a project is the path of its directory."""
    return text in (".", "..", "~") or "/" in text or os.sep in text


def count(number: int, noun: str) -> str:
    """1 session, 2 sessions."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


_LEAST: Final = Decimal("0.0001")


def money(cost: Decimal) -> str:
    """Dollars; four places for what is less than one, so that they stand below each other in a column."""
    if 0 < cost < _LEAST:
        return f"<${_LEAST}"
    return f"${cost:,.2f}" if not cost or cost >= 1 else f"${cost:.4f}"


def iso(moment: datetime | None) -> str:
    """For programs: UTC, to the second."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> datetime:
    """The time that "ago" is counted from."""
    return datetime.now(UTC)


def ago(moment: datetime) -> str:
    """For people: how long ago, and the day when that is long."""
    seconds = int((now() - moment).total_seconds())
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 24 * 3600:
        return f"{seconds // 3600} h ago"
    days = (now().astimezone().date() - moment.astimezone().date()).days
    if days < 2:
        return "yesterday"
    return f"{days} days ago" if days < DAYS_SHOWN else local(moment)[:10]


def local(moment: datetime) -> str:
    """Day and minute where the reader is."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


if TYPE_CHECKING:
    ParamType = click.ParamType[datetime]
else:
    ParamType = click.ParamType  # no generic class in older versions of click


class Moment(ParamType):
    """A day, a moment, or how long ago: 2026-11-01, 2026-11-01T12:00, 90m, 12h, 7d, 2w, yesterday.

    Args:
        is_end: A day is its end, as for `--until`. Else it is its beginning.
    """

    name = "time"

    def __init__(self, *, is_end: bool = False) -> None:
        self._is_end = is_end

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        moment = moment_of(value, is_end=self._is_end)
        if moment is None:
            self.fail(
                f"{value!r} is not a time: write 2026-11-01, 2026-11-01T12:00, 90m, 12h, 7d, 2w, today,"
                " yesterday or '2 days ago'",
                param,
                ctx,
            )
        return moment


def moment_of(text: str, *, is_end: bool = False) -> datetime | None:
    """The moment that a text names, in the time zone of the reader if it names none; None: it is no time.
    A day is its first moment; `is_end`: the first moment of the next day."""
    day = _day_of(text)
    if day is not None:
        with suppress(OverflowError, ValueError, OSError):
            start = datetime.combine(day + timedelta(days=is_end), time())
            return start.astimezone()  # by the calendar: a day may have 23 or 25 hours
        return None
    match text.lower().split():
        case [number, unit, "ago"] if unit.rstrip("s") in _UNITS_OF_TIME:
            text = f"{number}{_UNITS_OF_TIME[unit.rstrip('s')]}"
    return times.moment(text, now())


def _day_of(text: str) -> date | None:
    """The calendar day that a text names, where the reader is; None: it names no day."""
    today = now().astimezone().date()
    match text.lower().split():
        case ["today"]:
            return today
        case ["yesterday"]:
            return today - timedelta(days=1)
        case [day]:
            with suppress(ValueError):
                return date.fromisoformat(day)
    return None


# -- what an entry says

Kind = Literal["text", "thinking", "call", "result", "media", "data"]
SHORT: Final = 120
RANKED: Final[tuple[tuple[Kind, ...], ...]] = (("text",), ("call",), ("result", "media", "thinking", "data"))


class Piece(NamedTuple):
    kind: Kind
    text: str


def who(entry: clew.Entry) -> str:
    """The role of a message; of a mark its kind; of what no person said under the user's name: injected."""
    if entry.kind != "message":
        return entry.kind
    if entry.injected:
        return "injected"
    message = entry.message
    from clew.core.messages.dialects import role_of

    role = role_of(message)
    return role if role != "other" else str(message.get("role") or message.get("type") or "other")


def pieces(entry: clew.Entry, workspace: str | None = None) -> list[Piece]:
    """Everything that an entry says, in order."""
    if entry.kind == "removed":
        return [Piece("text", "(removed by a retention rule)")]
    if entry.kind == "message":
        from clew.exporters.blocks import blocks_shown

        return [Piece(block.kind, _text(block, workspace)) for block in blocks_shown(entry)]
    return [Piece("text", text) for text in _mark(entry.message)]


def first_words(entry: clew.Entry, workspace: str | None = None) -> str:
    """One line: what was said, else which tools were called, else what they gave. Paths in `workspace` are
    told without it."""
    found = pieces(entry, workspace)
    for kinds in RANKED:
        said = " ".join(f"{SIGNS.get(kind, '')}{text}" for kind, text in found if kind in kinds)
        if said.strip():
            return said
    return ""


SIGNS: Final[dict[Kind, str]] = {"call": "→ ", "thinking": "~ "}


def from_home(path: str) -> str:
    """A path of this user as shells write it, with `~`."""
    home = os.path.expanduser("~").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else path


def short_mark(name: str) -> str:
    """The name of a checkpoint, where there is little room: of one that a program made up, a mark, or the
    beginning of its name."""
    mark = mark_of(name)
    if mark is not None:
        return mark
    shown = one_line(name)
    made_up = _MADE_UP.fullmatch(shown)
    if made_up:
        return made_up[1]
    return shown if len(shown) <= LONGEST_MARK else f"{shown[: LONGEST_MARK - 1]}…"


def mark_style(name: str) -> str:
    """What a program set by itself is not as loud as what a person named."""
    return "bold yellow" if mark_of(name) is None else "bright_black"


LONGEST_MARK: Final = 24
_MADE_UP: Final = re.compile(r"([\w-]{1,24})[:/][0-9a-f-]{20,64}")


def _text(block: Block, workspace: str | None) -> str:
    if block.kind == "call":
        from clew.exporters.tools import summary

        return summary(block.name, block.text, workspace=workspace)
    if block.kind == "media":
        return f"[{block.media.type or block.text if block.media else block.text}]"
    if block.kind == "result":
        from clew.exporters.tools import output_of

        return folded(plain(block.text if block.is_json else output_of(block.text).text))
    return folded(block.text)


def _mark(content: dict[str, Json]) -> list[str]:
    """The texts of a compaction or a summary; other marks say nothing but that they are there."""
    from clew.exporters.blocks import blocks_of

    found = []
    for value in content.values():
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            said = (
                block.text for message in value if isinstance(message, dict) for block in blocks_of(message)
            )
            found += said
    return [text for text in found if text.strip()]
