"""S-28: an import makes little out of little, whatever its files say of themselves."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.importers import unpacking
from clew.importers.kept_files import Bench
from clew.importers.unpacking import Allowance, Budget, UnpackedTooMuchError, stored_size, take_holes
from tests.importers.hostile.test_sources import codex, item
from tests.importers.programs.claude_code.test_files import Home, restored
from tests.importers.programs.claude_code.test_reader import ID
from tests.importers.programs.test_llm import EXTRAS, NEW, OLD, Log

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIB = 1024 * 1024
WHAT_TO_DO = "clew import --again --max-unpacked MIB"


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "claude")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = Log(tmp_path / "logs.db")
    yield opened
    opened.db.close()


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that were in the temporary folder whenever a snapshot of it was taken."""
    sizes: list[int] = []
    take = Bench.snapshot

    def measured(bench: Bench, *given: object) -> str:
        sizes.append(sum(file.stat().st_size for file in bench._folder.rglob("*") if file.is_file()))
        return take(bench, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Bench, "snapshot", measured)
    return sizes


def sparse(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


# -- copies of files


def test_s28_sparse_copies_of_files_do_not_fill_the_temporary_folder(
    store: clew.Store, home: Home, laid_out: list[int]
) -> None:
    home.talk()
    for name in ("aa@v1", "aa@v2", "bb@v1"):
        sparse(home.copies / name, 40 * MIB)
    report = store.import_path(home.log.path, max_unpacked=MIB)
    assert max(laid_out) <= 2 * MIB
    assert len(store.get(ID).messages()) == 4, "the conversation is imported"
    [problem] = report.problems
    assert "2 kept files were left out, as 'b'" in problem.reason
    assert "1 MiB" in problem.reason
    assert WHAT_TO_DO in problem.reason


def test_copies_that_were_left_out_come_with_an_import_that_allows_more(
    store: clew.Store, home: Home, tmp_path: Path
) -> None:
    home.talk()
    sparse(home.copies / "aa@v2", 3 * MIB)
    assert store.import_path(home.log.path, max_unpacked=0).problems
    shown = restored(store.get(ID), "file-history:u2", tmp_path / "two")
    assert shown == {"b": "b, first"}, "what was left out is not said to be gone"
    assert store.import_path(home.log.path, again=True, max_unpacked=4 * MIB).problems == ()
    store.get(ID).restore_files("file-history:u2", tmp_path / "whole")
    assert (tmp_path / "whole" / "src" / "a").stat().st_size == 3 * MIB


def test_s28_one_copy_under_many_names_counts_each_time(
    store: clew.Store, home: Home, laid_out: list[int]
) -> None:
    home.copy("aa@v1", "a")
    sparse(home.copies / "aa@v1", MIB // 2)
    home.log.user("u1")
    tracked = {f"f{n}": {"backupFileName": "aa@v1"} for n in range(100)}
    home.snapshot_of("u1", tracked).log.model("a1")
    report = store.import_path(home.log.path, max_unpacked=2 * MIB)
    assert max(laid_out) <= 3 * MIB
    assert "kept files were left out" in report.problems[0].reason


def test_a_home_with_many_versions_of_ordinary_files_needs_none_of_the_budget(
    store: clew.Store, home: Home
) -> None:
    home.log.user("u1")
    for n in range(20):
        home.copy(f"aa@v{n}", f"line {n}\n" * 2000)
        home.log.model(f"a{n}").user(f"w{n}")
        home.snapshot(f"w{n}", src__a=f"aa@v{n}")
    home.log.model("end")
    assert store.import_path(home.log.path, max_unpacked=0).problems == ()


# -- databases


def test_s28_a_fragment_that_is_named_many_times_does_not_become_a_message_of_any_size(
    store: clew.Store, log: Log
) -> None:
    log.db.executescript(OLD + EXTRAS + NEW)
    log.add("fragments", id=1, hash="h", content="x" * 50_000)
    log.say(
        "m1", None, "user", {"type": "text", "payload": json.dumps({"text_ref": [{"fragment": 1}] * 2000})}
    )
    log.add("threads", id="t1", tip_message_hash="m1")
    log.respond("r1", "hi", "hello")
    report = store.import_path(log.path, max_unpacked=MIB)
    assert WHAT_TO_DO in report.problems[0].reason
    assert report.problems[0].path == str(log.path)
    assert store.get("llm:c1").messages(), "what stands beside it is imported"
    assert store.stats().bytes < 2 * MIB


def test_s28_an_attachment_that_is_named_many_times_does_not_either(store: clew.Store, log: Log) -> None:
    log.db.executescript(OLD + EXTRAS)
    log.respond("r1", "what is it?", "a cat")
    log.add("attachments", id="a1", type="image/png", content=b"\x89PNG" * 20_000)
    log.db.executemany("INSERT INTO prompt_attachments VALUES ('r1', 'a1', ?)", [(n,) for n in range(1000)])
    log.db.commit()
    report = store.import_path(log.path, max_unpacked=MIB)
    assert WHAT_TO_DO in report.problems[0].reason


def test_what_a_database_says_twice_or_thrice_needs_none_of_the_budget(store: clew.Store, log: Log) -> None:
    log.db.executescript(OLD + EXTRAS)
    log.add("fragments", id=1, hash="h", content="long " * 20_000)
    for n in range(20):
        log.respond(f"r{n}", "about it?", "yes", of="c1")
        log.add("prompt_fragments", response_id=f"r{n}", fragment_id=1, order=0)
    assert store.import_path(log.path, max_unpacked=0).problems == ()


def test_s28_a_sparse_database_with_a_journal_is_not_copied(store: clew.Store, log: Log) -> None:
    log.db.executescript(OLD)
    log.respond("r1", "hi", "hello")
    sparse(log.path, 200 * MIB)
    Path(f"{log.path}-journal").write_bytes(b"\0" * 600)
    report = store.import_path(log.path, format="llm", max_unpacked=MIB)
    assert report.left_out == (str(log.path),)
    assert WHAT_TO_DO in report.problems[0].reason


# -- compressed files, all together


def bomb(folder: Path, size: int) -> Path:
    path = codex(folder, item("one"))
    packed = path.with_suffix(".jsonl.zst")
    packed.write_bytes(zstd.compress(path.read_bytes() + b" " * size + b"\n"))
    path.unlink()
    return packed


def test_s28_all_files_of_an_import_have_one_budget(store: clew.Store, tmp_path: Path) -> None:
    files = []
    for name in ("a", "b", "c"):
        folder = tmp_path / name
        folder.mkdir()
        files.append(bomb(folder, 2 * MIB))
    assert all(file.stat().st_size < 1000 for file in files)
    report = store.import_path(tmp_path, max_unpacked=3 * MIB)
    assert len(report.problems) == 2, "the first one fits"
    assert all("200 times its size" in one.reason and WHAT_TO_DO in one.reason for one in report.problems)
    assert store.import_path(tmp_path, max_unpacked=9 * MIB).problems == (), "they are read once more"


def test_an_import_has_a_budget_unasked(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST", MIB)
    report = store.import_path(bomb(tmp_path, 2 * MIB))
    assert "the 1 MiB that one import may unpack" in report.problems[0].reason
    assert store.sync([tmp_path]).ok is False


@pytest.mark.parametrize("name", [".aider.chat.history.md", "ggcode.jsonl"])
def test_s28_a_line_that_is_a_hole_is_not_read_into_memory(
    store: clew.Store, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    format = "aider" if name.endswith(".md") else "ggcode"
    if format == "aider":
        path.write_text("\n# aider chat started at 2026-01-02 10:11:12\n\n#### hi\n\nyes\n")
    else:
        path.write_text('{"type": "meta", "version": 1, "session_id": "s", "title": "t"}\n')
    sparse(path, 300 * MIB)
    tracemalloc.start()
    try:
        report = store.import_path(tmp_path, format=format, max_unpacked=MIB)
        assert tracemalloc.get_traced_memory()[1] < 200 * MIB
    finally:
        tracemalloc.stop()
    assert report.problems


# -- the budget itself


def test_a_file_gives_a_multiple_of_what_was_read_before_the_budget_is_asked() -> None:
    budget = Budget(100)
    with budget.spent():
        one = Allowance("a", 10, times=5)
        one.take(50)
        assert budget.left == 100
        one.take(60)
        assert budget.left == 40
        one.read(2)
        one.take(10)
        assert budget.left == 40
        with pytest.raises(UnpackedTooMuchError, match="5 times its size"):
            Allowance("b", 0, times=5).take(41)
        assert budget.left == 40, "what was refused was not taken"
        Allowance("c").take(40)
        assert budget.left == 0


def test_budgets_of_imports_inside_each_other_are_apart() -> None:
    with Budget(10).spent():
        with Budget(5).spent(), pytest.raises(UnpackedTooMuchError):
            Allowance("a").take(6)
        Allowance("a").take(6)


def test_only_what_is_stored_of_a_sparse_file_counts_as_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100_000)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert stored_size(descriptor) == 100_000
        sparse(path, 100 * MIB)
        assert stored_size(descriptor) < MIB
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 0
        with Budget(MIB).spent(), pytest.raises(UnpackedTooMuchError):
            take_holes(descriptor, path)
    finally:
        os.close(descriptor)


def test_s28_a_document_that_is_a_hole_is_not_read_into_memory(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"sessionId": "s", "title": "t", "history": []}))
    sparse(path, 500 * MIB)
    with pytest.raises(clew.InvalidError, match="times its size"):
        store.import_path(path, format="continue", strict=True)
