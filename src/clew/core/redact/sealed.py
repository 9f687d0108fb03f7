"""What is left unread: signatures and sealed reasoning of a provider, and the bytes of media.

A provider checks every byte of these, and no person reads them. But a name such as `signature` or `data` is
nobody's own: a tool may answer with it, and a user may send it. So a field is sealed only in a block that a
provider makes, in the words of the model, and only if it looks like what a provider puts there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from clew.model import Json

_REASONING: Final = frozenset(
    {
        "thinking",
        "redacted_thinking",
        "reasoning",
        "reasoning.text",
        "reasoning.summary",
        "reasoning.encrypted",
    }
    | {"thought", "signature_delta", "thinking_delta"}
)
_ENCRYPTED: Final = frozenset(
    {"compaction", "compaction_summary", "context_compaction", "web_search_result", "agent_message"}
)
_PARTS: Final = frozenset(
    {"text", "thought", "functionCall", "function_call", "executableCode", "inlineData"}
)
"""Fields of which a part of Gemini has one. Its signature stands beside it."""
_CALLS: Final = frozenset({"toolCall", "tool_call", "function", "text", "output_text"})
_SEALED: Final[Mapping[str, frozenset[str]]] = {
    "signature": _REASONING,
    "thoughtSignature": _REASONING | _CALLS,
    "thought_signature": _REASONING | _CALLS,
    "encrypted_content": _REASONING | _ENCRYPTED,
    "encryptedContent": _REASONING | _ENCRYPTED,
    "data": frozenset({"redacted_thinking", "reasoning.encrypted"}),
}
"""Names of sealed fields, and the types of the blocks in which they are."""
_OF_PROVIDERS: Final = frozenset(
    {"anthropic", "bedrock", "google", "openai", "openrouter", "vertex", "reasoningText", "reasoning_text"}
)
"""Fields that hold what one provider adds to a block."""

_ROLES: Final = frozenset({"assistant", "model", "ai"})
_OF_TOOLS: Final = frozenset(
    {"input", "arguments", "args", "params", "parameters", "partial_json", "output", "result", "results"}
    | {"response", "functionResponse", "function_response", "toolResult", "tool_result", "toolUseResult"}
    | {
        "tool_use_result",
        "toolResults",
        "tool_results",
        "structuredContent",
        "structured_content",
        "artifact",
    }
)
"""Fields whose value is what a tool was given, or what it answered."""
_TOOL_BLOCKS: Final = frozenset(
    {"tool", "tool_result", "tool-result", "toolResult", "toolResponse", "tool-return", "tool_return"}
    | {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output"}
    | {"computer_call_output", "apply_patch_call_output", "mcp_call", "mcp_tool_result"}
)

_MEDIA_FIELDS: Final = frozenset({"data", "b64_json", "file_data", "image_url", "url"})
_MEDIA_TYPE: Final = re.compile(r"(?:image|audio|video)/|application/pdf")
_DATA_URL: Final = re.compile(r"data:(?P<type>[a-zA-Z0-9.+/-]{1,80})[^,]{0,40};base64,")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\r\n-]*+[=\r\n]*+")
_BEGINNINGS: Final = (
    "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "Qk", "SUkq", "TU0AK", "AAAA", "PHN2Zy", "PD94bWw",
    "JVBERi", "SUQz", "//", "T2dnUw", "ZkxhQ", "GkXfo",
)  # fmt: skip
"""How PNG, JPEG, GIF, RIFF, BMP, TIFF, MP4 and AVIF, SVG, PDF, MP3, Ogg, FLAC and WebM begin as base64."""


def is_of_model(value: Mapping[str, Json]) -> bool:
    """Whether the fields of an object may be a provider's: it is no message of somebody else, and no block in
    which a tool answers."""
    role = value.get("role")
    if isinstance(role, str) and role not in _ROLES:
        return False
    type = value.get("type", value.get("kind", value.get("part_kind")))
    return not (isinstance(type, str) and type in _TOOL_BLOCKS)


def is_given_to_tools(holder: Mapping[str, Json], name: str) -> bool:
    """Whether what stands below a field is a tool's. The output of a whole response is the model's."""
    return name in _OF_TOOLS and not (name == "output" and holder.get("object") == "response")


def is_sealed(holder: Mapping[str, Json], holder_name: str, name: str, value: Json) -> bool:
    """Whether a field that stands in the words of a model is one that only its provider reads."""
    types = _SEALED.get(name)
    if types is None or not _is_base64(value):
        return False
    type = holder.get("type", holder.get("part_kind"))
    if isinstance(type, str) and type in types:
        return True
    if name in ("thoughtSignature", "thought_signature") and not _PARTS.isdisjoint(holder):
        return True
    return name != "data" and holder_name in _OF_PROVIDERS


def is_media(holder: Mapping[str, Json], name: str, value: Json) -> bool:
    """Whether a field holds an image or another file as base64. It says so, and begins as such a file."""
    if name not in _MEDIA_FIELDS or not isinstance(value, str):
        return False
    url = _DATA_URL.match(value)
    if url is not None:
        type, content = url["type"], value[url.end() :]
    else:
        told = holder.get("media_type", holder.get("mimeType", holder.get("mime_type")))
        type, content = told if isinstance(told, str) else "", value
    return _MEDIA_TYPE.match(type) is not None and content.startswith(_BEGINNINGS) and _is_base64(content)


def _is_base64(value: Json) -> bool:
    return isinstance(value, str) and _BASE64.fullmatch(value) is not None
