"""Who uses a part of Clew loads that part: all steps of one program, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

STEPS = {
    "import": "import clew",
    "watch directories": "import clew.core.directory_watch",
    "use a store": "s = clew.open('memory:').session('s')",
    "add usage": "s.add_usage(model='gpt-4o', cost='1'); s.add_usage(input_tokens=5)",
    "estimate": "assert s.add_usage(model='gpt-4o', input_tokens=5).estimated",
}
PROGRAM = """
import json, sys
found, names = {}, {}
for name, step in json.loads(sys.argv[1]).items():
    exec(step, names)
    prices = sys.modules.get("clew.core.streams.prices")
    found[name] = [*sys.modules, *["the prices"][: prices is not None and prices.is_loaded()]]
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def modules() -> dict[str, set[str]]:
    """What is loaded after each step."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {step: set(names) for step, names in json.loads(done.stdout).items()}


def test_importing_clew_imports_nothing_else_of_it(modules: dict[str, set[str]]) -> None:
    """So that the help of the command line is there at once."""
    found = {name for name in modules["import"] if name.startswith("clew") or name == "msgspec"}
    assert found == {"clew"}


def test_watching_directories_needs_nothing_of_snapshots(modules: dict[str, set[str]]) -> None:
    assert "clew.files" not in modules["watch directories"]


def test_using_a_store_does_not_import_what_only_some_need(modules: dict[str, set[str]]) -> None:
    """Neither asyncio nor a test tool, nor SQLite before a file is opened, nor the engine of files."""
    others = {"asyncio", "pytest", "hypothesis", "apsw", "pathspec", "watchfiles"}
    own = ("files", "model.files", "model.transfer", "core.transfer.copy", "core.streams.price_list")
    assert modules["use a store"].isdisjoint(others | {f"clew.{name}" for name in own})


def test_the_list_of_prices_is_loaded_only_when_it_is_needed(modules: dict[str, set[str]]) -> None:
    """A call whose cost or model is not to be looked up does not pay for it. A package that is no newer than
    the list is not loaded."""
    assert "the prices" not in modules["add usage"]
    assert "the prices" in modules["estimate"]
    assert {"genai_prices", "pydantic"}.isdisjoint(modules["estimate"])
