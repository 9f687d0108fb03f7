"""How the reference writes the signatures of the code.

`python -m tests.docs.signatures` prints those of every public class, to copy from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import clew

CLASSES = (clew.Store, clew.Session, clew.Run)
"""The async face has the same methods; tests elsewhere hold the two together."""


def signature(function: Callable[..., Any]) -> str:
    """The signature as one line, without `self`."""
    shown = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation))
        for name, parameter in shown.parameters.items()
        if name != "self"
    ]
    text = str(shown.replace(parameters=parameters, return_annotation=_annotation(shown.return_annotation)))
    return text.replace("'", '"')


def property_type(value: property) -> str:
    return str(inspect.signature(value.fget).return_annotation) if value.fget else "Any"


def members(cls: type) -> Iterator[tuple[str, str]]:
    """Name and signature (for a property `: type`) of every public member, in the order of the code; not of
    those that the class inherits."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name, f": {property_type(value)}"
        elif callable(value):
            yield name, signature(value)


class _Bare:
    """An annotation that is shown as its text."""

    def __init__(self, text: object) -> None:
        self.text = text

    def __repr__(self) -> str:
        return str(self.text)


def _annotation(annotation: object) -> object:
    return _Bare(str(annotation).replace("builtins.", ""))


if __name__ == "__main__":
    for function in (clew.open, clew.open_async):
        print(f"- **`{function.__name__}`**`{signature(function)}`")  # noqa: T201
    for cls in CLASSES:
        print(f"\n## {cls.__name__}\n")  # noqa: T201
        for name, text in members(cls):
            print(f"- **`{name}`**`{text}`")  # noqa: T201
