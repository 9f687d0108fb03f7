"""Our hooks among those of others: whatever is there, it stays."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.importers.hooks.agents import AGENTS
from clew.importers.hooks.merge import found_in, handlers_of, with_hooks, without_hooks
from tests.support.effort import usually

FEW = settings(max_examples=usually(settings().max_examples, quick=30, thorough=1000))
SCRIPT = "/data/clew/hooks/gemini-cli.sh"
AGENT = AGENTS["gemini-cli"]

_plain = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
_handlers = st.fixed_dictionaries(
    {
        "type": st.just("command"),
        "command": st.sampled_from(["say done", "clew", "/x/clew/hooks/mine.py", ""]),
    },
    optional={"timeout": st.integers(), "x": _plain},
)
_groups = st.one_of(
    st.fixed_dictionaries(
        {"hooks": st.lists(_handlers, max_size=3)}, optional={"matcher": st.text(max_size=4)}
    ),
    _plain,
    st.dictionaries(st.text(max_size=4), _plain, max_size=2),
)
_events = st.sampled_from([*AGENT.events, "BeforeTool", "PreCompress"])
_settings = st.fixed_dictionaries(
    {},
    optional={
        "a": _plain,
        "hooks": st.dictionaries(_events, st.lists(_groups, max_size=3), max_size=4)
        | st.fixed_dictionaries(
            {"disabled": st.lists(st.text(max_size=4), max_size=2), "enabled": st.booleans()}
        ),
        "z": st.lists(_plain, max_size=3),
    },
)


def _written(settings: dict[str, Any], indent: int | str | None, newline: str) -> str:
    text = json.dumps(settings, indent=indent, ensure_ascii=False)
    return text.replace("\n", newline)


@FEW
@given(
    _settings,
    st.sampled_from([None, 2, 4, "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n"]),
)
def test_ours_come_once_and_go_without_a_trace(
    settings: dict[str, Any], indent: int | str | None, newline: str, end: str
) -> None:
    text = _written(settings, indent, newline) + end
    after = with_hooks(text, AGENT, SCRIPT)
    assert found_in(after, AGENT) == {event: [one] for event, one in handlers_of(AGENT, SCRIPT).items()}
    assert with_hooks(after, AGENT, SCRIPT) == after
    hooks = json.loads(after)["hooks"]
    for event, groups in settings.get("hooks", {}).items():
        assert hooks[event][: len(groups)] == groups if isinstance(groups, list) else hooks[event] == groups
    assert _without_empty(json.loads(without_hooks(after, AGENT))) == _without_empty(settings)


@FEW
@given(_settings, st.sampled_from([None, 1, 2]))
def test_ours_go_from_a_file_that_the_agent_wrote_anew(settings: dict[str, Any], indent: int | None) -> None:
    after = json.loads(with_hooks(json.dumps(settings), AGENT, SCRIPT))
    assert _without_empty(
        json.loads(without_hooks(json.dumps(after, indent=indent), AGENT))
    ) == _without_empty(settings)


@FEW
@given(_settings)
def test_hooks_of_an_older_script_are_replaced(settings: dict[str, Any]) -> None:
    old = with_hooks(json.dumps(settings, indent=2), AGENT, "/old place/clew/hooks/gemini-cli.sh")
    new = with_hooks(old, AGENT, SCRIPT)
    assert found_in(new, AGENT) == {event: [one] for event, one in handlers_of(AGENT, SCRIPT).items()}
    assert "/old place/" not in new


def _without_empty(settings: dict[str, Any]) -> dict[str, Any]:
    """Lists of hooks that were empty before ours came go with them."""
    hooks = {event: groups for event, groups in settings.get("hooks", {}).items() if groups != []}
    rest = {key: value for key, value in settings.items() if key != "hooks"}
    return rest | ({"hooks": hooks} if hooks else {})
