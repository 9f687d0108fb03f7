"""The page on the architecture names what is there and nothing else, and the rules of the house hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "explanation" / "architecture.md"
MAP = ROOT / "CONTRIBUTING.md"
SOURCE = ROOT / "src" / "clew"
TOPS = (SOURCE, SOURCE.parent, ROOT)


def packages(top: Path) -> list[Path]:
    """Folders that hold code, the top one too."""
    return sorted({path.parent for path in top.rglob("*.py")})


@pytest.mark.parametrize("page", [PAGE, MAP], ids=lambda page: page.stem)
def test_every_module_that_the_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text("utf-8")))
    assert named, "the page names no module: did its form change?"
    missing = sorted(name for name in named if not any((top / name).exists() for top in TOPS))
    assert not missing


@pytest.mark.parametrize("page", [PAGE, MAP], ids=lambda page: page.stem)
def test_every_package_is_named_in_the_page(page: Path) -> None:
    named = set(re.findall(r"`(?:clew/)?((?:[a-z_]+/)+)`", page.read_text("utf-8")))
    own = {f"{folder.relative_to(SOURCE)}/" for folder in packages(SOURCE) if folder != SOURCE}
    depth = 2 if page is PAGE else 1
    assert {name for name in own if name.count("/") <= depth} <= named
    assert not sorted(name for name in named if not any((top / name).is_dir() for top in TOPS))


def test_no_file_carries_the_name_of_its_folder() -> None:
    """`langgraph/langgraph_put.py` says its folder twice; `search/search.py` is the heart of its package."""
    repeated = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.stem != path.parent.name
        and (path.stem.startswith(f"{path.parent.name}_") or path.stem.endswith(f"_{path.parent.name}"))
    ]
    assert repeated == []
