"""How two trees differ, without a store: every difference once, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.files.diff.trees import Difference, differences
from clew.files.objects.format import FOLDER, TreeEntry, decode_directory, encode_directory, object_name
from tests.files.trees import Link, Program, Tree, encode


class Shelf:
    """Directories by name, and which of them were asked for."""

    def __init__(self) -> None:
        self.objects: dict[bytes, bytes] = {}
        self.entered: list[bytes] = []

    def put(self, content: bytes) -> bytes:
        name = object_name(content)
        self.objects[name] = content
        return name

    def plant(self, tree: Tree) -> bytes:
        return encode(tree, self.put).digest

    def directory(self, name: bytes) -> list[TreeEntry]:
        self.entered.append(name)
        return decode_directory(self.objects[name])


def compared(old: Tree, new: Tree) -> list[Difference]:
    shelf = Shelf()
    return list(differences(shelf.plant(old), shelf.plant(new), shelf.directory))


def told(old: Tree, new: Tree) -> list[tuple[bytes, str]]:
    return [(one.path, one.status) for one in compared(old, new)]


def test_equal_trees_do_not_differ_and_are_not_entered() -> None:
    shelf = Shelf()
    tree = shelf.plant({b"a": b"a", b"d": {b"b": b"b"}})
    assert not list(differences(tree, tree, shelf.directory))
    assert not shelf.entered


def test_a_directory_that_is_the_same_is_not_entered() -> None:
    shelf = Shelf()
    same: Tree = {b"x": b"a", b"deeper": {b"y": b"b"}}
    old, new = shelf.plant({b"same": same, b"f": b"a"}), shelf.plant({b"same": same, b"f": b"b"})
    assert [one.path for one in differences(old, new, shelf.directory)] == [b"f"]
    assert shelf.plant(same) not in shelf.entered


def test_what_came_what_went_and_what_changed_is_told_with_its_path() -> None:
    old: Tree = {b"d": {b"went": b"a", b"changed": b"a", b"same": b"a"}}
    new: Tree = {b"d": {b"came": b"a", b"changed": b"b", b"same": b"a"}}
    assert told(old, new) == [(b"d/came", "added"), (b"d/changed", "modified"), (b"d/went", "removed")]


def test_a_file_that_became_executable_differs_in_its_mode_only() -> None:
    assert told({b"run": b"a"}, {b"run": Program(b"a")}) == [(b"run", "mode")]
    assert told({b"run": b"a"}, {b"run": Program(b"b")}) == [(b"run", "modified")]


def test_a_link_in_the_place_of_a_file_is_a_change_of_type() -> None:
    assert told({b"f": b"a"}, {b"f": Link(b"a")}) == [(b"f", "type")]
    assert told({b"l": Link(b"a")}, {b"l": Link(b"b")}) == [(b"l", "modified")]


def test_a_directory_in_the_place_of_a_file_is_told_with_what_is_in_it() -> None:
    assert told({b"f": b"a"}, {b"f": {b"x": b"a", b"y": b"b"}}) == [
        (b"f", "type"),
        (b"f/x", "added"),
        (b"f/y", "added"),
    ]
    assert told({b"f": {b"x": b"a"}}, {b"f": b"a"}) == [(b"f", "type"), (b"f/x", "removed")]


def test_an_empty_directory_that_came_or_went_is_told() -> None:
    assert told({}, {b"d": {}}) == [(b"d", "added")]
    assert told({b"d": {}}, {}) == [(b"d", "removed")]
    assert told({b"d": {b"e": {}}}, {b"d": {}}) == [(b"d/e", "removed")]


def test_a_directory_that_lost_its_last_file_is_told_by_the_file() -> None:
    assert told({b"d": {b"f": b"a"}}, {b"d": {}}) == [(b"d/f", "removed")]


def test_a_tree_against_nothing_is_all_there_is() -> None:
    shelf = Shelf()
    tree = shelf.plant({b"a": b"a", b"d": {b"b": b"b"}})
    assert [one.status for one in differences(None, tree, shelf.directory)] == ["added", "added"]
    assert [one.status for one in differences(tree, None, shelf.directory)] == ["removed", "removed"]


def test_a_tree_a_thousand_directories_deep_is_no_recursion() -> None:
    shelf = Shelf()
    old, new = shelf.plant({b"f": b"a"}), shelf.plant({b"f": b"b"})
    for _ in range(3000):
        folders = [encode_directory([TreeEntry(b"d", FOLDER, below, 0)]) for below in (old, new)]
        old, new = map(shelf.put, folders)
    assert [one.path for one in differences(old, new, shelf.directory)] == [b"d/" * 3000 + b"f"]


names = st.sampled_from([b"a", b"b", b"c", b"a-", b"\xff"])
contents = st.sampled_from([b"", b"x", b"y"])
leaves = contents | contents.map(Program) | contents.map(Link)
trees: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, leaves | inner, max_size=4),
    max_leaves=20,
)


def flat(tree: Tree, prefix: bytes = b"") -> dict[bytes, Any]:
    """Every path; None: a directory."""
    found: dict[bytes, Any] = {}
    for name, node in tree.items():
        path = prefix + os.fsencode(name)
        found[path] = None if isinstance(node, Mapping) else node
        if isinstance(node, Mapping):
            found |= flat(node, path + b"/")
    return found


@given(trees, trees)
def test_the_differences_are_those_of_a_comparison_path_by_path(old: Tree, new: Tree) -> None:
    found = compared(old, new)
    was, now = flat(old), flat(new)
    expected = {path for path in was.keys() | now.keys() if was.get(path, ()) != now.get(path, ())}
    full = {
        path for paths, other in ((was, now), (now, was)) for path in paths
        if path not in other and any(inside.startswith(path + b"/") for inside in paths)
    }  # fmt: skip
    assert sorted(one.path for one in found) == sorted(expected - full)
    for one in found:
        assert (one.old is not None) == (one.path in was)
        assert (one.new is not None) == (one.path in now)
