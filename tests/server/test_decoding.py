"""What a request brings, as values of the types of its route."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from clew.server.decoding import query_of
from clew.server.problems import Problem
from tests.support.rows import each_row


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    text: str | None = None
    count: int | None = None
    word: Literal["a", "b"] | None = None
    ratio: float = 0.5
    tag: tuple[str, ...] = ()


@each_row("given", ["count=null", "word=NULL", "ratio=nan", "ratio=inf", "ratio=-Infinity"])
def test_a_parameter_is_never_null_or_no_number(given: str) -> None:
    with pytest.raises(Problem, match="is no value; leave it out"):
        query_of(given.encode(), Query)


def test_a_text_may_be_any_word() -> None:
    assert query_of(b"text=null&tag=nan&tag=null", Query) == Query(text="null", tag=("nan", "null"))
    assert query_of(b"", Query) == Query()
    assert query_of(b"count=3&word=b&ratio=0.25", Query) == Query(count=3, word="b", ratio=0.25)
