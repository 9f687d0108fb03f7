"""What a model should get of a history: its newest part, inside a budget, well-formed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import Final

import msgspec

from clew.core.log.ids import check_count
from clew.core.messages.dialects import is_user_turn, role_of
from clew.core.messages.repair import OpenTail, Repaired, is_said, repair
from clew.core.messages.tool_calls import first_whole_step
from clew.errors import InvalidQueryError
from clew.model import Context, ContextReport, Json

CountTokens = Callable[[dict[str, Json]], int]

SYSTEM_MESSAGES: Final = 8
"""As many system messages at the beginning of a history stay, whatever a budget or a retention rule says."""


def leading_system(found: Iterable[tuple[int, dict[str, Json]]]) -> list[tuple[int, dict[str, Json]]]:
    """The system messages that a history begins with, out of its first messages with their positions."""
    return list(takewhile(lambda placed: role_of(placed[1]) == "system", found))


def estimate_tokens(message: dict[str, Json]) -> int:
    """A guess that needs no tokenizer: four bytes of JSON a token, and four tokens a message."""
    try:
        size = len(msgspec.json.encode(message))
    except UnicodeEncodeError:  # a lone surrogate, in a message that no store has seen yet
        size = len(repr(message))
    return -(-size // 4) + 4


class Budget:
    """How much a context may hold; None: no limit."""

    def __init__(self, max_messages: int | None, max_tokens: int | None) -> None:
        for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens)):
            if value is not None:
                check_count(value, name, least=1, error=InvalidQueryError)
        self.max_messages = max_messages
        self.max_tokens = max_tokens

    def admits(self, messages: int, tokens: int) -> bool:
        few = self.max_messages is None or messages <= self.max_messages
        return few and (self.max_tokens is None or tokens <= self.max_tokens)


class _Scale:
    """Weighs each message once."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._count_tokens = count_tokens
        self._weighed: dict[int, tuple[dict[str, Json], int]] = {}

    def tokens(self, message: dict[str, Json]) -> int:
        # By identity, as dicts cannot be keys; the message is kept, so that no other message gets its id.
        known = self._weighed.get(id(message))
        if known is None:
            known = self._weighed[id(message)] = (message, self._count_tokens(message))
        return known[1]

    def total(self, messages: Sequence[dict[str, Json]]) -> int:
        return sum(map(self.tokens, messages))


class _Selection(msgspec.Struct, frozen=True):
    """What may become the context: the messages from `start` of the window on, behind the others."""

    pinned: list[dict[str, Json]]
    lead: list[dict[str, Json]]
    start: int

    @property
    def ahead(self) -> list[dict[str, Json]]:
        return [*self.pinned, *self.lead]


