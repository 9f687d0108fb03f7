"""Stores of other versions: the one before is brought to today's, all others are refused with what to do.

The files beside this one were written by checkouts from before the first release, all with one content:
`0.1-dev` by the last one that called its format 1, the others by earlier ones.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import clew
from clew.core.log import jsonl
from clew.errors import SchemaTooNewError, SchemaTooOldError, VersionError
from tests.backends.sqlite.failing_calls import kill_migrations_of_logs
from tests.backends.sqlite.schema.next_schema import version_of
from tests.faults.crash.common import chain_of, message, texts
from tests.support.children import call

HERE = Path(__file__).parent
LONG = "x" * 2000
TEXTS = {"a": ["one", "two", LONG], "f": ["one", "two", LONG, "forked"]}


def sqlite_store(place: Path, name: str) -> Path:
    path = place / "store.db"
    path.write_bytes(gzip.decompress((HERE / f"{name}.db.gz").read_bytes()))
    return path


def jsonl_store(place: Path, name: str) -> Path:
    return Path(shutil.copytree(HERE / name, place / "store"))


def is_whole(store: clew.Store) -> None:
    """All that the checkouts wrote is there, and can be worked on."""
    assert {info.id: texts(store.get(info.id)) for info in store.list()} == TEXTS
    a = store.get("alias")
    assert (a.info.title, a.info.tags, a.get_var("v")) == ("First", ("t",), [1])
    assert [entry.annotations.get("label") for entry in a.entries()] == [None, None, "good"]
    assert [event.type for event in a.events()] == ["kept"]
    assert a.usage().input_tokens == 3
    assert [point.name for point in a.checkpoints()] == ["c"]
    assert store.verify().problems == ()


def works_on(store: clew.Store) -> None:
    a = store.get("a")
    a.append(message("x" * 2000), key="k")  # again: it was there
    a.undo()
    assert texts(a) == [*TEXTS["a"], "four"]
    a.append(message("five"))
    store.restore_deleted("gone")
    assert texts(store.get("gone")) == ["trashed"]
    assert [line for info in store.list() for line in chain_of(store.get(info.id))] == []


def test_p21_an_sqlite_store_of_the_format_before_is_brought_to_today(tmp_path: Path) -> None:
    path = sqlite_store(tmp_path, "0.1-dev")
    assert version_of(path) == 1

    with clew.open(path) as store:
        is_whole(store)
        works_on(store)

    assert version_of(path) == 10
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        assert database.execute("SELECT clew FROM about").fetchall() == [(clew.__version__,)]


def test_an_sqlite_store_of_the_format_before_is_read_without_a_change(tmp_path: Path) -> None:
    path = sqlite_store(tmp_path, "0.1-dev")
    before = path.read_bytes()

    with clew.open(path, read_only=True) as store:
        is_whole(store)

    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("name", "version"), [("schema-4", 4), ("old-names", 1), ("without-index", 1)])
def test_an_sqlite_store_of_an_earlier_checkout_is_refused_with_what_to_do(
    tmp_path: Path, name: str, version: int, read_only: bool
) -> None:
    """It was told to upgrade Clew, which is what its owner had done."""
    path = sqlite_store(tmp_path, name)
    before = path.read_bytes()

    with pytest.raises(SchemaTooOldError, match=rf"version {version} .*clew export --all.*clew import"):
        clew.open(path, read_only=read_only)

    assert path.read_bytes() == before


@pytest.mark.parametrize("version", range(2, 10))
def test_a_version_that_no_release_used_is_not_called_newer(tmp_path: Path, version: int) -> None:
    path = sqlite_store(tmp_path, "0.1-dev")
    with closing(apsw.Connection(str(path))) as database:
        database.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(SchemaTooOldError):
        clew.open(path)
    place = jsonl_store(tmp_path, "0.1-dev")
    (place / "clew.json").write_text(json.dumps({"clew": "jsonl", "format": version}))
    with pytest.raises(SchemaTooOldError):
        clew.open(f"jsonl:///{place}")


def test_a_newer_sqlite_store_says_which_clew_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    clew.open(path).close()
    with closing(apsw.Connection(str(path))) as database:
        database.execute("PRAGMA user_version = 11; UPDATE about SET clew = '7.8.9'")

    with pytest.raises(
        SchemaTooNewError, match=r"version 11, written by Clew 7\.8\.9; .*upgrade Clew"
    ) as caught:
        clew.open(path)

    assert caught.value.written_by == "7.8.9"


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE about",
        "DROP TABLE about; CREATE VIEW about AS SELECT 'x' AS clew",
        "DROP TABLE about; CREATE TABLE about (a, clew AS (zeroblob(1000000000)))",
        "DROP TABLE about; CREATE VIRTUAL TABLE about USING fts5 (clew)",
        "UPDATE about SET clew = char(27) || '[2J' || replace(hex(zeroblob(900)), '0', 'y')",
    ],
    ids=["gone", "view", "computed", "virtual", "long"],
)
def test_a_newer_store_is_not_believed_in_who_wrote_it(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store.db"
    clew.open(path).close()
    with closing(apsw.Connection(str(path))) as database:
        database.execute(f"{change}; PRAGMA user_version = 11")

    with pytest.raises(SchemaTooNewError) as caught:
        clew.open(path)

    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 200


@pytest.mark.parametrize("name", ["0.1-dev", "old-names"])
def test_p21_a_jsonl_store_of_the_format_before_is_brought_to_today(tmp_path: Path, name: str) -> None:
    """Those too whose fields had other names: their sessions were there, with no message."""
    place = jsonl_store(tmp_path, name)

    with clew.open(f"jsonl:///{place}") as store:
        is_whole(store)
        works_on(store)

    about = json.loads((place / "clew.json").read_text())
    assert about == {"clew": "jsonl", "format": 10, "written_by": clew.__version__}
    (place / "index.db").unlink()
    with clew.open(f"jsonl:///{place}") as store:
        assert texts(store.get("a")) == [*TEXTS["a"], "four", "five"]
        assert store.verify().problems == ()


@pytest.mark.parametrize("name", ["0.1-dev", "old-names"])
def test_a_jsonl_store_of_the_format_before_is_read_without_a_change(tmp_path: Path, name: str) -> None:
    place = jsonl_store(tmp_path, name)
    before = {file: file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file()}

    with clew.open(f"jsonl:///{place}", read_only=True) as store:
        is_whole(store)

    assert {file: file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file()} == before


@pytest.mark.needs("strace")
@pytest.mark.parametrize("syscall", ["renameat", "fsync", "pwrite64"])
def test_p21_a_killed_migration_of_logs_can_be_finished(tmp_path: Path, syscall: str) -> None:
    assert call(kill_migrations_of_logs, str(tmp_path), "old-names", syscall) == {}


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A JSONL store of format 1 with a line whose fields no known version has."""
    place = jsonl_store(tmp_path, "0.1-dev")
    log = place / "sessions" / "f.jsonl"
    log.write_bytes(b"".join(_other_fields(log.read_bytes().splitlines())))
    return place


