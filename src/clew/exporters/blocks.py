"""A message as blocks for people to read: what was said, thought, called, answered and shown.

Nothing of a message is passed over in silence: what no rule here knows is shown as its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import dialect_of
from clew.core.messages.dialects.anthropic import inner_of, note_in
from clew.core.messages.dialects.base import MEDIA_TYPES, TEXT_TYPES, filled, is_blank, type_of
from clew.core.messages.dialects.bedrock import shown_in
from clew.core.messages.dialects.google import content_of, deeds_of, transcripts_of
from clew.core.messages.dialects.langchain import as_chat
from clew.core.messages.dialects.llama_index import as_chat as llama_index_as_chat
from clew.exporters.agent_framework_parts import typed_parts as agent_framework_parts
from clew.exporters.bedrock_parts import typed_parts as bedrock_parts
from clew.exporters.media import Media, media_in
from clew.exporters.pydantic_ai_parts import typed_parts as pydantic_ai_parts
from clew.model import Json, Message

BlockKind: TypeAlias = Literal["text", "thinking", "call", "result", "media", "data"]

SEALED: Final = "(sealed by the provider)"
"""Instead of reasoning that only its provider can read."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    kind: BlockKind
    text: str = ""
    """Of a call: its arguments; of media: a name, if there is one."""
    name: str | None = None
    """Of a call or a result: the tool."""
    call: str | None = None
    """What a call and its result have in common."""
    is_error: bool = False
    is_json: bool = False
    media: Media | None = None


def blocks_of(message: Message) -> list[Block]:
    """In the order in which they stand in the message; without those that say nothing."""
    shape = _SHAPES.get(dialect_of(message).name, _other)
    return [block for block in shape(message) if block.media is not None or not _says_nothing(block)]


def _says_nothing(block: Block) -> bool:
    return block.kind in ("text", "thinking", "media") and is_blank(block.text)


def _said(content: Json) -> Iterator[Block]:
    """Content that is a text or a list of typed parts, as most dialects have it."""
    if isinstance(content, str):
        yield Block(kind="text", text=content)
    elif isinstance(content, list):
        for part in content:
            yield from _part(part)
    elif content is not None:
        yield _data(content)


def _part(part: Json) -> Iterator[Block]:
    kind = type_of(part)
    if isinstance(part, str):
        yield Block(kind="text", text=part)
    elif kind in TEXT_TYPES and isinstance(part.get("text"), str):
        yield Block(kind="text", text=part["text"])
    elif kind == "refusal" and isinstance(part.get("refusal"), str):
        yield Block(kind="text", text=part["refusal"])
    elif kind in ("thinking", "reasoning"):
        yield _thinking(part.get("thinking", part.get("text", part.get("reasoning"))))
    elif kind == "redacted_thinking":
        yield Block(kind="thinking", text=SEALED)
    elif kind == "tool_use" or kind.endswith("_tool_use"):
        yield _call(
            part.get("name", part.get("tool_name")), part.get("input"), part.get("id", part.get("tool_id"))
        )
    elif kind == "tool_result" or kind.endswith("_tool_result"):
        key = part.get("tool_use_id", part.get("tool_id"))
        content = part.get("content", part.get("output"))
        yield from _result(content, part.get("tool_name"), key, is_error=bool(part.get("is_error")))
    elif kind == "document" and _is_object(part, "source") and type_of(part["source"]) == "text":
        yield Block(kind="data", text=str(part["source"].get("data")))
    elif kind in MEDIA_TYPES and (media := media_in(part)) is not None:
        yield Block(kind="media", text=media.name, media=media)
    else:
        yield _data(part)


def _chat(message: Message) -> Iterator[Block]:
    content = message.get("parts") if message.get("content") is None else message["content"]
    if message.get("role") in ("tool", "function"):
        key = filled(message.get("tool_call_id"))
        yield from _result(content, message.get("name", message.get("tool_name")), key)
        return
    for field in ("reasoning_content", "reasoning"):
        if isinstance(message.get(field), str):
            yield _thinking(message[field])
            break
    else:
        yield from _reasoning_details(message.get("reasoning_details"))
    yield from _said(content)
    for field in ("images", "media", "attachments"):
        for item in message[field] if isinstance(message.get(field), list) else []:
            media = media_in(item)
            yield Block(kind="media", text=media.name, media=media) if media else _data(item)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        inner = next((call[f] for f in ("function", "custom") if _is_object(call, f)), call)
        if isinstance(inner, dict):
            arguments = inner.get("arguments", inner.get("input", inner.get("args")))
            yield _call(inner.get("name"), arguments, call.get("id"))
    if _is_object(message, "function_call"):
        yield _call(message["function_call"].get("name"), message["function_call"].get("arguments"), None)


def _reasoning_details(details: Json) -> Iterator[Block]:
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict):
            yield _thinking(detail.get("text", detail.get("summary")))


def _is_object(value: Json, field: str) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get(field), dict)


def _blocks(message: Message) -> Iterator[Block]:
    yield from _said(message.get("content"))


def _claude_code(message: Message) -> Iterator[Block]:
    inner = inner_of(message)
    if inner:
        yield from _said(inner.get("content"))
    else:  # of records only what they are: the rest is for the program, and exports as JSON have it
        yield Block(kind="data", text=note_in(message))


