"""The dialects, in the order in which they are asked: the telling shapes before the plain ones."""

from __future__ import annotations

from functools import cache

from clew.core.messages.dialects.contract import Dialect
from clew.model import Message


def dialect_of(message: Message) -> Dialect:
    known = dialects()
    for dialect in known:
        if dialect.claims(message):
            return dialect
    return known[-1]


@cache
def dialects() -> tuple[Dialect, ...]:
    """Imported with the first message that is more than a text: most programs have seen none when they begin.
    The last one takes whatever is left."""
    from clew.core.messages.dialects.adk import ADK
    from clew.core.messages.dialects.agent_framework import AGENT_FRAMEWORK
    from clew.core.messages.dialects.anthropic import ANTHROPIC
    from clew.core.messages.dialects.bedrock import BEDROCK
    from clew.core.messages.dialects.chat import CHAT
    from clew.core.messages.dialects.claude_code import CLAUDE_CODE
    from clew.core.messages.dialects.gemini import GEMINI
    from clew.core.messages.dialects.ggcode import GGCODE
    from clew.core.messages.dialects.langchain import LANGCHAIN
    from clew.core.messages.dialects.llama_index import LLAMA_INDEX
    from clew.core.messages.dialects.other import OTHER
    from clew.core.messages.dialects.pydantic_ai import PYDANTIC_AI
    from clew.core.messages.dialects.responses import RESPONSES
    from clew.core.messages.dialects.strands import STRANDS

    return (
        PYDANTIC_AI,
        AGENT_FRAMEWORK,
        CLAUDE_CODE,
        LANGCHAIN,
        LLAMA_INDEX,
        GEMINI,
        ADK,
        STRANDS,
        GGCODE,
        ANTHROPIC,
        BEDROCK,
        RESPONSES,
        CHAT,
        OTHER,
    )
