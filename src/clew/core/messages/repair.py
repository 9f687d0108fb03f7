"""The history as a model provider accepts it: every tool call with one result, in its place (P15).

Repairs are made for the model's eyes only; the log keeps what was recorded. Messages that need no repair
come out as the very objects that went in, so signatures and encrypted reasoning stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import Edit, Placement, dialect_of, role_of
from clew.core.messages.dialects.base import is_blank
from clew.core.messages.dialects.google import DISPLAYED
from clew.core.messages.text import snippet
from clew.core.messages.tool_calls import Found, Pairing, is_reasoning_only, pair
from clew.model import Json, Message

# -- what of a message a provider takes: none accepts one in which nothing is said
#
# Runs that were stopped leave empty answers behind, and importers keep what a program told its user.

NOTICE: Final = "notice"
"""The key of a system message that a program showed to its user, and never sent to a model."""
_SPEAKERS: Final = ("user", "assistant")


def is_notice(message: Message) -> bool:
    """Whether it is for people only."""
    return message.get(NOTICE) is True and message.get("role") == "system"


def as_sent(message: dict[str, Json]) -> dict[str, Json]:
    """The message without what Gemini CLI shows to its user in its place."""
    if DISPLAYED not in message or "parts" not in message:
        return message
    return {name: value for name, value in message.items() if name != DISPLAYED}


def is_misplaced(message: Message) -> bool:
    """Whether it may stand before a conversation, but not inside: Gemini has no system messages there."""
    return message.get("role") == "system" and "content" not in message and "parts" in message


def is_plain(message: Message) -> bool:
    """Whether it is a text for a provider, as nearly all are: then nothing else need be asked."""
    content = message.get("content")
    return type(content) is str and bool(content) and not content.isspace() and NOTICE not in message


def is_said(message: dict[str, Json]) -> bool:
    """Whether a provider gets anything of it."""
    return is_plain(message) or (not is_notice(message) and sayable(message) is not None)


def sayable(message: dict[str, Json]) -> dict[str, Json] | None:
    """The message without the texts in it that are blank; None: nothing is left. One that needs no change is
    the very object that was given."""
    field = _field(message)
    if field is None:
        return message
    said = message[field]
    if isinstance(said, list):
        kept = [block for block in said if not _is_blank_text(block)]
        if len(kept) == len(said) and kept:
            return message
        if kept:
            return {**message, field: kept}
    # A call, a thought or an image may stand beside a content that is empty.
    if message.get("tool_calls"):
        return message  # nearly always
    parts = dialect_of(message).parts(message)
    return None if all(part.kind == "text" and is_blank(part.text) for part in parts) else message


def _field(message: Message) -> str | None:
    """Where a user or an assistant says something, if it looks as if nothing were there; None: all is well,
    or the message is of a shape of its own."""
    content = message.get("content")
    if type(content) is str and not is_blank(content):
        return None
    if not isinstance(message.get("role"), str) or message.get("type", "message") != "message":
        return None
    field = "parts" if "content" not in message and isinstance(message.get("parts"), list) else "content"
    if field == "content" and "content" not in message:
        return None
    said = message[field]
    if not (said is None or isinstance(said, str | list)):
        return None
    if isinstance(said, list) and said and not any(map(_is_blank_text, said)):
        return None
    return field if role_of(message) in _SPEAKERS else None


def _is_blank_text(block: Json) -> bool:
    """A text without a word. What stands beside one, as a signature of Gemini, makes it worth keeping."""
    if isinstance(block, str):
        return is_blank(block)
    if not isinstance(block, dict) or not isinstance(text := block.get("text"), str) or not is_blank(text):
        return False
    return block.get("type") == "text" or block.keys() == {"text"}


# -- the repair

OpenTail: TypeAlias = Literal["close", "keep"]

_LABEL_LENGTH: Final = 80
_MOVABLE: Final = (Placement.AFTER_CALL, Placement.ONE_MESSAGE, Placement.AFTER_TURN)


class Repaired(msgspec.Struct, frozen=True):
    messages: list[dict[str, Json]]
    repairs: list[str]
    """One sentence for each repair."""
    origins: list[int]
    """For each message the index of the given one that it is, or that it was put beside."""
    left_out: int
    """How many of the given messages are not there any more, not even in part."""


def repair(messages: Sequence[dict[str, Json]], *, open_tail: OpenTail = "close") -> Repaired:
    """Give every call one result, where its provider wants it, and leave out results without a call.

    A call without a result gets one that says so. `open_tail="keep"` spares the calls at the very end,
    which a living agent is about to answer.
    """
    return _Repair(messages, open_tail).run()


class _Repair:
    def __init__(self, messages: Sequence[dict[str, Json]], open_tail: OpenTail) -> None:
        self.messages = messages
        self.keep_tail = open_tail == "keep"
        self.pairing: Pairing = pair(messages)
        self.homes = _homes(self.pairing)
        self.last_spoken = _last_spoken(self.pairing)
        self.edits: defaultdict[int, Edit] = defaultdict(Edit)
        self.after: defaultdict[int, list[dict[str, Json]]] = defaultdict(list)
        self.notes: defaultdict[int, list[str]] = defaultdict(list)
        self.moved_from: set[int] = set()

    def run(self) -> Repaired:
        self._drop_what_pairs_with_nothing()
        calls: defaultdict[tuple[int, Placement], list[Found]] = defaultdict(list)
        for found in self.pairing.found:
            for item in found:
                if not item.is_result and not item.repeated:
                    calls[self.homes[item.index], item.placement].append(item)
        for (home, placement), same_place in calls.items():
            self._settle(home, placement, same_place)
        return self._without_dangling_reasoning(_without_silence(self._write()))

    def _drop_what_pairs_with_nothing(self) -> None:
        for found in self.pairing.found:
            for item in found:
                if item.is_result and item.partner is None:
                    why = "it was answered before" if item.repeated else "its call is not there"
                    self._drop(item, f"left out a result of call {_label(item)}: {why}")
                elif item.repeated:
                    self._drop(item, f"left out call {_label(item)}, which its turn has already")

    def _drop(self, item: Found, note: str) -> None:
        self.edits[item.index].drop.add(item.part.at)
        self.notes[item.index].append(note)

    def _settle(self, home: int, placement: Placement, calls: list[Found]) -> None:
        """Bring the results of the calls to where they belong: directly after the message at `home`."""
        zone = self._zone(home, placement)
        in_place = set(zone)
        pieces: list[Json] = []
        for call in calls:
            result = call.partner
            if result is None:
                pieces.extend(self._interrupted(call, home))
            elif placement in _MOVABLE and result.index not in in_place:
                pieces.append(self._take_away(result))
        if placement is Placement.AFTER_TURN:
            self._put_results_first(zone)
        if pieces:
            self._put(pieces, home, zone, calls[0])

    def _zone(self, home: int, placement: Placement) -> list[int]:
        """The messages directly after `home` that hold results of its calls and may go on doing so."""
        zone: list[int] = []
        if placement not in _MOVABLE:
            return zone
        for index in range(home + 1, len(self.messages)):
            found = self.pairing.found[index]
            if any(self._belongs_to(item, home) for item in found):
                zone.append(index)
                if placement is Placement.ONE_MESSAGE or not found[0].dialect.only_results(
                    self.messages[index]
                ):
                    break
            elif not self._vanishes(index):
                break
        return zone

    def _belongs_to(self, item: Found, home: int) -> bool:
        return item.is_result and item.partner is not None and self.homes[item.partner.index] == home

    def _vanishes(self, index: int) -> bool:
        """Every piece of the message is an orphan, or moves up to a call further above."""
        found = self.pairing.found[index]
        movable = all(item.placement in _MOVABLE for item in found)
        return bool(found) and movable and found[0].dialect.only_results(self.messages[index])

    def _interrupted(self, call: Found, home: int) -> list[Json]:
        inside = call.placement is Placement.INSIDE
        # A paused turn goes back to the provider as it is, and the provider goes on with its own tool.
        if home >= self.last_spoken and (self.keep_tail or inside):
            return []
        self.notes[call.index].append(
            f"added an 'interrupted' result for call {_label(call)}: none was recorded"
        )
        piece = call.dialect.interrupted(self.messages[call.index], call.part)
        if inside:
            self.edits[call.index].inside[call.part.at] = piece
            return []
        return [piece]

    def _take_away(self, result: Found) -> Json:
        message = self.messages[result.index]
        self.edits[result.index].drop.add(result.part.at)
        self.moved_from.add(result.index)
        self.notes[result.index].append(f"moved the result of call {_label(result)} up to its call")
        return result.dialect.pick(message, result.part)

    def _put_results_first(self, zone: list[int]) -> None:
        for index in zone:
            results = [item for item in self.pairing.found[index] if item.partner is not None]
            dropped = self.edits[index].drop if index in self.edits else ()
            kept = [item.part.at for item in results if item.part.at not in dropped]
            before_last = kept[-1] - sum(at < kept[-1] for at in dropped)
            if before_last >= len(kept):
                self.edits[index].results_first = True
                self.notes[index].append(
                    f"moved the result of call {_label(results[-1])} before the text beside it"
                )

    def _put(self, pieces: list[Json], home: int, zone: list[int], call: Found) -> None:
        if zone and not call.dialect.results_are_messages:
            self.edits[zone[0]].add.extend(pieces)
        else:
            self.after[zone[-1] if zone else home].extend(call.dialect.gather(pieces))

    def _write(self) -> Repaired:
        messages: list[dict[str, Json]] = []
        origins: list[int] = []
        left_out = 0
        for index, given in enumerate(self.messages):
            message = self._edited(index, given)
            here = self.after.get(index, []) if message is None else [message, *self.after.get(index, ())]
            messages.extend(here)
            origins.extend([index] * len(here))
            if message is None and index not in self.moved_from:
                left_out += 1
        repairs = [note for index in sorted(self.notes) for note in self.notes[index]]
        return Repaired(messages, repairs, origins, left_out)

    def _edited(self, index: int, given: dict[str, Json]) -> dict[str, Json] | None:
        message = as_sent(given)
        edit = self.edits.get(index)
        if not edit:
            return message
        # Only calls and results are edited away, so there is one that knows its dialect.
        return self.pairing.found[index][0].dialect.edit(message, edit)

    def _without_dangling_reasoning(self, written: Repaired) -> Repaired:
        """Providers refuse reasoning that leads to nothing: the run stopped before its answer came."""
        kept: list[int] = []
        answered = self.keep_tail
        for index in reversed(range(len(written.messages))):
            message = written.messages[index]
            is_assistant = role_of(message) == "assistant"
            if is_assistant and not answered and is_reasoning_only(message):
                continue
            answered = is_assistant
            kept.append(index)
        lost = len(written.messages) - len(kept)
        if not lost:
            return written
        kept.reverse()
        return Repaired(
            messages=[written.messages[index] for index in kept],
            repairs=[*written.repairs, *["left out reasoning that no answer followed"] * lost],
            origins=[written.origins[index] for index in kept],
            left_out=written.left_out + lost,
        )


def _without_silence(written: Repaired) -> Repaired:
    """Leave out what no provider takes: messages that say nothing, and notices for people."""
    if all(map(is_plain, written.messages)):
        return written
    found: list[dict[str, Json] | None] = []
    is_inside = False
    for message in written.messages:
        is_lost = is_notice(message) or (is_inside and is_misplaced(message))
        found.append(None if is_lost else sayable(message))
        is_inside = is_inside or role_of(message) != "system"
    if all(now is before for now, before in zip(found, written.messages, strict=True)):
        return written
    repairs = list(written.repairs)
    kept: list[tuple[dict[str, Json], int]] = []
    for before, now, origin in zip(written.messages, found, written.origins, strict=True):
        if now is not None:
            kept.append((now, origin))
        if now is None:
            is_system = role_of(before) == "system"
            what = "a notice of the program" if is_system else "a message that says nothing"
            repairs.append(f"left out {what}")
        elif now is not before:
            repairs.append("left out an empty text beside others")
    return Repaired(
        messages=[message for message, _ in kept],
        repairs=repairs,
        origins=[origin for _, origin in kept],
        left_out=written.left_out + len(found) - len(kept),
    )


def _last_spoken(pairing: Pairing) -> int:
    """The index of the last message of the user or the assistant; after it come results, and notes."""
    spoken = (index for index, role in enumerate(pairing.roles) if role in ("user", "assistant"))
    return max(spoken, default=-1)


def _homes(pairing: Pairing) -> list[int]:
    """For each message the index of the one directly after which the results of its calls belong."""
    homes = list(range(len(pairing.found)))
    for index in reversed(homes):
        found = pairing.found[index]
        placement = next((item.placement for item in found if not item.is_result), None)
        if placement in (Placement.AFTER_TURN, Placement.INSIDE):
            homes[index] = pairing.turn_ends[pairing.turns[index]]
        elif placement is Placement.ANYWHERE and _calls_anywhere(pairing, index + 1):
            homes[index] = homes[index + 1]
    return homes


def _calls_anywhere(pairing: Pairing, index: int) -> bool:
    found = pairing.found[index] if index < len(pairing.found) else ()
    return any(item.placement is Placement.ANYWHERE and not item.is_result for item in found)


def _label(item: Found) -> str:
    call = (item.partner or item).call if item.is_result else item.call
    key, name = (snippet(text or "", _LABEL_LENGTH) for text in (call.id, call.name))
    if not key:
        return f"of {name}" if name else "without a name"
    return f"{key!r} ({name})" if name else repr(key)