def _gemini(message: Message) -> Iterator[Block]:
    for part in message["parts"]:
        if not isinstance(part, dict):
            yield from _part(part)
            continue
        call = part.get("functionCall", part.get("function_call"))
        result = part.get("functionResponse", part.get("function_response"))
        if isinstance(call, dict):
            yield _call(call.get("name"), call.get("args"), call.get("id"))
        elif isinstance(result, dict):
            yield from _result(_answer(result.get("response")), result.get("name"), result.get("id"))
        elif isinstance(part.get("text"), str):
            yield _thinking(part["text"]) if part.get("thought") else Block(kind="text", text=part["text"])
        elif (media := media_in(part)) is not None:
            yield Block(kind="media", text=media.name, media=media)
        else:
            yield _data(part)


def _adk(message: Message) -> Iterator[Block]:
    yield from _gemini(content_of(message))
    for text in transcripts_of(message):
        yield Block(kind="text", text=text)
    if not message.get("content") and (deeds := deeds_of(message)):
        yield _data(deeds)


def _answer(response: Json) -> Json:
    """Most functions answer with a text alone in an object."""
    if isinstance(response, dict) and len(response) == 1:
        (only,) = response.values()
        return only if isinstance(only, str) else response
    return response


def _responses(message: Message) -> Iterator[Block]:
    kind = message["type"]
    if kind == "message":
        yield from _said(message.get("content"))
    elif kind in ("reasoning", "compaction"):
        yield from _reasoning_item(message)
    elif kind.endswith(("_output", "_response")):
        key = message.get("call_id", message.get("id"))
        output = message.get(
            "output", {k: v for k, v in message.items() if k not in ("type", "call_id", "id")}
        )
        yield from _result(output, message.get("name"), key)
    else:
        rest = {k: v for k, v in message.items() if k not in ("type", "id", "call_id", "status", "name")}
        arguments = next((rest[f] for f in ("arguments", "input", "action") if f in rest), rest)
        name = filled(message.get("name")) or kind.removesuffix("_call")
        yield _call(name, arguments, message.get("call_id", message.get("id")))


def _reasoning_item(item: Message) -> Iterator[Block]:
    found = False
    for field in ("summary", "content"):
        for part in item[field] if isinstance(item.get(field), list) else []:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                found = True
                yield _thinking(part["text"])
    if not found:
        yield Block(kind="thinking", text=SEALED)


def _other(message: Message) -> Iterator[Block]:
    content = message.get("content")
    rest = {k: v for k, v in message.items() if k != "content"}
    if isinstance(content, str) and set(rest) <= {"role", "type", "id", "timestamp"}:
        yield Block(kind="text", text=content)
    else:
        yield _data(dict(message))


def _thinking(text: Json) -> Block:
    return Block(kind="thinking", text=text if isinstance(text, str) else SEALED)


def _call(name: Json, arguments: Json, key: Json) -> Block:
    text, is_json = _shown(arguments)
    return Block(kind="call", name=filled(name), text=text, is_json=is_json, call=filled(key))


def _result(content: Json, name: Json, key: Json, *, is_error: bool = False) -> Iterator[Block]:
    shown: list[Block] = []
    if isinstance(content, list):
        parts = [block for part in content for block in _part(part)]
        shown = [block for block in parts if block.kind == "media"]
        text, is_json = "\n".join(block.text for block in parts if block.kind != "media"), False
    else:
        text, is_json = _shown(content)
    yield Block(
        kind="result", name=filled(name), text=text, is_json=is_json, call=filled(key), is_error=is_error
    )
    yield from shown


def _shown(value: Json) -> tuple[str, bool]:
    """A value as a text, indented if it is JSON, and whether it is."""
    if value is None:
        return "", False
    if not isinstance(value, str):
        return _indented(value), True
    if value[:1] in "{[" and len(value) < 1_000_000:
        try:
            return _indented(msgspec.json.decode(value)), True
        except msgspec.DecodeError:
            pass
    return value, False


def _data(value: Json) -> Block:
    return Block(kind="data", text=_indented(value), is_json=True)


def _indented(value: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _pydantic_ai(message: Message) -> Iterator[Block]:
    yield from _said(pydantic_ai_parts(message))


def _bedrock(message: Message) -> Iterator[Block]:
    yield from _said(bedrock_parts(message))


def _strands(message: Message) -> Iterator[Block]:
    yield from _bedrock(shown_in(message))


def _langchain(message: Message) -> Iterator[Block]:
    yield from _chat(as_chat(message))


def _llama_index(message: Message) -> Iterator[Block]:
    yield from _chat(llama_index_as_chat(message))


def _agent_framework(message: Message) -> Iterator[Block]:
    yield from _said(agent_framework_parts(message))


_SHAPES: Final = {
    "agent-framework": _agent_framework,
    "langchain": _langchain,
    "llama-index": _llama_index,
    "pydantic-ai": _pydantic_ai,
    "anthropic": _blocks,
    "bedrock": _bedrock,
    "strands": _strands,
    "ggcode": _blocks,
    "claude-code": _claude_code,
    "chat": _chat,
    "gemini": _gemini,
    "adk": _adk,
    "responses": _responses,
}
