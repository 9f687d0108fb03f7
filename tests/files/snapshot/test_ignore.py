"""What a snapshot leaves out: the rules are those of git, and the user's word is above them."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.backends.memory import MemoryBackend
from clew.core.engine.engine import Engine
from clew.errors import InvalidError, RootRefusedError
from clew.files.snapshot.ignore import Patterns
from tests.files.trees import Tree, build, in_store, paths, take
from tests.support.effort import usually
from tests.support.rows import each_named_row, each_row

EMPTY = b""


def taken(root: Path, tree: Tree, **options: Any) -> set[bytes]:
    build(root, tree)
    engine = Engine(MemoryBackend())
    return paths(in_store(engine, take(engine, root, **options).tree))


def rules(*lines: bytes) -> bytes:
    return b"\n".join(lines)


RULES: dict[str, tuple[Tree, dict[str, Any], set[bytes]]] = {
    "by default, but for a file that is called venv and is no environment": (
        {b"node_modules": {b"a": EMPTY}, b"x": {b"__pycache__": {b"a": EMPTY}, b".venv": {b"b": EMPTY}},
         b".git": {b"HEAD": EMPTY}, b".hg": {b"c": EMPTY}, b".DS_Store": EMPTY, b"venv": EMPTY},
        {},
        {b"x/", b"venv"},
    ),
    "a rule may bring back what is left out by default": (
        {b".gitignore": rules(b"!node_modules"), b"node_modules": {b"a": EMPTY}},
        {},
        {b".gitignore", b"node_modules/", b"node_modules/a"},
    ),
    "nested rules are relative to their directory, and the nearest decides": (
        {
            b".gitignore": rules(b"*.log", b"/top"),
            b"top": EMPTY,
            b"a.log": EMPTY,
            b"sub": {
                b".gitignore": rules(b"!keep.log", b"/only"),
                b"keep.log": EMPTY,
                b"b.log": EMPTY,
                b"top": EMPTY,
                b"only": EMPTY,
                b"below": {b"only": EMPTY},
            },
        },
        {},
        {b".gitignore", b"sub/", b"sub/.gitignore", b"sub/keep.log", b"sub/top", b"sub/below/",
         b"sub/below/only"},
    ),
    ".clewignore has the last word over .gitignore beside it": (
        {b".gitignore": rules(b"*.db", b"!b"), b".clewignore": rules(b"!a.db", b"b"), b"a.db": EMPTY,
         b"b": EMPTY, b"c.db": EMPTY},
        {},
        {b".gitignore", b".clewignore", b"a.db"},
    ),
    "include protects ignored files by name": (
        {b".gitignore": rules(b".env", b"build/", b"deep/"), b".env": EMPTY, b"x": {b".env": EMPTY},
         b"build": {b"keep.db": EMPTY, b"other": EMPTY}, b"node_modules": {b".env": EMPTY},
         b"deep": {b"er": {b"wanted": EMPTY, b"not": EMPTY}, b"empty": {}}},
        {"include": [".env", "build/keep.db", "deep/*/wanted"]},
        {b".gitignore", b".env", b"x/", b"x/.env", b"build/", b"build/keep.db", b"deep/", b"deep/er/",
         b"deep/er/wanted"},
    ),
    "include of a directory protects all in it, and one of any depth is looked for everywhere": (
        {b".gitignore": rules(b"data/"), b"data": {b"x": EMPTY, b"node_modules": {b"y": EMPTY}},
         b"node_modules": {b"p": {b".env": EMPTY, b"q": EMPTY}}},
        {"include": ["data/", "**/.env"]},
        {b".gitignore", b"data/", b"data/x", b"data/node_modules/", b"data/node_modules/y", b"node_modules/",
         b"node_modules/p/", b"node_modules/p/.env"},
    ),
    "exclude is above include": (
        {b"a": {b"secret": EMPTY, b"x": EMPTY}, b"secret": EMPTY},
        {"exclude": ["secret"], "include": ["secret", "a/secret"]},
        {b"a/", b"a/x"},
    ),
    "what a restore needs is taken whatever the rules say": (
        {b".gitignore": rules(b"gone/", b"*.o"), b"gone": {b"a": EMPTY, b"b": EMPTY, b"c": {}},
         b"x.o": EMPTY, b"y.o": EMPTY, b".git": {b"HEAD": EMPTY}},
        {"exclude": ["gone"], "also": [b"gone/a", b"gone/c", b"x.o", b".git/HEAD", b"missing"]},
        {b".gitignore", b"gone/", b"gone/a", b"gone/c/", b"x.o"},
    ),
    "lines that nobody understands match nothing": (
        {b".gitignore": rules(b"a\\", b"[z-a]", b"[", b"\xff\xfe", b"[[]x", b"b"),
         b"a": EMPTY, b"b": EMPTY, b"\xff\xfe": EMPTY},
        {},
        {b".gitignore", b"a"},
    ),
}  # fmt: skip


@each_named_row(("tree", "options", "expected"), RULES)
def test_a_snapshot_takes_what_the_rules_and_the_user_leave(
    tmp_path: Path, tree: Tree, options: dict[str, Any], expected: set[bytes]
) -> None:
    assert taken(tmp_path, tree, **options) == expected


def test_p14_git_is_never_looked_into_even_if_it_is_asked_for(tmp_path: Path) -> None:
    tree: Tree = {b".gitignore": rules(b"!.git"), b".git": {b"config": EMPTY}, b"sub": {b".git": EMPTY}}
    assert taken(tmp_path, tree, include=[".git", ".git/config"], also=[b".git/config"]) == {
        b".gitignore",
        b"sub/",
    }


@pytest.mark.needs("another user than root")
def test_s09_rules_that_can_not_be_read_leave_out_all_they_might_have(tmp_path: Path) -> None:
    build(tmp_path, {b"a": {b".gitignore": EMPTY, b"secret": EMPTY}, b"b": EMPTY})
    os.chmod(tmp_path / "a/.gitignore", 0)
    engine = Engine(MemoryBackend())
    scan = take(engine, tmp_path)
    assert paths(in_store(engine, scan.tree)) == {b"b"}
    assert [(one.path, one.reason) for one in scan.skipped] == [("a", "unreadable")]
    with pytest.raises(RootRefusedError, match="gitignore"):
        take(engine, tmp_path / "a")


def test_s09_rules_that_are_too_long_leave_out_all_they_might_have(tmp_path: Path) -> None:
    build(tmp_path, {b"a": {b".gitignore": EMPTY, b"secret": EMPTY}, b"b": EMPTY})
    os.truncate(tmp_path / "a/.gitignore", 5 * 1024 * 1024)
    engine = Engine(MemoryBackend())
    scan = take(engine, tmp_path)
    assert paths(in_store(engine, scan.tree)) == {b"b"}
    assert [(one.path, one.reason) for one in scan.skipped] == [("a", "unreadable")]


def test_rules_behind_a_link_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"*")
    root = tmp_path / "root"
    build(root, {b"a": EMPTY})
    os.symlink("../outside", root / ".gitignore")
    assert taken(root, {}) == {b"a", b".gitignore"}


@each_row(("option", "pattern"), product(("include", "exclude"), ("", "#x", "/", "a\\", "   ")))
def test_a_pattern_that_means_nothing_is_refused_by_name(tmp_path: Path, option: str, pattern: str) -> None:
    with pytest.raises(InvalidError, match=option):
        taken(tmp_path, {}, **{option: [pattern]})


def test_a_single_text_is_no_list_of_patterns(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"'\*\.py'"):
        taken(tmp_path, {}, include="*.py")


def test_a_newline_in_a_name_is_part_of_it() -> None:
    patterns = Patterns(["foo", "*.log"])
    assert patterns.verdict("foo\n") is None
    assert patterns.verdict("a\nb.log") is True


_parts = st.sampled_from(
    ["a", "b", "ab", "*", "a*", "?", "**", "[ab]", "*.x", "a.x", "[!a]", "\\a", "[[:alpha:]]"]
)
_lines = st.builds(
    lambda negated, anchored, parts, is_directory: (
        "!" * negated + "/" * anchored + "/".join(parts) + "/" * is_directory
    ),
    st.booleans(), st.booleans(), st.lists(_parts, min_size=1, max_size=3), st.booleans(),
)  # fmt: skip
_names = st.sampled_from([b"a", b"b", b"ab", b"a.x", b"c"])
_trees = st.recursive(
    st.just(EMPTY), lambda below: st.dictionaries(_names, below, min_size=1, max_size=4), max_leaves=12
)


@pytest.mark.needs("git")
@settings(max_examples=usually(25, thorough=60))
@given(
    tree=st.dictionaries(_names, _trees, min_size=1),
    top=st.lists(_lines, max_size=4),
    inner=st.lists(_lines, max_size=3),
)
def test_the_rules_leave_out_what_git_leaves_out(
    tree: dict[bytes, Tree], top: list[str], inner: list[str]
) -> None:
    with TemporaryDirectory() as place:
        root = Path(place) / "root"
        build(root, tree)
        (root / ".gitignore").write_text("\n".join(top))
        if (root / "a").is_dir():
            (root / "a/.gitignore").write_text("\n".join(inner))
        engine = Engine(MemoryBackend())
        found = paths(in_store(engine, take(engine, root).tree))
        assert {path for path in found if not path.endswith(b"/")} == _files_of_git(root)


def _files_of_git(root: Path) -> set[bytes]:
    where = [f"--git-dir={_repository().name}", f"--work-tree={root}", "-c", "core.excludesFile=/dev/null"]
    asked = ["git", *where, "ls-files", "--others", "--exclude-per-directory=.gitignore", "-z"]
    listed = subprocess.run(asked, check=True, capture_output=True, cwd=root)
    return set(listed.stdout.split(b"\0")) - {b""}


@cache
def _repository() -> TemporaryDirectory[str]:
    """One for all trees: nothing is ever put into it."""
    place = TemporaryDirectory(prefix="clew-git-")
    subprocess.run(["git", f"--git-dir={place.name}", "init", "-q"], check=True, capture_output=True)
    return place
