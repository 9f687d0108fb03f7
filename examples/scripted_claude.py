"""Stands in for the `claude` program that the Claude Agent SDK starts: no model, no network.

It speaks the same protocol on stdin and stdout, keeps its transcript where it is told to, mirrors it, calls
the hooks, and knows one skill: asked to "write <text> to <file>", it does. `claude_agent.py` uses it.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class ScriptedClaude:
    def __init__(self, resume: str | None) -> None:
        home = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects"
        project = "".join(letter if letter.isalnum() else "-" for letter in os.path.realpath("."))
        self.session = resume or str(uuid.uuid4())
        self.path = home / project / f"{self.session}.jsonl"
        self.lines: list[Line] = []
        if resume:
            self.lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        self.hooks: dict[str, list[Line]] = {}
        self.incoming = (json.loads(line) for line in sys.stdin)

    def run(self) -> None:
        for message in self.incoming:
            if message["type"] == "control_request":
                self.hooks = message["request"].get("hooks") or {}
                answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                say({"type": "control_response", "response": answer})
            elif message["type"] == "user":
                self.turn(message["message"]["content"])

    def turn(self, prompt: str) -> None:
        self.call_hooks("UserPromptSubmit", prompt=prompt)
        remembered = sum(line["type"] == "user" and "toolUseResult" not in line for line in self.lines)
        self.write("user", {"role": "user", "content": prompt})
        for target, text in orders(prompt):
            call = {
                "type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:8]}", "name": "Write",
                "input": {"file_path": target, "content": text},
            }  # fmt: skip
            self.write("assistant", {"role": "assistant", "model": "scripted", "content": [call]})
            Path(target).write_text(text)
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"{target} is written"}
            self.write("user", {"role": "user", "content": [result]}, toolUseResult={"filePath": target})
        reply = f"Done. I remember {remembered} earlier prompt{'' if remembered == 1 else 's'}."
        message = {"role": "assistant", "model": "scripted", "content": [{"type": "text", "text": reply}]}
        self.write("assistant", message)
        self.call_hooks("Stop", stop_hook_active=False)
        say({"type": "assistant", "message": message, "session_id": self.session})
        say(
            {
                "type": "result", "subtype": "success", "result": reply, "session_id": self.session,
                "duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1,
            }
        )  # fmt: skip

    def call_hooks(self, event: str, **more: Any) -> None:
        asked = {"hook_event_name": event, "cwd": os.getcwd(), "session_id": self.session, **more}
        asked["transcript_path"] = str(self.path)
        for matcher in self.hooks.get(event, []):
            for callback in matcher["hookCallbackIds"]:
                request = {"subtype": "hook_callback", "callback_id": callback, "input": asked}
                say({"type": "control_request", "request_id": str(uuid.uuid4()), "request": request})
                next(self.incoming)  # its answer

    def write(self, kind: str, message: Line, **more: Any) -> None:
        """One line of the transcript: into the file first, then to the SDK, as the real program does."""
        line = {
            "type": kind, "message": message, "uuid": str(uuid.uuid4()), "sessionId": self.session,
            "parentUuid": self.lines[-1]["uuid"] if self.lines else None, "isSidechain": False,
            "cwd": os.getcwd(), "timestamp": datetime.now(UTC).isoformat(), **more,
        }  # fmt: skip
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        say({"type": "transcript_mirror", "filePath": str(self.path), "entries": [line]})


def orders(prompt: str) -> Iterator[tuple[str, str]]:
    verb, _, rest = prompt.partition(" ")
    text, _, target = rest.rpartition(" to ")
    if verb == "write" and target:
        yield target, text


def say(message: Line) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    ScriptedClaude(options.get("--resume")).run()
