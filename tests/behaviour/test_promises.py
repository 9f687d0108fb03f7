"""The tests of behaviour are the specification of a store: each is a sentence, and says what it promises."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def promises() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for file in sorted(HERE.glob("*/test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield file, node


def test_no_test_hides_another() -> None:
    """Two tests of one name in one class: the first would never run."""
    times = Counter(node.name for _, node in promises())

    assert [name for name, count in times.items() if count > 1] == []
    assert len(times) > 500


def test_every_test_says_what_it_promises() -> None:
    assert [f"{file.name}: {node.name}" for file, node in promises() if not ast.get_docstring(node)] == []
