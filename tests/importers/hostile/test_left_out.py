"""Nothing that looks like a session is passed over without a word, and nothing else becomes one."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.importers import OWN, READERS
from clew.importers.detect import look, scan_places
from tests.backends.sqlite.children import as_somebody_else
from tests.faults.crash.common import quick_directory
from tests.importers.hostile.test_lookalikes import SAMPLES
from tests.importers.readers import write_json, write_lines
from tests.support.children import call
from tests.support.rows import each_row

SAID = {"role": "user", "content": "hi"}
LONG = "x" * 200_000
META = {"key": "k", "summary": "we spoke of cookies", "skip": 0, "count": 0}


def left_out(path: Path, **options: Any) -> list[str]:
    """The names of what was not taken; each has a reason, and nothing came of it."""
    with clew.open("memory:") as store:
        report = store.import_path(path, **options)
        sources = {session.source for session in report.sessions}
    assert set(report.left_out) <= {problem.path for problem in report.problems}
    assert sources.isdisjoint(report.left_out)
    return [Path(name).name for name in report.left_out]


# -- taken, though it is strange


def lengthened(text: str) -> str:
    """The same log with a first line that is longer than what a glance takes in, its keys as far behind."""
    first, *rest = text.splitlines()
    return "\n".join([json.dumps({"a_long_field": LONG, **json.loads(first)}), *rest]) + "\n"


@each_row("name", [name for name in SAMPLES if name.endswith(".jsonl")])
def test_a_log_whose_first_line_is_very_long_is_known(tmp_path: Path, name: str) -> None:
    format, text = SAMPLES[name]
    (tmp_path / name).write_text(lengthened(text))
    write_json(tmp_path / f"{Path(name).stem}.meta.json", META)
    assert [job.format for job in look(tmp_path, None).jobs] == [format]


def test_a_log_that_tells_what_it_is_behind_a_very_long_line_is_known(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", {"type": "mode", "mode": LONG}, *SAMPLES["a.jsonl"][1].splitlines())
    assert [job.format for job in look(tmp_path, None).jobs] == ["claude-code"]


@each_row("content", [b"", b"\n\n", b"\0\0\0\0", b'{"role": "user", "cont'])
def test_a_picoclaw_log_that_a_crash_emptied_still_has_its_summary(tmp_path: Path, content: bytes) -> None:
    with clew.open("memory:") as store:
        (tmp_path / "a.jsonl").write_bytes(content)
        write_json(tmp_path / "a.meta.json", META)
        report = store.import_path(tmp_path)
        assert [session.id for session in report.sessions] == ["picoclaw:k"]
        assert store.get("picoclaw:k").summary == "we spoke of cookies"


def test_a_picoclaw_log_with_a_field_that_nobody_knows_is_taken(store: clew.Store, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", {**SAID, "mood": "good"})
    write_json(tmp_path / "a.meta.json", META)
    store.import_path(tmp_path)
    assert store.get("picoclaw:k").messages() == [{**SAID, "mood": "good"}]


def test_what_another_program_keeps_beside_such_settings_is_not_picoclaws(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", {"level": "info"})
    write_json(tmp_path / "a.meta.json", META)
    with pytest.raises(clew.InvalidError, match="that can be imported"):
        look(tmp_path, None)


# -- not taken, and named


UNKNOWN: dict[str, bytes] = {
    "new field.jsonl": json.dumps({**SAID, "mood": "good"}).encode(),
    "nested.jsonl": json.dumps({"kind": 7, "message": SAID}).encode(),
    "newer.json": json.dumps({"version": 9, "key": "k", "messages": [SAID]}).encode(),
    "list.json": json.dumps([SAID, SAID], indent=1).encode(),
    "zeros.jsonl": b"\0" * 5000,
    "torn.jsonl": b'{"type": "user", "uu',
    "packed.jsonl.zst": b"\x28\xb5\x2f\xfd damaged",
    "cut.db": b"SQLite format 3\0" + b"\xff" * 90,
    "sessions.db": b"smashed" * 2000,
}


@each_row("name", UNKNOWN)
def test_what_looks_like_a_session_and_is_not_taken_is_named(tmp_path: Path, name: str) -> None:
    with clew.open("memory:") as store:
        (tmp_path / name).write_bytes(UNKNOWN[name])
        (tmp_path / "known.jsonl").write_text(SAMPLES["a.jsonl"][1])
        (tmp_path / "notes.txt").write_text("not a session")
        (tmp_path / "empty.jsonl").touch()
        assert left_out(tmp_path) == [name]
        assert left_out(tmp_path, dry_run=True) == [name]
        with pytest.raises(clew.InvalidError, match=name):
            store.import_path(tmp_path, strict=True)
        with pytest.raises(clew.InvalidError, match=name):
            store.import_path(tmp_path / name)
        assert len(store.list()) == 0


def test_a_directory_of_which_nothing_is_taken_is_a_report_too(tmp_path: Path) -> None:
    for name, content in UNKNOWN.items():
        (tmp_path / name).write_bytes(content)
    assert sorted(left_out(tmp_path)) == sorted(UNKNOWN)


def test_a_log_of_ours_whose_first_line_is_damaged_is_named(store: clew.Store, tmp_path: Path) -> None:
    store.session("mine").append(SAID)
    store.export("mine", "jsonl", path=tmp_path / "mine.jsonl")
    whole = (tmp_path / "mine.jsonl").read_text()
    (tmp_path / "mine.jsonl").write_text("#" + whole)
    assert left_out(tmp_path) == ["mine.jsonl"]


def exported(path: Path, words: str) -> list[str]:
    with clew.open("memory:") as store:
        for word in words:
            store.session(path.stem).append({"role": "user", "content": f"said {word}"})
        store.export(path.stem, "jsonl", path=path)
    return path.read_text().splitlines(keepends=True)


def test_a_damaged_line_of_a_log_of_ours_is_named_and_the_rest_is_imported(
    store: clew.Store, tmp_path: Path
) -> None:
    path = tmp_path / "mine.jsonl"
    whole = exported(path, "abc")
    path.write_text("".join(whole[:-1]) + whole[-1].replace("said c", "said C"))
    with pytest.raises(clew.InvalidError, match=f"line {len(whole)}"):
        store.import_path(path, strict=True)
    report = store.import_path(path)
    assert [problem.line for problem in report.problems] == [len(whole)]
    assert [message["content"] for message in store.get("mine").messages()] == ["said a", "said b"]


def test_a_log_of_ours_that_can_not_be_imported_costs_only_itself(store: clew.Store, tmp_path: Path) -> None:
    whole = exported(tmp_path / "mine.jsonl", "abc")
    (tmp_path / "mine.jsonl").write_text("".join(line.replace("said b", "said B") for line in whole))
    exported(tmp_path / "other.jsonl", "d")
    report = store.import_path(tmp_path)
    assert [session.id for session in report.sessions] == ["other"]
    assert report.left_out == (str(tmp_path / "mine.jsonl"),)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("/proc/self/mem")  # a file, and nobody can read its beginning
    assert left_out(tmp_path) == ["a.jsonl"]
    assert left_out(tmp_path, format="claude-code") == ["a.jsonl"]
    with clew.open("memory:") as store, pytest.raises(clew.InvalidError, match="cannot be read"):
        store.import_path(tmp_path / "a.jsonl")


def told_to_a_stranger(place: str) -> Any:
    assert left_out(Path(place)) == []  # root reads all; and all modules are loaded while they can be
    return as_somebody_else(_told, place)


def _told(place: str) -> tuple[list[list[str]], int]:
    told = [left_out(Path(place)), left_out(Path(place), format="claude-code")]
    return [sorted(names) for names in told], len(scan_places(Path(place, "home")))


@pytest.mark.needs("root")
def test_files_and_directories_that_may_not_be_read_are_named() -> None:
    with quick_directory() as directory:
        directory.chmod(0o755)
        for name in ("open", "shut", "listed", "home/.codex/sessions"):
            place = directory / name / "a.jsonl"
            place.parent.mkdir(parents=True)
            place.write_text(SAMPLES["a.jsonl"][1])
            place.chmod(0o644)
        secret = directory / "secret.jsonl"
        secret.write_text(SAMPLES["a.jsonl"][1])
        for below, mode in {"shut": 0o000, "listed": 0o744, "home/.codex/sessions": 0o000}.items():
            (directory / below).chmod(mode)
        for below in ("open", "home", "home/.codex"):
            (directory / below).chmod(0o755)
        secret.chmod(0o600)

        told, places = call(told_to_a_stranger, str(directory))
        assert told == [["listed", "secret.jsonl", "sessions", "shut"]] * 2
        assert places == 1


# -- never waits


def specials(place: Path) -> list[Path]:
    os.mkfifo(place / "pipe.jsonl")
    os.mkfifo(place / ".aider.chat.history.md")
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(place / "bound.jsonl"))
    (place / "device.jsonl").symlink_to("/dev/zero")
    return [place / name for name in ("pipe.jsonl", ".aider.chat.history.md", "bound.jsonl", "device.jsonl")]


@each_row("format", [None, OWN, *READERS])
def test_pipes_sockets_and_devices_are_refused_and_nobody_waits_for_them(
    tmp_path: Path, format: str | None
) -> None:
    with clew.open("memory:") as store:
        for path in specials(tmp_path):
            with pytest.raises(clew.InvalidError, match=r"is a (pipe|socket|device)"):
                store.import_path(path, format)
        with pytest.raises(clew.InvalidError, match="that can be imported"):
            store.import_path(tmp_path, format)


# -- a wrong format


@each_row("format", [OWN, *READERS])
def test_a_file_of_another_format_is_refused_and_makes_no_session(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        others = {name: text for name, (own, text) in SAMPLES.items() if own != format}
        for name, text in others.items():
            (tmp_path / name).write_text(text)
        for name in others:
            refusal = f"its format is {SAMPLES[name][0]}, not {format}"
            with pytest.raises(clew.InvalidError, match=refusal):
                store.import_path(tmp_path / name, format)
        try:
            store.import_path(tmp_path, format)
        except clew.InvalidError:
            pass
        assert len(store.list()) == 0


@each_row("format", [OWN, *READERS])
def test_a_file_of_no_format_makes_no_session_whatever_its_caller_says(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        things = {
            "notes.md": "# Notes\n\nnothing\n",
            "app.jsonl": '{"level": "info", "msg": "x"}\n' * 3,
            "package.json": '{"name": "x", "version": "1"}',
            "list.json": "[1, 2, 3]",
            "data.db": "SQLite format 3\0",
        }
        for name, text in things.items():
            (tmp_path / name).write_text(text)
        for name in things:
            try:
                report = store.import_path(tmp_path / name, format)
                assert report.left_out == (str(tmp_path / name),)
            except clew.InvalidError:
                pass
        assert len(store.list()) == 0


def test_a_format_that_is_named_takes_what_its_content_alone_does_not_tell(
    store: clew.Store, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "a.jsonl", {**SAID, "mood": "good"})
    report = store.import_path(path, "picoclaw")
    assert [(session.id, session.messages) for session in report.sessions] == [("picoclaw:a", 1)]
    assert report.ok
