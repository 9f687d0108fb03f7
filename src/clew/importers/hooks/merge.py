"""Our hooks in the settings of an agent: put in, found, taken out. What others wrote stays as it is."""

from __future__ import annotations

import re
from typing import Any, Final

from clew.errors import InvalidError
from clew.importers.hooks.agents import Agent
from clew.importers.settings import json_text
from clew.importers.settings.json_text import BOM, Node, NotJsonError

_CAPITAL: Final = re.compile("(?<!^)(?=[A-Z])")
_SCRIPT: Final = re.compile(r"/(clew/[a-z]+)/[a-z-]+\.sh['\"]?\s*$")


def with_hooks(text: str, agent: Agent, script: str) -> str:
    """The settings with our hooks, once each. InvalidError: the settings are not as the agent wants them."""
    wanted = handlers_of(agent, script)
    if found_in(text, agent) == {event: [handler] for event, handler in wanted.items()}:
        return text
    new = without_hooks(text, agent) if text.lstrip(BOM).strip() else "{}\n"
    for event, handler in wanted.items():
        group = {"hooks": [handler]}
        root = _root(new, agent)
        hooks = root.value.get("hooks")
        if hooks is None:
            new = json_text.with_member(new, root, "hooks", {event: [group]})
        elif event not in hooks.value:
            new = json_text.with_member(new, hooks, event, [group])
        else:
            new = json_text.with_item(new, hooks.value[event], group)
    _check(text, new, agent)
    return new


def without_hooks(text: str, agent: Agent) -> str:
    """The settings without our hooks, and without lists that only they were in."""
    if not text.lstrip(BOM).strip():
        return text
    new = text
    while (shorter := _without_one(new, _root(new, agent), agent)) is not None:
        new = shorter
    _check(text, new, agent)
    return new


def found_in(text: str, agent: Agent) -> dict[str, list[dict[str, Any]]]:
    """Our hooks, by event."""
    if not text.lstrip(BOM).strip():
        return {}
    hooks = _root(text, agent).plain().get("hooks") or {}
    ours = {
        event: [
            handler for group in groups for handler in _handlers(group) if is_ours(handler, agent.scripts)
        ]
        for event, groups in hooks.items()
        if isinstance(groups, list)
    }
    return {event: found for event, found in ours.items() if found}


def places_of(text: str, agent: Agent) -> list[str]:
    """Our hooks as Codex names them: the event, the number of the group, and that of the hook in it."""
    return [
        f"{_CAPITAL.sub('_', event).lower()}:{number}:{place}"
        for event, groups in (values_of(text, agent).get("hooks") or {}).items()
        for number, group in enumerate(groups if isinstance(groups, list) else ())
        for place, handler in enumerate(_handlers(group))
        if is_ours(handler, agent.scripts)
    ]


def handlers_of(agent: Agent, script: str) -> dict[str, dict[str, Any]]:
    """Our hook for each event."""
    assert agent.handler is not None
    return {event: agent.handler(event, script) for event in agent.events}


def values_of(text: str, agent: Agent) -> dict[str, Any]:
    """All settings."""
    found: dict[str, Any] = _root(text, agent).plain() if text.lstrip(BOM).strip() else {}
    return found


def is_empty(text: str, agent: Agent) -> bool:
    """Whether nothing is set, and nothing is said in a comment."""
    root = _root(text, agent)
    return not root.value and not root.is_commented


def _without_one(text: str, root: Node, agent: Agent) -> str | None:
    """Without the first hook of ours. None: there is none."""
    hooks = root.value.get("hooks")
    for event, groups in (hooks.value if hooks is not None else {}).items():
        for index, group in enumerate(groups.value if isinstance(groups.value, list) else ()):
            handlers = _handlers(group.plain())
            ours = [place for place, handler in enumerate(handlers) if is_ours(handler, agent.scripts)]
            if not ours:
                continue
            if len(ours) < len(handlers) or group.is_commented or group.value["hooks"].is_commented:
                return json_text.without_item(text, group.value["hooks"], ours[0])
            if len(groups.value) > 1 or groups.is_commented:
                return json_text.without_item(text, groups, index)
            if len(hooks.value) > 1 or hooks.is_commented:
                return json_text.without_member(text, hooks, event)
            return json_text.without_member(text, root, "hooks")
    return None


def _handlers(group: Any) -> list[Any]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return handlers if isinstance(handlers, list) else []


def is_ours(handler: Any, scripts: str) -> bool:
    """Whether a hook runs a script of ours: by the end of its path it is known, whatever comes before it.
    `scripts`: their directory, as "clew/hooks"."""
    command = handler.get("command") if isinstance(handler, dict) else None
    found = _SCRIPT.search(command) if isinstance(command, str) else None
    return found is not None and found[1] == scripts


def _root(text: str, agent: Agent) -> Node:
    """The settings, if they have the shape that the agent wants."""
    try:
        root = json_text.parse(text, comments=agent.takes_comments)
    except NotJsonError as exc:
        raise InvalidError(
            f"{agent.path}:{exc.line}: it is not valid JSON: {exc.reason}; correct it, then try again"
        ) from exc
    wrong = _wrong(root)
    if wrong is not None:
        node, what = wrong
        line = text.count("\n", 0, node.start) + 1
        raise InvalidError(f"{agent.path}:{line}: {what}; correct it, then try again")
    return root


def _wrong(root: Node) -> tuple[Node, str] | None:
    if not isinstance(root.value, dict):
        return root, "the settings are not an object in braces"
    hooks = root.value.get("hooks")
    if hooks is not None and not isinstance(hooks.value, dict):
        return hooks, '"hooks" is not an object in braces'
    for event, groups in (hooks.value if hooks is not None else {}).items():
        is_event = event[:1].isupper()  # Gemini CLI keeps settings beside events: "enabled", "disabled"
        if is_event and not isinstance(groups.value, list):
            return groups, f'the hooks of "{event}" are not a list'
    return None


def _check(before: str, after: str, agent: Agent) -> None:
    """A change may touch nothing but our hooks."""
    if _foreign(values_of(before, agent), agent) != _foreign(values_of(after, agent), agent):
        raise InvalidError(f"{agent.path} is written in a way that this cannot change; nothing was changed")


def _foreign(settings: dict[str, Any], agent: Agent) -> dict[str, Any]:
    """The settings without our hooks, and without lists and objects of hooks that are empty."""
    hooks = {}
    for event, groups in (settings.get("hooks") or {}).items():
        if not isinstance(groups, list):
            hooks[event] = groups
            continue
        kept = []
        for group in groups:
            handlers = [handler for handler in _handlers(group) if not is_ours(handler, agent.scripts)]
            was_ours = len(handlers) < len(_handlers(group))
            left = group | {"hooks": handlers} if was_ours else group
            if left != {"hooks": []} and (handlers or not was_ours):
                kept.append(left)
        if kept:
            hooks[event] = kept
    rest = {key: value for key, value in settings.items() if key != "hooks"}
    return rest | {"hooks": hooks} if hooks else rest
