"""Sessions told in the messages that each agent writes, by a clock that the tale moves."""

from __future__ import annotations

import json
import random
import uuid
from copy import copy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import clew

HOME: Final = "/home/ada/projects"
VENDORS: Final = {"claude": "anthropic", "gpt": "openai", "gemini": "google", "qwen": "qwen"}


class Clock:
    """The time of the tale, in microseconds."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> int:
        return int(self.at.timestamp() * 1_000_000)

    def set(self, at: datetime) -> None:
        self.at = at

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Tale:
    """One session. Every answer of the model takes some seconds, and costs some tokens."""

    def __init__(
        self,
        store: clew.Store,
        clock: Clock,
        *,
        agent: str,
        model: str,
        project: str,
        name: str,
        title: str | None = None,
        tags: tuple[str, ...] = (),
        parent: Tale | None = None,
        call: str = "",
        folder: Path | None = None,
    ) -> None:
        """`name` makes the id. `call`: what started it, of the parent. `folder`: where its files are."""
        self.clock = clock
        self.folder = folder
        self._agent = agent
        self._random = random.Random(name)
        self._calls = 0
        self._context = self._random.randrange(11_000, 19_000)
        metadata: dict[str, Any] = {"agent": agent}
        if parent is not None:
            metadata |= {"parent": parent.session.id, "agent_meta": {"toolUseId": call}}
        id = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        self.session: clew.Session = store.session(
            f"{agent}:{id}" if parent is None else f"{parent.session.id}/agent-{id[:8]}",
            title=title,
            workspace=f"{HOME}/{project}",
            tags=tags,
            model=model,
            vendor=VENDORS.get(model.partition("-")[0]),
            metadata=metadata,
        )

    def fork(self, at: str) -> Tale:
        """A session that begins as this one did, until an entry."""
        other = copy(self)
        other.session = self.session.fork(at=at)
        return other

    # -- what is said

    def user(self, text: str, image: str | None = None) -> None:
        self.clock.wait(self._random.uniform(20, 90))
        self._append("user", text, image)

    def think(self, text: str) -> None:
        """Only Claude's and Codex' are told."""
        self.clock.wait(self._random.uniform(2, 6))
        if self._agent == "codex":
            summary = [{"type": "summary_text", "text": text}]
            self.session.append({"type": "reasoning", "summary": summary, "encrypted_content": "AAAA"})
        else:
            self.session.append(
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": text, "signature": "AAAA"}],
                }
            )

    def say(self, text: str) -> None:
        self.clock.wait(self._random.uniform(3, 12))
        self._append("assistant", text)
        self._pay()

    def _append(self, role: str, text: str, image: str | None = None) -> None:
        if self._agent == "claude-code":
            content: list[dict[str, Any]] = [{"type": "text", "text": text}]
            if image is not None:
                source = {"type": "base64", "media_type": "image/png", "data": image}
                content.append({"type": "image", "source": source})
            self.session.append({"role": role, "content": content})
        elif self._agent == "codex":
            kind = "input_text" if role == "user" else "output_text"
            said = [{"type": kind, "text": text}]
            self.session.append({"type": "message", "role": role, "content": said})
        elif self._agent == "gemini-cli":
            self.session.append({"role": "user" if role == "user" else "model", "parts": [{"text": text}]})
        else:
            self.session.append({"role": role, "content": text})

    # -- what is done

    def call(self, name: str, arguments: dict[str, Any], result: str | None, *, failed: bool = False) -> str:
        """`result` None: it has not come yet."""
        self._calls += 1
        id = f"call_{self._calls}"
        self.clock.wait(self._random.uniform(2, 8))
        before, after = self._shapes(name, arguments, result or "", id, failed=failed)
        self.session.append(before)
        self._pay()
        if result is not None:
            self.clock.wait(self._random.uniform(0.2, 4))
            self.session.append(after)
        return id

    def _shapes(
        self, name: str, arguments: dict[str, Any], result: str, id: str, *, failed: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._agent == "claude-code":
            use = {"type": "tool_use", "id": id, "name": name, "input": arguments}
            answer = {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}
            return {"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}
        if self._agent == "codex" and name == "apply_patch":
            asked = {"type": "custom_tool_call", "name": name, "input": arguments["patch"], "call_id": id}
            return asked, {"type": "custom_tool_call_output", "call_id": id, "output": result}
        if self._agent == "codex":
            text = json.dumps(arguments)
            asked = {"type": "function_call", "name": name, "arguments": text, "call_id": id}
            output = json.dumps({"output": result, "metadata": {"exit_code": int(failed)}})
            return asked, {"type": "function_call_output", "call_id": id, "output": output}
        if self._agent == "gemini-cli":
            asked = {"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]}
            answered = {"name": name, "response": {"error" if failed else "output": result}}
            return asked, {"role": "user", "parts": [{"functionResponse": answered}]}
        function = {"name": name, "arguments": json.dumps(arguments)}
        asked = {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}
        return asked, {"role": "tool", "tool_call_id": id, "content": result}

    def run(self, command: str, output: str, *, failed: bool = False) -> None:
        """A command of the shell."""
        names: dict[str, tuple[str, dict[str, Any]]] = {
            "claude-code": ("Bash", {"command": command}),
            "codex": ("shell", {"command": ["bash", "-lc", command]}),
            "gemini-cli": ("run_shell_command", {"command": command}),
        }
        tool, arguments = names.get(self._agent, ("bash", {"command": command}))
        self.call(tool, arguments, output, failed=failed)

    def read(self, path: str) -> None:
        """A file of the folder, as Claude Code reads it."""
        assert self.folder is not None
        lines = (self.folder / path).read_text("utf-8").split("\n")
        text = "\n".join(f"{at:6}→{line}" for at, line in enumerate(lines, 1))
        self.call("Read", {"file_path": self._path(path)}, text)

    def edit(self, path: str, old: str, new: str) -> None:
        """In the folder, and in the session."""
        assert self.folder is not None
        file = self.folder / path
        content = file.read_text("utf-8")
        assert content.count(old) == 1, (path, old)
        file.write_text(content.replace(old, new), "utf-8")
        arguments = {"file_path": self._path(path), "old_string": old, "new_string": new}
        self.call("Edit", arguments, f"The file {self._path(path)} has been updated.")

    def write(self, path: str, content: str) -> None:
        assert self.folder is not None
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
        arguments = {"file_path": self._path(path), "content": content}
        self.call("Write", arguments, f"File created successfully at: {self._path(path)}")

    def _path(self, path: str) -> str:
        return f"{self.session.info.workspace}/{path}"

    def checkpoint(self, name: str) -> None:
        """With the files of the folder, if it has one."""
        self.clock.wait(1)
        self.session.checkpoint(name, files=self.folder)

    # -- what it costs

    def _pay(self) -> None:
        """One call of the model: most of the prompt comes from the cache."""
        new = self._random.randrange(300, 2600)
        written = self._random.randrange(90, 900)
        self.session.add_usage(
            input_tokens=self._context + new,
            cache_read_tokens=self._context,
            cache_write_tokens=new - 40 if self._agent == "claude-code" else 0,
            output_tokens=written,
            at=self.clock.at,
        )
        self._context += new + written

    def work(self, calls: int, tokens: int) -> None:
        """So many calls of the model more, as a long session has them, without what they said."""
        for _ in range(calls):
            self.clock.wait(self._random.uniform(5, 40))
            self._context = self._random.randrange(tokens // 2, tokens)
            self._pay()
