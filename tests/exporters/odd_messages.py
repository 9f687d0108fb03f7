"""Messages of every shape: fields that some dialect knows, with values that none of them expects."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.exporters.stories import STORIES

FIELDS = [
    "role", "content", "type", "text", "parts", "source", "data", "media_type", "mimeType", "url",
    "image_url", "file_data", "filename", "name", "id", "input", "arguments", "args", "function",
    "tool_calls", "tool_use_id", "call_id", "output", "summary", "reasoning", "thinking", "signature",
    "functionCall", "functionResponse", "response", "inlineData", "thought", "images", "attachments",
    "is_error", "tool_call_id", "tool_name", "message", "kind", "part_kind", "tool_kind", "toolUse",
    "toolResult", "image", "format", "bytes", "author", "actions", "blocks", "block_type",
    "additional_kwargs", "lc", "kwargs", "status", "items", "key", "value", "uuid", "parentUuid",
    "sessionId", "isMeta", "toolUseResult", "cache_control", "contents", "reasoning_details",
    "function_call", "refusal", "custom", "schema_version", "_clew", "messages", "start",
]  # fmt: skip
WORDS = [
    "user", "assistant", "tool", "system", "model", "developer", "human", "ai", "text", "image",
    "image_url", "input_image", "input_text", "output_text", "input_file", "file", "document", "audio",
    "tool_use", "tool_result", "server_tool_use", "web_search_tool_result", "thinking", "redacted_thinking",
    "reasoning", "refusal", "message", "function_call", "function_call_output", "compaction",
    "data:image/png;base64,iVBORw0KGgo=", "data:", "data:,", "data:image/svg+xml,<svg onload=x>",
    "data:text/html;base64,PHN2Zz4=", "base64", "image/png", "image/svg+xml", "image/png\" onerror=\"x",
    "iVBORw0KGgo=", "déjà", "not base64!", "====", "https://evil.example/a.png", "javascript:alert(1)", "{",
    "[]", "{\"a\":1}", "", " ", "\x00", "\x1b[2J", "\u202e", "<script>", "```", "constructor", "request",
    "response", "user-prompt", "tool-return", "tool-call", "binary", "summary", "progress", "agent",
]  # fmt: skip

WORD = st.sampled_from(WORDS) | st.text(max_size=8)
VALUE: st.SearchStrategy[Any] = st.recursive(
    WORD
    | st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | WORD, inner, max_size=4)
    ),
    max_leaves=8,
)
MESSAGES = st.dictionaries(st.sampled_from(FIELDS), VALUE, max_size=5)

_PNG = "iVBORw0KGgo="
_IMAGE = f"data:image/png;base64,{_PNG}"
_BINARY = {"kind": "binary", "data": _PNG, "media_type": "image/png"}
_MEDIA: list[dict[str, Any]] = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}},
    {"type": "image_url", "image_url": {"url": _IMAGE}},
    {"type": "input_image", "image_url": _IMAGE},
    {"type": "document", "source": {"type": "text", "data": "x"}, "title": "t"},
    {"image": {"format": "png", "source": {"bytes": _PNG}}},
]
# Messages that are right but for one value: what is one step from a good message gets furthest.
_GOOD: list[dict[str, Any]] = [
    *(message for story in STORIES.values() for message in story),
    *({"role": "user", "content": [part]} for part in _MEDIA),
    {"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": _PNG}}]},
    {"type": "function_call_output", "call_id": "t", "output": [_MEDIA[2]]},
    {
        "kind": "request",
        "parts": [{"part_kind": "user-prompt", "content": [{"kind": "binary", "data": _PNG}]}],
    },
    {"role": "user", "blocks": [{"block_type": "image", "image": _PNG}], "additional_kwargs": {}},
    {"type": "message", "role": "user", "contents": [{"type": "data", "uri": _IMAGE}]},
]


@st.composite
def nearly_good(draw: st.DrawFn) -> dict[str, Any]:
    """A message of some dialect with one value that does not belong there."""
    message = draw(st.sampled_from(_GOOD))
    places = list(_places(message))
    place = draw(st.sampled_from(places))
    replaced = _replaced(message, place, draw(VALUE))
    assert isinstance(replaced, dict)
    return replaced


def _places(value: Any, at: tuple[Any, ...] = ()) -> Any:
    if at:
        yield at
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _places(inner, (*at, key))


def _replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    key, *rest = place
    if isinstance(value, dict):
        return {**value, key: _replaced(value[key], tuple(rest), new)}
    return [*value[:key], _replaced(value[key], tuple(rest), new), *value[key + 1 :]]
