"""Which tool result answers which tool call, and where a history may be cut without parting them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from clew.core.messages.dialects import (
    Call,
    Dialect,
    Part,
    Placement,
    Role,
    dialect_of,
    is_user_turn,
    role_of,
)
from clew.core.messages.dialects.base import is_blank, is_reasoning
from clew.model import Json

# A call's place in the index: its dialect and kind, what it is looked up by, and that id or name.
_Key = tuple[str, str, str, str]

Placed: TypeAlias = Sequence[tuple[int, dict[str, Json]]]
"""Messages with their positions."""

PATIENCE: Final = 8
"""Messages without a call or a result that `open_calls` looks past."""
_PLAIN_ROLES: Final = ("user", "assistant", "system", "developer")


class Found:
    """One call or result of a history; `partner` is the result, or the call, that belongs to it."""

    __slots__ = ("call", "dialect", "index", "is_result", "part", "partner", "placement", "repeated")

    def __init__(self, index: int, dialect: Dialect, part: Part, call: Call, placement: Placement) -> None:
        self.index = index
        self.dialect = dialect
        self.part = part
        self.call = call
        self.placement = placement
        self.is_result = part.kind == "result"
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
    found = [
        Found(index, dialect, part, part.call, part.placement)
        for part in dialect.parts(message)
        if part.placement is not None and part.call is not None
    ]
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
        if item.is_result:
            self._answer(item)
        elif not self._is_repeated(item):
            self._remember(item)

    def _is_repeated(self, item: Found) -> bool:
        """Anthropic refuses a turn with one id twice: such a turn was recorded twice."""
        match item.placement:
            case Placement.AFTER_TURN:
                seen = self._of_turn
            case Placement.INSIDE:
                # Not by turns: two of them become one when what stood between them is left out.
                seen = self._of_provider
            case _:
                return False
        key = _key(item, "id", item.call.id)
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
        return self._open_inside if item.placement is Placement.INSIDE else self._open


def _key(item: Found, by: str, value: str | None) -> _Key:
    return (item.dialect.name, item.call.kind, by, value or "")


def _keys_of_call(item: Found) -> list[_Key]:
    call = item.call
    if call.id is None:
        return [_key(item, "name", call.name), _key(item, "bare name", call.name), _key(item, "any", "")]
    if item.dialect.pairs_by_name:
        return [_key(item, "id", call.id), _key(item, "name", call.name)]
    return [_key(item, "id", call.id)]


def _keys_of_result(item: Found) -> list[_Key]:
    call = item.call
    if call.id is None:
        return [_key(item, "name", call.name) if call.name else _key(item, "any", "")]
    if item.dialect.pairs_by_name:
        return [_key(item, "id", call.id), _key(item, "bare name", call.name)]
    return [_key(item, "id", call.id)]


# -- where a history may be cut so that no tool call loses its result, and no answer its reasoning


def safe_cut(
    messages: Sequence[dict[str, Json]], wished: int, *, complete: bool, goes_on: bool = False
) -> int | None:
    """The largest index up to `wished` before which the messages, oldest first, may be cut off.

    None: that depends on messages older than these, so call again with more of them.

    Args:
        messages: A part of a history, oldest first.
        wished: The index to cut at.
        complete: There are no older messages. A result that has no call is an orphan and holds nothing back.
        goes_on: There are no newer messages: a call of the last step may still get its result.
    """
    pairing = pair(messages)
    answered_at = _last_answers(pairing)
    wished = max(0, min(wished, len(messages)))
    if goes_on:
        wished = min(wished, _last_open_step(pairing))
    reach = [0] * (wished + 1)
    for index in range(wished):
        reach[index + 1] = max(reach[index], answered_at[index])
    cut = wished
    while cut > 0 and (reach[cut] >= cut or _parts_reasoning(messages, cut)):
        cut -= 1
    if complete:
        return cut
    beginning_is_unclear = cut == 0 and bool(messages) and role_of(messages[0]) == "assistant"
    unclear = beginning_is_unclear or any(
        _lacks_call(item) for found in pairing.found[cut:] for item in found
    )
    return None if unclear else cut


def nearest_cut(
    read_before: Callable[[int], Placed], after: Placed, wished: int, *, goes_on: bool, reach: int
) -> int:
    """The nearest position at or before `wished` where a history may be cut.

    Args:
        read_before: Reads so many messages before `wished`, oldest first; fewer: these are all.
        after: The messages from `wished` on.
        wished: The position to cut at.
        goes_on: Nothing follows `after`.
        reach: How many messages to read first. More are read where a tool call was answered late.
    """
    messages = [message for _, message in after]
    while True:
        before = read_before(reach)
        count = safe_cut(
            [message for _, message in before] + messages,
            len(before),
            complete=len(before) < reach,
            goes_on=goes_on,
        )
        if count is not None:
            return wished if count >= len(before) else before[count][0]
        reach *= 4


def first_whole_step(messages: Sequence[dict[str, Json]], before: dict[str, Json]) -> int:
    """Where the first step begins that the cut after `before` left whole.

    A step is what the assistant says and calls, and the results that follow. Only the first step can have
    been split in a usual history; a result further on whose call is not here is for the repair.
    """
    start = _after_answer_to(before, messages)
    results = _end_of_run(messages, start, "assistant")
    end = _end_of_run(messages, results, "tool")
    pairing = pair(messages[:end])
    for index in range(results, end):
        if any(_lacks_call(item, start) for item in pairing.found[index]):
            start = index + 1
    return start


def _end_of_run(messages: Sequence[dict[str, Json]], start: int, role: Role) -> int:
    while start < len(messages) and role_of(messages[start]) == role:
        start += 1
    return start


def is_reasoning_only(message: dict[str, Json]) -> bool:
    """Reasoning whose answer is in the messages after it, or was never written."""
    if type(content := message.get("content")) is str and not is_blank(content):
        return False
    return is_reasoning(dialect_of(message).parts(message))


def _after_answer_to(before: dict[str, Json], messages: Sequence[dict[str, Json]]) -> int:
    """Providers refuse the answer without the reasoning, so both are left out."""
    index = 0
    if is_reasoning_only(before):
        while index < len(messages) and _answers_reasoning(messages[index]):
            index += 1
    return index


def _answers_reasoning(message: dict[str, Json]) -> bool:
    return role_of(message) == "assistant" and not is_reasoning_only(message)


def _parts_reasoning(messages: Sequence[dict[str, Json]], cut: int) -> bool:
    if cut == len(messages) or role_of(messages[cut]) != "assistant":
        return False
    return is_reasoning_only(messages[cut - 1])


def _last_answers(pairing: Pairing) -> list[int]:
    """For each message the index of the last result that answers one of its calls; -1: none."""
    last = [-1] * len(pairing.found)
    for found in pairing.found:
        for item in found:
            if item.is_result and item.partner is not None:
                last[item.partner.index] = max(last[item.partner.index], item.index)
    return last


def _last_open_step(pairing: Pairing) -> int:
    """The index of the first message of the last step whose calls have no results yet."""
    first = len(pairing.found)
    for index in reversed(range(len(pairing.found))):
        found = pairing.found[index]
        if not found:
            break  # the conversation went on without them
        if any(not item.is_result and item.partner is None for item in found):
            first = index
    return first


def _lacks_call(item: Found, start: int = 0) -> bool:
    """A result whose call is not among the messages from `start` on, nor answered by another one."""
    if not item.is_result or item.repeated:
        return False
    return item.partner is None or item.partner.index < start


# -- calls that still wait for their results


def open_calls(messages: Sequence[dict[str, Json]], *, complete: bool) -> list[Call] | None:
    """The tool calls that still wait at the end of a history, oldest first.

    Looks back to the last complete round of calls and results, past a few messages that are neither: a
    remark, a thought, a user who spoke over the call. None: that depends on messages older than these, so
    call again with more of them; `complete` says that there are none.
    """
    waiting: list[Call] = []
    met, patience = False, PATIENCE
    answers = 0  # whose calls stand further up
    pairing = pair(messages)
    for found in reversed(pairing.found):
        results = [item for item in found if item.is_result]
        if met and len(results) == len(found) > 0 and not answers:
            break
        patience -= not found and not answers
        if patience < 0:
            break
        # One that looks repeated may answer an older call of the same id.
        answers += sum(item.partner is not None or not complete for item in results)
        for item in reversed(found):
            if item.is_result:
                continue
            if not complete and _may_repeat_older(item, pairing, messages):
                return None
            met = True
            if item.partner is not None:
                answers -= 1
            elif not item.repeated:
                waiting.insert(0, item.call)
    else:
        return waiting if complete else None
    return waiting


def _may_repeat_older(item: Found, pairing: Pairing, messages: Sequence[dict[str, Json]]) -> bool:
    """Whether a call may be one that was made before the first of these messages, recorded twice."""
    match item.placement:
        case Placement.AFTER_TURN:
            return pairing.turns[item.index] == 0 and pairing.roles[0] == "assistant"
        case Placement.INSIDE:
            return not any(
                pairing.roles[index] == "user" and is_user_turn(messages[index])
                for index in range(item.index)
            )
    return False
