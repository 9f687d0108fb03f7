"""An agent loop in the style of the OpenAI chat API, with a store instead of a list.

    python examples/openai_style_agent.py

The model is a function, so nothing leaves the machine. Put a real client in the place of `model`: it takes
the messages and returns one, as `client.chat.completions.create(...).choices[0].message.model_dump()` does.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew

Message = dict[str, Any]

SYSTEM: Message = {"role": "system", "content": "You are a calculator. Use the tools."}
TOOLS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
}


def model(messages: list[Message]) -> Message:
    """Pretends to think: asks for a tool after a question, and repeats what the tool said."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"That is {last['content']}."}
    words = last["content"].split()
    name = "multiply" if "times" in words else "add"
    numbers = [float(word) for word in words if word.isdigit()]
    arguments = json.dumps({"a": numbers[0], "b": numbers[1]})
    function = {"name": name, "arguments": arguments}
    call = {"id": f"call-{len(messages)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def run_tool(call: Message) -> Message:
    function = call["function"]
    value = TOOLS[function["name"]](**json.loads(function["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": f"{value:g}"}


def answer(s: clew.Session, question: str, *, turn: str) -> str:
    """One turn. It may be repeated after a crash: `key` keeps the question from being asked twice."""
    s.append({"role": "user", "content": question}, key=turn)
    s.checkpoint(turn)
    while True:
        reply = model(s.context(max_tokens=8000))
        s.append(reply)
        if not reply.get("tool_calls"):
            return str(reply["content"])
        s.append(*(run_tool(call) for call in reply["tool_calls"]))


def main(path: Path) -> None:
    with clew.open(path) as store:
        s = store.session("calculator", title="Sums")
        s.append(SYSTEM, key="system")
        print(answer(s, "what is 6 plus 8", turn="turn-1"))
        print(answer(s, "what is 6 times 7", turn="turn-2"))

    with clew.open(path) as store:  # another day, another process
        s = store.get("calculator")
        print(f"{s.info.messages} messages, {s.info.user_turns} turns, last: {s.info.preview}")
        s.rewind("turn-1")  # the answer to the first question was never given
        print(answer(s, "what is 6 plus 8", turn="turn-1"))
        print([message["role"] for message in s.messages()])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory) / "agents.db")
