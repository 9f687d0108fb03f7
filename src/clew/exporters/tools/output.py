"""What tools printed, without what their agents wrote around it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from clew.model import Json

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:?]{0,40}[A-Za-z]")


def plain(text: str) -> str:
    return _COLOURS.sub("", text) if "\x1b" in text else text


def decoded(value: Json) -> Json:
    if isinstance(value, str) and value[:1] in ("{", "[") and len(value) < _JSON_MOST:
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def result_text(result: Json) -> str:
    """The words of a result."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return "\n".join(filter(None, map(_words, result)))
    if isinstance(result, dict):
        for field in ("output", "content", "text", "error", "llmContent"):
            if isinstance(result.get(field), str):
                return str(result[field])
    return "" if result is None else msgspec.json.encode(result).decode()


def _words(part: Json) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


# -- a command, and what came of it


def command_of(arguments: Json) -> str:
    """The command of a shell call, without the shell that runs it."""
    arguments = decoded(arguments)
    if not isinstance(arguments, dict):
        return arguments if isinstance(arguments, str) else ""
    command = next((arguments[f] for f in ("command", "cmd", "script", "code") if arguments.get(f)), "")
    action = arguments.get("action")
    if not command and isinstance(action, dict):  # local_shell_call
        command = action.get("command", "")
    if isinstance(command, list):
        words = [str(word) for word in command]
        if len(words) == 3 and words[1] in ("-c", "-lc", "-ic", "/c", "-Command"):
            return words[2]
        return " ".join(words)
    return str(command)


class Output(NamedTuple):
    """What a command printed, without what its agent wrote around it."""

    text: str
    code: int | None
    """How it ended; None: not said."""


_JSON_MOST: Final = 1_000_000
_CODE: Final = re.compile(
    r"(?:Exit code:? |Process exited with code |Exit Code: |Command exited with code )(-?\d{1,5})\b"
)
_HEADS: Final = ("Chunk ID: ", "Wall time: ", "Process exited ", "Original token count: ", "Exit code: ",
                 "Total output lines: ", "Process running ")  # fmt: skip


def output_of(result: Json) -> Output:
    """The output of a shell tool, as Claude Code, Codex, Gemini CLI and pi write it down."""
    if isinstance(result, str) and result[:1] == "{" and len(result) < _JSON_MOST:
        result = decoded(result)
    if isinstance(result, dict) and isinstance(result.get("output"), str):
        told = result.get("metadata")
        code = told.get("exit_code") if isinstance(told, dict) else result.get("exit_code")
        if isinstance(code, int):
            return Output(result["output"], code)
        result = result["output"]
    text = result_text(result)
    if text.startswith(("Exit code ", "Exit code:", "Chunk ID: ", "Wall time: ")):
        return _after_head(text)
    if text.startswith(("Command: ", "Output: ", "<untrusted_context>")):
        return _of_gemini(text)
    end = text.rfind("Command exited with code ")
    if end >= 0 and (found := _CODE.match(text, end)) and len(text) - found.end() < 3:
        return Output(text[:end].rstrip("\n"), int(found[1]))
    return Output(text, None)


def _after_head(text: str) -> Output:
    head = text[:600]
    found = _CODE.search(head)
    code = int(found[1]) if found else None
    if text.startswith("Exit code ") and found:  # Claude Code, of a command that failed
        return Output(text[found.end() :].lstrip("\n"), code)
    at = 0
    while text.startswith(_HEADS, at):
        end = text.find("\n", at)
        if end < 0:
            return Output("", code)
        at = end + 1
    return Output(text[at:].removeprefix("Output:\n"), code)


_FACTS: Final = ("Error: ", "Exit Code: ", "Signal: ", "Background PIDs: ", "Process Group PGID: ", "PIDs: ")


def _of_gemini(text: str) -> Output:
    """Behind the output Gemini CLI names what else is known, each on a line of its own."""
    body = text.strip().removeprefix("<untrusted_context>").removesuffix("</untrusted_context>").strip("\n")
    start = body.find("Output: ")
    if start < 0:
        return Output(text, None)
    lines = body[start + 8 :].split("\n")
    code, error = None, ""
    while len(lines) > 1 and lines[-1].startswith(_FACTS):
        fact = lines.pop()
        if found := _CODE.match(fact):
            code = int(found[1])
        elif fact.startswith("Error: ") and not fact.startswith("Error: (none)"):
            error = fact[7:]
    printed = "\n".join([*lines, error] if error else lines)
    return Output("" if printed.strip() == "(empty)" else printed, code)


_COUNTS: Final = re.compile(
    r"\b\d{1,7} (?:failed|passed|passing|failing|errors?\b|skipped|pending|todo|warnings?\b|tests? run)"
)
_RUNNERS: Final = re.compile(r"(?:^|[\s=])(?:\d{1,7} (?:failed|passed|passing|failing)\b|Tests?:? )")
SILENT: Final = ("(Bash completed with no output)", "Tool ran without output or errors", "(no output)")
BAD: Final = re.compile(r"\b[1-9]\d{0,6} (?:failed|failing|error)")
_UNITTEST: Final = re.compile(r"(OK|FAILED)(?: \(([^()]{1,80})\))?$")


def verdict(output: str) -> str:
    """What a run of tests says at its end, if it was one."""
    lines = [plain(line).strip() for line in output[-3000:].rstrip().split("\n")[-25:]]
    for line in reversed(lines):
        if (counts := _COUNTS.findall(line[:300])) and _RUNNERS.search(line[:300]):
            return ", ".join(count for count in counts if "warning" not in count) or counts[0]
    if lines and (found := _UNITTEST.match(lines[-1])) and any(line.startswith("Ran ") for line in lines):
        return found[2] or ("all passed" if found[1] == "OK" else "failed")
    return ""


# -- a file that was read


def file_text(result: str) -> str:
    """The file in the result of a tool that reads one, without what OpenCode writes around it."""
    for opening, closing in (("<content>\n", "\n</content>"), ("<file>\n", "\n</file>")):
        start = result.find(opening, 0, 2000)
        if start >= 0 and (result.startswith("<path>") or start == 0):
            inside = result[start + len(opening) :].partition(closing)[0].rstrip("\n")
            head, _, last = inside.rpartition("\n")
            return head.rstrip("\n") if last.startswith(("(End of file", "(File has more")) else inside
    return result
