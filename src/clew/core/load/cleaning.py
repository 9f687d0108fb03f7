"""Definite secrets out of what stands beside the conversation of a session that is loaded.

All of it is done before a transaction begins: the key of the store may have to be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from clew.core.redact.incoming import Incoming
from clew.model import Json
from clew.model.source import SourceCheckpoint, SourceRun, SourceSession

_TEXTS: Final = ("title", "workspace", "model", "vendor", "endpoint")
_FITS: Final = (str, int, float, bool, list, dict, type(None))


def clean_session(redactor: Incoming, source: SourceSession) -> SourceSession:
    """What a source says of its session at once."""
    texts = {name: redactor.text(text) for name in _TEXTS if (text := getattr(source, name))}
    tags = tuple(redactor.text(tag) for tag in source.tags)
    return msgspec.structs.replace(
        source, **texts, tags=tags, metadata=clean_values(redactor, source.metadata)
    )


def clean_values(redactor: Incoming, values: Mapping[str, Json]) -> dict[str, Json]:
    """Values by their names. One that JSON cannot hold is left to those who refuse it."""
    return {name: _clean(redactor, value) for name, value in values.items()}


def clean_checkpoints(
    redactor: Incoming, checkpoints: Iterable[SourceCheckpoint]
) -> tuple[SourceCheckpoint, ...]:
    return tuple(
        one if one.state is None else msgspec.structs.replace(one, state=_clean(redactor, one.state))
        for one in checkpoints
    )


def clean_run(redactor: Incoming, run: SourceRun | None) -> SourceRun | None:
    if run is None:
        return None
    return msgspec.structs.replace(
        run,
        request=_clean(redactor, run.request),
        response=_clean(redactor, run.response),
        error=None if run.error is None else redactor.text(run.error),
    )


def _clean(redactor: Incoming, value: Json) -> Json:
    if isinstance(value, str):
        return redactor.text(value)
    if not isinstance(value, _FITS):
        return value
    try:
        return redactor.value(value)
    except (TypeError, ValueError, RecursionError):  # a surrogate, or no JSON
        return _clean_parts(redactor, value)


def _clean_parts(redactor: Incoming, value: Json) -> Json:
    """Part by part, if all of it cannot be encoded."""
    if isinstance(value, dict):
        return {name: _clean(redactor, part) for name, part in value.items()}
    if isinstance(value, list):
        return [_clean(redactor, part) for part in value]
    return value
