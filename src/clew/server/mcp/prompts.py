"""Two prompts that a person may choose: `recall` and `handoff`.

They are requests in a person's words. Nothing that was recorded stands in them: what the model needs, it asks
the tools for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from clew.core.messages.text import snippet, visible_line

if TYPE_CHECKING:
    from clew.server.mcp.factory import Context

LONGEST: Final = 2000
"""Letters of an argument: a place may be so long."""
_DAY: Final = 24 * 60 * 60 * 1000


class _Prompt(msgspec.Struct, frozen=True):
    name: str
    title: str
    description: str
    argument: str
    meaning: str
    """Of the argument."""
    text: str
    """With the argument in braces."""


PROMPTS: Final = (
    _Prompt(
        "recall",
        "Recall earlier work",
        "What earlier sessions did, decided and tried about a topic.",
        "topic",
        "what to look for",
        "What do we know from earlier sessions about this topic: {topic}\n\n"
        "Could you look with search_sessions, and read around the best hits with read_session? "
        "I would like a short summary: what was done, what was decided and why, and what failed. "
        "Please give the place of each point, such as ID@entry, so that I can look it up. "
        "If nothing is found, just say so.",
    ),
    _Prompt(
        "handoff",
        "Hand a session over",
        "A note for whoever goes on with a session.",
        "session",
        "id of the session",
        "I would like to hand this session over to someone else: {session}\n\n"
        "Could you look at it with session_overview, and read its last part with read_session? "
        "Then please write a note of at most one page for whoever goes on: the goal, what is done, "
        "what was decided and why, what failed, which files are concerned, and the next step. "
        "Please give the places of the entries that matter, such as ID@entry.",
    ),
)
SESSION_OF: Final = {"handoff": "session"}
"""Which argument of a prompt is the id of a session."""


async def list_prompts(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[_described(one) for one in PROMPTS], ttl_ms=_DAY, cache_scope="private"
    )


async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    found = next((one for one in PROMPTS if one.name == params.name), None)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:80]!r}")
    text = types.TextContent(type="text", text=_filled(found, params.arguments or {}))
    return types.GetPromptResult(
        description=found.description, messages=[types.PromptMessage(role="user", content=text)]
    )


def _described(one: _Prompt) -> types.Prompt:
    argument = types.PromptArgument(name=one.argument, description=one.meaning, required=True)
    return types.Prompt(name=one.name, title=one.title, description=one.description, arguments=[argument])


def _filled(prompt: _Prompt, given: dict[str, str]) -> str:
    """With the argument on one line, its acting characters made visible."""
    others = given.keys() - {prompt.argument}
    words = visible_line(given.get(prompt.argument, ""))
    if not words or others:
        raise MCPError(
            types.INVALID_PARAMS, f"{prompt.name} takes one argument, {prompt.argument}: {prompt.meaning}"
        )
    return prompt.text.replace(f"{{{prompt.argument}}}", snippet(words, LONGEST))
