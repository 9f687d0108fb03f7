"""What asks the client for input in its answer, in one round or several (revision 2026-07-28)."""

from __future__ import annotations

from typing import Any

import mcp_types as types

Questions = dict[str, dict[str, Any]]


def _form(message: str, **fields: str) -> dict[str, Any]:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sample(question: str) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": question}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}}


_NAME = {"user_name": _form("What is your name?", name="string")}
_CONFIRM = {"confirm": _form("Please confirm", ok="boolean")}
_CAPITAL = {"capital_question": _sample("What is the capital of France?")}
_ROOTS: Questions = {"client_roots": {"method": "roots/list", "params": {}}}

PROMPT = "test_input_required_result_prompt"
CHOOSY = "test_input_required_result_capabilities"
ROUNDS: dict[str, list[Questions]] = {
    "test_input_required_result_elicitation": [_NAME],
    "test_input_required_result_sampling": [_CAPITAL],
    "test_input_required_result_list_roots": [_ROOTS],
    "test_input_required_result_request_state": [_CONFIRM],
    "test_input_required_result_tampered_state": [_CONFIRM],
    "test_input_required_result_multiple_inputs": [
        {**_NAME, "greeting": _sample("Generate a greeting"), **_ROOTS}
    ],
    "test_input_required_result_multi_round": [
        {"step1": _form("Step 1: What is your name?", name="string")},
        {"step2": _form("Step 2: What is your favorite color?", color="string")},
    ],
    CHOOSY: [{**_NAME, **_CAPITAL}],
    PROMPT: [{"user_context": _form("What context should the prompt use?", context="string")}],
}
_WITHOUT_STATE = {
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    PROMPT,
}
_NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def next_round(
    name: str, params: types.InputResponseRequestParams, able: types.ClientCapabilities | None
) -> types.InputRequiredResult | str:
    """The next questions, or the text of the answer when all of them were answered."""
    rounds = ROUNDS[name]
    done = int(params.request_state or 0)
    answers = params.input_responses or {}
    if rounds[done].keys() <= answers.keys():
        done += 1
    if done == len(rounds):
        given = {key: value.model_dump(mode="json", exclude_none=True) for key, value in answers.items()}
        return f"state-ok {given}"
    questions = rounds[done]
    if name == CHOOSY:
        questions = {key: one for key, one in questions.items() if getattr(able, _NEEDS[one["method"]], None)}
    state = None if name in _WITHOUT_STATE else str(done)
    return types.InputRequiredResult.model_validate({"inputRequests": questions, "requestState": state})
