"""Files of openrouter, picoclaw, ggcode, tingly-box and ductwork are told by their content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clew
from tests.importers.programs import test_ductwork as ductwork
from tests.importers.programs import test_ggcode as ggcode
from tests.importers.programs import test_openrouter as openrouter
from tests.importers.programs import test_picoclaw as picoclaw
from tests.importers.programs import test_tingly_box as tingly
from tests.importers.readers import tree_bytes, write_json, write_lines


def everything(folder: Path) -> dict[str, list[Path]]:
    """One file of each form, under names that say nothing."""
    document = {"version": 1, "items": {"t2": tingly.item("t2", tingly.spoken("hi"))}}
    old = picoclaw.legacy(folder / "2", picoclaw.ONE, key="old")
    return {
        "openrouter": [openrouter.state_file(folder / "1", openrouter.session())],
        "picoclaw": [old, picoclaw.log(folder / "3", picoclaw.ONE, meta={})],
        "ggcode": [ggcode.log(folder / "4", ggcode.META, ggcode.message(ggcode.ONE))],
        "tingly-box": [
            tingly.database(folder / "5" / "x", tingly.SESSIONS, tingly.MESSAGES, tingly.row("t1")),
            write_json(folder / "6" / "x", document),
            tingly.newest_form(folder / "7", "t3"),
            write_lines(folder / "8" / "t4.jsonl", tingly.spoken("hi")),
        ],
        "ductwork": [write_json(folder / "9" / "x.json", ductwork.run())],
    }


def test_a_directory_with_all_of_them_is_imported_once_and_left_as_it_is(
    store: clew.Store, tmp_path: Path
) -> None:
    everything(tmp_path)
    before = tree_bytes(tmp_path)
    trial = store.import_path(tmp_path, dry_run=True)
    assert len(store.list()) == 0
    first = store.import_path(tmp_path)
    again = store.import_path(tmp_path)
    assert len(store.list()) == len(trial.sessions) == len(first.sessions) == 9
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