def _other_fields(lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        is_last, text = jsonl.open_line(line)
        yield jsonl.finish(text.replace(b'"view_start"', b'"seen_from"'), is_last=is_last)


def test_a_jsonl_store_with_fields_that_are_not_known_is_refused_before_a_write(strange: Path) -> None:
    """Never read as a session without messages."""
    before = {file: file.read_bytes() for file in sorted(strange.rglob("*")) if file.is_file()}

    with pytest.raises(SchemaTooOldError, match="clew export --all"):
        clew.open(f"jsonl:///{strange}")
    (strange / "clew.json").unlink()
    with pytest.raises(SchemaTooOldError):
        clew.open(f"jsonl:///{strange}")

    assert {file: file.read_bytes() for file in sorted(strange.rglob("*")) if file.is_file()} == {
        file: content for file, content in before.items() if file.name != "clew.json"
    }


def test_a_log_of_another_version_among_those_of_today_is_named_by_verify(
    strange: Path, tmp_path: Path
) -> None:
    """It costs its session, and reads as no other."""
    place = tmp_path / "today"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("mine").append(message("one"))
    shutil.copy(strange / "sessions" / "f.jsonl", place / "sessions")

    with clew.open(f"jsonl:///{place}") as store:
        assert [info.id for info in store.list()] == ["mine"]
        assert [line for line in store.verify().problems if "clew export --all" in line] != []


def test_a_log_of_a_newer_version_says_which_clew_wrote_it(tmp_path: Path) -> None:
    place = tmp_path / "today"
    clew.open(f"jsonl:///{place}").close()
    newer = jsonl.LogLine(11, 1, "n", "mark", "7.8.9")
    (place / "sessions" / "n.jsonl").write_bytes(jsonl.finish(jsonl.encode(newer), is_last=True))

    with clew.open(f"jsonl:///{place}") as store:
        assert [line for line in store.verify().problems if "Clew 7.8.9" in line] != []


def test_a_newer_jsonl_store_says_which_clew_wrote_it(tmp_path: Path) -> None:
    place = tmp_path / "today"
    clew.open(f"jsonl:///{place}").close()
    newer = {"clew": "jsonl", "format": 11, "written_by": "7.8.9", "colour": "blue"}
    (place / "clew.json").write_text(json.dumps(newer))

    with pytest.raises(SchemaTooNewError, match=r"Clew 7\.8\.9.*upgrade Clew"):
        clew.open(f"jsonl:///{place}")


@pytest.mark.parametrize("name", ["0.1-dev", "old-names"])
def test_an_export_of_the_format_before_is_imported(tmp_path: Path, name: str) -> None:
    with clew.open(tmp_path / "store.db") as store:
        report = store.import_path(HERE / f"{name}.jsonl")

        assert [session.id for session in report.sessions] == ["a"]
        assert texts(store.get("a")) == TEXTS["a"]
        assert store.verify().problems == ()


def test_an_export_of_a_newer_clew_says_so(tmp_path: Path) -> None:
    lines = (HERE / "0.1-dev.jsonl").read_bytes().splitlines()
    newer = jsonl.finish(jsonl.encode(jsonl.LogLine(11, 1, "a", "", "7.8.9")), is_last=False)
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([newer.rstrip(b"\n"), *lines[1:]]) + b"\n")

    with (
        clew.open(tmp_path / "store.db") as store,
        pytest.raises(VersionError, match=r"Clew 7\.8\.9.*upgrade"),
    ):
        store.import_path(tmp_path / "a.jsonl", format="jsonl", strict=True)


