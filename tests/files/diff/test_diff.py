"""What a diff of two snapshots tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import clew
from clew.core.engine.engine import Engine
from clew.errors import ObjectMissingError
from clew.files.diff import diff as module
from clew.files.diff.diff import diff
from clew.files.objects.store import ObjectReader
from clew.model.files import FileDiff
from tests.files.snapshots import planted
from tests.files.trees import Chunked, Link, Program, Tree
from tests.support.rows import each_named_row, each_row


@pytest.fixture
def engine() -> Iterator[Engine]:
    with clew.open("memory:") as store:
        yield store._engine


def compared(engine: Engine, old: Tree, new: Tree, *, text: bool = False) -> list[FileDiff]:
    return diff(ObjectReader(engine.read), planted(engine, old), planted(engine, new), text=text)


def told(engine: Engine, old: Tree, new: Tree) -> list[tuple[str, str, str | None]]:
    return [(one.path, one.status, one.old_path) for one in compared(engine, old, new)]


def lines(*numbers: int) -> bytes:
    return b"".join(b"line %d of a long story\n" % number for number in numbers)


LARGE = Chunked((b"\0" * 100, b"1" * 100))
ANOTHER = [("f", "removed", None), ("g", "added", None)]


def test_every_path_is_told_once_in_order_with_its_sizes(engine: Engine) -> None:
    old: Tree = {"z": b"12", "gone": b"12345", "d": {"x": b"1"}, "same": b"same", "link": Link(b"to")}
    new: Tree = {"z": b"123", "new": b"", "d": {"x": Program(b"1")}, "same": b"same", "link": b"file"}
    assert [(one.path, one.status, one.old_size, one.size) for one in compared(engine, old, new)] == [
        ("d/x", "mode", 1, 1),
        ("gone", "removed", 5, None),
        ("link", "type", 2, 4),
        ("new", "added", None, 0),
        ("z", "modified", 2, 3),
    ]


def test_a_directory_has_no_size(engine: Engine) -> None:
    found = compared(engine, {}, {"empty": {}})
    assert found == [FileDiff(path="empty", status="added", old_size=None, size=None)]


def test_names_that_are_no_utf_8_can_be_passed_back(engine: Engine) -> None:
    """I-20: what the diff says is what Python's file functions take."""
    name = b"caf\xe9\n".decode("utf-8", "surrogateescape")
    assert told(engine, {}, {name: b"x"}) == [(name, "added", None)]


@each_named_row(
    ("old", "new", "expected"),
    {
        "moved": ({"a": {"f": b"content"}}, {"b": {"g": b"content"}}, [("b/g", "renamed", "a/f")]),
        "large, in chunks, by its hash": ({"f": LARGE}, {"g": LARGE}, [("g", "renamed", "f")]),
        "a text, moved and changed": (
            {"f": lines(1, 2, 3, 4)}, {"g": lines(1, 2, 3, 9)}, [("g", "renamed", "f")]
        ),
        "a text, changed too much": ({"f": lines(1, 2, 3, 4)}, {"g": lines(6, 7, 8, 9)}, ANOTHER),
        "no text, changed": ({"f": b"\0" + lines(1, 2, 3)}, {"g": b"\0" + lines(1, 2, 4)}, ANOTHER),
    },
)  # fmt: skip
def test_a_file_that_was_moved_is_renamed_if_it_is_the_same_or_a_similar_text(
    engine: Engine, old: Tree, new: Tree, expected: list[tuple[str, str, str | None]]
) -> None:
    assert told(engine, old, new) == expected


def test_among_too_many_files_only_exact_renames_are_looked_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CANDIDATES", 2)
    old: Tree = {"same": b"same", "a": lines(1, 2), "b": lines(11, 12)}
    new: Tree = {"moved": b"same", "c": lines(1, 2, 3), "d": lines(11, 12, 13)}
    assert [status for _, status, _ in told(engine, old, new)] == ["renamed"] * 3
    old, new = {**old, "x": lines(21)}, {**new, "y": lines(31)}
    assert [one for one in told(engine, old, new) if one[1] == "renamed"] == [("moved", "renamed", "same")]


def test_without_being_asked_no_content_is_read(engine: Engine) -> None:
    found = compared(engine, {"f": b"1\n"}, {"f": b"2\n"})
    assert found[0].text is None


def test_the_text_of_a_change_is_a_unified_diff(engine: Engine) -> None:
    (one,) = compared(engine, {"f": b"1\n2\n"}, {"f": b"1\n3\n"}, text=True)
    assert one.text == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"


def test_the_text_of_a_file_in_chunks_is_its_whole_content(engine: Engine) -> None:
    (one,) = compared(engine, {"f": Chunked((b"1\n2", b"\n3\n"))}, {"f": b"1\n2\n4\n"}, text=True)
    assert one.text is not None
    assert one.text.endswith("-3\n+4\n")


def test_the_text_of_a_renamed_file_names_both(engine: Engine) -> None:
    (one,) = compared(engine, {"f": lines(1, 2, 3)}, {"g": lines(1, 2, 4)}, text=True)
    assert one.text is not None
    assert one.text.startswith("--- a/f\n+++ b/g\n")
    (one,) = compared(engine, {"f": lines(1)}, {"g": lines(1)}, text=True)
    assert (one.status, one.text) == ("renamed", "")


def test_the_text_of_a_file_that_came_is_all_of_it(engine: Engine) -> None:
    (one,) = compared(engine, {}, {"f": b"1\n"}, text=True)
    assert one.text == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+1\n"


@each_row("content", [b"a\0b", b"\xff", b"x" * (1024 * 1024 + 1)], ids=["nul", "latin", "large"])
def test_what_is_no_text_or_too_long_has_no_text(engine: Engine, content: bytes) -> None:
    (one,) = compared(engine, {"f": b"1\n"}, {"f": content}, text=True)
    assert one.text is None


def test_links_and_directories_have_no_text(engine: Engine) -> None:
    found = compared(engine, {"l": Link(b"a"), "t": b"1\n"}, {"l": Link(b"b"), "t": {}}, text=True)
    assert [one.text for one in found] == [None, None]


def test_a_tree_that_is_not_in_the_store_is_named(engine: Engine) -> None:
    with pytest.raises(ObjectMissingError, match="77777777"):
        diff(ObjectReader(engine.read), planted(engine, {}), b"w" * 32)
