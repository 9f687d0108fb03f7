"""A framework that is not installed is named, with the extra that brings it."""

from __future__ import annotations

import json
import subprocess
import sys

FRAMEWORKS = {
    "adk": ("google", "adk"),
    "agent_framework": ("agent_framework", "agent-framework"),
    "claude": ("claude_agent_sdk", "claude"),
    "langgraph": ("langgraph", "langgraph"),
    "llama_index": ("llama_index", "llama-index"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "strands": ("strands", "strands"),
}

CODE = """
import importlib, json, sys
said = {}
for adapter, (package, _) in json.loads(sys.argv[1]).items():
    sys.modules[package] = None
    try:
        importlib.import_module(f"clew.adapters.{adapter}")
    except ImportError as error:
        said[adapter] = str(error)
print(json.dumps(said))
"""


def test_the_extra_of_a_framework_that_is_missing_is_named() -> None:
    command = [sys.executable, "-c", CODE, json.dumps(FRAMEWORKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    said = json.loads(done.stdout)

    assert set(said) == set(FRAMEWORKS)
    for adapter, (_, extra) in FRAMEWORKS.items():
        assert f"pip install 'clew[{extra}]'" in said[adapter]
