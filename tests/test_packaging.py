"""What pip installs: everything that the command line needs, and hints that work from a checkout."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import clew
from tests.docs.pages import ROOT, all_pages

SOURCE = Path(clew.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_the_command_line_needs_no_extra() -> None:
    """`clew ui` and every export work after `pip install .`."""
    names = {re.split(r"[>=;\[]", one)[0] for one in PROJECT["dependencies"]}
    assert {"click", "rich", "textual"} <= names


def test_a_hint_names_what_pyproject_names() -> None:
    """A package by its own name: the name of Clew itself leads nowhere, or elsewhere, in a public index."""
    known = {one for some in (PROJECT["dependencies"], *EXTRAS.values()) for one in some}
    found = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "install clew" not in node.value.replace("'", ""), path
                for hint in re.findall(r"pip install '([^'{}]+)'", node.value):
                    found += 1
                    extra = re.fullmatch(r"\.\[([a-z0-9,-]+)\]", hint)
                    assert hint in known or (extra and set(extra[1].split(",")) <= set(EXTRAS)), (path, hint)
    assert found > 5


def test_pages_name_extras_that_exist() -> None:
    for page in all_pages():
        if page.parent.name == "adr":  # a record may name what was not done
            continue
        text = page.read_text("utf-8")
        assert "pip install 'clew[" not in text, page
        for names in re.findall(r"pip install '\.\[([a-z0-9,-]+)\]'", text):
            assert set(names.split(",")) <= set(EXTRAS), page


def test_uuid7_is_called_without_a_time() -> None:
    """Versions of uuid-utils that pip may choose disagree on how a time is passed."""
    calls = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "uuid7"
    ]
    assert len(calls) > 5
    assert not [call.lineno for call in calls if call.args or call.keywords]
