"""Which files were renamed, decided from hashes and lines."""

from __future__ import annotations

from clew.files.diff.trees import COMMON, Difference, exact_renames, is_text, similar_renames
from clew.files.objects.format import EXECUTABLE, FILE, LINK, TreeEntry, object_name


def entry(content: bytes, kind: int = FILE) -> TreeEntry:
    return TreeEntry(b"name", kind, object_name(content), len(content))


def went(path: bytes, content: bytes, kind: int = FILE) -> Difference:
    return Difference(path, entry(content, kind), None)


def came(path: bytes, content: bytes, kind: int = FILE) -> Difference:
    return Difference(path, None, entry(content, kind))


def exact(removed: list[Difference], added: list[Difference]) -> dict[bytes, bytes]:
    return {path: origin.path for path, origin in exact_renames(removed, added).items()}


def test_a_file_of_the_same_content_was_renamed() -> None:
    assert exact([went(b"a", b"1")], [came(b"b", b"1"), came(b"c", b"2")]) == {b"b": b"a"}
    assert exact([went(b"a", b"1")], [came(b"b", b"1", EXECUTABLE)]) == {b"b": b"a"}


def test_of_several_of_the_same_content_the_one_of_the_same_name_is_taken() -> None:
    removed = [went(b"x/one", b"1"), went(b"x/two", b"1")]
    assert exact(removed, [came(b"y/two", b"1"), came(b"y/new", b"1")]) == {
        b"y/two": b"x/two", b"y/new": b"x/one"
    }  # fmt: skip


def test_a_file_that_went_is_the_origin_of_one_file_only() -> None:
    assert exact([went(b"a", b"1")], [came(b"b", b"1"), came(b"c", b"1")]) == {b"b": b"a"}


def test_empty_files_and_links_are_not_taken_for_renamed() -> None:
    assert not exact([went(b"a", b"")], [came(b"b", b"")])
    assert not exact([went(b"a", b"1", LINK)], [came(b"b", b"1", LINK)])
    assert not exact([went(b"a", b"1", LINK)], [came(b"b", b"1")])


def text(*numbers: int) -> bytes:
    return b"".join(b"this is line number %03d\n" % number for number in numbers)


def test_a_text_of_which_half_is_the_same_was_renamed() -> None:
    assert similar_renames({b"a": text(1, 2, 3, 4)}, {b"b": text(1, 2, 8, 9)}) == {b"b": b"a"}
    assert not similar_renames({b"a": text(1, 2, 3, 4)}, {b"b": text(1, 7, 8, 9)})


def test_half_of_the_larger_one_must_be_the_same() -> None:
    assert not similar_renames({b"a": text(1)}, {b"b": text(1, 2, 3)})


def test_the_most_alike_is_taken() -> None:
    removed = {b"far": text(1, 2, 8, 9), b"near": text(1, 2, 3, 9)}
    assert similar_renames(removed, {b"new": text(1, 2, 3, 4)}) == {b"new": b"near"}


def test_each_text_is_used_once() -> None:
    pairs = similar_renames({b"a": text(1, 2)}, {b"b": text(1, 2, 3), b"c": text(1, 2)})
    assert pairs == {b"c": b"a"}


def test_a_line_that_many_files_have_tells_nothing() -> None:
    removed = {b"%d" % number: b"the licence\n" for number in range(COMMON + 1)}
    assert not similar_renames(removed, {b"new": b"the licence\n"})
    del removed[b"0"]
    assert similar_renames(removed, {b"new": b"the licence\n"})


def test_text_is_utf_8_without_nul() -> None:
    assert is_text("naïve\r\n".encode())
    assert is_text(b"")
    assert not is_text(b"a\0b")
    assert not is_text(b"\xff\xfe")
