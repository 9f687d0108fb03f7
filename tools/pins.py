"""Print what the Makefile installs, in the words of pip: `pins.py` or `pins.py GROUP`.

uv.lock is the one list of pinned versions, but a bare machine has no uv, and uv does not look at
pip's settings for an index. So the pins go to pip: without an argument as constraints (every
version of uv.lock), with one as the requirements of that dependency group of pyproject.toml.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def load(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def constraints() -> Iterator[str]:
    for package in load("uv.lock")["package"]:
        if "registry" in package["source"]:
            # A package that is locked in two versions says which Pythons each is for.
            markers = " or ".join(f"({marker})" for marker in package.get("resolution-markers", []))
            yield f"{package['name']}=={package['version']}" + (f" ; {markers}" if markers else "")


def requirements(group: str) -> Iterator[str]:
    for item in load("pyproject.toml")["dependency-groups"][group]:
        if isinstance(item, str):
            yield item
        else:
            yield from requirements(item["include-group"])


if __name__ == "__main__":
    print(*(requirements(sys.argv[1]) if len(sys.argv) > 1 else constraints()), sep="\n")
