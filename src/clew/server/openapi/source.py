"""What the source says that types do not: what a field is for, which headers a route knows, how it ends.

Read from the code itself, so that the description cannot say something else than the code does.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, Final

from clew.server.call import Call

OURS: Final = "clew."
ANSWERED: Final = ("link", "location")
"""Headers of answers that are found by their names in the code."""


class Headers:
    """The headers that a function looks at and answers with, in lower case; and how it ends."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.answered: set[str] = set()
        self.statuses: set[int] = set()
        """Of answers that are a success, beside the one that the route names."""


@cache
def headers_of(handler: Callable[..., Any]) -> Headers:
    """The headers of a route, by its function and all that this one calls with its request."""
    found = Headers()
    _look(inspect.unwrap(handler), "call", found, set())
    return found


def _look(function: Any, name: str, found: Headers, seen: set[Any]) -> None:
    """`name`: of the variable that is the request."""
    node = _node_of(function)
    if node is None or function in seen:
        return
    is_first = not seen
    seen.add(function)
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and _is(part.value, name):
            _look(_of_call(part.attr), "self", found, seen)
        if isinstance(part, ast.Call):
            _look_at_call(part, function, name, found, seen)
        if isinstance(part, ast.Constant) and part.value in ANSWERED:
            found.answered.add(str(part.value))
        if isinstance(part, ast.keyword) and part.arg == "etag":
            found.answered.add("etag")
        if isinstance(part, ast.keyword) and part.arg == "status" and is_first:
            numbers = {one.value for one in ast.walk(part.value) if isinstance(one, ast.Constant)}
            found.statuses |= {one for one in numbers if isinstance(one, int) and 200 <= one < 300}


def _look_at_call(part: ast.Call, function: Any, name: str, found: Headers, seen: set[Any]) -> None:
    known = function.__globals__
    if isinstance(part.func, ast.Attribute) and part.func.attr == "header" and _is(part.func.value, name):
        asked = part.args[0]
        found.taken.add(str(asked.value if isinstance(asked, ast.Constant) else known[ast.unparse(asked)]))
        return
    # A function of ours that gets the request: `work(call, …)`, and also `partial(work, call, …)`.
    names = [part.func, *part.args]
    if any(_is(argument, name) for argument in part.args):
        for each in names:
            callee = known.get(each.id) if isinstance(each, ast.Name) else None
            if isinstance(callee, FunctionType) and callee.__module__.startswith(OURS):
                _look(callee, _first_name(callee), found, seen)
    elif isinstance(part.func, ast.Name):
        callee = known.get(part.func.id)
        if isinstance(callee, FunctionType) and callee.__module__.startswith("clew.server."):
            _look(callee, "", found, seen)


def _first_name(function: FunctionType) -> str:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return "call" if "call" in names else names[0] if names else ""


def _of_call(name: str) -> Any:
    found = inspect.getattr_static(Call, name, None)
    return found.fget if isinstance(found, property) else found


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _node_of(function: Any) -> ast.AST | None:
    if not isinstance(function, FunctionType):
        return None
    return _functions_in(sys.modules[function.__module__]).get(
        (function.__name__, function.__code__.co_firstlineno)
    )


@cache
def _tree_of(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


@cache
def _functions_in(module: ModuleType) -> dict[tuple[str, int], ast.AST]:
    found: dict[tuple[str, int], ast.AST] = {}
    for node in ast.walk(_tree_of(module)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name, first] = node
    return found


# -- fields


@cache
def notes_of(kind: type) -> dict[str, str]:
    """What the text below each field of a class says, those that it inherits too."""
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith(OURS):
            notes |= dict(_notes_in(sys.modules[base.__module__], base.__qualname__))
    return notes


def _notes_in(module: ModuleType, name: str) -> Iterator[tuple[str, str]]:
    for node in _tree_of(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for field, below in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(below, ast.Expr)
                    and isinstance(below.value, ast.Constant)
                    and isinstance(below.value.value, str)
                ):
                    yield field.target.id, " ".join(below.value.value.split())
