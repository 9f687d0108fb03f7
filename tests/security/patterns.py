"""Every regular expression in the package, and how it is used."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import clew

SOURCE = Path(clew.__file__).parent
ONCE = frozenset({"match", "fullmatch"})
"""They look from one place on; all others look from every place of a text."""


class Known(NamedTuple):
    place: str
    pattern: re.Pattern[Any]
    only_once: bool


@cache
def known_patterns() -> list[Known]:
    """Those in the names of modules, also inside of tuples and tables, or made late and kept."""
    found: dict[tuple[Any, int], Known] = {}
    for module in _modules():
        uses = _uses(ast.parse(Path(str(module.__file__)).read_text("utf-8")))
        for name, value in vars(module).items():
            for number, pattern in enumerate(_inside(value)):
                used = uses[name]
                known = Known(f"{module.__name__}.{name}[{number}]", pattern, bool(used) and used <= ONCE)
                before = found.get((pattern.pattern, pattern.flags))
                if before is None or (before.only_once and not known.only_once and used):
                    found[pattern.pattern, pattern.flags] = known
    return list(found.values())


def made_elsewhere() -> Iterator[tuple[str, str]]:
    """Calls of the module `re` inside of functions, which no list of names holds: file, and function."""
    for path in _files():
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if _is_call_of_re(node):
                        yield str(path.relative_to(SOURCE)), function.name


def _is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr != "escape"
    )


def _files() -> Iterator[Path]:
    """Those that make expressions. The tools for tests read nothing that a stranger wrote."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "testing" not in path.relative_to(SOURCE).parts and "\nimport re\n" in path.read_text("utf-8"):
            yield path


def _modules() -> Iterator[Any]:
    for path in _files():
        yield importlib.import_module(".".join(("clew", *path.relative_to(SOURCE).with_suffix("").parts)))


def _inside(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif is_made_late(value):
        yield value()  # type: ignore[operator]
    elif depth and isinstance(value, (tuple, list)):
        for item in value:
            yield from _inside(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from _inside(list(value.values()), depth)


def is_made_late(value: object) -> bool:
    """A function without arguments that gives an expression, always the same."""
    made = getattr(value, "__wrapped__", None)
    kept = hasattr(value, "cache_info") and made is not None and not made.__code__.co_argcount
    return kept and "Pattern" in str(made.__annotations__.get("return"))


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """The attributes of each name that are asked for."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found[node.value.id].add(node.attr)
    return found
