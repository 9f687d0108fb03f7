"""`usage_summary`: tokens and money by model, day or workspace."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.model.usage import UsageGroup, UsageTotals
from clew.server.mcp.budget import room_in, within
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.tools.search import Short
from clew.server.mcp.view import Scope, View

By = Literal["model", "day", "workspace"]
MOST: Final = 100
"""Groups that are told."""


class UsageArguments(Arguments, frozen=True, kw_only=True):
    by: By = "model"
    workspace: Short | None = None
    since: Short | None = None
    until: Short | None = None
    session: Annotated[str, Meta(max_length=4096)] | None = None


class UsedGroup(msgspec.Struct, kw_only=True):
    group: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float


class UsageAnswer(Answer, kw_only=True):
    groups: list[UsedGroup]
    total_cost: float
    left_out: int = 0
    note: str = ""
    """Of an empty answer: where was looked."""


def usage_summary(view: View, args: UsageArguments) -> UsageAnswer:
    text = view.text()
    since, until = view.moment(args.since, "since"), view.moment(args.until, "until")
    scope = None if args.session is not None else view.scope(args.workspace)
    found = _groups(view, args, scope, since, until)
    total = sum((one.cost for one in found.values()), Decimal(0))
    by_cost = sorted(found.items(), key=lambda each: (-each[1].cost, -each[1].calls, str(each[0])))
    if args.by == "day":
        by_cost = sorted(found.items(), key=lambda each: str(each[0]), reverse=True)
    groups = [_group(None if name is None else text.line(str(name)), used) for name, used in by_cost[:MOST]]
    answer = UsageAnswer(groups=[], total_cost=round(float(total), 4), left_out=len(found))
    answer.groups = within(groups, room_in(answer))
    answer.left_out -= len(answer.groups)
    if not found and args.session is None:
        answer.note = view.nothing_in(scope, text)
    answer.redacted = text.redacted
    return answer


def _groups(
    view: View, args: UsageArguments, scope: Scope | None, since: datetime | None, until: datetime | None
) -> dict[UsageGroup, UsageTotals]:
    if args.session is not None:
        return view.find(args.session).usage(by=args.by, since=since, until=until)
    if scope is None:
        return {}
    return view.store.usage(
        by=args.by, since=since, until=until, workspace=scope.workspace, tag=scope.tags or None
    )


def _group(name: str | None, used: UsageTotals) -> UsedGroup:
    return UsedGroup(
        group=name,
        calls=used.calls,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost=round(float(used.cost), 4),
    )


USAGE_SUMMARY: Final = Tool(
    name="usage_summary",
    description="What past sessions used: tokens, and cost in dollars.",
    arguments=UsageArguments,
    answer=UsageAnswer,
    run=usage_summary,
)
