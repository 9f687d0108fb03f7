"""What lies in directories, and in the places where programs write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clew
from clew.importers import OWN
from tests.importers.programs import test_ggcode as ggcode
from tests.importers.programs import test_picoclaw as picoclaw
from tests.importers.programs import test_tingly_box as tingly
from tests.importers.readers import tree_bytes
from tests.importers.test_contexts import STOPPED


def test_a_directory_with_files_of_all_formats_is_imported_once_and_left_as_it_is(
    store: clew.Store, tmp_path: Path
) -> None:
    for format, write in STOPPED.items():
        (tmp_path / format).mkdir()
        write(tmp_path / format)
    with clew.open("memory:") as other:
        other.session("ours").append({"role": "user", "content": "hi"})
        other.export("ours", "jsonl", path=tmp_path / "ours.jsonl")
    before = tree_bytes(tmp_path)
    trial = store.import_path(tmp_path, dry_run=True)
    assert len(store.list()) == 0
    first = store.import_path(tmp_path)
    again = store.import_path(tmp_path)
    assert sorted(session.format for session in first.sessions) == sorted([OWN, *STOPPED])
    assert len(store.list()) == len(trial.sessions) == len(first.sessions)
    assert {session.state for session in again.sessions} == {"unchanged"}
    assert store.verify().ok
    assert tree_bytes(tmp_path) == before


def test_a_damaged_line_is_in_the_report_and_strict_refuses(store: clew.Store, tmp_path: Path) -> None:
    path = picoclaw.log(tmp_path, picoclaw.ONE, "torn", picoclaw.TWO)
    with pytest.raises(clew.InvalidError, match="line 2"):
        store.import_path(path, strict=True)
    assert len(store.list()) == 0
    report = store.import_path(path)
    assert [(problem.path, problem.line) for problem in report.problems] == [(str(path), 2)]
    assert store.get("picoclaw:a_b").messages() == [picoclaw.ONE, picoclaw.TWO]


def test_the_places_of_a_home_directory_are_where_the_programs_write(tmp_path: Path) -> None:
    from clew.importers.detect import scan_places

    log = ggcode.log(tmp_path / ".ggcode" / "sessions", ggcode.META)
    (log.parent / "index.json").write_text(json.dumps([{"id": "x"}]))
    picoclaw.log(tmp_path / ".picoclaw" / "workspace" / "sessions", picoclaw.ONE, meta={})
    tingly.newest_form(tmp_path / ".tingly-box", "s1")
    found = {place.format: place.files for place in scan_places(tmp_path)}
    assert found == {"ggcode": 1, "picoclaw": 1, "tingly-box": 1}
