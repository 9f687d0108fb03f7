"""Bodies in records: what is packed comes back, and damage is noticed."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from clew.core.log import digest
from clew.core.log.digest import OBJECTS_THRESHOLD, RAW, THRESHOLD, ZSTD, checksum, pack, pack_objects, unpack
from clew.core.messages.validate import MAX_MESSAGE_BYTES
from tests.support.rows import each_row

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SENTENCE = "The login page returns 500 when the session cookie is older than the token. "


def chat(size: int) -> bytes:
    return json.dumps({"role": "user", "content": (SENTENCE * (size // len(SENTENCE) + 1))[:size]}).encode()


def noise(size: int) -> bytes:
    return blake3(b"noise").digest(length=size)


def test_a_small_body_stays_raw_and_is_not_even_copied() -> None:
    body = chat(1000)
    codec, blob = pack(body)

    assert codec == RAW
    assert blob is body
    assert unpack(codec, blob) is body


@each_row(("size", "codec"), [(THRESHOLD - 1, RAW), (THRESHOLD, ZSTD)])
def test_the_threshold_is_the_first_size_that_is_compressed(size: int, codec: int) -> None:
    body = b" " * size

    assert codec == pack(body)[0]


def test_a_large_text_is_compressed_to_less_than_half() -> None:
    body = chat(50_000)
    codec, blob = pack(body)

    assert codec == ZSTD
    assert len(blob) < len(body) / 2
    assert body == unpack(codec, blob)


def test_a_body_that_would_not_shrink_by_a_tenth_stays_raw() -> None:
    body = noise(100_000)

    assert (RAW, body) == pack(body)


def test_base64_is_worth_compressing() -> None:
    body = base64.b64encode(noise(60_000))
    codec, blob = pack(body)

    assert codec == ZSTD
    assert body == unpack(codec, blob)


@each_row(("size", "codec"), [(OBJECTS_THRESHOLD - 1, RAW), (OBJECTS_THRESHOLD, ZSTD)])
def test_a_pack_of_objects_is_compressed_from_a_smaller_size_on(size: int, codec: int) -> None:
    assert codec == pack_objects(b" " * size)[0]


def test_a_pack_of_objects_is_compressed_more_at_a_higher_level() -> None:
    body = b"".join(b"%d %s\n" % (number, noise(number % 97)) for number in range(1000))
    sizes = [len(pack_objects(body, level)[1]) for level in (1, 9)]

    assert sizes[0] > sizes[1]
    assert body == unpack(*pack_objects(body, 9))


def test_objects_that_would_not_shrink_by_a_tenth_stay_raw() -> None:
    assert (RAW, noise(5000)) == pack_objects(noise(5000))


def test_objects_that_could_not_be_unpacked_stay_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "MAX_MESSAGE_BYTES", 50_000)

    assert [ZSTD, RAW] == [pack_objects(bytes(size))[0] for size in (50_000, 50_001)]


@given(st.binary(max_size=300), st.integers(0, 40), st.integers(1, 9))
def test_P17_whatever_objects_are_packed_come_back(part: bytes, times: int, level: int) -> None:
    assert part * times == unpack(*pack_objects(part * times, level))


@given(st.binary(max_size=300), st.integers(0, 400))
def test_P17_whatever_is_packed_comes_back(part: bytes, times: int) -> None:
    body = part * times

    assert body == unpack(*pack(body))


@given(st.binary(max_size=300))
def test_unpack_reads_any_frame_however_small(body: bytes) -> None:
    assert body == unpack(RAW, body)
    assert b"x" + body == unpack(ZSTD, zstd.compress(b"x" + body, 3))


def test_the_frame_states_its_size_and_carries_no_checksum_of_its_own() -> None:
    body = chat(THRESHOLD)
    _, blob = pack(body)

    assert len(body) == zstd.get_frame_info(blob).decompressed_size
    assert not blob[4] & 0b100  # the checksum flag of the frame header: the record has a checksum already


@each_row("codec", [-1, 2, 255])
def test_an_unknown_codec_is_a_value_error_that_names_it(codec: int) -> None:
    with pytest.raises(ValueError, match=f"unknown codec {codec}"):
        unpack(codec, b"{}")


def damaged_frames() -> dict[str, bytes]:
    body = chat(THRESHOLD)
    good = pack(body)[1]
    lying = bytearray(good)
    assert 0b01 == good[4] >> 6  # the size stands in two bytes, less 256
    where = 5 if good[4] & 0b100000 else 6  # behind the window, unless the frame is a single segment
    lying[where : where + 2] = (1000).to_bytes(2, "little")
    without_size: dict[int, int] = {zstd.CompressionParameter.content_size_flag: 0}
    return {
        "empty": b"",
        "text": b'{"role":"user"}',
        "cut": good[:-1],
        "half": good[: len(good) // 2],
        "header only": good[:9],
        "more behind": good + b"\0",
        "two frames": good + good,
        "skippable": b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab",
        "no size": zstd.compress(body, options=without_size),
        "empty content": zstd.compress(b""),
        "lies about size": bytes(lying),
    }


@each_row("name", list(damaged_frames()))
def test_a_damaged_frame_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match="zstd frame"):
        unpack(ZSTD, damaged_frames()[name])


def test_S28_a_frame_that_claims_more_than_a_message_is_refused_before_it_is_unpacked() -> None:
    bomb = zstd.compress(bytes(MAX_MESSAGE_BYTES + 1), 1)

    assert len(bomb) < 10_000
    with pytest.raises(ValueError, match="claims 67108865 bytes"):
        unpack(ZSTD, bomb)


@given(st.data())
def test_a_flipped_bit_in_a_frame_never_raises_anything_but_a_value_error(data: st.DataObject) -> None:
    blob = bytearray(pack(chat(THRESHOLD))[1])
    blob[data.draw(st.integers(0, len(blob) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        unpack(ZSTD, bytes(blob))
    except ValueError:
        pass  # what slips through here has another checksum


def test_the_checksum_is_xxh3_over_the_fields_and_the_blob_and_never_changes() -> None:
    assert 8_295_656_829_063_711_357 == checksum(b'{"role":"user"}', 7, 1_700_000_000_000_000, 1, RAW, 2)


@each_row("size", [1, 3, 8, 16, 17, 129, 241, 600])  # XXH3 has a way of its own for each
def test_any_flipped_bit_of_the_blob_changes_the_checksum(size: int) -> None:
    blob = chat(size)[:size]
    expected = checksum(blob, 7, 1_700_000_000_000_000, 1, RAW, 0)
    for bit in range(len(blob) * 8):
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8

        assert expected != checksum(bytes(flipped), 7, 1_700_000_000_000_000, 1, RAW, 0)


@each_row("field", range(5))
def test_any_flipped_bit_of_a_field_changes_the_checksum(field: int) -> None:
    blob = chat(200)
    fields = [7, 1_700_000_000_000_000, 1, RAW, 0]
    expected = checksum(blob, *fields)
    for bit in range(63):
        flipped = list(fields)
        flipped[field] ^= 1 << bit

        assert expected != checksum(blob, *flipped)
    flipped[field] = ~fields[field]  # the sign

    assert expected != checksum(blob, *flipped)


int64 = st.integers(-(2**63), 2**63 - 1)


@given(st.binary(max_size=100), st.tuples(int64, int64, int64, int64, int64), st.data())
def test_the_checksum_takes_any_numbers_and_sees_swapped_fields(
    blob: bytes, fields: tuple[int, int, int, int, int], data: st.DataObject
) -> None:
    swapped: Any = data.draw(st.permutations(fields))

    assert 0 <= checksum(blob, *fields) < 2**63
    assert (checksum(blob, *fields) == checksum(blob, *swapped)) == (list(fields) == swapped)
