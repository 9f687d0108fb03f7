"""Directories and chunk lists as bytes: what is made comes back, what could not have been made is refused."""

from __future__ import annotations

import struct

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from clew.files.objects.format import (
    CHUNKED,
    CHUNKS,
    DIRECTORY,
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    MAX_NAME,
    Chunk,
    Directory,
    TreeEntry,
    check_name,
    decode_chunks,
    decode_directory,
    encode_chunks,
    encode_directory,
    object_name,
)
from tests.support.rows import each_row

KINDS = (FILE, EXECUTABLE, LINK, FOLDER, FILE | CHUNKED, EXECUTABLE | CHUNKED)
HASH = bytes(range(32))

names = (
    st.binary(min_size=1, max_size=MAX_NAME)
    .map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_"))
    .filter(lambda name: name not in (b".", b".."))
)
hashes = st.binary(min_size=32, max_size=32)
sizes = st.integers(0, 2**64 - 1)
entries = st.builds(TreeEntry, names, st.sampled_from(KINDS), hashes, sizes)
directories = st.lists(entries, unique_by=lambda entry: entry.name, max_size=20)


def raw(*parts: tuple[bytes, int], head: bytes = DIRECTORY) -> bytes:
    """A directory as an attacker would write it: names and kinds as they are."""
    return head + b"".join(
        struct.pack(">BH", kind, len(name)) + name + HASH + struct.pack(">Q", 1) for name, kind in parts
    )


@given(directories)
def test_a_directory_comes_back_in_the_order_of_names(given: list[TreeEntry]) -> None:
    content = encode_directory(given)

    assert decode_directory(content) == sorted(given, key=lambda entry: entry.name)
    assert encode_directory(decode_directory(content)) == content


@given(directories.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_equal_directories_are_the_same_object(pair: tuple[list[TreeEntry], list[TreeEntry]]) -> None:
    assert encode_directory(pair[0]) == encode_directory(pair[1])


@given(directories, directories)
def test_different_directories_are_different_objects(one: list[TreeEntry], other: list[TreeEntry]) -> None:
    same = {entry.name: entry for entry in one} == {entry.name: entry for entry in other}

    assert (object_name(encode_directory(one)) == object_name(encode_directory(other))) == same


@each_row(
    "name",
    [b"", b".", b"..", b"/", b"a/b", b"/etc", b"../x", b"a\0b", b"\0", b"x" * (MAX_NAME + 1)],
)
def test_s08_a_name_that_leads_out_of_its_directory_is_refused(name: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        decode_directory(raw((name, FILE)))
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        check_name(name)


@each_row(
    "name",
    [
        b"...",
        b"..a",
        b".git",
        b"a\n",
        b" ",
        b"\xff\xfe",
        b"C:\\x",
        b"-rf",
        "\u00e9".encode(),
        b"x" * MAX_NAME,
    ],
)
def test_i20_any_other_name_is_taken(name: bytes) -> None:
    assert [entry.name for entry in decode_directory(raw((name, FILE)))] == [name]


@each_row("found", [(b"b", b"a"), (b"a", b"a"), (b"a", b"b", b"a"), (b"a", b"A"), (b"ab", b"a")], ids=repr)
def test_names_out_of_order_or_twice_are_refused(found: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="out of order, or there twice"):
        decode_directory(raw(*((name, FILE) for name in found)))


@given(st.lists(st.tuples(st.text("ab./\0", max_size=2).map(str.encode), st.integers(0, 7)), max_size=4))
def test_s08_one_wrong_entry_among_others_is_enough_to_refuse_a_directory(
    parts: list[tuple[bytes, int]],
) -> None:
    found = [name for name, _ in parts]
    is_wrong = any(
        name in (b"", b".", b"..") or b"/" in name or b"\0" in name or kind not in KINDS
        for name, kind in parts
    )

    if is_wrong or found != sorted(set(found)):
        with pytest.raises(ValueError, match=r"cannot be the name|out of order|unknown kind"):
            Directory(raw(*parts))
    else:
        assert [(entry.name, entry.kind) for entry in Directory(raw(*parts)).entries()] == parts


few_names = st.sampled_from([b"a", b"b", b"c", b"d"])
few_hashes = st.sampled_from([HASH, HASH[::-1]])
similar = st.lists(
    st.builds(TreeEntry, few_names, st.sampled_from(KINDS), few_hashes, st.integers(0, 1)),
    unique_by=lambda entry: entry.name,
)


@given(similar, similar)
def test_two_directories_differ_in_the_names_that_are_not_the_same_in_both(
    one: list[TreeEntry], other: list[TreeEntry]
) -> None:
    first, second = Directory(encode_directory(one)), Directory(encode_directory(other))
    known = {name: {entry.name: entry for entry in one}.get(name) for name in (b"a", b"b", b"c", b"d")}
    now = {name: {entry.name: entry for entry in other}.get(name) for name in known}

    assert {name: first.get(name) for name in known} == known
    assert first.names_of_differences(second) == [name for name in known if known[name] != now[name]]


@each_row("kind", sorted(set(range(256)) - set(KINDS)))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(ValueError, match=f"unknown kind {kind}"):
        decode_directory(raw((b"a", kind)))


def test_a_directory_that_is_cut_short_is_refused() -> None:
    whole = raw((b"a", FILE), (b"bc", FOLDER))
    ends = [len(DIRECTORY), len(raw((b"a", FILE))), len(whole)]
    for length in range(len(whole)):
        if length not in ends:
            with pytest.raises(ValueError, match=r"no directory|cut short"):
                decode_directory(whole[:length])
    assert [len(decode_directory(whole[:length])) for length in ends] == [0, 1, 2]


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_or_a_directory(content: bytes) -> None:
    for tried in (content, DIRECTORY + content):
        try:
            found = decode_directory(tried)
        except ValueError:
            continue
        assert encode_directory(found) == tried


@each_row("head", [b"", b"clewdir2", CHUNKS, DIRECTORY[:-1]])
def test_what_is_no_directory_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match="no directory"):
        decode_directory(raw((b"a", FILE), head=head))


@given(st.lists(st.builds(Chunk, hashes, sizes), max_size=20))
def test_a_list_of_chunks_comes_back(chunks: list[Chunk]) -> None:
    assert decode_chunks(encode_chunks(chunks)) == chunks


@each_row("content", [b"", DIRECTORY, CHUNKS[:-1], CHUNKS + b"x", CHUNKS + HASH, CHUNKS + bytes(41)])
def test_what_is_no_list_of_chunks_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no list of chunks"):
        decode_chunks(content)


@given(st.binary(max_size=100))
def test_an_object_is_named_by_the_hash_of_exactly_its_bytes(content: bytes) -> None:
    assert object_name(content) == blake3(content).digest()


@each_row("kind", KINDS)
def test_files_are_told_from_links_and_folders(kind: int) -> None:
    assert TreeEntry(b"a", kind, HASH, 1).is_file == (kind not in (LINK, FOLDER))
