"""A framework that is not installed, or too old, is named with the extra that brings it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from clew.adapters.common import NEEDED
from tests.docs.pages import ROOT

FRAMEWORKS = {
    "adk": ("google.adk", "adk"),
    "agent_framework": ("agent_framework", "agent-framework"),
    "claude": ("claude_agent_sdk", "claude"),
    "langgraph": ("langgraph.checkpoint.base", "langgraph"),
    "llama_index": ("llama_index.core", "llama-index"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "strands": ("strands", "strands"),
}

BEGIN = "import importlib, importlib.metadata, json, sys"
ABSENT = """
known = importlib.metadata.version
def version(name):
    if name in sys.argv[2]:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)
importlib.metadata.version = version
for package, _ in json.loads(sys.argv[1]).values():
    sys.modules[package.partition(".")[0]] = None
"""
OLD = "sys.path.insert(0, sys.argv[2])"
END = """
said = {}
for adapter in json.loads(sys.argv[1]):
    try:
        importlib.import_module(f"clew.adapters.{adapter}")
    except ImportError as error:
        said[adapter] = str(error)
print(json.dumps(said))
"""


def told(circumstance: str, given: str) -> dict[str, str]:
    code = f"{BEGIN}\n{circumstance}\n{END}"
    command = [sys.executable, "-c", code, json.dumps(FRAMEWORKS), given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    said: dict[str, str] = json.loads(done.stdout)
    assert set(said) == set(FRAMEWORKS)
    return said


def test_the_extra_of_a_framework_that_is_missing_is_named() -> None:
    said = told(ABSENT, " ".join(package for package, _ in NEEDED.values()))

    for adapter, (_, extra) in FRAMEWORKS.items():
        assert f": pip install '{'>='.join(NEEDED[extra])}'" in said[adapter]
        assert "is installed" not in said[adapter]


def test_a_framework_that_is_too_old_is_told_by_both_versions(tmp_path: Path) -> None:
    for module, extra in FRAMEWORKS.values():
        folder = tmp_path.joinpath(*module.split("."))
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        about = tmp_path / f"{NEEDED[extra][0].replace('-', '_')}-0.0.7.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NEEDED[extra][0]}\nVersion: 0.0.7\n")

    said = told(OLD, str(tmp_path))

    for adapter, (_, extra) in FRAMEWORKS.items():
        package, needed = NEEDED[extra]
        assert f"needs {package} {needed} or newer, and 0.0.7 is installed (" in said[adapter]
        assert said[adapter].endswith(f"): pip install --upgrade '{package}>={needed}'")
        assert str(tmp_path) not in said[adapter]


def test_a_framework_that_is_broken_is_not_called_old() -> None:
    said = told(ABSENT, "")  # it is installed, and its modules are not there

    for adapter, (_, extra) in FRAMEWORKS.items():
        package = NEEDED[extra][0]
        assert said[adapter].startswith(
            f"{package} {version(package)} is installed, but cannot be imported ("
        )
        assert said[adapter].endswith(f"): pip install --force-reinstall {package}")


def test_what_is_needed_is_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {extra: project["optional-dependencies"][extra] for extra in NEEDED}
    assert asked == {extra: [f"{package}>={needed}"] for extra, (package, needed) in NEEDED.items()}
