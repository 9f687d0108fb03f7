"""A session as turns that belong to no agent: what an exporter to another agent's format starts from.

Every dialect becomes the same few things: texts, media, thoughts, and tool calls with their results inside.
One answer of a model is one turn, also where a program kept it in several entries: Claude Code has a line for
each block, Codex an item for each part. `History.notes` says what could not be mapped.

An exporter takes `History.turns` if its format can hold compactions, else `History.view()`: what the model
had before it when the session stood there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import Dialect, Part, Role, dialect_of
from clew.core.messages.dialects.base import (
    INTERRUPTED,
    WrappedDialect,
    filled,
    is_blank,
    parts_of,
    type_of,
)
from clew.core.messages.dialects.google import typed_in
from clew.core.messages.repair import is_notice
from clew.core.messages.tool_calls import Found, pair
from clew.exporters.blocks import Media, media_in
from clew.model import Entry, Json, Message

if TYPE_CHECKING:
    from clew.core.conversation.points import Point
    from clew.session import Session

Speaker: TypeAlias = Literal["user", "assistant", "system", "notice", "compaction"]

NOT_RECORDED: Final = "[the model's provider ran this tool; its result was not recorded]"
"""Instead of the result of a call that a provider answers itself, unseen."""


# ── What a turn is made of ────────────────────────────────────────────────────────────────────────


class Text(msgspec.Struct, frozen=True):
    text: str


class Picture(msgspec.Struct, frozen=True):
    """An image or a file."""

    media: Media


class Thought(msgspec.Struct, frozen=True):
    text: str | None
    """None: only its provider can read it."""
    vendor: str | None
    """Who can be given it again, as "anthropic": it carries that provider's signature, or is encrypted by it.
    None: it is words alone, which no provider takes back."""
    value: Json = None
    """The block, item or part as its provider wrote it: what it takes to give it again."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call."""

    text: str
    media: tuple[Media, ...] = ()
    is_error: bool = False
    is_made_up: bool = False
    """No result was recorded: the text says so."""
    value: Json = None
    """As it stands in the message."""
    time: datetime | None = None
    entry: Entry | None = None
    """Where it stands."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    """Of this call alone: one that has none, or one that another call has too, gets one here."""
    name: str
    arguments: dict[str, Json]
    answer: Answer
    value: Json = None
    """The arguments as they stand in the message."""


TurnPart: TypeAlias = Text | Picture | Thought | ToolCall


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    speaker: Speaker
    """notice: a program showed it to its user, and no model saw it."""
    parts: tuple[TurnPart, ...] = ()
    position: int
    """Of its first entry."""
    time: datetime
    entries: tuple[Entry, ...] = ()
    """That it was made of, without those of the results; none inside of a compaction."""
    injected: bool = False
    """In the role of the user, but written by a program."""
    model: str | None = None
    vendor: str | None = None
    summary: tuple[Turn, ...] = ()
    """Of a compaction: what stands for everything before `start`. Empty: it was cut off without a word."""
    start: int = 0
    """Of a compaction: the position from which on the model still sees all."""

    @property
    def text(self) -> str:
        """What is said, without thoughts and results; of a compaction its summary."""
        if self.speaker == "compaction":
            return "\n\n".join(filter(None, (turn.text for turn in self.summary)))
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> list[ToolCall]:
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def media(self) -> list[Media]:
        return [part.media for part in self.parts if isinstance(part, Picture)]

    @property
    def thoughts(self) -> list[Thought]:
        return [part for part in self.parts if isinstance(part, Thought)]


class History(msgspec.Struct, frozen=True, kw_only=True):
    turns: list[Turn]
    """The whole path, with compactions where they happened."""
    made_up: int = 0
    """Calls without a result."""
    strays: int = 0
    """Results without a call, told as texts."""
    removed: int = 0
    """Messages that a retention rule took away."""
    unknown: int = 0
    """Parts and records that say nothing to a model, or that no dialect knows."""

    def view(self) -> list[Turn]:
        """What the model had before it: the summary, and what it still saw; the system's words at the very
        beginning stay unless a summary stands for them. Without compactions: all turns."""
        last = next((turn for turn in reversed(self.turns) if turn.speaker == "compaction"), None)
        if last is None:
            return list(self.turns)
        kept = [t for t in self.turns if t.speaker != "compaction" and t.position >= last.start]
        return [*(last.summary or _leading_system(self.turns, last.start)), *kept]

    def notes(self) -> list[str]:
        """One sentence for each thing that another agent will not find as it was."""
        told = {
            "{} got one that says that none was recorded": (self.made_up, "call without a result"),
            "{} became text": (self.strays, "result without its call"),
            "{} had been removed by a retention rule": (self.removed, "message"),
        }
        return [
            sentence.format(f"{count} {what}" if count == 1 else f"{count} {_plural(what)}")
            for sentence, (count, what) in told.items()
            if count
        ]


def without_setup(turns: Sequence[Turn]) -> list[Turn]:
    """Without what belongs to the agent that a session came from: the system's words, what was shown to the
    user alone, and what the program put before the first prompt, such as its environment."""
    begun = next((at for at, turn in enumerate(turns) if not _is_setup(turn)), len(turns))
    is_prompted = begun < len(turns) and turns[begun].speaker == "user" and bool(turns[begun].entries)
    left = turns[begun:] if is_prompted else turns
    return [turn for turn in left if turn.speaker not in ("system", "notice")]


def _is_setup(turn: Turn) -> bool:
    is_injected = turn.speaker == "user" and turn.injected and bool(turn.entries)
    return is_injected or turn.speaker in ("system", "notice")


def _plural(what: str) -> str:
    head, space, rest = what.partition(" ")
    return f"{head}s{space}{rest.replace('its call', 'their call')}"


def _leading_system(turns: Sequence[Turn], start: int) -> Iterator[Turn]:
    for turn in turns:
        if turn.speaker != "system" or turn.position >= start:
            return
        yield turn


# ── From entries to turns ─────────────────────────────────────────────────────────────────────────


def read_turns(session: Session, *, at: Point | None = None) -> History:
    """The path to the head, or to the point `at`."""
    entries = list(session.entries(at=at))
    return turns_of(entries)


def turns_of(entries: Sequence[Entry]) -> History:
    starts = {start for entry in entries if (start := _start_of(entry)) is not None}
    builder = _Builder(entries, starts)
    return builder.history()


def _start_of(entry: Entry) -> int | None:
    if entry.kind not in ("compaction", "truncation"):
        return None
    start = entry.message.get("start")
    return start if isinstance(start, int) else 0


class _Open:
    """A turn of the assistant that is not known to be over."""

    def __init__(self, entry: Entry, dialect: Dialect, said_in: str | None) -> None:
        self.entries = [entry]
        self.dialect = dialect.name
        self.said_in = said_in
        self.parts: list[TurnPart] = []
        self.model: str | None = None
        self.vendor: str | None = None
        self.was_answered = False


class _Builder:
    """Reads entries one by one, with the pairs of calls and results known before."""

    def __init__(self, entries: Sequence[Entry], starts: set[int]) -> None:
        self._entries = entries
        self._starts = starts
        self._messages = [entry.message if entry.kind == "message" else {} for entry in entries]
        self._tools = _Tools(self._messages)
        self._turns: list[Turn] = []
        self._open: _Open | None = None
        self._removed = self._unknown = self._strays = 0

    def history(self) -> History:
        for index, entry in enumerate(self._entries):
            if entry.kind == "message":
                self._message(index, entry)
            elif entry.kind in ("compaction", "truncation"):
                self._mark(entry)
            elif entry.kind == "removed":
                self._removed += 1
        self._close()
        return History(
            turns=self._turns,
            made_up=self._tools.made_up,
            strays=self._strays,
            removed=self._removed,
            unknown=self._unknown,
        )

    def _message(self, index: int, entry: Entry) -> None:
        message = self._messages[index]
        dialect = dialect_of(message)
        if is_notice(message):
            texts = [Text(part.text) for part in dialect.parts(message) if part.text]
            self._add("notice", entry, texts)
            return
        role = dialect.role(message)
        injected = entry.injected
        if role == "other" and (inner := _spoken_inside(dialect, message)) is not None:
            role, injected = inner, True
        if role == "assistant":
            self._answer(index, entry, message, dialect)
        else:
            self._others(index, entry, message, dialect, role, injected)

    def _answer(self, index: int, entry: Entry, message: dict[str, Json], dialect: Dialect) -> None:
        said_in = _answer_id(dialect, message, entry)
        if not self._continues(entry, dialect, said_in):
            self._close()
            self._open = _Open(entry, dialect, said_in)
        else:
            assert self._open is not None
            self._open.entries.append(entry)
        open = self._open
        assert open is not None
        model, vendor = _model_of(message, entry)
        open.model, open.vendor = model or open.model, vendor or open.vendor
        for part in dialect.parts(message):
            made = self._part(index, entry, message, dialect, part, vendor)
            if made is not None:
                open.parts.append(made)

    def _continues(self, entry: Entry, dialect: Dialect, said_in: str | None) -> bool:
        """Whether a program kept one answer of the model in this entry and in those before it."""
        open = self._open
        if open is None or entry.position in self._starts:
            return False
        if said_in is not None or open.said_in is not None:
            return open.said_in == said_in  # results may stand between: Claude Code writes them as they come
        return dialect.name == open.dialect == "responses" and not open.was_answered

    def _others(
        self, index: int, entry: Entry, message: dict[str, Json], dialect: Dialect, role: Role, injected: bool
    ) -> None:
        """What is said by a user, a system or a program; results go to their calls."""
        speaker: Speaker = "system" if role == "system" else "user"
        injected = injected or role in ("other", "tool")
        said: list[TurnPart] = []
        aside: list[TurnPart] = []
        had_result = False
        for part in dialect.parts(message):
            had_result = had_result or part.kind == "result"
            made = self._part(index, entry, message, dialect, part, None)
            if made is None:
                continue
            if part.speaker == "system" and speaker == "user":
                self._add("system", entry, [made])
            elif part.kind == "result" or (part.speaker == "other" and role != "other"):
                aside.append(made)
            else:
                said.append(made)
        if had_result and self._open is not None:
            self._open.was_answered = True
        is_displayed = bool(typed_in(message))  # what the model got for a prompt follows it
        if aside and not is_displayed:
            self._add("user", entry, aside, injected=True)
        if said:
            self._add(speaker, entry, said, injected=injected and speaker == "user")
        if aside and is_displayed:
            self._add("user", entry, aside, injected=True)

    def _part(
        self,
        index: int,
        entry: Entry,
        message: dict[str, Json],
        dialect: Dialect,
        part: Part,
        vendor: str | None,
    ) -> TurnPart | None:
        match part.kind:
            case "text":
                return None if is_blank(part.text) else Text(part.text or "")
            case "thinking":
                return None if part.speaker == "other" else _thought(dialect, message, part, vendor)
            case "media":
                media = media_in(part.value)
                if part.text is not None:
                    return Text(part.text)
                return Picture(media) if media is not None else None
            case "call":
                return self._tools.call(index, part, self._entries)
            case "result":
                if (stray := self._tools.stray(index, part, dialect)) is not None:
                    self._strays += 1
                return stray
            case _:
                self._unknown += 1
                return None

    def _mark(self, entry: Entry) -> None:
        content = entry.message
        given = content.get("messages")
        inside = [
            msgspec.structs.replace(entry, kind="message", raw=msgspec.json.encode(message))
            for message in (given if isinstance(given, list) else [])
            if isinstance(message, dict)
        ]
        made = turns_of(inside)
        summary = tuple(
            msgspec.structs.replace(turn, entries=(), injected=turn.speaker == "user") for turn in made.turns
        )
        self._close()
        self._turns.append(
            Turn(
                speaker="compaction",
                position=entry.position,
                time=entry.time,
                entries=(entry,),
                summary=summary,
                start=_start_of(entry) or 0,
            )
        )

    def _add(
        self, speaker: Speaker, entry: Entry, parts: Sequence[TurnPart], *, injected: bool = False
    ) -> None:
        if not parts:
            return
        self._close()
        self._turns.append(
            Turn(
                speaker=speaker,
                parts=tuple(parts),
                position=entry.position,
                time=entry.time,
                entries=(entry,),
                injected=injected,
            )
        )

    def _close(self) -> None:
        open, self._open = self._open, None
        if open is None or not open.parts:
            return
        first = open.entries[0]
        self._turns.append(
            Turn(
                speaker="assistant",
                parts=tuple(open.parts),
                position=first.position,
                time=first.time,
                entries=tuple(open.entries),
                model=open.model,
                vendor=open.vendor,
            )
        )


def _spoken_inside(dialect: Dialect, message: dict[str, Json]) -> Role | None:
    """Who speaks in a line of Claude Code that no person wrote, if there is a message in it."""
    if not isinstance(dialect, WrappedDialect):
        return None
    inner = dialect.unwrap(message)
    role = dialect.wrapped.role(inner) if inner else None
    return role if role in ("user", "assistant", "tool") else None


def _answer_id(dialect: Dialect, message: dict[str, Json], entry: Entry) -> str | None:
    """The id of the answer that a message is a part of: agents of Anthropic's keep each block alone, and a
    record of Gemini CLI may be words and calls."""
    if dialect.name == "gemini":
        source = entry.annotations.get("source")
        if not isinstance(source, dict) or source.get("type") != "gemini":
            return None
        return filled(source.get("id"))
    inner = dialect.unwrap(message) if isinstance(dialect, WrappedDialect) else message
    return filled(inner.get("id")) if _is_anthropic(inner) else None


def _is_anthropic(message: Message) -> bool:
    """Whether it is an answer as it came from there. Items of OpenAI have the same type, and other parts."""
    if message.get("type") != "message" or message.get("role") != "assistant":
        return False
    kinds = {type_of(part) for part in parts_of(message)}
    return "stop_reason" in message or bool(kinds & {"text", "thinking", "redacted_thinking", "tool_use"})


def _model_of(message: dict[str, Json], entry: Entry) -> tuple[str | None, str | None]:
    """Model and vendor of an answer, as far as the message, or what its program kept beside it, says."""
    inner, source = message.get("message"), entry.annotations.get("source")
    holders = [holder for holder in (message, inner, source) if isinstance(holder, dict)]
    model = vendor = None
    for holder in holders:
        model = model or filled(holder.get("model")) or filled(holder.get("modelID"))
        vendor = vendor or filled(holder.get("provider")) or filled(holder.get("providerID"))
        vendor = vendor or ("anthropic" if _is_anthropic(holder) else None)
    # Claude Code writes answers of its own under a name like <synthetic>.
    return None if model is not None and model.startswith("<") else model, vendor


# ── Thoughts: who can be given them again ─────────────────────────────────────────────────────────

_SIGNED: Final = {
    "signature": "anthropic",
    "encrypted_content": "openai",
    "thoughtSignature": "google",
    "thought_signature": "google",
}
"""Fields that only the provider of a thought can make, and by which it knows its own again."""


def _thought(dialect: Dialect, message: dict[str, Json], part: Part, vendor: str | None) -> Thought | None:
    value = _piece(dialect, message, part)
    signed = _signed_by(value, vendor)
    if part.text is None and signed is None:
        return None  # nothing is left of it that could be read or given again
    if part.text is not None and is_blank(part.text):
        return Thought(None, signed, value) if signed else None
    return Thought(part.text, signed, value)


def _piece(dialect: Dialect, message: dict[str, Json], part: Part) -> Json:
    try:
        return dialect.pick(message, part)
    except (KeyError, IndexError, TypeError):
        return message


def _signed_by(value: Json, vendor: str | None) -> str | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") == "redacted_thinking":
        return "anthropic"
    for field, provider in _SIGNED.items():
        if filled(value.get(field)):
            return provider
    if filled(value.get("thinkingSignature")):  # pi, whatever its provider
        return vendor
    if isinstance(metadata := value.get("metadata"), dict):  # OpenCode, under the name of the provider
        return next(
            (filled(name) for name, told in metadata.items() if isinstance(told, dict) and told), None
        )
    reasoning = value.get("reasoningContent")  # Bedrock
    text = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
    return "anthropic" if isinstance(text, dict) and filled(text.get("signature")) else None


# ── Calls and their results ───────────────────────────────────────────────────────────────────────


class _Tools:
    """Which result answers which call, over the whole path and across dialects."""

    def __init__(self, messages: Sequence[dict[str, Json]]) -> None:
        pairing = pair(messages)
        self._calls: dict[tuple[int, int, str | None], Found] = {}
        self._results: dict[tuple[int, int, str | None], Found] = {}
        self._dialects = [dialect_of(message) if message else None for message in messages]
        self._messages = messages
        for index, found in enumerate(pairing.found):
            for item in found:
                known = self._results if item.is_result else self._calls
                known[index, item.part.at, item.call.id] = item
        self._pair_the_rest(pairing.found)
        self._ids: set[str] = set()
        self._told: dict[str, str] = {}
        self.made_up = 0

    def _pair_the_rest(self, all_found: Iterable[Sequence[Found]]) -> None:
        """A result that was written in another dialect than its call, by the same id."""
        waiting: dict[str, Found] = {}
        for found in all_found:
            for item in found:
                if item.partner is not None or item.repeated or item.call.id is None:
                    continue
                if not item.is_result:
                    waiting[item.call.id] = item
                elif (call := waiting.pop(item.call.id, None)) is not None:
                    call.partner, item.partner = item, call

    def call(self, index: int, part: Part, entries: Sequence[Entry]) -> ToolCall | None:
        found = self._calls.get((index, part.at, part.call.id if part.call else None))
        if found is not None and found.repeated:
            return None  # the turn was recorded twice
        given, name = (part.call.id, part.call.name) if part.call else (None, None)
        answer = self._answer(found, entries) or self._beside(index, part, entries[index])
        if answer is None:
            is_ours = found is not None
            self.made_up += is_ours
            text = INTERRUPTED if is_ours else NOT_RECORDED
            answer = Answer(text=text, is_error=is_ours, is_made_up=True)
        if given is not None:
            self._told[given] = answer.text
        return ToolCall(
            id=self._own(given),
            name=name or "tool",
            arguments=_arguments(part.value),
            answer=answer,
            value=part.value,
        )

    def _answer(self, found: Found | None, entries: Sequence[Entry]) -> Answer | None:
        if found is None or found.partner is None:
            return None
        result = found.partner
        return _answer_of(result.dialect, result.part, entries[result.index])

    def _beside(self, index: int, call: Part, entry: Entry) -> Answer | None:
        """The result of a call that its provider answered in the same message."""
        dialect = self._dialects[index]
        if dialect is None or call.placement is not None or call.call is None:
            return None
        for part in dialect.parts(self._messages[index]):
            if part.kind == "result" and part.placement is None and part.call == call.call:
                return _answer_of(dialect, part, entry)
        return None

    def stray(self, index: int, part: Part, dialect: Dialect) -> Text | None:
        """A result that belongs to no call, as a text; None: its call has it."""
        key = part.call.id if part.call else None
        found = self._results.get((index, part.at, key))
        if found is not None and found.partner is not None:
            return None
        text, media = _read(dialect, part)
        if key is not None and self._told.get(key) == text:
            return None  # some programs write a result down twice
        name = part.call.name if part.call else None
        shown = "".join(f"\n[{each.name or each.type or 'image'}]" for each in media)
        return Text(f"[result of {name or 'a tool'}, whose call is not there]\n{text}{shown}")

    def _own(self, given: str | None) -> str:
        id, number = given or "call_1", 1
        while id in self._ids:
            number += 1
            id = f"{given or 'call'}_{number}"
        self._ids.add(id)
        return id


def _answer_of(dialect: Dialect, part: Part, entry: Entry) -> Answer:
    text, media = _read(dialect, part)
    return Answer(
        text=text,
        media=tuple(media),
        is_error=part.is_error,
        value=part.value,
        time=entry.time,
        entry=entry,
    )


def _read(dialect: Dialect, part: Part) -> tuple[str, list[Media]]:
    """The words of a result, as they are, and the media in it."""
    value = part.value
    if value is None or isinstance(value, str):
        return value or "", []
    if not isinstance(value, list):
        return msgspec.json.encode(value).decode(), []
    texts: list[str] = []
    media: list[Media] = []
    for inner in dialect.inside(part):
        if inner.kind == "media" and inner.text is None and (found := media_in(inner.value)) is not None:
            media.append(found)
        elif inner.text is not None:
            texts.append(inner.text)
        elif inner.value is not None:
            texts.append(msgspec.json.encode(inner.value).decode())
    return "\n".join(texts), media


def _arguments(given: Json) -> dict[str, Json]:
    """An object, as all agents want it; a tool may have been called with a text."""
    if isinstance(given, str):
        if not given:
            return {}
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {"input": given}
    if given is None:
        return {}
    return given if isinstance(given, dict) else {"input": given}
