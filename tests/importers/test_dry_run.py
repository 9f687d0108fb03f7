"""A dry run says what the import does: on the recorded home, as it is, as it grew, and again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import clew
from clew.importers import run
from clew.importers.detect import known_places
from clew.model.transfer import ImportReport
from tests.home.make import environment, make_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = make_home(tmp_path / "home")
    for name, value in environment(home).items():
        if name not in ("PATH", "PYTHONPATH"):
            monkeypatch.setenv(name, value)
    return home


def scan(store: clew.Store, *, dry_run: bool, again: bool = False) -> ImportReport:
    places = [run.Place(path, format, is_guess=True) for format, path in known_places()]
    return run.import_places(
        lambda *, writes: store,
        places,
        dry_run=dry_run,
        again=again,
        rename=False,
        strict=False,
        on_progress=None,
    )


def told(report: ImportReport) -> list[tuple[object, ...]]:
    return [
        (one.id, one.source, one.state, one.entries, one.messages, one.created_at, one.updated_at)
        for one in report.sessions
    ]


def check_same(store: clew.Store, *, again: bool = False) -> ImportReport:
    dry = scan(store, dry_run=True, again=again)
    real = scan(store, dry_run=False, again=again)
    assert told(dry) == told(real)
    assert (dry.new, dry.grown, dry.unchanged, dry.entries) == (
        real.new, real.grown, real.unchanged, real.entries
    )  # fmt: skip
    assert (dry.redacted, dry.files, dry.files_read) == (real.redacted, real.files, real.files_read)
    assert [problem.reason for problem in dry.problems] == [problem.reason for problem in real.problems]
    return real


def test_a_dry_run_counts_what_the_import_counts(home: Path) -> None:
    """It takes more than a second: the recorded home is read eight times."""
    whole = {path: path.read_bytes() for path in home.rglob("*.jsonl")}
    for path, content in whole.items():
        lines = content.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2 + 1]))
    with clew.open("memory:") as store:
        assert check_same(store).new
        assert not check_same(store).entries, "the second time there is nothing new"
        for path, content in whole.items():
            path.write_bytes(content)
        assert check_same(store).grown
        assert not check_same(store, again=True).entries


def test_a_session_in_two_files_counts_once_in_a_dry_run(home: Path) -> None:
    (first, *_) = sorted(home.glob(".claude/projects/*/*.jsonl"))
    other = first.parent.with_name("-elsewhere") / first.name
    other.parent.mkdir()
    other.write_bytes(first.read_bytes())
    with clew.open("memory:") as store:
        check_same(store)


def test_a_dry_run_knows_the_head_that_the_user_moved(home: Path) -> None:
    (path, *_) = sorted(home.glob(".claude/projects/*/*.jsonl"))
    content = path.read_bytes()
    path.write_bytes(b"".join(content.splitlines(keepends=True)[:-4]))
    with clew.open("memory:") as store:
        (one, *_) = store.import_path(path).sessions
        store.get(one.id).rewind(1)
        path.write_bytes(content)
        os.utime(path)
        dry, real = store.import_path(path, dry_run=True), store.import_path(path)
        assert told(dry) == told(real)
