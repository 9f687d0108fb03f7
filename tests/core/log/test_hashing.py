"""The digests are part of the stored format: their bytes are pinned here, not only their properties."""

from __future__ import annotations

import struct

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from clew.core.log.digest import ROOT, batch_digest, entry_digest
from tests.support.rows import each_row

PARENT = bytes(range(32))
BODY = b'{"role":"user","content":"hi"}'
TIME = 1_700_000_000_000_000

fields = st.tuples(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=2000),
)


def test_the_root_is_32_zero_bytes() -> None:
    assert bytes(32) == ROOT


def test_an_entry_digest_is_blake3_over_a_fixed_header_and_the_body() -> None:
    header = b"clewent1" + PARENT + struct.pack("<qq", 7, TIME) + struct.pack("<II", 1, 2)

    assert len(header) == 64
    assert blake3(header + BODY).digest() == entry_digest(PARENT, 7, 1, TIME, 2, BODY)


def test_a_batch_digest_is_blake3_over_the_count_the_lengths_and_the_bodies() -> None:
    text = b"clewbat1" + struct.pack("<QQQ", 2, len(BODY), 2) + BODY + b"{}"

    assert blake3(text).digest() == batch_digest([BODY, b"{}"])


def test_the_stored_format_of_digests_never_changes() -> None:
    assert (
        "cf034658b78e3db661c2340bbe134b1b621cc3b08b24e3c3de4ab03b32ff2cb8"
        == entry_digest(ROOT, 0, 1, TIME, 0, BODY).hex()
    )
    assert "9f5a563391d345348a992603480450432ffaaf0fb567cb7bb69d4a6e8f794060" == batch_digest([BODY]).hex()


@given(fields, fields)
def test_P17_different_entries_have_different_digests(
    one: tuple[bytes, int, int, int, int, bytes], other: tuple[bytes, int, int, int, int, bytes]
) -> None:
    assert (entry_digest(*one) == entry_digest(*other)) == (one == other)


@each_row(
    "changed",
    [
        (ROOT, 7, 1, TIME, 2, BODY),
        (PARENT, 8, 1, TIME, 2, BODY),
        (PARENT, 7, 2, TIME, 2, BODY),
        (PARENT, 7, 1, TIME + 1, 2, BODY),
        (PARENT, 7, 1, TIME, 3, BODY),
        (PARENT, 7, 1, TIME, 2, BODY + b" "),
        (PARENT, 1, 7, TIME, 2, BODY),
    ],
)
def test_every_field_of_an_entry_is_in_its_digest(changed: tuple[bytes, int, int, int, int, bytes]) -> None:
    assert entry_digest(PARENT, 7, 1, TIME, 2, BODY) != entry_digest(*changed)


@each_row("parent", [b"", bytes(31), bytes(33)])
def test_a_parent_of_another_size_is_refused_not_cut_or_padded(parent: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        entry_digest(parent, 0, 0, 0, 0, BODY)


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.binary(max_size=40), max_size=6))
def test_batches_have_equal_digests_only_when_equal(one: list[bytes], other: list[bytes]) -> None:
    assert (batch_digest(one) == batch_digest(other)) == (one == other)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_another_split_of_the_same_bytes_is_another_batch(text: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))

    assert batch_digest([text]) != batch_digest([text[:cut], text[cut:]])


def test_a_body_that_spells_a_header_is_not_mistaken_for_one() -> None:
    header = b"clewbat1" + struct.pack("<QQ", 1, len(BODY))

    assert batch_digest([BODY]) != batch_digest([header + BODY])
    assert len({batch_digest([]), batch_digest([b""]), batch_digest([b"", b""])}) == 3
