"""S-03, S-04: nothing that is read becomes a program: no pickle, no eval, no module by a name out of data."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import clew

SOURCE = Path(clew.__file__).parent
BANNED_MODULES = {
    "pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve",
    "yaml", "ruamel", "runpy", "code", "codeop",
}  # fmt: skip
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
MAY_IMPORT_BY_NAME = {
    "__init__.py": "names of the package itself, out of a list",
    "adapters/agent_framework/checkpoints.py": "types that the caller allowed, and are really called so",
    "backends/registry.py": "backends, out of a list by scheme",
    "cli/__init__.py": "commands, out of a list",
    "cli/ui/__init__.py": "one fixed name",
    "core/messages/dialects/__init__.py": "dialects, out of a list",
    "importers/detect.py": "readers, out of a list",
    "exporters/__init__.py": "exporters, out of a list",
    "exporters/programs/resuming.py": "exporters for agents, out of a list",
    "server/routes/__init__.py": "modules of routes, out of a list",
    "store.py": "exporters and importers: two fixed names",
    "work/__init__.py": "modules of that folder",
}
TOOLS_OF_TESTS = "testing/"
"""They start processes of their own, and tell these what to run."""


@cache
def sources() -> list[tuple[str, str]]:
    return [(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")) for path in SOURCE.rglob("*.py")]


def found(words: Iterable[str], what: Callable[[ast.AST], Iterable[str]]) -> Iterator[tuple[str, str]]:
    """The files in which a word is meant as `what` says, and the word. Only files that have a word behind
    `import` or `from`, or before a bracket or an equal sign, are worth looking at more closely."""
    either = "|".join(words)
    near = re.compile(rf"(?:import|from)\b.*\b(?:{either})\b|(?<!re\.)\b(?:{either})\s*[(=]")
    for name, text in sources():
        if near.search(text):
            for node in ast.walk(ast.parse(text)):
                yield from (
                    (name, word) for word in what(node) if word.lstrip(".").partition(".")[0] in words
                )


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield f".{node.func.attr}"


def test_s03_no_module_that_makes_programs_of_data_is_imported() -> None:
    assert list(found(BANNED_MODULES, imported)) == []


def test_s03_no_text_is_run() -> None:
    assert [word for word in found(BANNED_CALLS, called) if not word[1].startswith(".")] == []


def test_s03_modules_are_imported_by_name_only_where_the_names_are_ours() -> None:
    names = {name for name, _ in found({"import_module", "exec_module", "load_module"}, called)}
    assert {name for name in names if not name.startswith(TOOLS_OF_TESTS)} <= set(MAY_IMPORT_BY_NAME)
    assert "importers/detect.py" in names


def test_s03_no_serializer_of_an_adapter_falls_back_on_pickle() -> None:
    def given(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.keyword) and node.arg:
            yield node.arg

    assert list(found({"pickle_fallback", "allow_pickle"}, given)) == []


def test_s28_no_archive_is_unpacked() -> None:
    """Importers read files and databases, never a zip or a tar with names and links of its maker."""
    archives = {"zipfile", "tarfile", "gzip", "bz2", "lzma", "unpack_archive"}
    assert list(found(archives, lambda node: (*imported(node), *called(node)))) == []


def test_the_check_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import os, pickle\nfrom yaml import load\nif x:\n  eval ('1')\nimportlib.import_module(name)"
    monkeypatch.setitem(globals(), "sources", lambda: [("a.py", text)])
    assert [word for _, word in found(BANNED_MODULES, imported)] == ["pickle", "yaml", "yaml.load"]
    assert [word for _, word in found(BANNED_CALLS, called)] == ["eval"]
    assert [word for _, word in found({"import_module"}, called)] == [".import_module"]
