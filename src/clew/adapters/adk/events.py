"""Stored events as the framework's objects."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from pydantic import BaseModel

import clew
from clew.adapters.adk.state import logged
from clew.adapters.common.jsontext import encode_model, with_numbers

# -- copies

Maker: TypeAlias = Callable[[], Any]

_SHARED: Final = (str, int, float, bool, bytes, type(None), Enum)
"""Values of these types cannot change, so copies share them."""
_set: Final = object.__setattr__


def maker_of(value: Any) -> Maker:
    """Makes deep copies of a value, which must not be changed from now on.

    What copies can share is found once. Turn 400 of benchmarks.adapters.adk with the whole history takes
    70 ms of processor time with it, 99 with `model_copy(deep=True)`, and 121 if each event is parsed again.
    """
    return _maker(value) or (lambda: value)


def _maker(value: Any) -> Maker | None:
    """None: copies can share the value."""
    if isinstance(value, _SHARED):
        return None
    if isinstance(value, BaseModel):
        return _maker_of_model(value)
    if type(value) is dict:
        return partial(
            _make_dict, value, [(key, made) for key, one in value.items() if (made := _maker(one))]
        )
    if type(value) is list:
        return partial(
            _make_list, value, [(at, made) for at, one in enumerate(value) if (made := _maker(one))]
        )
    return partial(copy.deepcopy, value)


def _make_dict(value: dict[Any, Any], parts: list[tuple[Any, Maker]]) -> dict[Any, Any]:
    made = value.copy()
    for key, make in parts:
        made[key] = make()
    return made


def _make_list(value: list[Any], parts: list[tuple[int, Maker]]) -> list[Any]:
    made = value.copy()
    for at, make in parts:
        made[at] = make()
    return made


def _maker_of_model(model: BaseModel) -> Maker:
    kind = type(model)
    fields = maker_of(model.__dict__)
    extra, private = _maker(model.__pydantic_extra__), _maker(model.__pydantic_private__)
    given = model.__pydantic_fields_set__

    def make() -> BaseModel:
        made = kind.__new__(kind)
        _set(made, "__dict__", fields())
        _set(made, "__pydantic_fields_set__", given.copy())
        _set(made, "__pydantic_extra__", extra and extra())
        _set(made, "__pydantic_private__", private and private())
        return made

    return make


# -- events

_REMEMBERED: Final = 4 << 20
"""The most bytes of events in memory, as JSON. The objects take several times as much."""


_OFTEN_EMPTY: Final = (
    "state_delta",
    "artifact_delta",
    "requested_auth_configs",
    "requested_tool_confirmations",
)
"""Fields of an event's actions that are left out if they are empty."""


def raw_of(event: Event) -> bytes:
    """The JSON of an event as the framework's own services store it, without empty fields."""
    silent = {"actions": {name for name in _OFTEN_EMPTY if not getattr(event.actions, name)}}
    if not event.node_info.path:
        silent["node_info"] = {"path"}
    return text_of(event, exclude_none=True, exclude=silent)


def text_of(model: BaseModel, **options: Any) -> bytes:
    """The JSON of a model; `options` are those of `model_dump_json`."""
    return encode_model(
        model,
        lambda model: model.model_dump_json(**options).encode(),
        lambda model: model.model_dump(mode="json", **options),
    )


class ParsedEvents:
    """Makes events out of entries, and remembers the latest ones: ADK reads the whole history in every turn,
    and a copy of an event takes a fraction of the time.

    An entry never changes, so its event in memory cannot be outdated.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Maker, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, entry: clew.Entry) -> Event:
        """A new event object, which the caller may change."""
        with self._lock:
            known = self._known.get(entry.id)
            if known is not None:
                self._known.move_to_end(entry.id)
        make = maker_of(Event.model_validate_json(with_numbers(entry.raw))) if known is None else known[0]
        if known is None:
            self._remember(entry.id, make, len(entry.raw))
        event: Event = make()
        return event

    def _remember(self, id: str, make: Maker, size: int) -> None:
        with self._lock:
            if id not in self._known:
                self._known[id] = (make, size)
                self._bytes += size
            while self._bytes > _REMEMBERED:
                _, (_, gone) = self._known.popitem(last=False)
                self._bytes -= gone


def usage_of(event: Event) -> dict[str, Any] | None:
    """The arguments of `add_usage` for the model call that made an event."""
    used = event.usage_metadata
    if used is None:
        return None
    model = event.model_version
    return {
        "model": model,
        "vendor": "google" if model and model.startswith("gemini") else None,
        "source": event.author or None,
        "input_tokens": (used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        "output_tokens": (used.candidates_token_count or 0) + (used.thoughts_token_count or 0),
        "cache_read_tokens": used.cached_content_token_count or 0,
        # The framework sets this beside the declared fields, for models that report it.
        "cache_write_tokens": getattr(used, "cache_creation_input_tokens", None) or 0,
        "reasoning_tokens": used.thoughts_token_count or 0,
    }


def wanted(session: clew.Session, config: GetSessionConfig) -> list[clew.Entry]:
    """The events that a caller wants, in the order in which they were appended."""
    most, since = config.num_recent_events, config.after_timestamp
    if most is None:
        return list(_events(session.entries(), since))
    found: list[clew.Entry] = []
    # The path may hold other entries, and events before `since`: then a second read is needed.
    for last in (most, None):
        found = list(islice(_events(session.entries(last=last, newest_first=True), since), most))
        if len(found) == most:
            break
    return found[::-1]


def _events(entries: Iterable[clew.Entry], since: float | None) -> Iterator[clew.Entry]:
    for entry in entries:
        event = logged(entry.raw) if entry.kind == "message" else None
        if event is not None and (since is None or event.timestamp >= since):
            yield entry
