"""The lines of a rollout of Codex as entries, events and calls, from its first line or from a place."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from clew.importers.contract import NotFollowedError, SourceEntry, SourceEvent, SourceUsage
from clew.importers.reading import turns
from clew.importers.reading.jsonlines import Line
from clew.importers.reading.values import LogNames, NamesState, digest_of_line, when
from clew.model import Json


class About(msgspec.Struct, frozen=True, array_like=True):
    """What the first line of a rollout tells."""

    thread: str
    id: str
    alias: str
    parent: str | None
    is_agent: bool
    vendor: str
    workspace: str | None
    created_at: datetime | None
    born: datetime | None
    """When the file was begun."""
    is_fork: bool
    """It goes on from another thread, whose lines stand in its own, or in the rollout that it names."""
    has_base: bool
    """It names one."""
    told: dict[str, Json]
    """All that it says, but for the prompt."""


_BURST: Final = timedelta(seconds=1)
"""A fork writes all that it copies at once."""
_BASE_WITHIN: Final = 8
"""The head of its base is among its first lines."""
_LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""There is a second after it."""
ITEMS: Final = frozenset(
    {
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
        "custom_tool_call_output", "local_shell_call", "web_search_call",
    }
)  # fmt: skip
"""What stood in the first rollouts without a line around it."""
_INJECTED: Final = (
    "# AGENTS.md instructions",
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<skill>",
    "<skills",
    "<hook",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<subagent_notification>",
    "<user_shell_command>",
    "<user_action>",
    "<INSTRUCTIONS>",
    "<system-reminder>",
)
_TOKENS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
_NOTHING: Final = (0, 0, 0, 0, 0)
_OWN: Final = frozenset({"type", "payload", "timestamp"})
"""What every line has: no note on its entry."""
_MODES: Final[dict[Json, Literal["fast", "flex"]]] = {"fast": "fast", "priority": "fast", "flex": "flex"}
"""What the program calls a tier of service, where that has a price of its own."""


