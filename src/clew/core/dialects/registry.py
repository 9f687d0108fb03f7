"""The dialects, in the order in which they are asked: the telling shapes before the plain ones."""

from __future__ import annotations

from functools import cache

from clew.core.dialects.contract import Dialect
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
    from clew.core.dialects.adk import ADK
    from clew.core.dialects.agent_framework import AGENT_FRAMEWORK
    from clew.core.dialects.anthropic import ANTHROPIC
    from clew.core.dialects.bedrock import BEDROCK
    from clew.core.dialects.chat import CHAT
    from clew.core.dialects.claude_code import CLAUDE_CODE
    from clew.core.dialects.gemini import GEMINI
    from clew.core.dialects.ggcode import GGCODE
    from clew.core.dialects.langchain import LANGCHAIN
    from clew.core.dialects.llama_index import LLAMA_INDEX
    from clew.core.dialects.other import OTHER
    from clew.core.dialects.pydantic_ai import PYDANTIC_AI
    from clew.core.dialects.responses import RESPONSES
    from clew.core.dialects.strands import STRANDS

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
