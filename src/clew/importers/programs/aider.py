"""The chat history of aider: all sessions of a directory in one Markdown file.

There are no ids, no roles and no zone in it: `#### ` begins what the human typed, `> ` what aider printed,
and all the rest is the model's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from clew.core.messages.repair import NOTICE
from clew.importers.contract import OnBytes, OnProblem, Problem, SourceEntry, SourceSession, SourceUsage
from clew.importers.reading.values import digest, session_id, version
from clew.importers.unpacking import take_holes
from clew.model import Json

NAME: Final = "aider"
IS_TEXT: Final = True

_FILE: Final = ".aider.chat.history.md"
_START: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_BEGINS: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*\n"
)
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")
_MODEL: Final = re.compile(r"(?:Main model|Model): (\S+)")
_PAID: Final = re.compile(
    r"Tokens: ([\d.,]+[kKM]?) sent"
    r"(?:, ([\d.,]+[kKM]?) cache write)?(?:, ([\d.,]+[kKM]?) cache hit)?"
    r"(?:, ([\d.,]+[kKM]?) received)?\.?(?:\s*Cost: \$([\d.]+) message)?"
)
_PROMPTING: Final = frozenset({"/ask", "/code", "/architect", "/context", "/help"})
"""Commands that send what follows them to the model."""
_UNITS: Final = {"k": 1_000, "K": 1_000, "M": 1_000_000}

Speaker: TypeAlias = Literal["user", "assistant", "system"]


class _Block(NamedTuple):
    speaker: Speaker
    text: str
    is_command: bool
    """What the human typed was for aider, not for the model: `/undo`, `/add a.py`, `!ls`."""


def recognises(path: Path, beginning: bytes) -> bool:
    return _BEGINS.match(beginning) is not None or (
        path.name == _FILE and b"\n# aider chat started at " in beginning
    )


def known_places(home: Path) -> list[Path]:
    return [home / _FILE]


def files(path: Path) -> list[Path]:
    return sorted(path.rglob(_FILE)) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    place = path.absolute().parent
    seen: dict[str, int] = {}
    lines = _Lines(path, on_problem, on_bytes)
    while (started := lines.next_session()) is not None:
        seen[started] = seen.get(started, 0) + 1
        again = f"#{seen[started]}" if seen[started] > 1 else ""
        chat = _Chat(lines, _local(started))
        yield SourceSession(
            id=session_id(NAME, f"{place.name}:{started}{again}"),
            entries=chat.entries(),
            workspace=str(place),
            created_at=chat.started,
            updates=chat.updates,
        )


class _Lines:
    """The lines of a file, and where a session in it ends."""

    def __init__(self, path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> None:
        self._lines = self._decoded(path, on_problem, on_bytes)
        self._started: str | None = None

    def next_session(self) -> str | None:
        for _ in self.session():
            pass
        started, self._started = self._started, None
        return started

    def session(self) -> Iterator[str]:
        """The lines up to the next start of a session, which is kept for `next_session`."""
        if self._started is not None:
            return
        for line in self._lines:
            if found := _START.match(line):
                self._started = found[1]
                return
            yield line

    def _decoded(self, path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[str]:
        with path.open("rb") as file:
            take_holes(file.fileno(), path)
            for number, raw in enumerate(file, start=1):
                on_bytes(len(raw))
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as exc:
                    line = raw.decode("utf-8", "replace")
                    reason = f"not valid UTF-8 at byte {exc.start}: replaced by U+FFFD"
                    on_problem(Problem(path=str(path), line=number, reason=reason))
                yield line.rstrip("\r\n")


class _Chat:
    def __init__(self, lines: _Lines, started: datetime | None) -> None:
        self._lines = lines
        self.started = started
        """The only time that is told."""
        self._model: str | None = None

    def updates(self) -> dict[str, str]:
        return {"model": self._model} if self._model else {}

    def entries(self) -> Iterator[SourceEntry]:
        parent: str | None = None
        for block in _blocks(self._lines.session()):
            uid = version(parent, block.speaker, digest(block.text))
            usage = self._told(block, uid) if block.speaker == "system" else None
            message: dict[str, Json] = {"role": block.speaker, "content": block.text}
            if block.speaker == "system":
                message[NOTICE] = True
            human = False if block.is_command else None
            yield SourceEntry(
                uid=uid, parent=parent, message=message, at=self.started, usage=usage, human=human
            )
            parent = uid

    def _told(self, block: _Block, uid: str) -> SourceUsage | None:
        if found := _MODEL.search(block.text):
            self._model = found[1]
        paid = _PAID.search(block.text)
        if paid is None:
            return None
        sent, written, hit, received = (_number(paid[at]) for at in range(1, 5))
        return SourceUsage(
            id=uid,
            model=self._model,
            # What aider calls sent is all of the prompt, but for some models without its cache.
            input_tokens=max(sent, written + hit),
            output_tokens=received,
            cache_read_tokens=hit,
            cache_write_tokens=written,
            cost=paid[5],
        )


def _blocks(lines: Iterator[str]) -> Iterator[_Block]:
    """Lines of one speaker together. Empty blocks say nothing."""
    speaker: Speaker = "assistant"
    held: list[str] = []
    typed: list[str] = []  # the first line of each input: a line that is empty stands before it
    fence: str | None = None
    is_separate = True
    for line in lines:
        who, said = _who(line, in_code=fence is not None)
        if who != speaker:
            # A prompt ends code that was never closed: an answer that was interrupted.
            fence = None
            # A line that is empty separates speakers, unless the same one goes on behind it.
            if not said.strip() and who == "assistant" and speaker == "user":
                is_separate = True
                continue
            if text := "\n".join(held).strip():
                yield _Block(speaker, text, _are_commands(typed))
            speaker, held, typed, is_separate = who, [], [], True
        if who == "assistant":
            fence = _fence_after(fence, line)
        elif who == "user" and is_separate:
            typed.append(said)
            is_separate = False
        held.append(said)
    if text := "\n".join(held).strip():
        yield _Block(speaker, text, _are_commands(typed))


def _are_commands(typed: list[str]) -> bool:
    return bool(typed) and all(map(_is_command, typed))


def _is_command(line: str) -> bool:
    """`/ask why?` and its like say something to the model; `<blank>` stands for an input without words."""
    word, _, rest = line.strip().partition(" ")
    if word == "/ok" or (word in _PROMPTING and rest):
        return False
    return word.startswith(("/", "!", "<blank>"))


def _who(line: str, *, in_code: bool) -> tuple[Speaker, str]:
    if line.startswith("#### ") or line == "####":
        return "user", line[5:].rstrip()
    if not in_code and (line.startswith("> ") or line == ">"):
        return "system", line[2:].rstrip()
    return "assistant", line


def _fence_after(fence: str | None, line: str) -> str | None:
    found = _FENCE.match(line)
    if found is None:
        return fence
    if fence is None:
        return found[1]
    closes = found[1].startswith(fence) and not line.strip().strip(fence[0])
    return None if closes else fence


def _number(text: str | None) -> int:
    """Rounded by aider: 2.1k are two thousand and something."""
    if not text:
        return 0
    unit = _UNITS.get(text[-1], 1)
    digits = text.rstrip("kKM").replace(",", "").rstrip(".")
    try:
        return round(float(digits) * unit)
    except ValueError:
        return 0


def _local(started: str) -> datetime | None:
    """The zone is not told: that of this machine is the best guess. None: no calendar has that day."""
    try:
        return datetime.fromisoformat(started).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
