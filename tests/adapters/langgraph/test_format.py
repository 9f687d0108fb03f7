"""How the documents of a LangGraph thread are kept: what this version writes, later ones must read."""

from __future__ import annotations

import base64

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.adapters.langgraph.documents import Codec, Head

HEAD = Head("1f0a-1", "", None, {"v": 4}, None, ("msgpack", b"\x80"), {"plan": ["i", "null", b"heron" * 200]})
PACKED = "eii1L/1gFwPtAQBEA2+ZpjFmMGEtMaDAgaF2BMCSp21zZ3BhY2vEAYCBpHBsYW6ToWmkbnVsbMUD6Ghlcm9ukMABAAIeVYEC"


@pytest.fixture
def codec() -> Codec:
    return Codec(JsonPlusSerializer())


def test_a_document_that_was_packed_is_read(codec: Codec) -> None:
    document = codec.encode_head(HEAD)
    packed = codec.pack(document)

    assert len(packed) < len(document)
    assert codec.decode_head(packed) == codec.decode_head(document) == HEAD
    assert codec.decode_head(base64.b64decode(PACKED)) == HEAD


def test_a_small_document_stays_as_it_is(codec: Codec) -> None:
    document = codec.encode_head(Head("1f0a-1", "", None, {}, None, ("msgpack", b"\x80"), {}))

    assert codec.pack(document) == document


@pytest.mark.parametrize("content", [b"z", b"zheron", b"z(\xb5/\xfd", b"x", b""])
def test_a_document_that_cannot_be_read_is_refused(codec: Codec, content: bytes) -> None:
    with pytest.raises(clew.CorruptError, match="cannot be read"):
        codec.decode_head(content)


def test_a_document_is_packed_once(codec: Codec) -> None:
    packed = codec.pack(codec.encode_head(HEAD))

    assert codec.pack(packed) == packed
