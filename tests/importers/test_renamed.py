"""Stores that were filled when entries, events and calls were named by the numbers of their lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.importers.detect import reader_of
from clew.importers.sync import Sync
from clew.model import Head
from clew.model.source import SourceEntry, SourceEvent, SourceSession, SourceUsage
from tests.importers.programs import test_codex_following as codex
from tests.importers.programs.test_codex import ID
from tests.importers.regrowing import otherwise
from tests.importers.test_regrown import HOME, RECORDED
from tests.support.effort import spread


def as_before(source: SourceSession) -> SourceSession:
    """A session with the names that readers gave before."""
    names: dict[str | None, str | None] = {None: None}

    def event(one: SourceEvent) -> SourceEvent:
        return msgspec.structs.replace(one, id=one.formerly or one.id, formerly=None)

    def call(one: SourceUsage) -> SourceUsage:
        return msgspec.structs.replace(one, id=one.formerly or one.id, formerly=None)

    def entries() -> Iterator[SourceEntry]:
        for one in source.entries:
            names[one.uid] = one.formerly or one.uid
            yield msgspec.structs.replace(
                one,
                uid=one.formerly or one.uid,
                parent=names[one.parent],
                events=tuple(map(event, one.events)),
                formerly=None,
            )

    def head() -> str | None:
        now = source.head()
        return names.get(now, now)

    return msgspec.structs.replace(
        source,
        entries=entries(),
        head=head,
        events=lambda: list(map(event, source.events())),
        usage=lambda: list(map(call, source.usage())),
    )


def fill_as_before(store: clew.Store, format: str, path: Path) -> None:
    reader: Any = reader_of(format)
    for source in reader.read(path, lambda _: None, lambda _: None):
        store.load(as_before(source))


def content(store: clew.Store) -> dict[str, Any]:
    found = {}
    for info in store.list(limit=1000):
        session = store.get(info.id)
        entries = set()
        for branch in session.tree().branches:
            if branch.last >= branch.first:
                path = session.entries(at=Head(branch.id, branch.last))
                entries |= {(entry.id, entry.hash, entry.raw) for entry in path}
        totals = session.usage()
        found[info.id] = {
            "entries": sorted(entries),
            "path": [entry.id for entry in session.entries()],
            "events": [
                (event.id, event.type, event.data)
                for event in session.events(limit=100_000)
                if event.type != "child-session"
            ],
            "usage": (totals.input_tokens, totals.output_tokens, totals.calls),
        }
    return found


def kinds(tmp_path: Path, kind: Callable[[Path], Any]) -> tuple[str, Path]:
    return "codex", kind(tmp_path).path


def recorded(tmp_path: Path, file: Path) -> tuple[str, Path]:
    place = file.relative_to(HOME).parts[0]
    shutil.copytree(HOME / place, tmp_path / place)
    formats = {".codex": "codex", ".claude": "claude-code", ".pi": "pi", ".gemini": "gemini-cli"}
    return formats[place], tmp_path / file.relative_to(HOME)


def check(format: str, path: Path) -> None:
    with clew.open("memory:") as store:
        fill_as_before(store, format, path)
        before = content(store)
        first = store.import_path(path, format=format)  # its subagents come with it
        assert not any(one.entries for one in first.sessions if one.id in before)
        assert {id: content(store)[id] for id in before} == before
        sync = Sync(lambda writes: store, [path])
        sync.all()
        assert store.import_path(path, format=format).entries == 0
        assert {id: content(store)[id] for id in before} == before
        assert store.verify().ok


@pytest.mark.parametrize("kind", codex.KINDS, ids=lambda kind: kind.__name__)
def test_a_rollout_of_before_is_recognised_and_nothing_comes_twice(
    tmp_path: Path, kind: Callable[[Path], Any]
) -> None:
    check(*kinds(tmp_path, kind))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem[-12:])
def test_a_recorded_log_of_before_is_recognised_and_nothing_comes_twice(tmp_path: Path, file: Path) -> None:
    check(*recorded(tmp_path, file))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem[-12:])
def test_a_store_of_before_that_missed_what_replaced_lost_lines_gets_it(tmp_path: Path, file: Path) -> None:
    format, path = recorded(tmp_path, file)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in spread(range(1, len(lines)), 5, quick=2):
        grown = [*lines[:cut], *otherwise(lines[:cut], lines[cut:])]
        with clew.open("memory:") as store, clew.open("memory:") as fresh:
            path.write_bytes(whole)
            fill_as_before(store, format, path)
            before = content(store)
            path.write_bytes(b"".join(grown))
            fill_as_before(store, format, path)  # what was lost with the old names
            Sync(lambda writes, store=store: store, [path]).all()
            fresh.import_path(path)
            found = content(store)
            for id in before:
                shown = [[entry.raw for entry in one.get(id).entries()] for one in (store, fresh)]
                assert shown[0] == shown[1]
                assert set(before[id]["entries"]) <= set(found[id]["entries"])
                hashes = [hash for _, hash, _ in found[id]["entries"]]
                assert len(set(hashes)) == len(hashes)
            assert store.verify().ok


def test_a_line_that_comes_after_the_upgrade_is_read_by_itself(tmp_path: Path) -> None:
    made = codex.plain(tmp_path)
    with clew.open("memory:") as store:
        fill_as_before(store, "codex", made.path)
        for text in ("four", "five"):
            Sync(lambda writes: store, [made.path]).all()
            made.user(text)
            report = Sync(lambda writes: store, [made.path]).all()
            assert (report.entries, report.files_read) == (1, 1)
        said = [message["content"][0]["text"] for message in store.get(ID).messages()]
        assert said == ["one", "1", "two", "2", "three", "3", "four", "five"]
