"""The hook of a client that runs our hint: put in, found, taken out. Hooks of others stay as they are.

Most clients keep hooks as `clew hooks` knows them. Cursor keeps them in plain lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clew.errors import InvalidError
from clew.importers.hooks import merge
from clew.importers.hooks.agents import Agent
from clew.importers.settings import json_text
from clew.importers.settings.json_text import BOM, Node, NotJsonError


def is_in(text: str, agent: Agent) -> bool:
    """Whether our hook is there. InvalidError: the settings are not as the client wants them."""
    if not is_flat(agent):
        return bool(merge.found_in(text, agent))
    return next(_ours(text, agent), None) is not None


def with_hook(text: str, agent: Agent, script: str) -> str:
    """The settings with our hook, once."""
    if not is_flat(agent):
        return merge.with_hooks(text, agent, script)
    assert agent.handler is not None
    event = agent.events[0]
    handler = agent.handler(event, script)
    if [found.plain() for _, _, found in _ours(text, agent)] == [handler]:
        return text
    new = without_hook(text, agent) if text.lstrip(BOM).strip() else '{\n  "version": 1\n}\n'
    root = _root(new, agent)
    hooks = root.value.get("hooks")
    if hooks is None:
        return json_text.with_member(new, root, "hooks", {event: [handler]})
    if event not in hooks.value:
        return json_text.with_member(new, hooks, event, [handler])
    return json_text.with_item(new, hooks.value[event], handler)


def without_hook(text: str, agent: Agent) -> str:
    """The settings without our hook, and without a list that only it was in."""
    if not is_flat(agent):
        return merge.without_hooks(text, agent)
    while (found := next(_ours(text, agent), None)) is not None:
        event, index, _ = found
        root = _root(text, agent)
        hooks = root.value["hooks"]
        handlers = hooks.value[event]
        if len(handlers.value) > 1 or handlers.is_commented:
            text = json_text.without_item(text, handlers, index)
        elif len(hooks.value) > 1 or hooks.is_commented:
            text = json_text.without_member(text, hooks, event)
        else:
            text = json_text.without_member(text, root, "hooks")
    return text


def is_empty(text: str, agent: Agent) -> bool:
    """Whether nothing is set, and nothing is said in a comment."""
    root = _root(text, agent)
    return not root.is_commented and not any(value for key, value in root.plain().items() if key != "version")


def is_flat(agent: Agent) -> bool:
    """Whether its hooks stand in plain lists."""
    return agent.name == "cursor"


def _ours(text: str, agent: Agent) -> Iterator[tuple[str, int, Node]]:
    """Our hooks: the event, the place in its list, the hook."""
    if not text.lstrip(BOM).strip():
        return
    hooks = _root(text, agent).value.get("hooks")
    for event, handlers in ({} if hooks is None else hooks.value).items():
        for index, handler in enumerate(handlers.value):
            if merge.is_ours(handler.plain(), agent.scripts):
                yield event, index, handler


def _root(text: str, agent: Agent) -> Node:
    try:
        root = json_text.parse(text, comments=agent.takes_comments, last_commas=is_flat(agent))
    except NotJsonError as exc:
        raise InvalidError(
            f"{agent.path}:{exc.line}: it is not valid JSON: {exc.reason}; correct it, then try again"
        ) from exc
    hooks: Any = root.value.get("hooks") if isinstance(root.value, dict) else root
    is_right = hooks is None or (
        isinstance(hooks.value, dict) and all(isinstance(one.value, list) for one in hooks.value.values())
    )
    if is_flat(agent) and not is_right:
        line = text.count("\n", 0, hooks.start) + 1
        raise InvalidError(
            f'{agent.path}:{line}: "hooks" is not an object of lists; correct it, then try again'
        )
    return root
