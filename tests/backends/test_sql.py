"""Every SQL statement of a backend stands in its sql.py, where it is found and checked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import clew.backends as package

FOLDER = Path(package.__file__).parent
STATEMENT = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE FROM|WITH|CREATE|ALTER|DROP|LOCK|VACUUM|SET|BEGIN|COMMIT|ROLLBACK"
    r"|SAVEPOINT|RELEASE|PRAGMA|EXPLAIN|LISTEN|NOTIFY)\b(?![_:])"
)
FIRST_WORDS = {"postgres/connection.py": {"BEGIN", "VACUUM"}}
"""A module that decides by the first word of a statement."""
MODULES = sorted(
    path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py") if path.name != "sql.py"
)


@pytest.mark.parametrize("name", MODULES)
def test_no_module_but_one_has_statements(name: str) -> None:
    found = set(statements((FOLDER / name).read_text("utf-8")))

    assert found == FIRST_WORDS.get(name, set())


def test_the_search_for_statements_finds_them() -> None:
    planted = '"""SELECT in prose."""\nx = "PRAGMA user_version"\ny = f"SELECT {x} FROM t"\n'

    assert list(statements(planted)) == ["PRAGMA user_version", "SELECT "]


def statements(source: str) -> list[str]:
    """The texts of a module, without its prose, that begin as a statement does."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in prose
        and STATEMENT.match(node.value)
    ]
