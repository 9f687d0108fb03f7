"""S-03, S-04: nothing that is read becomes a program: no pickle, no eval, no module by a name out of data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
def trees() -> list[tuple[str, ast.Module]]:
    paths = sorted(SOURCE.rglob("*.py"))
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_bytes())) for path in paths]


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return f".{node.func.attr}" if isinstance(node.func, ast.Attribute) else ""


def test_s03_no_module_that_makes_programs_of_data_is_imported() -> None:
    found = [
        (name, module)
        for name, tree in trees()
        for node in ast.walk(tree)
        for module in imported(node)
        if module.partition(".")[0] in BANNED_MODULES
    ]
    assert found == []


def test_s03_no_text_is_run() -> None:
    found = [
        (name, called(node))
        for name, tree in trees()
        for node in ast.walk(tree)
        if called(node) in BANNED_CALLS
    ]
    assert found == []


def test_s03_modules_are_imported_by_name_only_where_the_names_are_ours() -> None:
    found = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if called(node) in ("import_module", ".import_module", ".exec_module", ".load_module")
        and not name.startswith(TOOLS_OF_TESTS)
    }
    assert found <= set(MAY_IMPORT_BY_NAME)


def test_s03_no_serializer_of_an_adapter_falls_back_on_pickle() -> None:
    found = [
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg in ("pickle_fallback", "allow_pickle")
    ]
    assert found == []


def test_the_check_finds_what_it_looks_for() -> None:
    tree = ast.parse("import pickle\nfrom yaml import load\neval('1')\nimportlib.import_module(name)")
    modules = {module for node in ast.walk(tree) for module in imported(node)}
    assert {"pickle", "yaml"} <= modules
    assert {"eval", ".import_module"} <= {called(node) for node in ast.walk(tree)}


def test_s28_no_archive_is_unpacked() -> None:
    """Importers read files and databases, never a zip or a tar with names and links of its maker."""
    archives = {"zipfile", "tarfile", "gzip", "bz2", "lzma"}
    found = [
        (name, module)
        for name, tree in trees()
        for node in ast.walk(tree)
        for module in (*imported(node), called(node).lstrip("."))
        if module.partition(".")[0] in archives or module == "unpack_archive"
    ]
    assert found == []