class ContextBuilder:
    """Builds a context out of messages that are offered newest first, so that no more are read than fit.

    The context is the pinned messages, the lead and the window: the longest run of the newest messages
    that fits the budget and splits no tool call from its result. `pinned` are the messages of the latest
    compaction, or the system messages that begin the history (`pinned_on_path`); they stay if they fit at
    all. The lead is the user turn that the window's first messages answer; a window that has to give up
    those messages for it begins with the next user turn instead. `repairs=False`: the messages are taken as
    they are. Use:

        while (message := next older one) and builder.offer(message): ...
        if builder.needs_lead: builder.lead(nearest older user turn)
        context = builder.finish(total=..., compacted=...)
    """

    def __init__(
        self,
        *,
        pinned: Sequence[dict[str, Json]] = (),
        max_messages: int | None = None,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
        pinned_on_path: bool = True,
        repairs: bool = True,
    ) -> None:
        self._repairs = repairs
        self._budget = Budget(max_messages, max_tokens)
        self._scale = _Scale(count_tokens or estimate_tokens)
        self._pinned_given = len(pinned)
        self._pinned_on_path = pinned_on_path
        self._pinned = list(pinned) if self._fits(pinned) else []
        self._messages = self._count(self._pinned)
        self._tokens = self._weigh(self._pinned)
        self._newest_first: list[dict[str, Json]] = []
        self._refused: dict[str, Json] | None = None
        self._lead: dict[str, Json] | None = None
        self._whole_size: int | None = None

    def offer(self, message: dict[str, Json]) -> bool:
        """Take the next older message. False: it does not fit any more; stop reading."""
        if self._refused is not None:
            return False
        count = self._is_said(message)
        tokens = self._weigh([message]) if count else 0
        if not self._budget.admits(self._messages + count, self._tokens + tokens):
            self._refused = message
            return False
        self._messages += count
        self._tokens += tokens
        self._newest_first.append(message)
        return True

    @property
    def needs_lead(self) -> bool:
        """Older messages were left out, and the window does not begin with a user turn."""
        pinned = self._pinned
        if self._refused is None or not self._budget.admits(self._count(pinned) + 1, self._weigh(pinned)):
            return False
        return not _begins_with_user_turn(self._newest_first[: self.window_size][::-1])

    @property
    def window_size(self) -> int:
        """How many of the offered messages the window holds, before any lead."""
        if self._refused is None:
            return len(self._newest_first)
        if self._whole_size is None:  # nothing is taken any more once a message was refused
            window = self._newest_first[::-1]
            self._whole_size = len(window) - self._whole_from(window, 0)
        return self._whole_size

    def lead(self, message: dict[str, Json]) -> None:
        """Give the nearest user turn that is older than the window."""
        if self._lead is not None:
            raise ValueError("the lead was given already")
        self._lead = message

    def finish(self, *, total: int, compacted: int, open_tail: OpenTail = "close") -> Context:
        """The context. `total` is the number of messages on the path, `compacted` how many of them the
        compaction stands for or the truncation cut off (pinned ones not counted)."""
        window = self._newest_first[::-1]
        start = len(window) - self.window_size
        selection = self._with_lead(window, _Selection(self._pinned, [], start))
        stride = 1
        while True:
            given = [*selection.ahead, *window[selection.start :]]
            if not self._repairs:
                plain = Repaired(given, [], list(range(len(given))), 0)
                return Context(given, self._report(len(given), plain, total, compacted))
            repaired = repair(given, open_tail=open_tail)
            if self._fits(repaired.messages):
                return Context(repaired.messages, self._report(len(given), repaired, total, compacted))
            selection = self._smaller(window, selection, repaired, stride)
            # Nearly always once is enough. Where it is not, doubling keeps the rounds few.
            stride *= 2

    def _is_said(self, message: dict[str, Json]) -> bool:
        """Whether the model gets it: repairs leave out what says nothing."""
        return not self._repairs or is_said(message)

    def _count(self, messages: Sequence[dict[str, Json]]) -> int:
        """How many of them the model gets: what says nothing takes no room."""
        return sum(map(self._is_said, messages))

    def _weigh(self, messages: Sequence[dict[str, Json]]) -> int:
        """Their tokens, if tokens are limited: else only the report needs them. A message that the model does
        not get costs nothing."""
        if self._budget.max_tokens is None:
            return 0
        return self._scale.total([message for message in messages if self._is_said(message)])

    def _fits(self, messages: Sequence[dict[str, Json]]) -> bool:
        return self._budget.admits(self._count(messages), self._weigh(messages))

    def _whole_from(self, window: list[dict[str, Json]], start: int) -> int:
        """The first index from `start` on at which the window may begin."""
        before = window[start - 1] if start else self._refused
        return start if before is None else start + first_whole_step(window[start:], before)

    def _with_lead(self, window: list[dict[str, Json]], plain: _Selection) -> _Selection:
        """The selection with the lead, for which the window gives up its oldest messages, but not all."""
        if self._lead is None or not self._fits([*plain.pinned, self._lead]):
            return plain
        ahead = [*plain.pinned, self._lead]
        costs = [(self._count([message]), self._weigh([message])) for message in window]
        start = self._first_that_fits(costs, plain.start, (self._count(ahead), self._weigh(ahead)))
        if start > plain.start:
            start = self._whole_from(window, start)
        if self._count(window[plain.start :]) and not self._count(window[start:]):
            return plain
        answered = _begins_with_user_turn(window[start:])
        return _Selection(plain.pinned, [] if answered else [self._lead], start)

    def _smaller(
        self, window: list[dict[str, Json]], selection: _Selection, repaired: Repaired, stride: int
    ) -> _Selection:
        """Made-up results burst the budget: give up the oldest messages, together with theirs."""
        if selection.start == len(window):
            return _Selection(selection.pinned if selection.lead else [], [], selection.start)
        ahead = len(selection.ahead)
        base = [0, 0]
        costs = [[0, 0] for _ in window]
        for origin, message in zip(repaired.origins, repaired.messages, strict=True):
            cost = base if origin < ahead else costs[origin - ahead + selection.start]
            cost[0] += 1
            cost[1] += self._weigh([message])
        pairs = [(messages, tokens) for messages, tokens in costs]
        start = self._first_that_fits(pairs, selection.start, (base[0], base[1]))
        start = min(len(window), max(start, selection.start + stride))
        return _Selection(selection.pinned, selection.lead, self._whole_from(window, start))

    def _first_that_fits(self, costs: list[tuple[int, int]], start: int, base: tuple[int, int]) -> int:
        """The first index from `start` on from which all costs together, and the base, are in the budget."""
        newest_first = reversed(costs[start:])
        sums = accumulate(newest_first, lambda a, b: (a[0] + b[0], a[1] + b[1]), initial=base)
        fitting = sum(self._budget.admits(*cost) for cost in sums) - 1
        return len(costs) - max(0, fitting)

    def _report(self, given: int, repaired: Repaired, total: int, compacted: int) -> ContextReport:
        candidates = total if self._pinned_on_path else total + self._pinned_given
        return ContextReport(
            messages=len(repaired.messages),
            tokens=self._scale.total(repaired.messages),
            left_out=max(0, candidates - given + repaired.left_out),
            compacted=compacted,
            over_budget=max(0, candidates - compacted - given),
            repairs=tuple(repaired.repairs),
        )


def _begins_with_user_turn(messages: Sequence[dict[str, Json]]) -> bool:
    """Notes by the system do not count, nor does what says nothing: the model looks for what it was asked."""
    spoken = (
        message for message in messages if role_of(message) not in ("system", "other") and is_said(message)
    )
    first = next(spoken, None)
    return first is not None and is_user_turn(first)
