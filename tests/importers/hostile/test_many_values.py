"""S-28: JSON that is made of many tiny values takes twenty times its size in memory: it is not decoded."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew.core.messages import value_count
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.importers.reading.files import zstd
from tests.importers.hostile.test_sources import codex, item
from tests.importers.programs import test_continue_dev, test_goose, test_opencode, test_openrouter
from tests.importers.programs.test_llm import EXTRAS, NEW, OLD, Log
from tests.support.rows import each_row

LIMIT = 2000
TINY = "[" + "{}," * LIMIT + "{}]"
TEXT = json.dumps('a, b: [{"c"' * (len(TINY) // 12))
"""As long as the other, with as many marks, but one value."""
REASON = "more than 2,000 values"


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_count, "MOST_VALUES", LIMIT)


def count(store: clew.Store) -> int:
    [session] = store.list()
    return len(store.get(session.id).messages())


# -- lines


def a_line(folder: Path, value: str) -> Path:
    path = codex(folder, item("one"))
    last = json.dumps(item("three", more=None))
    with path.open("a") as file:
        file.write(json.dumps(item("two", more="?")).replace('"?"', value) + "\n" + last + "\n")
    return path


def test_s28_a_line_of_many_values_costs_itself(store: clew.Store, tmp_path: Path) -> None:
    path = a_line(tmp_path, TINY)
    [problem] = store.import_path(path).problems
    assert (problem.path, problem.line) == (str(path), 3)
    assert REASON in problem.reason
    assert count(store) == 2


def test_a_line_of_one_long_text_is_imported(store: clew.Store, tmp_path: Path) -> None:
    assert store.import_path(a_line(tmp_path, TEXT)).problems == ()
    assert count(store) == 3


def test_s28_a_compressed_line_of_many_values_costs_itself(store: clew.Store, tmp_path: Path) -> None:
    path = a_line(tmp_path, TINY)
    packed = path.with_suffix(".jsonl.zst")
    packed.write_bytes(zstd().compress(path.read_bytes()))
    path.unlink()
    [problem] = store.import_path(packed).problems
    assert (problem.line, REASON in problem.reason) == (3, True)


def test_s28_a_line_that_python_would_mend_is_counted_as_well(store: clew.Store, tmp_path: Path) -> None:
    [problem] = store.import_path(a_line(tmp_path, TINY[:-1] + ", NaN]")).problems
    assert REASON in problem.reason


# -- documents, and values in rows


def a_document(folder: Path, value: str) -> Path:
    path = test_continue_dev.session_file(folder, [test_continue_dev.ASKED], more="?")
    path.write_text(path.read_text().replace('"?"', value))
    return path


def members(folder: Path, value: str) -> Path:
    path = test_openrouter.state_file(folder, test_openrouter.session(more="?"))
    path.write_text(path.read_text().replace('"?"', value))
    return path


def a_value_in_goose(folder: Path, value: str) -> Path:
    said = [{"type": "text", "text": "hi", "more": "?"}]
    path = test_goose.database(folder / "sessions.db", [test_goose.say("user", "hi")])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE messages SET content_json = ?", (json.dumps(said).replace('"?"', value),))
    return path


def a_value_in_opencode(folder: Path, value: str) -> Path:
    database = test_opencode.Database(folder / "opencode.db")
    database.add("s", test_opencode.user(test_opencode.text("hi", more="?")))
    database.db.execute("UPDATE part SET data = replace(data, '\"?\"', ?)", (value,))
    database.db.commit()
    database.db.close()
    return database.path


def a_value_in_llm(folder: Path, value: str) -> Path:
    log = Log(folder / "logs.db")
    log.db.executescript(OLD + EXTRAS + NEW)
    log.say("m1", None, "user", {"type": "text", "text": "hi", "payload": f'{{"more": {value}}}'})
    log.add("threads", id="t1", tip_message_hash="m1")
    log.db.commit()
    log.db.close()
    return log.path


HOLDERS: list[Callable[[Path, str], Path]] = [
    a_document,
    members,
    a_value_in_goose,
    a_value_in_opencode,
    a_value_in_llm,
]


@pytest.mark.parametrize("holder", HOLDERS)
def test_s28_a_value_of_many_values_is_left_out_and_told(
    store: clew.Store, tmp_path: Path, holder: Callable[[Path, str], Path]
) -> None:
    path = holder(tmp_path, TINY)
    [problem] = store.import_path(tmp_path).problems
    assert problem.path == str(path)
    assert REASON in problem.reason
    assert "not valid JSON" not in problem.reason


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_value_of_one_long_text_is_imported(
    store: clew.Store, tmp_path: Path, holder: Callable[[Path, str], Path]
) -> None:
    holder(tmp_path, TEXT)
    assert store.import_path(tmp_path).problems == ()
    assert count(store) >= 1


# -- Clew's own files


def exported(path: Path, value: str) -> Path:
    with clew.open("memory:") as other:
        other.create("s").append({"role": "user", "content": "hi", "more": json.loads(value)})
        other.export("s", "jsonl", path=path)
    return path


def test_s28_a_file_of_clew_is_counted_line_by_line(store: clew.Store, tmp_path: Path) -> None:
    path = exported(tmp_path / "s.jsonl", TINY)
    lines = path.read_bytes().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if TINY.encode() in line)
    with pytest.raises(clew.InvalidError, match=rf"s\.jsonl, line {number}: .*{REASON}"):
        store.import_path(path)
    assert not list(store.list())


def test_a_file_of_clew_may_hold_one_long_text(store: clew.Store, tmp_path: Path) -> None:
    assert store.import_path(exported(tmp_path / "s.jsonl", TEXT)).problems == ()


# -- the count


@each_row(
    ("text", "is_refused"),
    [
        (b"[" + b"1," * LIMIT + b"1]", True),
        (b"[" * (LIMIT + 1), True),
        (b'{"a":' * (LIMIT + 1), True),
        (b'["' + b"1," * LIMIT + b'"]', False),
        (b'["' + b'\\",' * LIMIT + b'"]', False),
        (b'["torn ' + b'\\",' * LIMIT, False),
        (b'["' + b"\\\\" * LIMIT + b'",' + b"1," * LIMIT, True),
        (b'","' * (LIMIT + 2), True),
        (b"," * LIMIT, False),
        (b'{"image": "' + b"QUJD" * LIMIT + b'"}', False),
    ],
)
def test_marks_inside_of_texts_do_not_count(text: bytes, is_refused: bool) -> None:
    for given in (text, text.decode()):
        if is_refused:
            with pytest.raises(TooManyValuesError):
                check_value_count(given)
        else:
            check_value_count(given)


MEASURE = """
import resource, sys, pathlib, clew
path = pathlib.Path(sys.argv[1])
with clew.open("memory:") as store:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = store.import_path(path)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
unit = 1024 if sys.platform == "darwin" else 1
print((after - before) // unit // 1024, len(report.problems))
"""


def test_s28_a_line_of_ten_million_values_is_not_decoded(tmp_path: Path) -> None:
    path = a_line(tmp_path, "[" + "{}," * 5_000_000 + "{}]")
    told = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    grown, problems = map(int, told.stdout.split())
    assert problems == 1
    assert grown < 200, "decoded, the line takes 440 MiB"
