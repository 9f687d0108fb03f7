"""Where a history may be cut so that no tool call loses its result, and no answer its reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.messages.dialects import Role, dialect_of, role_of
from clew.core.messages.dialects.content import is_blank
from clew.core.messages.pairing import Found, Pairing, pair
from clew.model import Json


def safe_cut(messages: Sequence[dict[str, Json]], wished: int, *, complete: bool) -> int | None:
    """The largest index up to `wished` before which the messages, oldest first, may be cut off.

    None: that depends on messages older than these, so call again with more of them. `complete` says
    that there are none; a result that still has no call then is an orphan and holds nothing back.
    """
    pairing = pair(messages)
    answered_at = _last_answers(pairing)
    wished = max(0, min(wished, len(messages)))
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
    return dialect_of(message).is_reasoning_only(message)


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
            if item.slot.is_result and item.partner is not None:
                last[item.partner.index] = max(last[item.partner.index], item.index)
    return last


def _lacks_call(item: Found, start: int = 0) -> bool:
    """A result whose call is not among the messages from `start` on, nor answered by another one."""
    if not item.slot.is_result or item.repeated:
        return False
    return item.partner is None or item.partner.index < start
