"""The dialects, in the order in which they are asked: the telling shapes before the plain ones."""

from __future__ import annotations

from clew.core.dialects.anthropic import ANTHROPIC
from clew.core.dialects.chat import CHAT
from clew.core.dialects.contract import Dialect
from clew.core.dialects.gemini import GEMINI
from clew.core.dialects.ggcode import GGCODE
from clew.core.dialects.other import OTHER
from clew.core.dialects.responses import RESPONSES
from clew.model import Message

DIALECTS: tuple[Dialect, ...] = (
    GEMINI,
    GGCODE,
    ANTHROPIC,
    RESPONSES,
    CHAT,
    OTHER,
)


def dialect_of(message: Message) -> Dialect:
    for dialect in DIALECTS:
        if dialect.claims(message):
            return dialect
    return OTHER
