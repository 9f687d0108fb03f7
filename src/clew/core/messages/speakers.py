"""Who speaks in a stored message: its shape tells, unless it was stored as what no person said."""

from __future__ import annotations

from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.dialects import is_user_turn, role_of
from clew.core.messages.dialects.contract import Role
from clew.model import Message


def is_human_turn(message: Message, flags: int) -> bool:
    """Whether it counts as a turn of the user. `flags`: those of its entry."""
    return not flags & NOT_HUMAN and is_user_turn(message)


def speaker_of(message: Message, *, injected: bool) -> Role:
    """The role of a message for people. The model goes by its shape: for it `role_of` is right."""
    role = role_of(message)
    return "other" if role == "user" and injected else role