def test_a_field_that_is_added_later_costs_nothing_in_a_log_of_today(tmp_path: Path) -> None:
    """Each line has one more: in it, and in the rows that it holds."""
    place = tmp_path / "today"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("mine").append(message("one"), message("two"))
    (log,) = (place / "sessions").iterdir()
    lines = []
    for line in log.read_bytes().splitlines():
        is_last, text = jsonl.open_line(line)
        text = text.replace(b'":{', b'":{"tomorrow":[1],', 1) if b'"row":{' in text else text
        text = text.replace(b'",', b'","tomorrow":{"a":1},', 1)
        lines.append(jsonl.finish(text, is_last=is_last))
    log.write_bytes(b"".join(lines))

    with clew.open(f"jsonl:///{place}") as store:
        assert texts(store.get("mine")) == ["one", "two"]
        assert store.verify().problems == ()


def test_a_field_behind_the_body_of_an_entry_is_damage(tmp_path: Path) -> None:
    """Bodies are read later, at the place that the end of their line tells."""
    place = tmp_path / "today"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("mine").append(message("one"))
    (log,) = (place / "sessions").iterdir()
    found = [jsonl.open_line(line)[1] for line in log.read_bytes().splitlines()]
    (entry,) = [text for text in found if b'"kind":"entry"' in text]

    assert jsonl.decode(entry.replace(b'"kind":"entry",', b'"kind":"entry","tomorrow":1,')) is not None
    with pytest.raises(jsonl.OtherVersionError, match="tomorrow"):
        jsonl.decode(entry[:-1] + b',"tomorrow":1}')
    bare = entry[: entry.index(b',"body":')]
    assert jsonl.decode(bare + b',"tomorrow":1}') == jsonl.decode(bare + b"}"), "one that was erased has none"
