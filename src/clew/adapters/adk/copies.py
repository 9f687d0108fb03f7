"""Many copies of one model: what of it can be shared is found out once, so each copy is cheap to make."""

from __future__ import annotations

import copy
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

from clew.adapters.common.sessions import missing

try:
    from pydantic import BaseModel
except ImportError as exc:
    raise missing("adk", exc) from exc

Maker: TypeAlias = Callable[[], Any]

_SHARED: Final = (str, int, float, bool, bytes, type(None), Enum)
"""Nobody can change these, so copies have them in common."""
_set: Final = object.__setattr__


def maker_of(value: Any) -> Maker:
    """Makes deep copies of a value, which must not be changed from now on."""
    return _maker(value) or (lambda: value)


def _maker(value: Any) -> Maker | None:
    """None: the value itself will do."""
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
