"""A copy of the checkout in which bugs are planted, with an environment of its own.

The checkout is never changed. Every process that a test starts in the copy imports `clew` from the copy, also
one with an empty environment.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.planted.plants import Plant

PROBE: Final = """\
import os

_seen = set()


def reached(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test and (number, test) not in _seen:
        _seen.add((number, test))
        with open({file!r}, "a", encoding="utf-8") as file:
            file.write(f"{{number}} {{test}}\\n")
"""
"""Notes which test reached which plant. Children inherit the name of the test."""


PROFILE: Final = "planted"
SETTINGS: Final = f"""
from hypothesis import Phase

settings.register_profile(
    "{PROFILE}", settings.get_profile("clew"), derandomize=True, phases=[Phase.explicit, Phase.generate]
)
"""
"""The same examples on every run, and no search for smaller ones: that something failed is all we ask."""


class Copy:
    """The checkout as it is, in another directory."""

    def __init__(self, checkout: Path, directory: Path) -> None:
        self.checkout, self.root = checkout, directory
        self.source = directory / "src" / "clew"
        self.python = directory / ".venv" / "bin" / "python"
        self._changes = 0

    def make(self) -> None:
        for name in files_of(self.checkout):
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.checkout / name, target, follow_symlinks=False)
        modules = self.checkout / "web" / "node_modules"
        if modules.exists():
            (self.root / "web" / "node_modules").symlink_to(modules)
        with open(self.root / "tests" / "conftest.py", "a", encoding="utf-8") as file:
            file.write(SETTINGS)
        self._make_environment()
        shown = subprocess.run(
            [self.python, "-c", "import clew; print(clew.__file__)"],
            cwd="/", env={}, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        if Path(shown).resolve() != (self.source / "__init__.py").resolve():
            raise RuntimeError(f"a test in the copy would import {shown}")

    def _make_environment(self) -> None:
        """A small one in front of that of the checkout."""
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", self.root / ".venv"], check=True, cwd=self.root
        )
        packages = next((self.root / ".venv" / "lib").glob("python*/site-packages"))
        behind = sysconfig.get_path("purelib")
        lines = [str(self.root / "src"), f"import site; site.addsitedir({behind!r})"]
        (packages / "first.pth").write_text("\n".join(lines) + "\n")
        here = self.python.parent
        for program in Path(sysconfig.get_path("scripts")).iterdir():
            if program.is_file() and not (here / program.name).exists():
                (here / program.name).symlink_to(program)
        (here / "clew").unlink(missing_ok=True)
        start = f"#!{self.python}\nimport sys\n\nfrom clew.cli import main\n\nsys.exit(main())\n"
        (here / "clew").write_text(start)
        (here / "clew").chmod(0o755)

    def write(self, file: str, text: str) -> None:
        """Change a file. Its new time tells Python that what it compiled is out of date."""
        path = self.source / file
        path.write_text(text, encoding="utf-8")
        self._changes += 2
        os.utime(path, (1_600_000_000 + self._changes,) * 2)

    def restore(self, file: str) -> None:
        self.write(file, (self.checkout / "src" / "clew" / file).read_text(encoding="utf-8"))

    def plant(self, plant: Plant) -> None:
        self.write(plant.file, plant.applied_to(self.checkout / "src" / "clew"))

    def add_probes(self, plants: Iterable[tuple[int, Plant]], notes: Path) -> list[str]:
        """Let the function of each plant note the test that runs it; the files that were changed."""
        self.write("_probe.py", PROBE.format(file=str(notes)))
        places: dict[str, list[tuple[int, int, int]]] = {}
        for number, plant in plants:
            file, _, function = (plant.reach or f"{plant.file}:").partition(":")
            text = (self.checkout / "src" / "clew" / file).read_text(encoding="utf-8")
            line, column = probe_place(text, function, text[: text.find(plant.old)].count("\n") + 1)
            places.setdefault(file, []).append((line, column, number))
        for file, found in places.items():
            lines = (self.checkout / "src" / "clew" / file).read_text(encoding="utf-8").split("\n")
            for line, column, number in sorted(found, reverse=True):
                probe = f'{" " * column}__import__("clew._probe", fromlist=["_"]).reached({number})'
                lines.insert(line - 1, probe)
            self.write(file, "\n".join(lines))
        return [*places, "_probe.py"]


def probe_place(text: str, function: str, line: int) -> tuple[int, int]:
    """Where a statement may stand that runs first in a function: line and column. `function` empty: the
    innermost one around a line. ValueError: there is none."""
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.name == function if function else node.lineno <= line <= (node.end_lineno or 0))
    ]
    if not found:
        raise ValueError(f"no function {function or f'around line {line}'}")
    body = max(found, key=lambda node: node.lineno).body
    has_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    first = body[1] if has_text and len(body) > 1 else body[0]
    return first.lineno, first.col_offset


def files_of(checkout: Path) -> list[str]:
    """All that git would commit, as it is now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout
    return [name for name in sorted(set(names.split("\0"))) if name and (checkout / name).is_file()]


def digest_of(checkout: Path) -> str:
    """Of the code and the tests: results belong to them."""
    digest = hashlib.sha256()
    for name in files_of(checkout):
        if name.startswith(("src/", "tests/")):
            digest.update(name.encode() + b"\0" + (checkout / name).read_bytes() + b"\0")
    return digest.hexdigest()
