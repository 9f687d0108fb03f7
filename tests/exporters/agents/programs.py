"""The agents' own readers, from the registry, run without a network."""

from __future__ import annotations

import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

from tests.support.npm import installed

CODEX = ("@openai/codex", "0.166.0")
PI = ("@mariozechner/pi-coding-agent", "0.73.1")


def environment(home: Path, **more: str) -> dict[str, str]:
    known = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**known, "HOME": str(home), "TZ": "UTC", **more}


class Codex:
    """`codex app-server`: what it lists and reads of the threads of a home directory."""

    def __init__(self, home: Path) -> None:
        program = installed(*CODEX) / ".bin" / "codex"
        self._process = subprocess.Popen(
            [str(program), "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(home, CODEX_HOME=str(home / ".codex")),
        )
        self._number = 0

    def __enter__(self) -> Codex:
        self.ask("initialize", clientInfo={"name": "clew-tests", "version": "1"})
        self._send({"method": "initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
        raise AssertionError("codex app-server ended")

    def threads(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("thread/list")["data"]
        return found

    def items(self, thread: str) -> list[list[dict[str, Any]]]:
        """Of each turn."""
        read = self.ask("thread/read", threadId=thread, includeTurns=True)["thread"]
        return [turn["items"] for turn in read["turns"]]


_PI = """
import { SessionManager } from "@mariozechner/pi-coding-agent";
const found = [];
for (const one of await SessionManager.list(process.argv[2])) {
  const context = SessionManager.open(one.path).buildSessionContext();
  found.push({ id: one.id, name: one.name ?? null, path: one.path, cwd: one.cwd, ...context });
}
console.log(JSON.stringify(found));
"""


def pi_sessions(home: Path, workspace: Path) -> list[dict[str, Any]]:
    """The sessions that pi lists for a directory, each with the context that its model gets."""
    place = installed(*PI).parent
    script = place / "list.mjs"
    if not script.exists() or script.read_text() != _PI:
        script.write_text(_PI)
    done = subprocess.run(
        ["node", str(script), str(workspace)],
        env=environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


# -- a model on loopback


class _Model(BaseHTTPRequestHandler):
    """Answers every request with one text, in the shape of OpenAI's responses."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append(json.loads(body))  # type: ignore[attr-defined]
        said = [{"type": "output_text", "text": "I go on."}]
        item = {"type": "message", "role": "assistant", "id": "m1", "content": said}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events: dict[str, dict[str, Any]] = {
            "response.created": {"response": {"id": "r1"}},
            "response.output_item.done": {"item": item},
            "response.completed": {"response": {"id": "r1", "usage": usage}},
        }
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, told in events.items():
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **told})}\n\n".encode())

    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def what_codex_sends(home: Path, workspace: Path, thread: str, prompt: str) -> list[dict[str, Any]]:
    """Go on with a thread, and see the input that the model gets."""
    program = installed(*CODEX) / ".bin" / "codex"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        server.asked = []  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, daemon=True).start()
        settings = {
            "model": "a-model",
            "model_provider": "here",
            "model_providers.here.name": "here",
            "model_providers.here.base_url": f"http://127.0.0.1:{server.server_address[1]}/v1",
            "model_providers.here.wire_api": "responses",
        }
        words = [word for name, value in settings.items() for word in ("-c", f'{name}="{value}"')]
        subprocess.run(
            [str(program), "exec", "--skip-git-repo-check", *words, "resume", thread, prompt],
            cwd=workspace,
            env=environment(home, CODEX_HOME=str(home / ".codex")),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        server.shutdown()
        found: list[dict[str, Any]] = server.asked[0]["input"]  # type: ignore[attr-defined]
    return found
