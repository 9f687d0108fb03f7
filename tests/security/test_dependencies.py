"""S-35: what is installed beside Clew is what somebody decided on, by hash, from the public index."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
INDEX = "https://pypi.org/simple"
FILES = "https://files.pythonhosted.org/packages/"
SHA256 = re.compile(r"sha256:[0-9a-f]{64}")


def packages(lock: str) -> list[dict[str, Any]]:
    """Those of others."""
    found: list[dict[str, Any]] = tomllib.loads(lock)["package"]
    return [package for package in found if package["source"] != {"editable": "."}]


def unpinned(lock: str) -> Iterator[str]:
    """What would let somebody else decide what is installed."""
    for package in packages(lock):
        name, files = package["name"], [*package.get("wheels", [])]
        files += [package["sdist"]] if "sdist" in package else []
        if package["source"] != {"registry": INDEX}:
            yield f"{name} comes from {package['source']}"
        if not files:
            yield f"{name} has no files"
        for file in files:
            if not SHA256.fullmatch(file.get("hash", "")):
                yield f"{name} has a file without a hash"
            if not file.get("url", "").startswith(FILES):
                yield f"{name} has a file from {file.get('url')}"


def named(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].lower()


def core() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [named(one) for one in project["dependencies"]]


def test_s35_every_package_is_pinned_by_hash_and_comes_from_the_public_index() -> None:
    lock = (ROOT / "uv.lock").read_text("utf-8")
    assert list(unpinned(lock)) == []
    assert {name.replace(".", "-") for name in core()} <= {package["name"] for package in packages(lock)}


def test_s35_the_core_needs_only_what_contributors_agreed_on() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    sentence = next(line for line in page.splitlines() if line.startswith("The core needs "))
    assert sorted(core()) == re.findall("`([^`]+)`", sentence)


def test_the_check_finds_what_is_not_pinned() -> None:
    bad = {
        "a": f'{{git = "https://example.org/a"}}\nwheels = [{{url = "{FILES}a"}}]',
        "b": f'{{registry = "{INDEX}"}}\nsdist = {{url = "https://x.org/b", hash = "sha256:{"0" * 64}"}}',
        "c": f'{{registry = "{INDEX}"}}',
        "own": '{editable = "."}',
    }
    lock = "\n".join(f'[[package]]\nname = "{name}"\nsource = {rest}' for name, rest in bad.items())
    assert [found.partition(" ")[0] for found in unpinned(lock)] == ["a", "a", "b", "c"]
