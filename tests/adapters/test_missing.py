"""A framework that is not installed, or too old, is named with the extra that brings it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest

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

PROGRAM = """
import importlib, importlib.metadata, json, sys
frameworks, needed, folder = json.loads(sys.argv[1])
known = importlib.metadata.version

def version(name):
    if name in needed:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

def told():
    said = {}
    for adapter in frameworks:
        for name in [name for name in sys.modules if name.startswith("clew.adapters")]:
            del sys.modules[name]
        try:
            importlib.import_module(f"clew.adapters.{adapter}")
        except ImportError as error:
            said[adapter] = str(error)
    return said

tops = [module.partition(".")[0] for module, _ in frameworks.values()]
sys.modules.update(dict.fromkeys(tops))
importlib.metadata.version = version
missing = told()
importlib.metadata.version = known  # it is installed, and its modules are not there
broken = told()
for top in tops:
    del sys.modules[top]
importlib.metadata.version = lambda name: "0.0.7" if name in needed else known(name)
aged = told()  # as it is, but for its number: it can be imported
importlib.metadata.version = known
for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
    del sys.modules[name]
sys.path.insert(0, folder)
print(json.dumps({"missing": missing, "broken": broken, "aged": aged, "old": told()}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each adapter says when its framework is missing, broken, of version 0.0.7 with modules that can be
    imported, or of that version without them."""
    folder = tmp_path_factory.mktemp("old")
    for module, extra in FRAMEWORKS.values():
        package = folder.joinpath(*module.split("."))
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        about = folder / f"{NEEDED[extra][0].replace('-', '_')}-0.0.7.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NEEDED[extra][0]}\nVersion: 0.0.7\n")
    given = json.dumps([FRAMEWORKS, [package for package, _ in NEEDED.values()], str(folder)])
    done = subprocess.run([sys.executable, "-c", PROGRAM, given], capture_output=True, text=True, check=True)
    said: dict[str, dict[str, str]] = json.loads(done.stdout)
    assert all(set(one) == set(FRAMEWORKS) for one in said.values())
    assert str(folder) not in done.stdout
    return said


def test_the_extra_of_a_framework_that_is_missing_is_named(told: dict[str, dict[str, str]]) -> None:
    for adapter, (_, extra) in FRAMEWORKS.items():
        assert f": pip install '{'>='.join(NEEDED[extra])}'" in told["missing"][adapter]
        assert "is installed" not in told["missing"][adapter]


def test_a_framework_that_is_too_old_is_told_by_both_versions(told: dict[str, dict[str, str]]) -> None:
    for adapter, (_, extra) in FRAMEWORKS.items():
        package, needed = NEEDED[extra]
        said = told["old"][adapter]
        assert f"needs {package} {needed} or newer, and 0.0.7 is installed (" in said
        assert said.endswith(f"): pip install --upgrade '{package}>={needed}'")


def test_a_framework_that_is_too_old_is_not_used_although_it_can_be_imported(
    told: dict[str, dict[str, str]],
) -> None:
    for adapter, (_, extra) in FRAMEWORKS.items():
        package, needed = NEEDED[extra]
        said = told["aged"][adapter]
        assert f"needs {package} {needed} or newer, and 0.0.7 is installed (" in said
        assert said.endswith(f"): pip install --upgrade '{package}>={needed}'")


def test_a_framework_that_is_broken_is_not_called_old(told: dict[str, dict[str, str]]) -> None:
    for adapter, (_, extra) in FRAMEWORKS.items():
        package = NEEDED[extra][0]
        said = told["broken"][adapter]
        assert said.startswith(f"{package} {version(package)} is installed, but cannot be imported (")
        assert said.endswith(f"): pip install --force-reinstall {package}")


def test_what_is_needed_is_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {extra: project["optional-dependencies"][extra] for extra in NEEDED}
    assert asked == {extra: [f"{package}>={needed}"] for extra, (package, needed) in NEEDED.items()}
