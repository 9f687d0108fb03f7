"""S-28: a sparse file is as large as somebody says; what is not on the disk is not read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

import clew
from clew.core.transfer import jsonl_file
from clew.importers.contract import Place, Problem
from clew.importers.reading import files, holes, jsonlines
from clew.importers.reading.files import zstd
from clew.importers.reading.jsonlines import Line, Reached, read_lines
from tests.importers.hostile.test_many_values import count
from tests.importers.hostile.test_sources import codex, item

MIB = 1024 * 1024
VAST = 1 << 40


class Counting(io.FileIO):
    """Counts the bytes that are read of all files."""

    read_bytes = 0

    def readinto(self, buffer: object) -> int | None:
        found = super().readinto(buffer)  # type: ignore[arg-type]
        Counting.read_bytes += found or 0
        if Counting.read_bytes > 500 * MIB:
            raise AssertionError("the hole is read")
        return found

    def readall(self) -> bytes:
        raise AssertionError("a file is read whole")


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    def open_file(path: str | os.PathLike[str], buffering: int = -1) -> IO[bytes]:
        raw = Counting(os.fspath(path))
        return raw if buffering == 0 else io.BufferedReader(raw, buffering if buffering > 0 else 8192)

    Counting.read_bytes = 0
    for module in (files, jsonlines, jsonl_file):
        monkeypatch.setattr(module, "open_file", open_file)
    return Counting


def with_hole(path: Path, size: int, *behind: bytes) -> Path:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + size)
        file.seek(0, os.SEEK_END)
        for line in behind:
            file.write(line)
    return path


def line_of(text: str, folder: Path) -> bytes:
    (folder / "other").mkdir()
    return codex(folder / "other", item(text)).read_bytes().splitlines(keepends=True)[-1]


IMPORTS: dict[str, Callable[[clew.Store, Path], clew.ImportReport]] = {
    "import": lambda store, path: store.import_path(path),
    "sync": lambda store, path: store.sync([path]),
}


@pytest.mark.parametrize("way", IMPORTS)
def test_s28_a_hole_at_the_end_of_a_log_is_not_read(
    store: clew.Store, tmp_path: Path, counted: type[Counting], way: str
) -> None:
    path = with_hole(codex(tmp_path, item("one")), VAST)
    problems = IMPORTS[way](store, path).problems
    assert counted.read_bytes < 100 * MIB
    assert count(store) == 1, "what stands before it is imported"
    assert all("a hole that was never written" in problem.reason for problem in problems)
    assert len(problems) == (way == "import"), "one that follows waits for the end of the line"


@pytest.mark.parametrize("way", IMPORTS)
def test_s28_what_stands_behind_a_hole_is_imported(
    store: clew.Store, tmp_path: Path, counted: type[Counting], way: str
) -> None:
    path = codex(tmp_path, item("one"))
    (tmp_path / "log").mkdir()
    with_hole(path, VAST, b"\n", line_of("two", tmp_path))
    path = path.rename(tmp_path / "log" / path.name)
    [problem] = IMPORTS[way](store, path).problems
    assert counted.read_bytes < 100 * MIB
    assert count(store) == 2
    assert problem.line == 3
    assert f"the line has {VAST + 1} bytes, of which" in problem.reason
    assert "a hole that was never written" in problem.reason


def test_s28_many_holes_are_not_read_either(tmp_path: Path, counted: type[Counting]) -> None:
    path = codex(tmp_path, item("one"))
    behind = line_of("two", tmp_path)
    for _ in range(50):
        with_hole(path, 100 * MIB, b"\n", behind)
    found, problems, reached = read(path)
    assert counted.read_bytes < 50 * 2 * MIB, "a buffer for each hole"
    assert (len(found), len(problems)) == (52, 50)
    size = path.stat().st_size
    assert reached.offset == size
    assert found[-1].offset == size - len(behind), "places are those in the file"


def test_a_small_hole_as_a_crash_leaves_it_costs_nothing(tmp_path: Path) -> None:
    path = codex(tmp_path, item("one"))
    with_hole(path, holes.LARGE // 2, line_of("two", tmp_path))
    found, problems, _ = read(path)
    assert (len(found), problems) == (3, [])


def test_s28_a_place_inside_of_a_hole_leads_on(tmp_path: Path, counted: type[Counting]) -> None:
    path = codex(tmp_path, item("one"))
    start = path.stat().st_size
    behind = line_of("two", tmp_path)
    with_hole(path, VAST, b"\n", behind)
    found, _, reached = read(path, after=Place(start + 10 * MIB, 2))
    assert counted.read_bytes < 20 * MIB
    assert [line.number for line in found] == [4]
    assert reached.offset == path.stat().st_size


def test_s28_a_packed_file_of_holes_is_refused(store: clew.Store, tmp_path: Path) -> None:
    path = codex(tmp_path, item("one"))
    packed = path.with_suffix(".jsonl.zst")
    packed.write_bytes(zstd().compress(path.read_bytes()))
    path.unlink()
    with pytest.raises(clew.InvalidError, match="--max-unpacked"):
        store.import_path(with_hole(packed, VAST))


def test_s28_a_file_of_clew_with_holes_is_refused(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with clew.open("memory:") as other:
        other.create("s").append({"role": "user", "content": "hi"})
        other.export("s", "jsonl", path=path)
    with pytest.raises(clew.InvalidError, match="--max-unpacked"):
        store.import_path(with_hole(path, VAST))


def read(path: Path, after: Place | None = None) -> tuple[list[Line], list[Problem], Reached]:
    problems: list[Problem] = []
    reached = Reached()
    found = list(read_lines(path, problems.append, lambda _: None, after=after, reached=reached))
    return found, problems, reached
