"""Items made up from the types of OpenAI's own package: every kind, every field, every alternative."""

from __future__ import annotations

import types
import typing
from random import Random
from typing import Any, Literal, Union, get_args, get_origin

from openai import BaseModel
from openai.types.conversations import ConversationItem

KINDS: dict[str, type[BaseModel]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind
    for kind in get_args(get_args(ConversationItem)[0])
}
WORDS = ("heron", "at the pond", "", "ß\u2028\U0001f426", '"\\', "<script>", "\x00", "-17", "{}", "a\n\tb")


class Maker:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0

    def item(self, name: str) -> dict[str, Any]:
        """A whole item of a kind, as OpenAI's API would answer it."""
        made: dict[str, Any] = self._model(KINDS[name], 0)
        self._count += 1
        return {**made, "id": f"{name[:3]}_{self._random.getrandbits(64):x}_{self._count}"}

    def _model(self, kind: type[BaseModel], depth: int) -> dict[str, Any]:
        made = {}
        for name, field in kind.model_fields.items():
            if field.is_required() or self._random.random() < (0.6 if depth < 3 else 0.1):
                made[field.alias or name] = self._value(field.annotation, depth + 1)
        return made

    def _value(self, hint: Any, depth: int) -> Any:
        random, origin, inside = self._random, get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            return self._value(inside[0], depth)
        if origin in (Union, types.UnionType):
            return self._value(random.choice(inside), depth)
        if origin is Literal:
            return random.choice(inside)
        if origin is list:
            return [self._value(inside[0], depth) for _ in range(random.randrange(3 if depth < 4 else 1))]
        if origin is dict:
            return {random.choice(WORDS): self._value(inside[1], depth) for _ in range(random.randrange(3))}
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            return self._model(hint, depth)
        return self._plain(hint)

    def _plain(self, hint: Any) -> Any:
        random = self._random
        match hint:
            case _ if hint is type(None):
                return None
            case _ if hint is str:
                return " ".join(random.choices(WORDS, k=random.randrange(3)))
            case _ if hint is bool:
                return random.random() < 0.5
            case _ if hint is int:
                return random.choice((0, 7, -1, 2**53, 2**63 - 1))
            case _ if hint is float:
                return random.choice((0.5, -1e-9, 1e300))
            case _ if hint in (object, Any):
                return random.choice((None, True, 3, "x", [1, {"a": []}], {"type": "object"}))
        raise AssertionError(f"there is a new kind of value: {hint!r}")