def is_injected(message: dict[str, Json]) -> bool:
    """Whether the program put it there in the role of the user."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts = [str(part.get("text", "")) for part in content if isinstance(part, dict)]
    said = [text.lstrip() for text in texts if text.strip()]
    return bool(said) and all(text.startswith(_INJECTED) for text in said)


def tokens_of(payload: dict[str, Json], field: str = "total_token_usage") -> tuple[int, ...] | None:
    """The tokens of the whole thread so far, or ("last_token_usage") of its last call."""
    info = payload.get("info")
    return _tokens_in(info.get(field)) if isinstance(info, dict) else None


def _tokens_in(told: Json) -> tuple[int, ...] | None:
    if not isinstance(told, dict):
        return None
    return tuple([value if isinstance(value := told.get(name), int) else 0 for name in _TOKENS])


class State(msgspec.Struct, frozen=True, array_like=True):
    """What a rollout has told up to a place."""

    about: About
    last: str | None
    turns: list[str | None]
    """The last of them."""
    has_more_turns: bool
    model: str | None
    title: str | None
    mode: Literal["fast", "flex"] | None
    total: tuple[int, ...] | None
    was_apart: bool
    answers: dict[str, tuple[int, ...]]
    has_more_answers: bool
    inherited_until: datetime | None
    at: datetime | None
    names: NamesState = NamesState()


_MOST_TURNS: Final = 64
_MOST_ANSWERS: Final = 32
"""So many are kept with a place."""
_MOST_STATE: Final = 64 * 1024

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(State).decode


def decode_state(state: bytes) -> State:
    try:
        return _decode(state)
    except msgspec.MsgspecError as error:
        raise NotFollowedError(f"the state of a rollout cannot be read: {error}") from error


class Rollout:
    """The lines of a rollout as entries, events and calls. `before`: what the lines before them told."""

    def __init__(self, about: About, lines: Generator[Line, None, None], before: State | None = None) -> None:
        if before is None:
            until = _inherited_until(about) if about.is_fork else None
            total = None if about.is_fork else _NOTHING
            before = State(about, None, [], False, None, None, None, total, False, {}, False, until, None)
        self._lines = lines
        self._names = LogNames(before.names)
        self._content = ""
        """The digest of the line that is read,"""
        self._beside = ""
        """and its name, if it is no message; empty: it has none yet."""
        self._about = about
        self._is_agent = about.is_agent
        self._vendor = about.vendor
        self._inherited_until = before.inherited_until
        """A fork of the old kind copies its base, each line with the time of the copy: until when."""
        self._last = before.last
        self._turns = list(before.turns)
        """What stands before each turn of the user on the path,"""
        self._has_more_turns = before.has_more_turns
        """but for those before the first of them, which nothing tells any more."""
        self._model = before.model
        self._total = before.total
        """The counter of the thread; None: a fork goes on with that of its base, which was not told yet."""
        self._mode = before.mode
        self._calls: list[SourceUsage] = []
        self._answers = dict(before.answers)
        """The tokens of answers that the counter has not told of yet, by their ids."""
        self._has_more_answers = before.has_more_answers
        self._was_apart = before.was_apart
        """A call was counted that the counter does not tell of: its next step may hold it, or not."""
        self._waiting: list[SourceEvent] = []
        self._title = before.title
        self._at = before.at
        """When the last entry was made: one that has no time has that."""
        self.is_read = False
        """To the end."""
        self._turn: turns.Told = None
        """As the last of these lines tells that says something of it."""

    def state(self) -> bytes | None:
        """For the place behind the last line; None: it is too large, or has a text that is no UTF-8."""
        turns, answers = self._turns[-_MOST_TURNS:], list(self._answers.items())[-_MOST_ANSWERS:]
        state = State(
            about=self._about,
            last=self._last,
            turns=turns,
            has_more_turns=self._has_more_turns or len(turns) < len(self._turns),
            model=self._model,
            title=self._title,
            mode=self._mode,
            total=self._total,
            was_apart=self._was_apart,
            answers=dict(answers),
            has_more_answers=self._has_more_answers or len(answers) < len(self._answers),
            inherited_until=self._inherited_until,
            at=self._at,
            names=self._names.state(),
        )
        try:
            encoded = _encode(state)
        except (UnicodeEncodeError, OverflowError):
            return None
        return encoded if len(encoded) <= _MOST_STATE else None

    def head(self) -> str | None:
        return self._last or ""

    def turn(self) -> turns.Told:
        return self._turn

    def events(self) -> Iterator[SourceEvent]:
        yield from self._waiting

    def usage(self) -> Iterator[SourceUsage]:
        yield from self._calls

    def updates(self) -> dict[str, Json]:
        return {"model": self._model, **({"title": self._title} if self._title else {})}

    def entries(self) -> Iterator[SourceEntry]:
        with closing(self._lines) as lines:
            for line in lines:
                entry = self._take(line)
                if entry is not None:
                    self._waiting = []
                    yield entry
        self.is_read = True

    def _take(self, line: Line) -> SourceEntry | None:
        record = line.record
        self._content, self._beside = digest_of_line(line.raw, record), ""
        kind, payload = record.get("type"), record.get("payload")
        turn = turns.codex(kind, payload) if isinstance(payload, dict) else None
        self._turn = self._turn if turn is None else turn
        if not isinstance(payload, dict):
            if isinstance(kind, str) and kind in ITEMS:
                return self._item(line, record)
        elif kind == "response_item":
            if payload.get("type") != "ghost_snapshot":
                return self._item(line, payload)
        elif kind == "compacted":
            return self._compacted(line, payload)
        elif kind == "inter_agent_communication":
            self._turns.append(self._last)  # a rollback counts it
            return self._entry(line, _from_agent(payload))
        elif kind == "turn_context" and isinstance(payload.get("model"), str):
            self._model = payload["model"]
        elif kind == "event_msg":
            self._heed(line, payload)
        elif kind == "token_usage_record":
            used, answer = _tokens_in(payload.get("usage")), payload.get("response_id")
            if used is not None and isinstance(answer, str):
                self._answers[answer] = used
        elif kind == "session_meta" and 1 < line.number <= _BASE_WITHIN and not self._about.is_fork:
            self._begin_copy()
        self._event(line, payload if isinstance(payload, dict) else {})
        return None

    def _begin_copy(self) -> None:
        """A second head: what follows is a copy of the thread that it is of, though nothing else says so."""
        self._inherited_until = _inherited_until(self._about)
        if self._total == _NOTHING and self._inherited_until is not None:
            self._total = None

    def _item(self, line: Line, item: dict[str, Json]) -> SourceEntry:
        human: bool | None = None
        if item.get("type") == "message" and item.get("role") == "user":
            injected = is_injected(item)
            if self._is_agent or injected:
                human = False
            if not injected:
                self._turns.append(self._last)
        return self._entry(line, item, human=human)

    def _entry(
        self, line: Line, message: dict[str, Json], *, human: bool | None = None, is_mark: bool = False
    ) -> SourceEntry:
        parent, self._last = self._last, self._names.message(self._last, self._content)
        record = line.record
        self._at = when(record.get("timestamp")) or self._at
        notes: dict[str, Json] = {}
        if "payload" in record and not record.keys() <= _OWN:
            notes = {key: value for key, value in record.items() if key not in _OWN}
        if self._is_inherited(line):
            notes["inherited"] = True
        return SourceEntry(
            uid=self._last,
            parent=parent,
            message=message,
            kind="compaction" if is_mark else "message",
            at=self._at,
            human=human,
            notes=notes,
            decoded=True,
            events=tuple(self._waiting),
            line=line if line.number > 0 else None,
            formerly=_number_of(line),
        )

    def _compacted(self, line: Line, payload: dict[str, Json]) -> SourceEntry:
        history = payload.get("replacement_history")
        if not isinstance(history, list) or not history:
            text = str(payload.get("message") or "")
            history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
        self._count_compaction(line, payload.get("compaction_response_id"))
        told = {key: value for key, value in payload.items() if key != "replacement_history"}
        self._event(line, told, has_line=False)
        return self._entry(line, {"messages": history}, is_mark=True)

    def _heed(self, line: Line, payload: dict[str, Json]) -> None:
        kind = payload.get("type")
        if kind == "thread_rolled_back":
            dropped = payload.get("num_turns")
            if not isinstance(dropped, int):
                return
            if dropped > len(self._turns) and self._has_more_turns:
                raise NotFollowedError(f"{dropped} turns were rolled back")
            dropped = min(dropped, len(self._turns))
            if dropped > 0:
                self._last = self._turns[-dropped]
                del self._turns[-dropped:]
        elif kind == "thread_name_updated" and isinstance(payload.get("thread_name"), str):
            self._title = payload["thread_name"]
        elif kind == "thread_settings_applied" and isinstance(payload.get("thread_settings"), dict):
            tier = payload["thread_settings"].get("service_tier")
            if isinstance(tier, str):  # without one, it is the tier of before
                self._mode = _MODES.get(tier)
        elif kind == "token_count":
            self._count(line, payload)

    def _count(self, line: Line, payload: dict[str, Json]) -> None:
        """The counter is that of the thread, and is told again and again: only what it grew by is a call."""
        total = tokens_of(payload)
        if total is None or total == self._total:
            return
        last = tokens_of(payload, "last_token_usage")
        grown = _grown(None if self._was_apart and last else self._total, total, last)
        self._total, self._was_apart = total, False
        self._answers = {id: used for id, used in self._answers.items() if used not in (tuple(grown), last)}
        if not self._is_inherited(line) and any(grown):
            self._add_call(line, grown)

    def _count_compaction(self, line: Line, answer: Json) -> None:
        """The call that made a summary: the counter does not tell of it if the vendor made it."""
        used = self._answers.pop(answer, None) if isinstance(answer, str) else None
        if used is None and isinstance(answer, str) and self._has_more_answers:
            raise NotFollowedError(f"the answer {answer!r} was told of long ago")
        if used is not None and any(used):
            self._was_apart = True
            if not self._is_inherited(line):
                self._add_call(line, used, source="compaction")

    def _add_call(self, line: Line, used: Sequence[int], source: str | None = None) -> None:
        whole, cached, written, output, reasoning = used
        self._calls.append(
            SourceUsage(
                id=self._name_beside(line),
                formerly=_number_of(line),
                model=self._model,
                vendor=self._vendor,
                source=source,
                input_tokens=max(whole, cached + written),
                cache_read_tokens=cached,
                cache_write_tokens=written,
                output_tokens=output,
                reasoning_tokens=reasoning,
                mode=self._mode,
                at=when(line.record.get("timestamp")),
            )
        )

    def _name_beside(self, line: Line) -> str:
        """The name of the event and of the call that this line tells of."""
        if not self._beside:
            self._beside = self._names.beside(self._content, line.record.get("timestamp"))
        return self._beside

    def _is_inherited(self, line: Line) -> bool:
        """Whether the line is a copy of another thread's."""
        if line.number <= 0:
            return True
        if self._inherited_until is None:
            return False
        at = when(line.record.get("timestamp"))
        if at is None or at <= self._inherited_until:
            return True
        self._inherited_until = None  # what follows is its own
        return False

    def _event(self, line: Line, payload: dict[str, Json], *, has_line: bool = True) -> None:
        """`has_line`: False: an entry stands in it too, and has it."""
        kind = str(line.record.get("type") or "record")
        part = payload.get("type")
        self._waiting.append(
            SourceEvent(
                id=self._name_beside(line),
                formerly=_number_of(line),
                type=(f"{kind}.{part}" if isinstance(part, str) and part else kind)[:100],
                data=payload or line.record,
                stream="codex",
                at=when(line.record.get("timestamp")),
                line=line if has_line and line.number > 0 else None,
            )
        )


