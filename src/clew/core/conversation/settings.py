"""The settings of a session: what a caller may give, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict

import msgspec

from clew.core.log.ids import check_id
from clew.core.log.records import MAX_TITLE
from clew.core.log.rows import NEVER
from clew.core.messages.codec import encode_json
from clew.errors import InvalidError
from clew.model import Json, microseconds

MAX_DURATION: Final = timedelta(days=36500)


class SessionSettings(TypedDict, total=False):
    """What `session`, `create` and `update` set. `update` empties a setting that is None."""

    title: str | None
    """Shown in lists. Without one, the first words of the user are shown."""
    workspace: str | os.PathLike[str] | None
    """The directory that the session works in."""
    tags: Sequence[str]
    vendor: str | None
    endpoint: str | None
    model: str | None
    metadata: Mapping[str, Json] | None
    """A JSON object of your own; `list(where=…)` filters by its top level."""
    expires_at: datetime | Literal["never"] | None
    """When the session ends; "never": no rule of the store ends it."""
    idle_timeout: timedelta | float | None
    """How long it may be without activity before it ends: seconds, or a timedelta."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What `create` and `update` may set. UNSET: leave as it is."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    workspace: str | msgspec.UnsetType | None = msgspec.UNSET
    workspace_given: str | msgspec.UnsetType | None = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    vendor: str | msgspec.UnsetType | None = msgspec.UNSET
    endpoint: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    expires: int | msgspec.UnsetType | None = msgspec.UNSET
    idle: int | msgspec.UnsetType | None = msgspec.UNSET


def changes_of(given: Mapping[str, Any]) -> Changes:
    """Check the settings that are given, and normalise the workspace. UNSET: it is not given."""
    checked = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    if checked.get("workspace") is not None:
        checked["workspace_given"] = str(checked["workspace"])
        checked["workspace"] = normalised(checked["workspace"])
    elif "workspace" in checked:
        checked["workspace_given"] = None
    for name in ("title", "vendor", "endpoint", "model", "workspace", "workspace_given"):
        if checked.get(name) is not None:
            _check_text(checked[name], name)
    if "title" in checked and checked["title"] is not None and len(checked["title"]) > MAX_TITLE:
        raise InvalidError(f"title has {len(checked['title'])} characters; at most {MAX_TITLE} are allowed")
    if "tags" in checked:
        if isinstance(checked["tags"], str):
            raise InvalidError(f"tags must be a list of texts, not the text {checked['tags']!r}")
        checked["tags"] = tuple(dict.fromkeys(check_id(tag, "tag") for tag in checked["tags"] or ()))
    if "metadata" in checked:
        metadata = {} if checked["metadata"] is None else checked["metadata"]
        if not isinstance(metadata, Mapping):
            raise InvalidError(f"metadata must be a JSON object, not {type(metadata).__name__}")
        checked["metadata"] = msgspec.Raw(encode_json(metadata, what="metadata"))
    if "expires_at" in checked:
        checked["expires"] = _moment(checked.pop("expires_at"))
    if "idle_timeout" in checked:
        idle = checked.pop("idle_timeout")
        checked["idle"] = None if idle is None else _length(idle, "idle_timeout")
    return Changes(**checked)


def _moment(expires_at: datetime | str | None) -> int | None:
    if expires_at is None:
        return None
    if expires_at == "never":
        return NEVER
    if not isinstance(expires_at, datetime) or expires_at.tzinfo is None:
        raise InvalidError(f"expires_at is a datetime with a time zone, or 'never', not {expires_at!r}")
    return microseconds(expires_at)


def _length(duration: timedelta | float, what: str) -> int:
    """A duration, given as such or in seconds: more than nothing, at most a hundred years."""
    if isinstance(duration, (int, float)) and not isinstance(duration, bool) and abs(duration) < 1e10:
        duration = timedelta(seconds=duration)
    if not isinstance(duration, timedelta) or not timedelta(0) < duration <= MAX_DURATION:
        raise InvalidError(f"{what} is a duration of more than 0 and at most 36500 days, not {duration!r}")
    return duration // timedelta(microseconds=1)


def _check_text(text: str, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidError(f"{what} must be text, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidError(f"{what} {text!r} is not valid Unicode (lone surrogate)") from exc


def initial(method: str, given: Mapping[str, Any]) -> Changes:
    """The settings of a new session. None, and a list without tags, set nothing."""
    check_names(method, given)
    present = {name: value for name, value in given.items() if value is not None}
    if not present.get("tags", True):
        del present["tags"]
    return changes_of(present)


def updated(method: str, given: Mapping[str, Any]) -> Changes:
    """The settings that a session gets instead of those that it has."""
    check_names(method, given)
    return changes_of(given)


def check_names(method: str, given: Mapping[str, Any]) -> None:
    """TypeError for a name that is no setting, as Python raises it for an argument that a function lacks."""
    known = SessionSettings.__annotations__
    for name in given:
        if name not in known:
            from difflib import get_close_matches  # slow to import, and only mistakes need it

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise TypeError(f"{method}() has no setting {name!r}: {hint}The settings are {', '.join(known)}")


def normalised(path: str | os.PathLike[str]) -> str:
    """The one name of a directory: absolute, symlinks resolved, whether it exists or not."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidError(f"workspace must be text, not {type(text).__name__}")
    if not text:
        raise InvalidError("a workspace cannot be empty: name a directory ('.' is the present one), or None")
    try:
        resolved = os.path.realpath(text)
        resolved.encode()
    except ValueError as exc:  # a NUL, or bytes that are no text
        raise InvalidError(f"{text!r} cannot be a workspace: {exc}") from exc
    return resolved
