"""The packages of the frameworks: what to say if one is missing, too old or broken."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

NEEDED: Final = {
    "adk": ("google-adk", "2.13"),
    "agent-framework": ("agent-framework-core", "1.23"),
    "claude": ("claude-agent-sdk", "0.2.182"),
    "langgraph": ("langgraph-checkpoint", "4.3.1"),
    "llama-index": ("llama-index-core", "0.14.25"),
    "openai-agents": ("openai-agents", "0.24"),
    "pydantic-ai": ("pydantic-ai-slim", "2.66"),
    "strands": ("strands-agents", "1.62"),
}
"""For each extra its package and the oldest version that works, as in pyproject.toml."""

_NUMBER: Final = re.compile(r"\d+")


def missing(extra: str, error: ImportError) -> ImportError:
    """The error to raise if a framework cannot be imported: it is missing, too old, or broken."""
    package, needed = NEEDED[extra]
    try:
        installed = version(package)
    except PackageNotFoundError:
        told = f"this adapter needs {error.name or package}: pip install 'clew[{extra}]'"
    else:
        reason = str(error).partition(" (")[0]  # without the path of a file
        if _numbers(installed) < _numbers(needed):
            told = (
                f"this adapter needs {package} {needed} or newer, and {installed} is installed ({reason}): "
                f"pip install --upgrade 'clew[{extra}]'"
            )
        else:
            told = (
                f"{package} {installed} is installed, but cannot be imported ({reason}): "
                f"pip install --force-reinstall {package}"
            )
    return ImportError(told, name=error.name)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(version)[:3]]
