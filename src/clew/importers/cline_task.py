"""What lies beside the conversation of a Cline task: what was shown and paid, and the task's name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clew.importers.contract import OnProblem, Problem, SourceEvent, SourceUsage
from clew.importers.loose import (
    count,
    decode_or_none,
    document,
    items,
    kind,
    mapping,
    money,
    plain_name,
    when,
)
from clew.model import Json

_PAID: Final = frozenset({"api_req_started", "deleted_api_reqs"})
_KEPT: Final = frozenset({"checkpoint_created", "condense_context", "sliding_window_truncation", "error"})


class Shown:
    """`ui_messages.json`: the same story again, and only here its costs, times and checkpoints."""

    def __init__(self, task: Path, on_problem: OnProblem) -> None:
        self._messages = [mapping(each) for each in items(_beside(task / "ui_messages.json", on_problem))]

    def requests(self) -> list[Json]:
        """When each message was sent to the model."""
        return [each.get("ts") for each in self._messages if each.get("say") == "api_req_started"]

    def usage(self) -> list[SourceUsage]:
        paid = [each for each in self._messages if kind(each.get("say")) in _PAID]
        told = [_usage(each, f"request-{number}") for number, each in enumerate(paid)]
        return [usage for usage in told if usage is not None]

    def events(self) -> list[SourceEvent]:
        return [
            SourceEvent(
                id=f"{each.get('ts')}-{number}", type=str(each["say"]), data=each, at=when(each.get("ts"))
            )
            for number, each in enumerate(self._messages)
            if kind(each.get("say")) in _KEPT
        ]


def _usage(shown: dict[str, Json], name: str) -> SourceUsage | None:
    told = mapping(decode_or_none(shown.get("text")))
    read, write = count(told.get("cacheReads")), count(told.get("cacheWrites"))
    sent, received = count(told.get("tokensIn")), count(told.get("tokensOut"))
    if not (read or write or sent or received):
        return None
    # Only one of the two protocols counts the cache as a part of the prompt.
    cached = 0 if told.get("apiProtocol") == "openai" else read + write
    return SourceUsage(
        id=str(shown["ts"]) if when(shown.get("ts")) else name,
        model=plain_name(mapping(shown.get("modelInfo")).get("modelId")),
        vendor=plain_name(mapping(shown.get("modelInfo")).get("providerId")),
        input_tokens=sent + cached,
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cost=money(told.get("cost")),
        at=when(shown.get("ts")),
    )


def about(task: Path) -> dict[str, Json]:
    """What the list of tasks says of this one. A damaged list is as if it were not there."""
    own = mapping(_beside(task / "history_item.json"))
    if own:
        return own
    listed = items(_beside(task.parent.parent / "state" / "taskHistory.json"))
    return next((mapping(item) for item in listed if mapping(item).get("id") == task.name), {})


def metadata(task: Path) -> Json:
    return _beside(task / "task_metadata.json")


def _beside(path: Path, on_problem: OnProblem | None = None) -> Json:
    try:
        return document(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as exc:
        if on_problem:
            on_problem(Problem(path=str(path), line=getattr(exc, "lineno", None), reason=f"no JSON: {exc}"))
        return None
