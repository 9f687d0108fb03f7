"""Which tool result answers which tool call, in a history that may have lost, doubled or moved either."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from clew.core.messages.dialects import (
    Call,
    Dialect,
    Placement,
    Role,
    Slot,
    dialect_of,
    is_user_turn,
    role_of,
)
from clew.model import Json

# A call's place in the index: its dialect and kind, what it is looked up by, and that id or name.
_Key = tuple[str, str, str, str]

_PLAIN_ROLES: Final = ("user", "assistant", "system", "developer")


class Found:
    """One call or result of a history; `partner` is the result, or the call, that belongs to it."""

    __slots__ = ("dialect", "index", "partner", "repeated", "slot")

    def __init__(self, index: int, dialect: Dialect, slot: Slot) -> None:
        self.index = index
        self.dialect = dialect
        self.slot = slot
        self.partner: Found | None = None
        self.repeated = False
        """A result of a call that was answered before, or a call that its turn made before."""


class Pairing:
    """A history, read: every call and result, and the turns of the assistant."""

    def __init__(self) -> None:
        self.found: list[Sequence[Found]] = []
        """For each message its calls and results, in order."""
        self.roles: list[Role] = []
        self.turns: list[int] = []
        """For each message the number of its turn: what the assistant says in a row is one turn."""
        self.turn_ends: list[int] = []
        """For each turn the index of its last message."""


def pair(messages: Sequence[dict[str, Json]]) -> Pairing:
    """Pair each result with the nearest call before it that has the same id and no result yet."""
    pairing = Pairing()
    matcher = _Matcher()
    turn_dialect: Dialect | None = None
    for index, message in enumerate(messages):
        role, dialect, found = _read(index, message)
        follows = role == "assistant" and index > 0 and pairing.roles[-1] == "assistant"
        if follows and (dialect is None or turn_dialect is None or dialect is turn_dialect):
            pairing.turn_ends[-1] = index
            turn_dialect = turn_dialect or dialect
        else:
            pairing.turn_ends.append(index)
            turn_dialect = dialect
            matcher.next_turn()
        pairing.turns.append(len(pairing.turn_ends) - 1)
        pairing.roles.append(role)
        pairing.found.append(found)
        if role == "user" and matcher.provider_called and is_user_turn(message):
            matcher.human_spoke()
        for item in found:
            matcher.meet(item)
    return pairing


def _read(index: int, message: dict[str, Json]) -> tuple[Role, Dialect | None, Sequence[Found]]:
    """The message's role, its dialect unless every dialect has such messages, its calls and results."""
    # Most messages are plain text: tell them apart before asking every dialect.
    if (
        type(message.get("content")) is str
        and message.get("role") in _PLAIN_ROLES
        and not (message.get("tool_calls") or message.get("function_call") or message.get("parts"))
    ):
        return role_of(message), None, ()
    dialect = dialect_of(message)
    found = [Found(index, dialect, slot) for slot in dialect.slots(message)]
    is_plain = dialect.is_plain_without_calls and not found
    return dialect.role(message), None if is_plain else dialect, found


class _Matcher:
    """The calls met so far that have no result yet."""

    def __init__(self) -> None:
        self._open: dict[_Key, list[deque[Found]]] = {}
        self._open_inside: dict[_Key, list[deque[Found]]] = {}
        self._known: set[_Key] = set()
        self._of_turn: set[_Key] = set()
        self._of_provider: set[_Key] = set()

    @property
    def provider_called(self) -> bool:
        return bool(self._of_provider)

    def next_turn(self) -> None:
        self._of_turn.clear()

    def human_spoke(self) -> None:
        """The provider answers its own tools before the human speaks again, or never."""
        self._open_inside.clear()
        self._of_provider.clear()

    def meet(self, item: Found) -> None:
        if item.slot.is_result:
            self._answer(item)
        elif not self._is_repeated(item):
            self._remember(item)

    def _is_repeated(self, item: Found) -> bool:
        """Anthropic refuses a turn with one id twice: such a turn was recorded twice."""
        match item.slot.placement:
            case Placement.AFTER_TURN:
                seen = self._of_turn
            case Placement.INSIDE:
                # Not by turns: two of them become one when what stood between them is left out.
                seen = self._of_provider
            case _:
                return False
        key = _key(item, "id", item.slot.call.id)
        item.repeated = key in seen
        seen.add(key)
        return item.repeated

    def _remember(self, item: Found) -> None:
        for key in _keys_of_call(item):
            self._known.add(key)
            stack = self._index(item).setdefault(key, [])
            if stack and stack[-1] and stack[-1][0].index == item.index:
                stack[-1].append(item)
            else:
                stack.append(deque([item]))

    def _answer(self, item: Found) -> None:
        keys = _keys_of_result(item)
        for key in keys:
            call = self._take(item, key)
            if call is not None:
                call.partner, item.partner = item, call
                return
        item.repeated = any(key in self._known for key in keys)

    def _take(self, item: Found, key: _Key) -> Found | None:
        """Of the nearest message with such calls, the first that is still open."""
        stack = self._index(item).get(key)
        while stack:
            while stack[-1]:
                call = stack[-1].popleft()
                if call.partner is None:
                    return call
            stack.pop()
        return None

    def _index(self, item: Found) -> dict[_Key, list[deque[Found]]]:
        return self._open_inside if item.slot.placement is Placement.INSIDE else self._open


def _key(item: Found, by: str, value: str | None) -> _Key:
    return (item.dialect.name, item.slot.call.kind, by, value or "")


def _keys_of_call(item: Found) -> list[_Key]:
    call: Call = item.slot.call
    if call.id is None:
        return [_key(item, "name", call.name), _key(item, "bare name", call.name), _key(item, "any", "")]
    if item.dialect.pairs_by_name:
        return [_key(item, "id", call.id), _key(item, "name", call.name)]
    return [_key(item, "id", call.id)]


def _keys_of_result(item: Found) -> list[_Key]:
    call: Call = item.slot.call
    if call.id is None:
        return [_key(item, "name", call.name) if call.name else _key(item, "any", "")]
    if item.dialect.pairs_by_name:
        return [_key(item, "id", call.id), _key(item, "bare name", call.name)]
    return [_key(item, "id", call.id)]
