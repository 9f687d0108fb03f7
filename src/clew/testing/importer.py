"""What every importer promises, as tests. Subclass it beside the tests of your reader:

    class TestMine(ImporterConformance):
        reader = mine                              # the module

        def write(self, place: Path) -> Path: ...  # a small file of the format, in this directory
        def grow(self, path: Path) -> None: ...    # what the program would add to it: one message or more

Two messages are enough, but a file with all that the format can hold is a better witness.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.core.load import load
from clew.model.source import Problem, SourceSession


class ImporterConformance:
    reader: Any
    """The module."""

    def write(self, place: Path) -> Path:
        """A file of the format, or the directory that is one, with nothing wrong with it."""
        raise NotImplementedError

    def grow(self, path: Path) -> None:
        """Go on with it, as the program would."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        place = tmp_path / "source"
        place.mkdir()
        return self.write(place)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[clew.Store]:
        with clew.open(tmp_path / "store.db") as store:
            yield store

    # -- the reader

    def test_it_knows_its_files_by_their_content(self, path: Path) -> None:
        assert self.reader.recognises(path, _beginning(path))

    def test_it_knows_what_is_none_of_its_files(self, tmp_path: Path) -> None:
        strange = tmp_path / "strange.bin"
        for content in (b"", b"\n", b"plain words\n", b"[]", b"{}\n", b"\xff\x00\x01", b"null"):
            strange.write_bytes(content)
            assert not self.reader.recognises(strange, content), content

    def test_the_files_of_a_file_begin_with_it(self, path: Path) -> None:
        assert path in self.reader.files(path) or path.is_dir()
        assert all(file.exists() for file in self.reader.files(path))

    def test_known_places_need_not_be_there(self, tmp_path: Path) -> None:
        assert all(isinstance(place, Path) for place in self.reader.known_places(tmp_path / "nobody"))

    def test_names_are_unique_and_parents_come_first(self, path: Path) -> None:
        for _, entries in self.read(path):
            seen: set[str | None] = {None}
            for uid, parent in entries:
                assert uid not in seen
                assert parent in seen
                seen.add(uid)

    def test_it_reads_the_same_every_time(self, path: Path) -> None:
        assert self.read(path) == self.read(path)

    def read(self, path: Path) -> list[tuple[str, list[tuple[str, str | None]]]]:
        """Each session with the names of its entries and of their parents."""
        problems: list[Problem] = []
        found = list[tuple[str, list[tuple[str, str | None]]]]()
        for file in self.reader.files(path):
            sessions = self.reader.read(file, problems.append, lambda count: None)
            found += [(one.id, [(entry.uid, entry.parent) for entry in one.entries]) for one in sessions]
        assert problems == []
        return found

    # -- into a store

    def test_it_brings_messages_with_their_ids(self, store: clew.Store, path: Path) -> None:
        report = store.import_path(path)
        assert report.ok
        assert report.new == len(report.sessions) > 0
        assert report.entries > 0
        assert {session.format for session in report.sessions} == {self.reader.NAME}
        assert all(store.get(session.id).info.messages == session.messages for session in report.sessions)
        assert store.verify().problems == ()

    def test_its_dates_are_those_of_the_file(self, store: clew.Store, path: Path) -> None:
        began = datetime.now(UTC)
        store.import_path(path)
        assert all(info.created_at < began and info.updated_at < began for info in store.list())

    def test_the_same_again_adds_nothing(self, store: clew.Store, path: Path) -> None:
        store.import_path(path)
        before = _state(store)
        again = store.import_path(path)
        assert (again.new, again.grown, again.entries) == (0, 0, 0)
        assert _state(store) == before

    def test_a_file_that_grew_adds_only_what_is_new(
        self, store: clew.Store, path: Path, tmp_path: Path
    ) -> None:
        store.import_path(path)
        self.grow(path)
        report = store.import_path(path)
        assert report.new == 0
        assert report.entries > 0
        with clew.open(tmp_path / "whole.db") as whole:
            whole.import_path(path)
            assert _hashes(whole) == _hashes(store)
            assert whole.stats().entries == store.stats().entries
            assert whole.usage() == store.usage()

    def test_a_dry_run_says_what_would_come_and_writes_nothing(self, store: clew.Store, path: Path) -> None:
        foretold = store.import_path(path, dry_run=True)
        assert store.stats().sessions == 0
        report = store.import_path(path)
        assert [(one.id, one.state, one.entries) for one in foretold.sessions] == [
            (one.id, one.state, one.entries) for one in report.sessions
        ]

    def test_cut_off_anywhere_and_then_again_is_as_once(
        self, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with clew.open("memory:") as whole:
            count = whole.import_path(path).entries
            expected = _hashes(whole), whole.stats().entries
        monkeypatch.setattr(load, "AT_ONCE", 2)
        for cut in range(1, min(count, 12) + 1):
            with clew.open("memory:") as store:
                with monkeypatch.context() as patch:
                    for name in ("read", "follow"):
                        if hasattr(self.reader, name):
                            patch.setattr(self.reader, name, _cut_at(getattr(self.reader, name), cut))
                    with pytest.raises(KeyboardInterrupt):
                        store.import_path(path)
                store.import_path(path)
                assert (_hashes(store), store.stats().entries) == expected

    def test_the_source_is_only_read(self, store: clew.Store, path: Path) -> None:
        place = path if path.is_dir() else path.parent
        before = _files(place)
        store.import_path(path)
        assert _files(place) == before


def _beginning(path: Path) -> bytes:
    return b"" if path.is_dir() else path.read_bytes()[: 64 * 1024]


def _cut_at(read: Any, count: int) -> Any:
    """`read` or `follow` of a reader, interrupted after so many entries in all."""
    left = [count]

    def entries(source: SourceSession) -> Iterator[Any]:
        for entry in source.entries:
            yield entry
            left[0] -= 1
            if left[0] <= 0:
                raise KeyboardInterrupt

    def cut(*args: Any) -> Iterator[Any]:
        for source in read(*args):
            if isinstance(source, SourceSession):
                yield msgspec.structs.replace(source, entries=entries(source))
            else:
                yield source  # the place where `follow` ended

    return cut


def _hashes(store: clew.Store) -> dict[str, tuple[str, str | None, int]]:
    found = {}
    for info in store.list(limit=10_000):
        found[info.id] = info.hash, info.title, store.get(info.id).count_events().added
    return found


def _state(store: clew.Store) -> list[Any]:
    return [(info, store.get(info.id).usage()) for info in store.list(limit=10_000)]


def _files(place: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for folder, _, names in os.walk(place):
        for name in names:
            file = Path(folder, name)
            found[str(file)] = file.stat().st_mtime_ns, file.read_bytes()
    return found
