"""What pip installs: everything that the command line needs, and hints that work from a checkout."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from tests.cli.processes import Clew
from tests.docs.pages import ROOT, all_pages

SOURCE = Path(clew.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def sources_with(word: str) -> Iterator[tuple[Path, ast.Module]]:
    """The files of Clew in which a word stands."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        if word in text:
            yield path, ast.parse(text)


def test_the_command_line_needs_no_extra() -> None:
    """`clew ui` and every export work after `pip install .`."""
    names = {re.split(r"[>=;\[]", one)[0] for one in PROJECT["dependencies"]}
    assert {"click", "rich", "textual"} <= names


def test_a_hint_names_what_pyproject_names() -> None:
    """A package by its own name: the name of Clew itself leads nowhere, or elsewhere, in a public index."""
    known = {one for some in (PROJECT["dependencies"], *EXTRAS.values()) for one in some}
    found = 0
    for path, tree in sources_with("install"):
        for node in ast.walk(tree):
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


SERVER = ("starlette", "uvicorn", "httptools", "urllib3", "clew.server", "clew.backends.http")


def test_the_server_is_imported_by_nothing_that_does_not_serve(tmp_path: Path) -> None:
    """Neither its packages nor those of a store that lies elsewhere: by no module, help or list."""
    code = f"""
import sys, clew, clew.cli, clew.store, clew.aio
clew.Store, clew.AsyncStore
for words in (["--help"], ["serve", "--help"], ["--store", sys.argv[1], "ls"]):
    clew.cli.run(words)
print(*(name for name in {SERVER} if name in sys.modules), file=sys.stderr)
"""
    clew.open(tmp_path / "a.db").close()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.db")], capture_output=True, text=True, check=True
    )
    assert "clew serve" in done.stdout
    assert done.stderr.split() == []


@pytest.mark.parametrize("absent", [["uvicorn", "httptools"], ["httptools"]])
def test_serving_without_the_extra_says_what_to_install(
    tmp_path: Path, absent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    done = Clew(tmp_path)("--store", str(tmp_path / "a.db"), "serve", "--port", "0", code=1)
    wanted = [one for one in EXTRAS["server"] if re.split(r"[>=]", one)[0] in absent]
    assert f"packages are missing: {', '.join(absent)}; pip install" in done.err
    assert re.findall(r"'([^']+)'", done.err.partition("pip install")[2]) == wanted
    assert "Traceback" not in done.err
    assert not (tmp_path / "a.db").exists()


def test_uuid7_is_called_without_a_time() -> None:
    """Versions of uuid-utils that pip may choose disagree on how a time is passed."""
    calls = [
        node
        for _, tree in sources_with("uuid7(")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "uuid7"
    ]
    assert len(calls) > 5
    assert not [call.lineno for call in calls if call.args or call.keywords]
