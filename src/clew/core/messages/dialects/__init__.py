"""The message shapes of the model providers and of the agents that we know."""

from clew.core.messages.dialects.contract import INTERRUPTED, Call, Dialect, Edit, Placement, Role, Slot
from clew.core.messages.dialects.reading import (
    calls_of,
    is_user_turn,
    prompt_of,
    results_of,
    role_of,
    text_of,
)
from clew.core.messages.dialects.registry import dialect_of
from clew.core.messages.snippet import snippet

__all__ = [
    "INTERRUPTED",
    "Call",
    "Dialect",
    "Edit",
    "Placement",
    "Role",
    "Slot",
    "calls_of",
    "dialect_of",
    "is_user_turn",
    "prompt_of",
    "results_of",
    "role_of",
    "snippet",
    "text_of",
]
