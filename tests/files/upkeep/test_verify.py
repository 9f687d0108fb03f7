"""Whether `verify` finds what is missing or damaged, and names the paths that need it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.engine.engine import Engine
from clew.files import records
from clew.files.objects.format import CHUNKED, FILE, FOLDER, TreeEntry, encode_directory, object_name
from clew.files.upkeep import verify as module
from clew.files.upkeep.gc import gc
from clew.files.upkeep.verify import verify
from clew.model.files import FileProgress
from tests.files.snapshots import put, recorded, take
from tests.files.trees import Chunked, Link, Program, Tree
from tests.support.rows import each_named_row

TREE: Tree = {
    "src": {"main.py": b"main", "run": Program(b"run"), "deep": {"er": {"file": b"treasure"}}},
    "large": Chunked((b"piece one", b"piece two")),
    "link": Link(b"src"),
    "empty": {},
    "nothing": b"",
}


def lose(engine: Engine, content: bytes) -> str:
    name = object_name(content)
    engine.run(lambda tx: tx.drop_objects([name]))
    return name.hex()


@pytest.mark.parametrize("full", [False, True])
def test_a_store_that_is_in_order_has_no_problems(engine: Engine, full: bool) -> None:
    take(engine, TREE)
    take(engine, {**TREE, "more": b"more"})
    report = verify(engine, full=full)
    assert report.ok
    assert report.objects == 15
    assert report.bytes > 100


def test_an_empty_store_is_in_order(engine: Engine) -> None:
    assert verify(engine, full=True).objects == 0
    assert verify(engine).ok


@pytest.mark.parametrize(
    ("content", "path"),
    [(b"treasure", "src/deep/er/file"), (b"run", "src/run"), (b"src", "link"), (b"piece two", "large")],
)
def test_what_is_missing_is_named_with_the_path_that_needs_it(
    engine: Engine, content: bytes, path: str
) -> None:
    id = take(engine, TREE).id
    name = lose(engine, content)
    (problem,) = verify(engine).problems
    assert problem == f"the object {name} is missing; needed by '{path}' of the snapshot {id}"


def test_a_missing_directory_is_named_by_its_path(engine: Engine) -> None:
    id = take(engine, TREE).id
    folder = encode_directory([TreeEntry(b"file", FILE, object_name(b"treasure"), 8)])
    name = lose(engine, folder)
    assert verify(engine).problems == (
        f"the object {name} is missing; needed by 'src/deep/er' of the snapshot {id}",
    )


def test_a_missing_root_costs_the_whole_snapshot(engine: Engine) -> None:
    snapshot = take(engine, TREE)
    engine.run(lambda tx: tx.drop_objects([bytes.fromhex(snapshot.tree)]))
    (problem,) = verify(engine).problems
    assert problem.endswith(f"needed by '.' of the snapshot {snapshot.id}")


def test_every_snapshot_that_needs_it_is_named_up_to_three(engine: Engine) -> None:
    first, second = take(engine, TREE), take(engine, {**TREE, "copy": b"treasure"})
    lose(engine, b"treasure")
    (problem,) = verify(engine).problems
    assert all(id in problem for id in (first.id, second.id))
    assert "'copy'" in problem
    for number in range(3):
        take(engine, {f"{number}": b"treasure", "x": b"%d" % number})
    lose(engine, b"treasure")
    (problem,) = verify(engine).problems
    assert problem.endswith(", and more")


def test_each_of_several_problems_has_a_sentence(engine: Engine) -> None:
    take(engine, TREE)
    names = [lose(engine, b"treasure"), lose(engine, b"main")]
    problems = verify(engine).problems
    assert sorted(names) == [problem.split()[2] for problem in problems]


def folder_of(name: bytes, kind: int, content: bytes, size: int) -> bytes:
    return encode_directory([TreeEntry(name, kind, object_name(content), size)])


@each_named_row(
    ("folder", "content", "words"),
    {
        "s01, leads out of the root": (
            folder_of(b"..", FILE, b"x", 1), b"x", "is no directory of a snapshot"
        ),
        "a file that is longer than its directory says": (
            folder_of(b"f", FILE, b"12345", 4), b"12345", "has 5 bytes; a directory says 4; needed by 'f' of"
        ),
        "a list of chunks that is none": (
            folder_of(b"f", FILE | CHUNKED, b"no list", 4), b"no list", "is no list of chunks"
        ),
    },
)  # fmt: skip
def test_s01_a_forged_directory_is_a_problem(
    engine: Engine, folder: bytes, content: bytes, words: str
) -> None:
    """It is found, and nothing is done with its names."""
    before = set(verify(engine).problems)
    put(engine, folder, content)
    recorded(engine, object_name(folder))
    (problem,) = set(verify(engine).problems) - before
    assert words in problem


def test_the_same_object_as_a_file_and_as_a_directory_is_looked_into(engine: Engine) -> None:
    inner = encode_directory([TreeEntry(b"lost", FILE, object_name(b"lost"), 4)])
    outer = encode_directory(
        [
            TreeEntry(b"a-file", FILE, object_name(inner), len(inner)),
            TreeEntry(b"folder", FOLDER, object_name(inner), len(inner)),
        ]
    )
    put(engine, inner, outer)
    recorded(engine, object_name(outer))
    (problem,) = verify(engine).problems
    assert "'folder/lost'" in problem


def test_a_damaged_record_is_named_and_others_are_looked_at(engine: Engine) -> None:
    take(engine, TREE)
    name = lose(engine, b"treasure")
    engine.run(lambda tx: tx.put_record(STORE_WIDE, "snapshot", "ff" * 16, b"\x93damaged"))
    problems = verify(engine).problems
    assert len(problems) == 2
    assert "ff" * 16 in problems[0]
    assert name in problems[1]


def test_content_that_is_not_what_its_name_says_is_found_by_a_full_look_only(engine: Engine) -> None:
    """P14: a wrong object is told before a restore meets it."""
    name = object_name(b"treasure")
    engine.run(lambda tx: tx.add_pack(0, b"TREASURE", 8, [(name, 0, 8)]))
    id = take(engine, TREE).id
    assert verify(engine).ok
    (problem,) = verify(engine, full=True).problems
    assert problem.startswith(f"the object {name.hex()} is damaged: its content has another hash;")
    assert problem.endswith(f"needed by 'src/deep/er/file' of the snapshot {id}")


def test_damage_that_no_snapshot_suffers_from_is_told_as_that(engine: Engine) -> None:
    engine.run(lambda tx: tx.add_pack(0, b"wrong", 5, [(object_name(b"right"), 0, 5)]))
    (problem,) = verify(engine, full=True).problems
    assert problem.endswith("no snapshot needs it")


def test_a_damaged_pack_is_told_for_every_object_in_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with clew.open(str(path)) as store:
        take(store._engine, {"a": b"one", "b": b"two"})
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE packs SET content = zeroblob(length(content))")
        connection.close()
        problems = verify(store._engine, full=True).problems
    assert len(problems) == 3
    assert all("damaged" in problem for problem in problems)
    assert sum("needed by '.'" in problem for problem in problems) == 1
    assert sum("what needs it cannot be told" in problem for problem in problems) == 2


@pytest.mark.parametrize("is_looked_at_first", [True, False])
def test_what_is_deleted_and_collected_while_it_looks_is_no_problem(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_looked_at_first: bool
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 1)
    both = take(engine, TREE), take(engine, {"other": b"other", "d": {"e": {}}})
    snapshot = both[0] if is_looked_at_first else both[1]
    looked: list[FileProgress] = []

    def vanish(progress: FileProgress) -> None:
        if not looked:
            engine.run(lambda tx: records.delete(tx, snapshot.id))
            gc(engine)
        looked.append(progress)

    assert verify(engine, full=True, on_progress=vanish).ok
    assert looked


def test_a_pack_that_is_gone_while_its_objects_are_not_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with clew.open(str(path)) as store:
        take(store._engine, {"a": b"one"})
        connection = apsw.Connection(str(path))
        connection.execute("DELETE FROM packs")
        connection.close()
        problems = verify(store._engine, full=True).problems
    assert len(problems) == 2
    assert sum("needed by '.'" in problem for problem in problems) == 1
