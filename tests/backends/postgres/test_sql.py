"""Every statement stands in sql.py, where it is found and checked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import clew.backends.postgres as package

FOLDER = Path(package.__file__).parent
STATEMENT = re.compile(
    r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|CREATE|ALTER|DROP|LOCK|VACUUM|SET|BEGIN|COMMIT"
    r"|ROLLBACK|LISTEN|NOTIFY)\b(?!_)"
)
MODULES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py"))


@pytest.mark.parametrize("name", [name for name in MODULES if name != "sql.py"])
def test_no_module_but_one_has_statements(name: str) -> None:
    tree = ast.parse((FOLDER / name).read_text("utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        and STATEMENT.match(node.value)
    ]  # fmt: skip
    # What decides about a statement by its first word is not a statement.
    assert [text for text in found if text not in ("BEGIN", "VACUUM")] == []
    assert not found or name == "connection.py"
