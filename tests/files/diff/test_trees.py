"""How two trees differ, without a store: every difference once, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from clew.files.diff.trees import Difference, differences
from clew.files.objects.format import EXECUTABLE, FILE, FOLDER, LINK, TreeEntry, encode_directory, object_name

Leaf: TypeAlias = tuple[int, bytes]
Tree: TypeAlias = Mapping[bytes, "Leaf | Tree"]


class Shelf:
    """Directories by name, and which of them were asked for."""

    def __init__(self) -> None:
        self.directories: dict[bytes, list[TreeEntry]] = {}
        self.entered: list[bytes] = []

    def put(self, tree: Tree) -> bytes:
        entries = []
        for name, node in sorted(tree.items()):
            if isinstance(node, tuple):
                entries.append(TreeEntry(name, node[0], object_name(node[1]), len(node[1])))
            else:
                entries.append(TreeEntry(name, FOLDER, self.put(node), 0))
        digest = object_name(encode_directory(entries))
        self.directories[digest] = entries
        return digest

    def directory(self, name: bytes) -> list[TreeEntry]:
        self.entered.append(name)
        return self.directories[name]


def compared(old: Tree, new: Tree) -> list[Difference]:
    shelf = Shelf()
    return list(differences(shelf.put(old), shelf.put(new), shelf.directory))


def told(old: Tree, new: Tree) -> list[tuple[bytes, str]]:
    return [(one.path, one.status) for one in compared(old, new)]


A: Leaf = (FILE, b"a")
B: Leaf = (FILE, b"b")


def test_equal_trees_do_not_differ_and_are_not_entered() -> None:
    shelf = Shelf()
    tree = shelf.put({b"a": A, b"d": {b"b": B}})
    assert not list(differences(tree, tree, shelf.directory))
    assert not shelf.entered


def test_a_directory_that_is_the_same_is_not_entered() -> None:
    shelf = Shelf()
    same: Tree = {b"x": A, b"deeper": {b"y": B}}
    old, new = shelf.put({b"same": same, b"f": A}), shelf.put({b"same": same, b"f": B})
    assert [one.path for one in differences(old, new, shelf.directory)] == [b"f"]
    assert shelf.put(same) not in shelf.entered


def test_what_came_what_went_and_what_changed_is_told_with_its_path() -> None:
    old: Tree = {b"d": {b"went": A, b"changed": A, b"same": A}}
    new: Tree = {b"d": {b"came": A, b"changed": B, b"same": A}}
    assert told(old, new) == [(b"d/came", "added"), (b"d/changed", "modified"), (b"d/went", "removed")]


def test_a_file_that_became_executable_differs_in_its_mode_only() -> None:
    assert told({b"run": (FILE, b"a")}, {b"run": (EXECUTABLE, b"a")}) == [(b"run", "mode")]
    assert told({b"run": (FILE, b"a")}, {b"run": (EXECUTABLE, b"b")}) == [(b"run", "modified")]


def test_a_link_in_the_place_of_a_file_is_a_change_of_type() -> None:
    assert told({b"f": (FILE, b"a")}, {b"f": (LINK, b"a")}) == [(b"f", "type")]
    assert told({b"l": (LINK, b"a")}, {b"l": (LINK, b"b")}) == [(b"l", "modified")]


def test_a_directory_in_the_place_of_a_file_is_told_with_what_is_in_it() -> None:
    assert told({b"f": A}, {b"f": {b"x": A, b"y": B}}) == [
        (b"f", "type"),
        (b"f/x", "added"),
        (b"f/y", "added"),
    ]
    assert told({b"f": {b"x": A}}, {b"f": A}) == [(b"f", "type"), (b"f/x", "removed")]


def test_an_empty_directory_that_came_or_went_is_told() -> None:
    assert told({}, {b"d": {}}) == [(b"d", "added")]
    assert told({b"d": {}}, {}) == [(b"d", "removed")]
    assert told({b"d": {b"e": {}}}, {b"d": {}}) == [(b"d/e", "removed")]


def test_a_directory_that_lost_its_last_file_is_told_by_the_file() -> None:
    assert told({b"d": {b"f": A}}, {b"d": {}}) == [(b"d/f", "removed")]


def test_a_tree_against_nothing_is_all_there_is() -> None:
    shelf = Shelf()
    tree = shelf.put({b"a": A, b"d": {b"b": B}})
    assert [one.status for one in differences(None, tree, shelf.directory)] == ["added", "added"]
    assert [one.status for one in differences(tree, None, shelf.directory)] == ["removed", "removed"]


def test_a_tree_a_thousand_directories_deep_is_no_recursion() -> None:
    shelf = Shelf()
    old, new = shelf.put({b"f": A}), shelf.put({b"f": B})
    for _ in range(3000):
        pair = []
        for below in (old, new):
            entries = [TreeEntry(b"d", FOLDER, below, 0)]
            digest = object_name(encode_directory(entries))
            shelf.directories[digest] = entries
            pair.append(digest)
        old, new = pair
    assert [one.path for one in differences(old, new, shelf.directory)] == [b"d/" * 3000 + b"f"]


names = st.sampled_from([b"a", b"b", b"c", b"a-", b"\xff"])
leaves = st.tuples(st.sampled_from([FILE, EXECUTABLE, LINK]), st.sampled_from([b"", b"x", b"y"]))
trees: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, leaves | inner, max_size=4),
    max_leaves=20,
)


def flat(tree: Tree, prefix: bytes = b"") -> dict[bytes, Leaf | None]:
    """Every path; None: a directory."""
    paths: dict[bytes, Leaf | None] = {}
    for name, node in tree.items():
        paths[prefix + name] = node if isinstance(node, tuple) else None
        if not isinstance(node, tuple):
            paths |= flat(node, prefix + name + b"/")
    return paths


@given(trees, trees)
def test_the_differences_are_those_of_a_comparison_path_by_path(old: Tree, new: Tree) -> None:
    found = compared(old, new)
    was, now = flat(old), flat(new)
    nowhere = (-1, b"")
    expected = {path for path in was.keys() | now.keys() if was.get(path, nowhere) != now.get(path, nowhere)}
    full = {
        path for paths, other in ((was, now), (now, was)) for path in paths
        if path not in other and any(inside.startswith(path + b"/") for inside in paths)
    }  # fmt: skip
    assert sorted(one.path for one in found) == sorted(expected - full)
    for one in found:
        assert (one.old is not None) == (one.path in was)
        assert (one.new is not None) == (one.path in now)
