"""Sessions with everything that a page draws, as the files of Claude Code and Codex.

Edits, diffs, colours of a terminal, pictures, thoughts, subagents, a compaction, a rewind.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import clew

CWD = "/home/ada/projects/harbor"
SESSION = "5e0c1a52-7d7e-4f7e-9a55-2f1b8d6a0c11"
CLAUDE = f"claude-code:{SESSION}"
THREAD = "019a7c1e-3c5b-7c41-9a11-6d0f5b7e2a90"
CODEX = f"codex:{THREAD}"
RED, GREEN, BOLD, OFF = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"

FAILED = f"""{BOLD}============================= test session starts =============================={OFF}
collected 6 items

tests/test_auth.py {GREEN}..{OFF}{RED}F{OFF}{GREEN}.{OFF}{RED}F{OFF}{GREEN}.{OFF}   {RED}[100%]{OFF}

=================================== FAILURES ===================================
{RED}{BOLD}____________________________ test_expired_token _______________________________{OFF}

    def test_expired_token(clock):
        token = issue("ada", now=clock())
        clock.tick(3601)
>       assert not is_valid(token, now=clock())
{RED}{BOLD}E       AssertionError: assert not True{OFF}

{BOLD}{RED}tests/test_auth.py{OFF}:24: AssertionError
{RED}=========================== short test summary info ============================{OFF}
{RED}FAILED{OFF} tests/test_auth.py::{BOLD}test_expired_token{OFF} - AssertionError: assert not True
{RED}FAILED{OFF} tests/test_auth.py::{BOLD}test_skewed_clock{OFF} - AssertionError
{RED}================== {BOLD}2 failed{OFF}, {GREEN}4 passed{OFF}{RED} in 0.31s =================={OFF}"""

AUTH = '''"""Tokens that a browser keeps for an hour."""

import hmac
import time

SKEW = 30


def is_valid(token: str, now: float | None = None) -> bool:
    user, issued, mac = token.rsplit(".", 2)
    # The clock of the browser may be wrong; ours counts.
    age = (now or time.time()) - float(issued)
    return hmac.compare_digest(mac, sign(user, issued))
'''

DIFF = """diff --git a/src/auth.py b/src/auth.py
index 3b18e51..a61c0f4 100644
--- a/src/auth.py
+++ b/src/auth.py
@@ -9,5 +9,7 @@ def is_valid(token: str, now: float | None = None) -> bool:
     user, issued, mac = token.rsplit(".", 2)
     # The clock of the browser may be wrong; ours counts.
     age = (now or time.time()) - float(issued)
-    return hmac.compare_digest(mac, sign(user, issued))
+    if not -SKEW <= age <= 3600:
+        return False
+    return hmac.compare_digest(mac, sign(user, issued))
"""

PATCH = """*** Begin Patch
*** Update File: deploy/Dockerfile
@@
 FROM python:3.12-slim
-RUN pip install -r requirements.txt
+COPY requirements.lock .
+RUN pip install --no-cache-dir -r requirements.lock
 COPY . /app
*** Add File: deploy/.dockerignore
+.git
+.venv
*** End Patch"""


def picture(width: int = 240, height: int = 120) -> str:
    """A PNG, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\x00" + b"".join(bytes((40 + x // 2, 90 + y, 200 - x // 3)) for x in range(width))
        for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    image = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(image).decode()


class Claude:
    """The lines of one file, each behind the one before."""

    def __init__(self, path: Path, agent: str | None = None) -> None:
        self.path = path
        self.lines: list[str] = []
        self.at = datetime(2026, 11, 12, 9, 30, tzinfo=UTC)
        self.last: str | None = None
        self._agent = agent
        self._calls = 0

    def _line(self, kind: str, **fields: Any) -> str:
        self.at += timedelta(seconds=7)
        uuid = f"{self._agent or 'u'}-{len(self.lines)}"
        record = {
            "parentUuid": self.last,
            "isSidechain": self._agent is not None,
            "userType": "external",
            "cwd": CWD,
            "sessionId": SESSION,
            "version": "2.1.239",
            "gitBranch": "main",
            "type": kind,
            "uuid": uuid,
            "timestamp": self.at.isoformat().replace("+00:00", "Z"),
            **fields,
        }
        if self._agent:
            record["agentId"] = self._agent
        self.lines.append(json.dumps(record))
        self.last = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        return self._line("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, *blocks: dict[str, Any]) -> str:
        number = len(self.lines)
        usage = {
            "input_tokens": 12,
            "cache_creation_input_tokens": 900,
            "cache_read_input_tokens": 21_000,
            "output_tokens": 310,
        }
        message = {
            "id": f"msg_{self._agent or ''}{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": list(blocks),
            "usage": usage,
        }
        return self._line("assistant", message=message, requestId=f"req_{self._agent or ''}{number}")

    def say(self, text: str) -> None:
        self.assistant({"type": "text", "text": text})

    def think(self, text: str) -> None:
        self.assistant({"type": "thinking", "thinking": text, "signature": "x"})

    def call(self, name: str, arguments: dict[str, Any], result: Any, **more: Any) -> str:
        self._calls += 1
        id = f"toolu_{self._agent or ''}{self._calls}"
        self.assistant({"type": "tool_use", "id": id, "name": name, "input": arguments})
        self.user([{"type": "tool_result", "tool_use_id": id, "content": result, **more}])
        return id

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join(self.lines) + "\n")


