"""What every importer promises: some of it for all of them, all of it for some."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.importers.contract import NotFollowedError, Place, SourceSession
from clew.importers.detect import look, reader_of
from clew.importers.programs import ductwork as ductwork_reader
from clew.importers.programs import ggcode as ggcode_reader
from clew.importers.programs import openrouter as openrouter_reader
from clew.importers.programs import picoclaw as picoclaw_reader
from clew.importers.programs import tingly_box
from clew.importers.reading.files import zstd
from clew.testing.importer import ImporterConformance
from tests.importers.programs import test_codex as codex
from tests.importers.programs import test_codex_following as codex_following
from tests.importers.programs import test_ductwork as ductwork
from tests.importers.programs import test_gemini_cli as gemini
from tests.importers.programs import test_ggcode as ggcode
from tests.importers.programs import test_opencode as opencode
from tests.importers.programs import test_openrouter as openrouter
from tests.importers.programs import test_picoclaw as picoclaw
from tests.importers.programs import test_tingly_box as tingly
from tests.importers.readers import land, tree_bytes, write_json, write_lines
from tests.importers.test_contexts import STOPPED
from tests.support.rows import each_named_row, each_row


def _module(format: str) -> Any:
    """A reader with all that it has, also what not every reader has."""
    return reader_of(format)


@each_row("format", STOPPED)
def test_a_reader_finds_its_file_only_reads_it_and_brings_it_once(tmp_path: Path, format: str) -> None:
    path, reader = STOPPED[format](tmp_path), _module(format)
    before = tree_bytes(tmp_path)
    assert [job.format for job in look(path, None).jobs] == [format]
    assert reader.recognises(path, path.read_bytes()[:4096])
    assert path in reader.files(path)
    assert format in ("gemini-cli", "opencode", "tingly-box") or reader.files(tmp_path) == [path]
    with clew.open("memory:") as store:
        ((id, state, _),) = land(store, reader, path)
        assert state == "new"
        assert land(store, reader, path) == [(id, "unchanged", 0)]
    assert tree_bytes(tmp_path) == before


@each_row("format", ["claude-code", "codex", "gemini-cli", "pi", "opencode"])
def test_a_state_that_cannot_be_read_has_the_file_read_as_a_whole(tmp_path: Path, format: str) -> None:
    reader = _module(format)
    path = opencode_database(tmp_path) if format == "opencode" else STOPPED[format](tmp_path)
    for state in (b"", b"x", b"\xff", b"\x90", b"\xc1", b"{}", msgspec.msgpack.encode([1, 2])):
        for place in (Place(0, 0, state), Place(path.stat().st_size, 3, state)):
            with pytest.raises(NotFollowedError):
                list(reader.follow(path, place, lambda _: None, lambda _: None))


def opencode_database(folder: Path) -> Path:
    made = opencode.Database(folder / "opencode.db")
    made.add("ses_1", opencode.user(opencode.text("hi")))
    return made.close()


def packed(path: Path) -> Path:
    made = path.with_name(f"{path.name}.zst")
    made.write_bytes(zstd().compress(path.read_bytes()))
    path.unlink()
    return made


WITHOUT_PLACE: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "a compressed log of Claude Code": ("claude-code", lambda folder: packed(STOPPED["claude-code"](folder))),
    "a compressed rollout of Codex": ("codex", lambda folder: packed(STOPPED["codex"](folder))),
    "a fork of Codex whose base is not here": (
        "codex",
        lambda folder: codex_following.fork_without_its_base(folder).path,
    ),
    "a rollout of Codex with a very large state": (
        "codex",
        lambda folder: codex.Rollout(folder).put("turn_context", {"model": "x" * 70_000}).user("one").path,
    ),
    "an older document of Gemini": (
        "gemini-cli",
        lambda folder: write_json(folder / "s.json", {**gemini.HEADER, "messages": [gemini.ONE]}),
    ),
    "a chat of Gemini with a very large state": (
        "gemini-cli",
        lambda folder: gemini.session_file(folder, gemini.ONE, {"$set": {"memoryScratchpad": "x" * 70_000}}),
    ),
    "files of OpenCode": (
        "opencode",
        lambda folder: opencode.as_files(folder, opencode.INFO, *opencode.MESSAGES),
    ),
    "an export of OpenCode": ("opencode", opencode.exported),
    "a database of OpenCode whose rows have no times": ("opencode", opencode_database),
}


def given(format: str, path: Path) -> list[type]:
    """What the reader gives, if all of it is read."""
    found = []
    for one in _module(format).follow(path, None, lambda _: None, lambda _: None):
        if isinstance(one, SourceSession):
            assert list(one.entries)
        found.append(type(one))
    return found


@each_row("format", ["claude-code", "codex", "gemini-cli", "pi"])
def test_what_can_be_followed_is_read_and_has_a_place(tmp_path: Path, format: str) -> None:
    assert given(format, STOPPED[format](tmp_path)) == [SourceSession, Place]


@each_named_row(("format", "write"), WITHOUT_PLACE)
def test_what_cannot_be_followed_is_read_and_has_no_place(
    tmp_path: Path, format: str, write: Callable[[Path], Path]
) -> None:
    assert given(format, write(tmp_path)) == [SourceSession]


def add_lines(path: Path, *records: Any) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


class WithoutTimesOfMessages(ImporterConformance):
    """The newest message has the time of the file's last change, and keeps it when others follow."""

    def test_a_file_that_grew_adds_only_what_is_new(
        self, store: clew.Store, path: Path, tmp_path: Path
    ) -> None:
        store.import_path(path)
        self.grow(path)
        report = store.import_path(path)
        assert (report.new, report.entries > 0) == (0, True)
        with clew.open(tmp_path / "whole.db") as whole:
            whole.import_path(path)
            assert whole.stats().entries == store.stats().entries
            for info in whole.list():
                assert store.get(info.id).messages() == whole.get(info.id).messages()
            here, there = store.usage(), whole.usage()
            assert (here.input_tokens, here.output_tokens) == (there.input_tokens, there.output_tokens)


