"""What a restore would do to each path: P13, P14, without a disk."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.files.objects.format import FOLDER, TreeEntry, encode_directory, find_entry, object_name
from clew.files.restore.plan import Plan, Present, Selection, Step, make_plan, reverse
from tests.files.restore.nested_trees import Tree, in_memory, reading
from tests.files.trees import Link, Program, leaves
from tests.support.rows import each_row


def plan(
    target: Tree, last: Tree | None, now: Tree, *, paths: list[bytes] | None = None, **more: Any
) -> Plan:
    (of_target, of_last, of_now), directory = in_memory(target, last or {}, now)
    return make_plan(
        of_target, None if last is None else of_last, of_now, directory, selection=Selection(paths), **more
    )


def told(found: Plan) -> list[tuple[str, bytes]]:
    return [(step.verb, step.path) for step in found.steps]


@each_row(
    ("target", "last", "now", "expected"),
    [
        ({b"a": b"1"}, {b"a": b"1"}, {b"a": b"1"}, []),
        ({b"a": b"1"}, {}, {}, [("create", b"a")]),
        ({b"a": b"1"}, {b"a": b"2"}, {b"a": b"2"}, [("overwrite", b"a")]),
        ({b"a": b"1"}, {b"a": Program(b"1")}, {b"a": Program(b"1")}, [("mode", b"a")]),
        ({b"a": b"1"}, {b"a": Link(b"1")}, {b"a": Link(b"1")}, [("overwrite", b"a")]),
        ({}, {b"a": b"1"}, {b"a": b"1"}, [("delete", b"a")]),
        ({}, {}, {b"a": b"1"}, []),
        ({}, None, {b"a": b"1", b"d": {b"a": b"1"}}, []),
        ({b"d": {b"a": b"1"}}, {}, {}, [("create", b"d"), ("create", b"d/a")]),
        ({b"d": {}}, {}, {}, [("create", b"d")]),
        ({}, {b"d": {b"a": b"1"}}, {b"d": {b"a": b"1"}}, [("delete", b"d"), ("delete", b"d/a")]),
        ({}, {b"d": {b"a": b"1"}}, {b"d": {b"a": b"1", b"mine": b""}}, [("delete", b"d/a")]),
        ({}, {b"d": {}}, {b"d": {b"mine": b""}}, []),
        ({}, {b"d": b"file"}, {b"d": {b"mine": b""}}, []),
        ({}, {b"d": {}}, {b"d": {}}, [("delete", b"d")]),
        ({}, {}, {b"d": {}}, []),
        ({b"x": b"1"}, {b"x": {b"a": b"1"}}, {b"x": {b"a": b"1"}}, [("overwrite", b"x"), ("delete", b"x/a")]),
        ({b"x": {b"a": b"1"}}, {b"x": b"1"}, {b"x": b"1"}, [("overwrite", b"x"), ("create", b"x/a")]),
    ],
)  # fmt: skip
def test_a_path_without_conflict_becomes_what_the_target_says_and_what_nobody_knew_stays(
    target: Tree, last: Tree | None, now: Tree, expected: list[tuple[str, bytes]]
) -> None:
    found = plan(target, last, now)

    assert told(found) == expected
    assert found.conflicts == ()
    assert not any(step.conflict for step in found.steps)


@each_row(
    ("target", "last", "now", "conflicts", "overwritten"),
    [
        ({b"a": b"1"}, {b"a": b"2"}, {b"a": b"3"}, [b"a"], [("overwrite", b"a")]),
        ({b"a": b"1"}, {}, {b"a": b"3"}, [b"a"], [("overwrite", b"a")]),
        ({b"a": b"1"}, None, {b"a": b"3"}, [b"a"], [("overwrite", b"a")]),
        ({b"a": b"1"}, {b"a": b"1"}, {b"a": Program(b"1")}, [b"a"], [("mode", b"a")]),
        ({}, {b"a": b"2"}, {b"a": b"3"}, [b"a"], [("delete", b"a")]),
        ({}, {b"d": {b"a": b"2"}}, {b"d": {b"a": b"3"}}, [b"d/a"], [("delete", b"d"), ("delete", b"d/a")]),
        ({b"d": {b"a": b"2"}}, {b"d": {}}, {b"d": b"3"}, [b"d"], [("overwrite", b"d"), ("create", b"d/a")]),
    ],
)  # fmt: skip
def test_what_changed_since_the_last_snapshot_is_a_conflict_kept_or_overwritten_as_asked(
    target: Tree, last: Tree | None, now: Tree, conflicts: list[bytes], overwritten: list[tuple[str, bytes]]
) -> None:
    keeping = plan(target, last, now)
    overwriting = plan(target, last, now, overwrite=True)

    assert told(keeping) == []
    assert [*keeping.conflicts] == [*keeping.kept] == conflicts
    assert told(overwriting) == overwritten
    assert [*overwriting.conflicts] == conflicts
    assert [step.path for step in overwriting.steps if step.conflict] == conflicts
    assert overwriting.kept == ()


@each_row(
    ("target", "last", "now", "conflicts", "overwritten"),
    [
        ({}, {}, {b"a": b"1"}, [b"a"], [("delete", b"a")]),
        ({}, None, {b"a": b"1"}, [b"a"], [("delete", b"a")]),
        ({}, {}, {b"d": {}}, [b"d"], [("delete", b"d")]),
        ({b"d": {}}, {b"d": {}}, {b"d": {b"a": b"1"}}, [b"d/a"], [("delete", b"d/a")]),
        ({b"x": b"1"}, {b"x": b"1"}, {b"x": {b"a": b"1"}}, [b"x"], [("overwrite", b"x"), ("delete", b"x/a")]),
    ],
)  # fmt: skip
def test_what_came_since_is_a_conflict_where_the_target_is_all_there_is(
    target: Tree, last: Tree | None, now: Tree, conflicts: list[bytes], overwritten: list[tuple[str, bytes]]
) -> None:
    keeping = plan(target, last, now, clears=True)
    overwriting = plan(target, last, now, clears=True, overwrite=True)

    assert told(keeping) == []
    assert [*keeping.conflicts] == [*keeping.kept] == conflicts
    assert told(overwriting) == overwritten
    assert overwriting.kept == keeping.unknown == overwriting.unknown == ()


def test_what_is_not_ours_is_named_as_unknown() -> None:
    found = plan({}, {b"d": {b"a": b"1"}}, {b"d": {b"a": b"1", b"mine": b"2"}, b"e": {b"mine": b"3"}})

    assert told(found) == [("delete", b"d/a")]
    assert found.unknown == (b"d/mine", b"e")


@each_row("clears", [False, True])
def test_what_is_blocked_stays_and_so_does_the_directory_that_holds_it(clears: bool) -> None:
    now = {b"d": {b"a": b"1", b"b": b"2"}, b"e": {b"f": {b"a": b"3"}}}
    present = Present(blocked=frozenset([b"d/a", b"e/f"]))

    found = plan({}, now, copy.deepcopy(now), overwrite=True, clears=clears, present=present)

    assert told(found) == [("delete", b"d/b")]
    assert found.kept == found.unknown == ()


@each_row("overwrite", [False, True])
def test_p14_a_directory_with_unknown_files_is_never_replaced_by_a_file(overwrite: bool) -> None:
    now = {b"x": {b"known": b"1", b"mine": b"2"}}

    found = plan({b"x": b"file"}, {b"x": {b"known": b"1"}}, now, overwrite=overwrite)

    assert found.steps == ()
    assert found.conflicts == found.kept == (b"x",)


@each_row("name", [b".git", b".GIT"])
def test_p14_a_repository_is_never_touched_whatever_a_tree_says(name: bytes) -> None:
    target = {name: {b"config": b"evil"}, b"sub": {name: b"evil"}, b"a": b"1"}
    last = {b"old": {name: {b"config": b"mine"}}}

    found = plan(target, last, copy.deepcopy(last), overwrite=True)

    assert told(found) == [("create", b"a"), ("create", b"sub")]
    assert found.kept == tuple(sorted([name, b"sub/" + name]))


def test_what_can_not_be_saved_is_kept_and_a_directory_that_is_there_is_used() -> None:
    target = {b"a": b"1", b"d": {b"b": b"2"}}
    present = Present(frozenset([b"d"]), frozenset([b"a"]))

    found = plan(target, {}, {}, present=present, overwrite=True)

    assert told(found) == [("create", b"d/b")]
    assert found.kept == (b"a",)


def test_only_the_paths_that_were_asked_for_are_touched_and_the_folders_that_they_need() -> None:
    target = {b"a": b"1", b"d": {b"e": {b"f": b"2", b"g": b"3"}}, b"x": {b"y": b"4"}, b"n": {b"m": b"5"}}
    target[b"other"] = {b"a": b"8"}
    last = {b"gone": b"6", b"x": {b"z": b"7"}, b"other": b"file"}

    found = plan(target, last, copy.deepcopy(last), paths=[b"d/e/f", b"x", b"gone", b"n/unknown"])

    assert told(found) == [
        ("create", b"d"),
        ("create", b"d/e"),
        ("create", b"d/e/f"),
        ("delete", b"gone"),
        ("create", b"x/y"),
        ("delete", b"x/z"),
    ]
    assert found.conflicts == ()


def test_a_file_in_the_way_of_a_path_that_was_asked_for_is_a_conflict_not_a_victim() -> None:
    found = plan({b"d": {b"a": b"1"}}, {b"d": b"2"}, {b"d": b"2"}, paths=[b"d/a"], overwrite=True)

    assert found.steps == ()
    assert found.kept == (b"d",)


def test_a_tree_may_be_deeper_than_the_stack_of_python() -> None:
    empty = encode_directory([])
    objects = {(name := object_name(empty)): empty}
    for _ in range(2999):
        content = encode_directory([TreeEntry(b"d", FOLDER, name, 0)])
        name = object_name(content)
        objects[name] = content

    found = make_plan(name, None, object_name(empty), reading(objects))

    assert len(found.steps) == 2999


NAMES = st.sampled_from([b"a", b"b", b"c"])
LEAVES = st.one_of(
    st.sampled_from([b"", b"1", b"2"]),
    st.builds(Program, st.sampled_from([b"1", b"2"])),
    st.builds(Link, st.sampled_from([b"a", b"/etc"])),
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda inner: st.dictionaries(NAMES, LEAVES | inner, max_size=3),
    max_leaves=8,
)


def apply(now: Tree, steps: tuple[Step, ...], source: dict[bytes, Any]) -> Tree:
    """The model of an applier, in the same order of phases: removals first, then folders, then files."""
    tree = copy.deepcopy(now)

    def at(path: bytes) -> tuple[Tree, bytes]:
        *above, name = path.split(b"/")
        folder = tree
        for one in above:
            folder = folder[one]
        return folder, name

    for step in steps:
        if step.old is not None and step.old.kind != FOLDER and (step.new is None or step.new.kind == FOLDER):
            folder, name = at(step.path)
            del folder[name]
    for step in reversed(steps):
        if step.old is not None and step.old.kind == FOLDER:
            folder, name = at(step.path)
            assert folder[name] == {}, "a folder goes only when it is empty"
            del folder[name]
    for step in steps:
        if step.new is not None:
            folder, name = at(step.path)
            folder[name] = {} if step.new.kind == FOLDER else source[step.path]
    return tree


@given(TREES, st.none() | TREES, TREES, st.booleans())
def test_p14_the_plan_never_deletes_what_the_last_snapshot_did_not_know(
    target: Tree, last: Tree | None, now: Tree, overwrite: bool
) -> None:
    (of_last,), directory = in_memory(last or {})

    for step in plan(target, last, now, overwrite=overwrite).steps:
        if step.verb == "delete":
            assert find_entry(of_last, step.path, directory) is not None
    before, wanted = leaves(now), leaves(target)
    after = leaves(apply(now, plan(target, last, now, overwrite=overwrite).steps, wanted))
    for path, content in before.items():
        is_known = find_entry(of_last, path, directory) is not None
        if path not in wanted and not is_known and not _is_replaced_by_folder(path, target):
            assert after.get(path) == content


def _is_replaced_by_folder(path: bytes, target: Tree) -> bool:
    """The target has a folder where a file is: that is what the target names."""
    (name,), directory = in_memory(target)
    entry = find_entry(name, path, directory)
    return entry is not None and entry.kind == FOLDER


@given(TREES, st.none() | TREES, TREES, st.booleans())
def test_the_plan_makes_of_now_the_target_and_what_must_stay(
    target: Tree, last: Tree | None, now: Tree, overwrite: bool
) -> None:
    found = plan(target, last, now, overwrite=overwrite)
    after = leaves(apply(now, found.steps, leaves(target)))
    before, wanted, known = leaves(now), leaves(target), leaves(last or {})

    def is_kept(path: bytes) -> bool:
        return any(path == kept or path.startswith(kept + b"/") for kept in found.kept)

    for path in before.keys() | wanted.keys() | after.keys():
        if is_kept(path):
            assert after.get(path) == before.get(path)
        elif path in wanted:
            assert after[path] == wanted[path]
        elif path in after:
            assert after[path] == before[path]
            assert path not in known
    for path in found.kept:
        assert path in found.conflicts
    assert {step.path for step in found.steps}.isdisjoint(found.kept)


@given(TREES, st.none() | TREES, TREES)
def test_where_the_target_is_all_there_is_nothing_else_is_left(
    target: Tree, last: Tree | None, now: Tree
) -> None:
    found = plan(target, last, now, overwrite=True, clears=True)

    assert apply(now, found.steps, leaves(target)) == target
    assert found.kept == found.unknown == ()


@given(TREES, st.none() | TREES, TREES)
def test_what_changed_since_the_last_snapshot_stays_byte_for_byte_if_it_is_to_be_kept(
    target: Tree, last: Tree | None, now: Tree
) -> None:
    after = leaves(apply(now, plan(target, last, now, clears=True).steps, leaves(target)))

    known = leaves(last or {})
    for path, content in leaves(now).items():
        if known.get(path) != content or type(known[path]) is not type(content):
            assert after.get(path) == content


@given(TREES, st.none() | TREES, TREES, st.booleans(), st.booleans())
def test_p13_the_reversed_plan_brings_back_every_byte(
    target: Tree, last: Tree | None, now: Tree, overwrite: bool, clears: bool
) -> None:
    steps = plan(target, last, now, overwrite=overwrite, clears=clears).steps
    after = apply(now, steps, leaves(target))

    assert apply(after, reverse(steps), leaves(now)) == now


@given(TREES, TREES, TREES)
def test_a_second_plan_finds_nothing_more_to_do(target: Tree, last: Tree, now: Tree) -> None:
    found = plan(target, last, now, overwrite=True)
    after = apply(now, found.steps, leaves(target))

    again = plan(target, last, after, overwrite=True)

    assert again.steps == ()
    assert again.kept == found.kept


PATHS = st.lists(st.sampled_from([b"a", b"a/b", b"b", b"b/c/a"]), max_size=2)


@given(TREES, st.none() | TREES, TREES, PATHS, st.booleans())
def test_p14_what_was_not_asked_for_stays_byte_for_byte(
    target: Tree, last: Tree | None, now: Tree, paths: list[bytes], clears: bool
) -> None:
    found = plan(target, last, now, paths=paths, overwrite=True, clears=clears)
    after = leaves(apply(now, found.steps, leaves(target)))
    before = leaves(now)

    for path in before.keys() | after.keys():
        if not any(path == one or path.startswith(one + b"/") for one in paths):
            assert after.get(path) == before.get(path)
