"""What Hypothesis feeds a store with."""

from __future__ import annotations

import json as stdlib_json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from clew.model import Json

words: SearchStrategy[str] = st.sampled_from(["alpha", "beta", "gamma", "delta", "é\U0001f680", "a\u0301b"])
"""What a user says: short and on one line, so that it is its own title and preview."""

names: SearchStrategy[str] = st.sampled_from(["one", "näme'; --"])
"""Checkpoints, keys, variables, labels: few, so that they meet again."""

session_ids: SearchStrategy[str] = st.sampled_from(["s", "t", "s#fork-1", "s#fork-2", "ünï\ncode", "../x"])
"""Few too, and some that the numbering of forks will want."""

texts: SearchStrategy[str] = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Any text that is valid Unicode, NUL and controls too."""

scalars: SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**40), max_value=10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)

json_values: SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

user_messages: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"role": st.just("user"), "content": words | st.sampled_from(["", " "])}, optional={"extra": json_values}
)

assistant_messages: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": words | texts}, optional={"extra": json_values}
)

messages: SearchStrategy[dict[str, Any]] = user_messages | assistant_messages
"""Messages without tool calls: what `context()` makes of those is not the machine's subject."""


def spelled(message: dict[str, Any], form: int) -> dict[str, Any] | str | bytes:
    """The same message as a dict, or as JSON text in one of several spellings."""
    if form % 4 == 0:
        return message
    text = stdlib_json.dumps(message, ensure_ascii=form % 4 == 1, indent=1 if form % 4 == 2 else None)
    return text.encode() if form % 4 == 3 else text


events: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["tool", "näme"])},
    optional={
        "id": names,
        "stream": st.sampled_from(["", "log"]),
        "data": st.none() | st.just({"a": [1, 10**30]}),
    },
)
"""Few kinds, so that those of one id are sometimes the same and sometimes not."""

costs: SearchStrategy[str] = st.sampled_from(["0", "0.1", "0.000000001", "999999.25"])
