"""Chat messages of LlamaIndex as JSON, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from llama_index.core.base.llms.types import ContentBlock, MessageRole
from llama_index.core.llms import ChatMessage

from clew.adapters.common.jsontext import dump_model, restored
from clew.adapters.llama_index.log import Said

_BLOCKS: dict[str, Any] = {
    kind.model_fields["block_type"].default: kind for kind in get_args(get_args(ContentBlock)[0])
}


def written(message: ChatMessage) -> Said:
    return dump_model(message)


def read_message(said: Said) -> ChatMessage:
    said = restored(said)
    try:
        return ChatMessage.model_validate(said)
    except (ValueError, AttributeError, TypeError):
        # It was valid once: a file that it names may be gone, a document in it may be only its text now.
        return ChatMessage.model_construct(
            role=MessageRole(said["role"]),
            additional_kwargs=said["additional_kwargs"],
            blocks=[_read_block(block) for block in said["blocks"]],
        )


def _read_block(block: dict[str, Any]) -> Any:
    kind = _BLOCKS[block["block_type"]]
    try:
        return kind.model_validate(block)
    except ValueError:
        path = block.get("path")
        return kind.model_construct(**{**block, "path": Path(path) if isinstance(path, str) else path})
