"""Values of a framework as JSON text, and back; also values that JSON cannot express.

NaN and Infinity are kept as an object that names them, and come back as numbers. Some frameworks keep such
numbers, others silently write null.
Half of a surrogate pair is escaped, so that the store can replace it and flag the entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import inf, isfinite, nan
from typing import Any, Final

from clew.core.messages.codec import prepare

_NUMBER: Final = "__clew_float__"
"""The only key of an object that stands for such a number."""
_NUMBERS: Final = {"nan": nan, "inf": inf, "-inf": -inf}


def encode(value: Any) -> bytes:
    """The JSON text of a value of JSON's types. TypeError for any other value."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(_wrapped(value), separators=(",", ":")).encode()
    except ValueError:
        return encode(_wrapped(value))


def decode(text: bytes) -> Any:
    """The value of such a text."""
    return restored(json.loads(text))


def encode_model(model: Any, dump_json: Callable[[Any], bytes], dump_python: Callable[[Any], Any]) -> bytes:
    """The JSON text of a Pydantic model. `dump_json` and `dump_python` (in its mode "json") dump the
    model."""
    try:
        text = dump_json(model)
    except ValueError:  # half a surrogate pair
        return encode(_put_back(model, dump_python(model)))
    if b"null" not in text or not _has_odd_numbers(model):
        return text
    return encode(_put_back(model, json.loads(text)))


def dump_model(model: Any) -> dict[str, Any]:
    """A model of Pydantic as a value that the store can keep."""
    told: dict[str, Any] = model.model_dump(mode="json")
    return _wrapped(_put_back(model, told)) if _has_odd_numbers(model) else told


def with_numbers(text: bytes) -> bytes:
    """Text from the store with NaN and Infinity in the form that Pydantic reads."""
    if _NUMBER.encode() not in text:
        return text
    return json.dumps(decode(text)).encode()


def mended(text: bytes) -> bytes:
    """The text as the store will keep it: halves of surrogate pairs are replaced."""
    return prepare(text).body if b"\\ud" in text else text


def restored(value: Any) -> Any:
    """A value from the store, with NaN and Infinity as numbers again."""
    if isinstance(value, dict):
        if value.keys() == {_NUMBER}:
            name = value[_NUMBER]
            return _NUMBERS.get(name, value) if isinstance(name, str) else value
        return {name: restored(each) for name, each in value.items()}
    return [restored(each) for each in value] if isinstance(value, list) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _wrapped(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wrapped(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return {_NUMBER: repr(float(value))}
    return value


# -- Pydantic writes null for such a number, so it is taken from the model


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    if hasattr(type(value), "model_fields"):
        return [*vars(value).items(), *(value.__pydantic_extra__ or {}).items()]
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    return ()


def _has_odd_numbers(value: Any) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    return any(_has_odd_numbers(part) for _, part in _parts(value))


def _put_back(value: Any, told: Any) -> Any:
    """The dumped value `told`, with each null that stands for a number replaced by that number."""
    if isinstance(value, float):
        return value if told is None and not isfinite(value) else told
    for name, part in _parts(value):
        if (isinstance(told, dict) and name in told) or (isinstance(told, list) and name < len(told)):
            told[name] = _put_back(part, told[name])
    return told