def claude_files(folder: Path, rounds: int = 1) -> None:
    """A session with a subagent; `rounds`: how often the work is done."""
    main = Claude(folder / f"{SESSION}.jsonl")
    main.user("The test `test_expired_token` fails since this morning. Find out why and **fix it**, please.")
    main.user("<system-reminder>CLAUDE.md: run the tests with pytest -q.</system-reminder>", isMeta=True)
    for number in range(rounds):
        _round(main, number)
    main.user(
        [
            {
                "type": "text",
                "text": "And this is what the page looks like now. Is the bar on the left too dark?",
            },
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture()}},
        ]
    )
    main.say(
        "It is fine on a light page, but on a dark one I would take `#30363d`:\n\n"
        "| theme | colour | contrast |\n|---|---|---|\n| light | `#d8dee4` | 4.6 |\n"
        "| dark | `#30363d` | 5.1 |\n\n"
        "```css\n.bar { border-left: 3px solid var(--line); } /* both */\n```"
    )
    prompt = "Look for other places that compare times with the clock of the browser. Report files and lines."
    found = "Two places:\n\n1. `src/session.py:41`, the cookie\n2. `src/audit.py:88`, only for logs"
    main.user("Are there other places like this?")
    call = main.call(
        "Task",
        {"description": "Find uses of browser time", "prompt": prompt, "subagent_type": "Explore"},
        [{"type": "text", "text": found}],
    )
    main.say("Only `src/session.py` matters. I changed it in the same way.")
    main._line(
        "system",
        subtype="compact_boundary",
        content="Conversation compacted",
        compactMetadata={"trigger": "auto", "preTokens": 151_000},
    )
    main.user(
        "This session is being continued. **Summary**: the age of a token is checked now.",
        isCompactSummary=True,
        isVisibleInTranscriptOnly=True,
    )
    before = main.last
    main.user("Write a changelog entry.")
    main.say("- Tokens expire after an hour.")
    main.last = before
    main.user("Write a changelog entry, one sentence, and commit.")
    main.call(
        "Bash",
        {"command": "git commit -am 'auth: expire tokens'"},
        "[main 4be1f02] auth: expire tokens\n 2 files changed",
    )
    main.say("Committed as `4be1f02`.")
    main.lines.append(
        json.dumps(
            {"type": "custom-title", "customTitle": "Fix the expired-token test", "sessionId": SESSION}
        )
    )
    main.write()
    child = Claude(folder / SESSION / "subagents" / "agent-7f3a9c21.jsonl", agent="7f3a9c21")
    child.at = main.at
    child.user(prompt)
    child.call(
        "Grep",
        {"pattern": r"time\.time\(\)", "path": f"{CWD}/src", "output_mode": "content"},
        "src/auth.py:12:    age = (now or time.time())\nsrc/session.py:41: left = sent - time.time()",
    )
    child.say(found)
    child.write()
    child.path.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": call, "agentType": "Explore"}))


