"""What lies beside the conversation of a Cline task: what was shown and paid, and the task's name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from clew.importers.contract import OnProblem, Problem, SourceEvent, SourceUsage
from clew.importers.reading.values import (
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


class Model(NamedTuple):
    name: str
    vendor: str | None


class Shown:
    """`ui_messages.json`: the same story again, and only here its costs, times and checkpoints."""

    def __init__(self, task: Path, used: Models, on_problem: OnProblem) -> None:
        self._messages = [mapping(each) for each in items(_beside(task / "ui_messages.json", on_problem))]
        self._used = used

    def requests(self) -> list[Json]:
        """When each message was sent to the model."""
        return [each.get("ts") for each in self._messages if each.get("say") == "api_req_started"]

    def usage(self) -> list[SourceUsage]:
        paid = [each for each in self._messages if kind(each.get("say")) in _PAID]
        told = [_usage(each, f"request-{number}", self._used) for number, each in enumerate(paid)]
        return [usage for usage in told if usage is not None]

    def model(self) -> Model | None:
        """That of the last request."""
        told = (model_in(each.get("modelInfo")) for each in reversed(self._messages))
        return next(filter(None, told), None)

    def events(self) -> list[SourceEvent]:
        return [
            SourceEvent(
                id=f"{each.get('ts')}-{number}", type=str(each["say"]), data=each, at=when(each.get("ts"))
            )
            for number, each in enumerate(self._messages)
            if kind(each.get("say")) in _KEPT
        ]


def model_in(info: Json) -> Model | None:
    """What a message or a request says of the model that it was for."""
    model = plain_name(mapping(info).get("modelId"))
    return Model(model, plain_name(mapping(info).get("providerId"))) if model else None


class Models:
    """Which model a task used since when, as `task_metadata.json` tells it."""

    def __init__(self, metadata: Json) -> None:
        self._used: list[tuple[datetime, Model]] = []
        for use in map(mapping, items(mapping(metadata).get("model_usage"))):
            at, model = when(use.get("ts")), plain_name(use.get("model_id"))
            if at and model:
                self._used.append((at, Model(model, plain_name(use.get("model_provider_id")))))

    def last(self) -> Model | None:
        return self._used[-1][1] if self._used else None

    def at(self, moment: datetime | None) -> Model | None:
        before = [model for at, model in self._used if moment and at <= moment]
        return before[-1] if before else None


def _usage(shown: dict[str, Json], name: str, used: Models) -> SourceUsage | None:
    told = mapping(decode_or_none(shown.get("text")))
    read, write = count(told.get("cacheReads")), count(told.get("cacheWrites"))
    sent, received = count(told.get("tokensIn")), count(told.get("tokensOut"))
    if not (read or write or sent or received):
        return None
    # Only one of the two protocols counts the cache as a part of the prompt.
    cached = 0 if told.get("apiProtocol") == "openai" else read + write
    at = when(shown.get("ts"))
    model = model_in(shown.get("modelInfo")) or used.at(at)
    return SourceUsage(
        id=str(shown["ts"]) if at else name,
        model=model.name if model else None,
        vendor=model.vendor if model else None,
        input_tokens=sent + cached,
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cost=money(told.get("cost")),
        at=at,
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
