"""Directory trees to keep: generated text that compresses like source code, and edits of it, all seeded."""

from __future__ import annotations

import random
import shutil
import string
import subprocess
import sysconfig
import time
from pathlib import Path

FILE_BYTES = 8000
FILES_A_DIRECTORY = 20
DIRECTORIES_A_PACKAGE = 25
REAL_AT_MOST = 20_000
"""Files of the real tree; more would take the script longer than the numbers are worth."""
SETTLED = 2.2
"""Seconds after which nobody has to read a file again because its timestamp is too young to be trusted."""

_SHAPES = (
    "    %s = %s(%s, %s)\n",
    "    if %s is None and %s:\n",
    "        return %s.%s(%s)\n",
    "def %s(%s: int, %s: str) -> None:\n",
    '    raise ValueError(f"{%s} is not a %s")\n',
    "        for %s in %s.%s:\n",
    "    # %s of the %s, because %s\n",
    "from %s import %s\n",
    "\n",
    "            %s[%s] += len(%s)\n",
)


def make(root: Path, files: int, *, seed: str = "tree", file_bytes: int = FILE_BYTES) -> None:
    """A tree of so many text files, twenty in a directory."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 12))) for _ in range(20_000)]
    for number in range(files):
        directory = root / _directory(number // FILES_A_DIRECTORY)
        if number % FILES_A_DIRECTORY == 0:
            directory.mkdir(parents=True)
        (directory / f"file_{number}.py").write_bytes(_text(chance, words, file_bytes))


def _directory(number: int) -> Path:
    package, part = divmod(number, DIRECTORIES_A_PACKAGE)
    return Path(f"package_{package}") / f"part_{part}"


def _text(chance: random.Random, words: list[str], about: int) -> bytes:
    """Lines of few shapes over the names of this file, as in source code: a third of its size compressed."""
    lines = max(1, round(about * chance.uniform(0.4, 1.6) / 39))
    shape = "".join(chance.choices(_SHAPES, k=lines))
    names = chance.choices(words, k=80)
    return (shape % tuple(chance.choices(names, k=shape.count("%s")))).encode()


def copy(source: Path, target: Path) -> None:
    """The same tree again, for another contender: who restores changes inodes and times."""
    subprocess.run(["cp", "-a", "--reflink=never", str(source), str(target)], check=True)


def copy_libraries(target: Path) -> int:
    """A real tree: the libraries of this Python, without what is compiled on the way. The number of files."""
    count = 0
    for source in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*")):
        if count >= REAL_AT_MOST or "__pycache__" in source.parts or not source.is_file():
            continue
        place = target / source.relative_to(sysconfig.get_paths()["purelib"])
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
        count += 1
    return count


def settle() -> None:
    """Let the timestamps of what was just written become old."""
    time.sleep(SETTLED)


class Editor:
    """Changes a few files of a tree, in place, as an agent does. The same seed: the same changes."""

    def __init__(self, root: Path, seed: str = "edits") -> None:
        self._root = root
        self._files = sorted(str(file.relative_to(root)) for file in root.rglob("*.py"))
        self._chance = random.Random(seed)
        self._edits = 0

    def edit(self, count: int) -> dict[Path, bytes]:
        """Replace a line in each of so many files; what they were before."""
        before = {}
        for name in self._chance.sample(self._files, count):
            file = self._root / name
            before[file] = file.read_bytes()
            lines = before[file].splitlines(keepends=True) or [b""]
            self._edits += 1
            lines[self._chance.randrange(len(lines))] = b"    edited = %d\n" % self._edits
            file.write_bytes(b"".join(lines))
        return before
