"""I-17, S-24: what only a provider reads stays byte for byte, and its names hide nothing of anybody else."""

from __future__ import annotations

from typing import Any

from clew.core.redact.incoming import Incoming
from clew.core.redact.redactor import Redactor
from tests.core.redact.keys import keys
from tests.support.rows import each_row

KEY = "ghp_" + "a7Kq2Zt9Xw" * 4
SEAL = f"Eq{KEY}-{KEY}="
PNG = "iVBORw0KGgoAAAANSUhEUgAA/AKIAQQ3BY7WETV4STCDM/" + "A/b+" * 300
NAMES = [
    "signature",
    "thoughtSignature",
    "thought_signature",
    "encrypted_content",
    "encryptedContent",
    "data",
]

OF_PROVIDERS: list[Any] = [
    {"type": "thinking", "thinking": "so", "signature": SEAL},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "so", "signature": SEAL}]},
    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": SEAL}]},
    {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "thinking", "signature": SEAL}]},
    },
    {"type": "response_item", "payload": {"type": "reasoning", "summary": [], "encrypted_content": SEAL}},
    {"type": "compaction", "encrypted_content": SEAL},
    {"object": "response", "output": [{"type": "reasoning", "encrypted_content": SEAL}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": SEAL}]},
    {"role": "model", "parts": [{"text": "hi", "thought_signature": SEAL}]},
    {"role": "assistant", "reasoning_details": [{"type": "reasoning.encrypted", "data": SEAL}]},
    {"role": "assistant", "tool_calls": [{"extra_content": {"google": {"thought_signature": SEAL}}}]},
    {
        "role": "assistant",
        "content": [{"reasoningContent": {"reasoningText": {"text": "", "signature": SEAL}}}],
    },
    {"type": "reasoning", "text": "so", "metadata": {"anthropic": {"signature": SEAL}}},
    {
        "role": "assistant",
        "content": [
            {
                "type": "web_search_tool_result",
                "content": [{"type": "web_search_result", "encrypted_content": SEAL}],
            }
        ],
    },
]


@each_row("message", OF_PROVIDERS)
def test_i17_what_a_provider_sealed_stays_in_the_blocks_of_each_provider(message: Any) -> None:
    assert Redactor().value(message, "x") == message
    assert Incoming(lambda: bytes(32)).value(message) == message


def _elsewhere(name: str, text: str) -> list[Any]:
    """Objects that a user or a tool can make, with this field."""
    sealed = {"type": "thinking", "thinking": "x", name: text}
    return [
        {name: text},
        {"user": "ann", name: text},
        {"role": "user", "content": [sealed]},
        {"role": "tool", "content": [sealed]},
        {"role": "toolResult", "content": [sealed]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "sh", "input": sealed}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "input": {"deep": [sealed]}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [sealed]}]},
        {"type": "tool_result", "content": [sealed]},
        {"type": "function_call_output", "call_id": "c", "output": [sealed]},
        {"type": "custom_tool_call_output", "call_id": "c", "details": sealed},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": sealed}}]},
        {"role": "model", "parts": [{"functionResponse": {"name": "f", "response": sealed}}]},
        {"type": "tool", "state": {"status": "completed", "metadata": sealed}},
        {"type": "user", "message": {"role": "user", "content": []}, "toolUseResult": sealed},
        {"type": "text", "text": "x", name: text} if "hought" not in name else {name: text},
    ]


@each_row("name", NAMES)
def test_s24_a_name_of_a_sealed_field_hides_no_secret_of_a_tool_or_a_user(name: str) -> None:
    for message in _elsewhere(name, KEY):
        assert KEY not in repr(Redactor().value(message, "x")), message
        assert KEY not in repr(Incoming(lambda: bytes(32)).value(message)), message


def test_s24_a_sealed_field_with_words_in_it_is_read() -> None:
    message = {"type": "thinking", "thinking": "x", "signature": f"the key is {KEY}"}
    assert KEY not in repr(Redactor().value(message, "x"))


def test_s24_what_a_tool_calls_an_image_is_one_or_is_read() -> None:
    def answer(data: str) -> dict[str, Any]:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [image]}]}

    def asked(url: str) -> dict[str, Any]:
        return {"type": "function_call_output", "output": [{"type": "input_image", "image_url": url}]}

    for real in (answer(PNG), asked(f"data:image/png;base64,{PNG}")):
        assert Redactor().value(real, "x") == real
    for made_up in (answer(KEY), asked(f"data:image/png;base64,{KEY}"), asked(f"data:x;base64,, {KEY}")):
        assert KEY not in repr(Redactor().value(made_up, "x"))


def test_s24_an_address_of_data_hides_no_words() -> None:
    for url in (f"data:image/png;base64,AAAA {KEY!r}", f"data:text/plain;base64,{KEY}"):
        message = {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        assert KEY not in repr(Redactor().value(message, "x"))


def test_every_kind_of_key_is_found_below_a_sealed_name() -> None:
    for kind, key in keys(1):
        message = {"role": "tool", "content": {"signature": key, "data": key, "encrypted_content": key}}
        clean = Incoming(lambda: bytes(32)).value(message)
        assert repr(clean).count(f"[redacted:{kind}:") == 3, kind