class TestOpenRouter(WithoutTimesOfMessages):
    reader = openrouter_reader

    def write(self, place: Path) -> Path:
        rewound = [openrouter.ASK, openrouter.AGAIN]
        one = openrouter.session(Checkpoints={"u1": [openrouter.ASK], "u2": rewound})
        return openrouter.state_file(place, one, openrouter.session("default#fork-1"), default=1)

    def grow(self, path: Path) -> None:
        more = [openrouter.ASK, openrouter.CALL, openrouter.ANSWER, openrouter.AGAIN]
        rewound = [openrouter.ASK, openrouter.AGAIN]
        one = openrouter.session(messages=more, Checkpoints={"u1": [openrouter.ASK], "u2": rewound})
        openrouter.state_file(path.parent, one, openrouter.session("default#fork-1"), default=1)


class TestDuctwork(WithoutTimesOfMessages):
    reader = ductwork_reader

    def write(self, place: Path) -> Path:
        return write_json(place / "r.json", ductwork.run([ductwork.ASK]))

    def grow(self, path: Path) -> None:
        write_json(path, ductwork.run(iteration=3, input_tokens=5000))


class TestPicoclaw(ImporterConformance):
    reader = picoclaw_reader

    def write(self, place: Path) -> Path:
        first = picoclaw.said("one", created_at="2026-05-01T09:00:00.1Z")
        again = picoclaw.said("one", created_at="2026-05-01T09:00:00.1Z")
        return picoclaw.log(place, first, again, meta={"aliases": ["chat:1"]})

    def grow(self, path: Path) -> None:
        add_lines(path, picoclaw.said("two", "assistant", created_at="2026-05-02T09:00:00Z"))


class TestPicoclawDocument(WithoutTimesOfMessages):
    reader = picoclaw_reader

    def write(self, place: Path) -> Path:
        return picoclaw.legacy(place, picoclaw.ONE, picoclaw.TWO)

    def grow(self, path: Path) -> None:
        picoclaw.legacy(path.parent, picoclaw.ONE, picoclaw.TWO, picoclaw.THREE)


class TestGgcode(ImporterConformance):
    reader = ggcode_reader

    def write(self, place: Path) -> Path:
        copied = {"type": "checkpoint", "checkpoint_messages": [ggcode.SUMMARY], "checkpoint_tokens": 12}
        tunnel = {"type": "tunnel_event", "tunnel_event": {"event_id": "e1", "type": "text"}}
        time = "2026-08-01T09:00:00Z"
        said = [ggcode.message(message, timestamp=time) for message in (ggcode.ONE, ggcode.TWO)]
        return ggcode.log(place, ggcode.META, tunnel, said[0], ggcode.usage(1), tunnel, copied, said[1])

    def grow(self, path: Path) -> None:
        add_lines(path, ggcode.usage(2), ggcode.message(ggcode.THREE), {"type": "cost", "cost": {"total": 1}})


class TestTinglyTables(ImporterConformance):
    reader = tingly_box

    def write(self, place: Path) -> Path:
        said = [tingly.words(1, "one"), tingly.words(2, "other", "lost"), tingly.words(3, "two")]
        return tingly.database(place / "rc.db", tingly.SESSIONS, tingly.MESSAGES, tingly.row(), *said)

    def grow(self, path: Path) -> None:
        tingly.database(path, tingly.words(9, "three"))


class TestTinglyDocument(ImporterConformance):
    reader = tingly_box

    def write(self, place: Path) -> Path:
        return self.write_items(place / "bot_sessions.json", "one")

    def grow(self, path: Path) -> None:
        self.write_items(path, "one", "two")

    def write_items(self, path: Path, *said: str) -> Path:
        items = {"s1": tingly.item("s1", *map(tingly.spoken, said)), "s2": tingly.item("s2")}
        return write_json(path, {"version": 1, "items": items})


class TestTinglyTranscripts(ImporterConformance):
    reader = tingly_box

    def write(self, place: Path) -> Path:
        write_lines(place / "remote" / "transcripts" / "s1.jsonl", tingly.spoken("one"))
        return tingly.newest_form(place, "s1")

    def grow(self, path: Path) -> None:
        add_lines(path.parent.parent / "remote" / "transcripts" / "s1.jsonl", tingly.spoken("two"))