def _from_agent(payload: dict[str, Json]) -> dict[str, Json]:
    """The item that the model gets for what another agent wrote to it."""
    text, sealed = payload.get("content"), payload.get("encrypted_content")
    content: list[Json] = [{"type": "input_text", "text": text}] if isinstance(text, str) and text else []
    if isinstance(sealed, str) and sealed:
        content.append({"type": "encrypted_content", "encrypted_content": sealed})
    named: dict[str, Json] = {
        name: payload[name] for name in ("id", "author", "recipient") if name in payload
    }
    return {"type": "agent_message", **named, "content": content}


def _inherited_until(about: About) -> datetime | None:
    return None if about.born is None or about.has_base else min(about.born, _LAST) + _BURST


def _grown(before: tuple[int, ...] | None, total: tuple[int, ...], last: tuple[int, ...] | None) -> list[int]:
    """What was spent since the counter was told before. Without that, only the last call is known."""
    if before is None:
        return [*(last or _NOTHING)]
    grown = [new - old for new, old in zip(total, before, strict=True)]
    return [*total] if min(grown) < 0 else grown  # it began anew, or went on


def _number_of(line: Line) -> str:
    """What versions before revision 2 called it."""
    return f"line-{line.number}" if line.number > 0 else f"base{line.number}"