def _todo(content: str, status: str, active: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": active}


def _round(main: Claude, number: int) -> None:
    if number:
        main.user(f"Now do the same for module {number}: run its tests, and fix what fails.")
    main.think("The token has a time in it. Let me look at how the age is checked before I run anything.")
    main.say("I will read the module first, then run the tests.")
    text = "\n".join(f"{at:6}→{line}" for at, line in enumerate(AUTH.split("\n"), 1))
    main.call("Read", {"file_path": f"{CWD}/src/auth.py"}, text)
    main.call(
        "Bash",
        {"command": "pytest -q tests/test_auth.py", "description": "Run the tests"},
        f"Exit code 1\n{FAILED}",
        is_error=True,
    )
    main.call(
        "TodoWrite",
        {
            "todos": [
                _todo("Read the module", "completed", "Reading the module"),
                _todo("Check the age of a token", "in_progress", "Checking the age"),
                _todo("Run the tests again", "pending", "Running the tests"),
            ]
        },
        "Todos have been modified successfully.",
    )
    main.call(
        "Edit",
        {
            "file_path": f"{CWD}/src/auth.py",
            "old_string": "    age = (now or time.time()) - float(issued)\n"
            "    return hmac.compare_digest(mac, sign(user, issued))",
            "new_string": "    age = (now or time.time()) - float(issued)\n    if not -SKEW <= age <= 3600:\n"
            "        return False\n    return hmac.compare_digest(mac, sign(user, issued))",
        },
        "The file /home/ada/projects/harbor/src/auth.py has been updated.",
    )
    main.call(
        "Edit",
        {"file_path": f"{CWD}/src/auth.py", "old_string": "no such line", "new_string": "x"},
        "<tool_use_error>String to replace not found in file.</tool_use_error>",
        is_error=True,
    )
    main.call(
        "Write",
        {"file_path": f"{CWD}/tests/test_skew.py", "content": "def test_skew():\n    assert True\n"},
        "File created successfully at: /home/ada/projects/harbor/tests/test_skew.py",
    )
    main.call("Bash", {"command": "git diff"}, DIFF)
    main.call("Bash", {"command": "pytest -q"}, f"{GREEN}......{OFF}\n{GREEN}{BOLD}7 passed{OFF} in 0.29s")
    main.call(
        "WebFetch",
        {"url": "https://docs.python.org/3/library/hmac.html", "prompt": "compare_digest?"},
        "`compare_digest` compares in **constant time**.",
    )
    main.call(
        "mcp__linear__get_issue",
        {"id": "HAR-128"},
        '{"id":"HAR-128","title":"Tokens never expire","state":"open"}',
    )
    main.say(
        "Fixed: the age was computed and **never compared**. A token is now valid for one hour,\n"
        "give or take the skew:\n\n```python\nif not -SKEW <= age <= 3600:\n    return False\n```\n\n"
        "- all 7 tests pass\n- [the docs](https://docs.python.org/3/library/hmac.html) ask for it"
    )


def codex_file(folder: Path) -> Path:
    """A rollout with a shell, a patch and a plan."""
    at = datetime(2026, 11, 13, 14, 0, tzinfo=UTC)
    lines: list[str] = []

    def line(kind: str, payload: dict[str, Any]) -> None:
        nonlocal at
        at += timedelta(seconds=4)
        lines.append(
            json.dumps({"timestamp": at.isoformat().replace("+00:00", "Z"), "type": kind, "payload": payload})
        )

    def item(**payload: Any) -> None:
        line("response_item", payload)

    def said(role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        item(type="message", role=role, content=[{"type": kind, "text": text}])

    def call(name: str, arguments: Any, output: str, id: str) -> None:
        item(type="function_call", name=name, arguments=json.dumps(arguments), call_id=id)
        item(type="function_call_output", call_id=id, output=output)

    line(
        "session_meta",
        {
            "id": THREAD,
            "timestamp": at.isoformat(),
            "cwd": CWD,
            "originator": "codex_cli_rs",
            "cli_version": "0.148.0",
            "source": "cli",
            "model_provider": "openai",
        },
    )
    line("turn_context", {"cwd": CWD, "model": "gpt-5", "effort": "medium"})
    said("user", "<environment_context>\n<cwd>/home/ada</cwd>")
    said("user", "Make the image smaller -- it has 1.2 GB!")
    item(
        type="reasoning",
        summary=[{"type": "summary_text", "text": "**Looking at layers**"}],
        encrypted_content="x",
    )
    call(
        "exec_command",
        {"cmd": "docker history harbor | head -3"},
        "Chunk ID: 1\nWall time: 0.4 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\n"
        "IMAGE   CREATED BY   SIZE\nabc     pip install  911MB",
        "c1",
    )
    call(
        "update_plan",
        {
            "plan": [
                {"step": "Pin the packages", "status": "in_progress"},
                {"step": "Build", "status": "pending"},
            ]
        },
        "Plan updated",
        "c2",
    )
    item(type="custom_tool_call", name="apply_patch", input=PATCH, call_id="c3")
    item(
        type="custom_tool_call_output",
        call_id="c3",
        output="Success. Updated the following files:\nM deploy/Dockerfile\nA deploy/.dockerignore",
    )
    call(
        "shell",
        {"command": ["bash", "-lc", "docker build ."]},
        json.dumps(
            {"output": "ERROR: failed to solve: no space left on device\n", "metadata": {"exit_code": 1}}
        ),
        "c4",
    )
    said("assistant", "The disk is full; free some space and build again.")
    line(
        "event_msg",
        {
            "type": "token_count",
            "info": {
                "total_token_usage": {
                    "input_tokens": 48_000,
                    "cached_input_tokens": 31_000,
                    "output_tokens": 2_100,
                    "reasoning_output_tokens": 900,
                    "total_tokens": 50_100,
                }
            },
        },
    )
    path = folder / "sessions" / "2026" / "11" / "13" / f"rollout-2026-11-13T14-00-00-{THREAD}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def rich_store(folder: Path, rounds: int = 1) -> clew.Store:
    """A store in memory with both sessions."""
    claude = folder / "projects" / "-home-ada-projects-harbor"
    claude_files(claude, rounds)
    codex = codex_file(folder / "codex")
    store = clew.open("memory:")
    for path in (claude, codex):
        report = store.import_path(path)
        assert report.ok, report
    return store
