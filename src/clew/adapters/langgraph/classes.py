"""Which classes of values a thread of LangGraph makes again, if nobody names them.

LangGraph's own serializer calls whatever a stored value names, functions of the system included, and only
warns of it. A store may come from anywhere, so here a value names nothing but a class of data: one that
LangGraph's own serializer writes, and that the program has imported by itself.
"""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum

from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def careful_serializer() -> JsonPlusSerializer:
    """LangGraph's own; it makes objects of classes of data that the program has, with a warning for each."""
    return JsonPlusSerializer(__unpack_ext_hook__=jsonplus._create_msgpack_ext_hook(_DataClasses()))


class _DataClasses(set[tuple[str, ...]]):
    """As if it held the names of all of them."""

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(name, str) for name in key):
            return False
        module, name = key
        if not is_data_class(getattr(sys.modules.get(module), name, None), module, name):
            return False
        jsonplus._warn_once(
            jsonplus._warned_unregistered_types,
            (module, name),
            "made a value of the unregistered type %s.%s from a checkpoint; ClewSaver(store, allow=[...])"
            " makes only those of the classes that it names",
            module,
            name,
        )
        return True


def is_data_class(found: object, module: str, name: str) -> bool:
    """Whether it is a class that is really called so, and one that holds data."""
    if not isinstance(found, type) or (found.__module__, found.__name__) != (module, name):
        return False
    return (
        dataclasses.is_dataclass(found)
        or issubclass(found, Enum)
        or (issubclass(found, tuple) and hasattr(found, "_asdict"))
        or any(base.__name__ == "BaseModel" and _is_pydantic(base) for base in found.__mro__)
    )


def _is_pydantic(base: type) -> bool:
    return base.__module__.partition(".")[0] == "pydantic"
