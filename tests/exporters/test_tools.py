"""What a tool call did, in one line; and the changes that edit tools make, as lines."""

from __future__ import annotations

import gc
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.exporters.changes import Line, changes_of, diff_lines, is_diff, patch_changes
from clew.exporters.tools import command_of, gist, output_of, summary
from clew.model import Json
from tests.support.effort import usually
from tests.support.rows import each_row

PATCH = """*** Begin Patch
*** Update File: /w/src/a.py
@@ def f():
 def f():
-    return 1
+    return 2
+    # two
*** Add File: b.py
+new
*** Delete File: c.py
*** End Patch"""

CODEX = (
    "Chunk ID: 7\nWall time: 0.05 seconds\nProcess exited with code {}\nOriginal token count: 4\nOutput:\n{}"
)
GEMINI = (
    "Command: x\nDirectory: (root)\nOutput: {}\nError: (none)\nExit Code: {}\nSignal: (none)\nPIDs: (none)"
)


@each_row(
    ("name", "arguments", "result", "said"),
    [
        # Claude Code
        ("Read", {"file_path": "/w/src/app.py"}, "1\n" * 120, "Read src/app.py (120 lines)"),
        ("Read", {"file_path": "/w/a", "offset": 40, "limit": 2}, "40→x\n41→y", "Read a (lines 40–41)"),
        ("Read", {"file_path": "a"}, "x\n<system-reminder>\nno\n</system-reminder>", "Read a (1 line)"),
        ("Write", {"file_path": "/w/a.md", "content": "a\nb\n"}, "File created", "Write a.md (2 lines)"),
        (
            "Edit",
            {"file_path": "/w/auth.py", "old_string": "a\nb\nc", "new_string": "a\nx\ny\nz\nc"},
            "updated",
            "Edit auth.py +3 −1",
        ),
        (
            "MultiEdit",
            {
                "file_path": "a",
                "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "z", "new_string": ""}],
            },
            "ok",
            "Edit a +1 −2",
        ),
        (
            "Bash",
            {"command": "pytest -q"},
            "F.\n= 2 failed, 3 passed in 0.1s =",
            "Ran pytest -q: 2 failed, 3 passed",
        ),
        ("Bash", {"command": "ls"}, "", "Ran ls (no output)"),
        ("Bash", {"command": "a \\\n  b"}, "\n\x1b[32mdone\x1b[0m\nx", "Ran a …: done"),
        (
            "Grep",
            {"pattern": "TODO", "path": "/w/src"},
            "Found 3 files\na\nb\nc",
            "Search “TODO” in src (3 files)",
        ),
        ("Grep", {"pattern": "TODO"}, "No matches found", "Search “TODO” (nothing found)"),
        ("Glob", {"pattern": "**/*.py"}, "a\nb", "Find **/*.py (2 files)"),
        ("LS", {"path": "/w"}, "- a\n- b", "List . (2 lines)"),
        (
            "Task",
            {"description": "Find flaky tests", "subagent_type": "Explore", "prompt": "…"},
            [{"type": "text", "text": "I found two.\nThey are"}],
            "Agent Find flaky tests (Explore): I found two.",
        ),
        (
            "TodoWrite",
            {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]},
            "Todos have been modified",
            "Plan b (1 of 2 done)",
        ),
        ("WebFetch", {"url": "https://a.org/b", "prompt": "?"}, "It says", "Fetch a.org/b: It says"),
        ("WebSearch", {"query": "wal bug"}, "…", "Search the web “wal bug”"),
        # Codex
        (
            "shell",
            '{"command":["bash","-lc","make"]}',
            '{"output":"ok\\n","metadata":{"exit_code":0}}',
            "Ran make: ok",
        ),
        ("exec_command", '{"cmd":"ls x"}', CODEX.format(2, "ls: no x"), "Ran ls x: exit 2, ls: no x"),
        ("shell_command", {"command": "ls"}, "Exit code: 0\nWall time: 0.1 seconds\nOutput:\na", "Ran ls: a"),
        ("apply_patch", PATCH, "Success", "Edit src/a.py, b.py and 1 more +3 −1"),
        ("shell", {"command": ["apply_patch", PATCH]}, "Success", "Edit src/a.py, b.py and 1 more +3 −1"),
        (
            "update_plan",
            {"plan": [{"step": "a", "status": "completed"}]},
            "Plan updated",
            "Plan (1 of 1 done)",
        ),
        # Gemini CLI
        (
            "run_shell_command",
            {"command": "npm t"},
            GEMINI.format("Tests: 1 failed, 3 passed", 1),
            "Ran npm t: 1 failed, 3 passed",
        ),
        ("replace", {"file_path": "a", "old_string": "x", "new_string": "y"}, "Successfully", "Edit a +1 −1"),
        ("read_file", {"absolute_path": "/w/a"}, "x", "Read a (1 line)"),
        ("write_file", {"file_path": "/w/a", "content": "x"}, "ok", "Write a (1 line)"),
        ("search_file_content", {"pattern": "x"}, "Found 5 matches for pattern", "Search “x” (5 matches)"),
        # OpenCode, pi
        ("edit", {"filePath": "/w/a", "oldString": "x", "newString": "x\ny"}, "", "Edit a +1"),
        ("edit", {"path": "a", "oldText": "x\ny", "newText": "x"}, "", "Edit a −1"),
        ("bash", {"command": "false"}, "out\n\nCommand exited with code 1", "Ran false: exit 1, out"),
        ("apply_patch", {"patchText": PATCH}, "ok", "Edit src/a.py, b.py and 1 more +3 −1"),
        # others
        ("mcp__github__list_issues", {"repo": "x/y"}, "3 issues", "github: list_issues x/y: 3 issues"),
        ("weird", {"n": 1}, "ok", 'weird "n":1: ok'),
        ("weird", {}, None, "weird"),
        (None, None, None, "a tool"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a"}, "1\n2", "Read a (2 lines)"),
    ],
)
def test_a_call_is_told_in_one_line(name: str | None, arguments: Json, result: Json, said: str) -> None:
    assert summary(name, arguments, result, workspace="/w") == said


@each_row(
    ("name", "result", "said"),
    [
        (
            "Edit",
            "<tool_use_error>String to replace not found.</tool_use_error>",
            "failed: String to replace not found.",
        ),
        ("Bash", "Exit code 1\ncat: x: No such file", "exit 1, cat: x: No such file"),
        ("Bash", "The user doesn't want to proceed with this tool use.", "declined by the user"),
        ("Bash", "[Request interrupted by user for tool use]", "interrupted"),
        ("Read", "", "failed"),
    ],
)
def test_an_error_says_why(name: str, result: str, said: str) -> None:
    told = gist(name, {"command": "x", "file_path": "x"}, result, is_error=True)
    assert (told.outcome, told.failed) == (said, True)


def test_tests_that_fail_are_a_failure_even_if_the_agent_does_not_say_so() -> None:
    assert gist("bash", {"command": "pytest"}, "2 failed, 3 passed in 1s").failed
    assert not gist("bash", {"command": "pytest"}, "5 passed in 1s").failed


def test_a_line_acts_on_no_terminal_and_stays_short() -> None:
    said = summary("Bash", {"command": "\x1b]0;x\x07" + "a" * 500 + "\u202e"}, "\x1b[2J\u202e" + "b" * 500)
    assert said.isprintable()
    assert len(said) < 200


def test_the_output_of_a_command_comes_without_what_was_written_around_it() -> None:
    assert output_of(CODEX.format(0, "a\nb")) == ("a\nb", 0)
    assert output_of(GEMINI.format("a", 3)) == ("a", 3)
    assert output_of("Exit code 127\nnot found") == ("not found", 127)
    assert output_of("just words") == ("just words", None)
    assert command_of({"command": ["bash", "-lc", "a | b"]}) == "a | b"
    assert command_of({"command": ["ls", "-l"]}) == "ls -l"


def test_a_unified_diff_has_the_numbers_of_its_lines() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,2 +3,3 @@ def f\n a\n-b\n+c\n+d\n"
    assert is_diff(text)
    assert diff_lines(text)[3:] == [
        Line("@", "@@ -3,2 +3,3 @@ def f"),
        Line(" ", "a", 3, 3),
        Line("-", "b", 4),
        Line("+", "c", None, 4),
        Line("+", "d", None, 5),
    ]
    [change] = patch_changes(text)
    assert (change.path, change.kind, change.added, change.removed) == ("x", "edit", 2, 1)


def test_a_list_of_dashes_is_no_diff() -> None:
    assert not is_diff("--- a\n- b\n+ c\n@@ me")
    assert changes_of({"input": "--- a\n+++ b"}) == []


def test_blocks_of_search_and_replace_are_changes() -> None:
    text = "------- SEARCH\na\nb\n=======\na\nc\n+++++++ REPLACE\n"
    [change] = changes_of({"path": "x", "diff": text})
    assert [(line.mark, line.text) for line in change.lines] == [(" ", "a"), ("-", "b"), ("+", "c")]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_NAMES = st.sampled_from(
    ["Bash", "Read", "Edit", "Write", "Grep", "Task", "TodoWrite", "apply_patch", "x", "shell"]
)
_FIELDS = st.sampled_from(
    [
        "command",
        "file_path",
        "old_string",
        "new_string",
        "edits",
        "todos",
        "plan",
        "input",
        "pattern",
        "offset",
        "paths",
    ]
)


@settings(max_examples=usually(settings().max_examples, quick=30, thorough=1000))
@given(_NAMES, _VALUES | st.dictionaries(_FIELDS, _VALUES), _VALUES, st.booleans())
def test_no_shape_is_too_odd(name: str, arguments: Json, result: Json, is_error: bool) -> None:
    told = gist(name, arguments, result, is_error=is_error, workspace="/w")
    assert "\n" not in str(told)


@pytest.mark.parametrize(
    "piece",
    [
        "\x1b[",
        "@@ -1",
        "1 passed ",
        "*** Begin Patch\n",
        "=" * 7 + "\n",
        "<system-reminder>",
        "-\n+\n",
        "{",
        "[",
    ],
)
def test_s55_a_long_text_costs_time_by_its_length(piece: str) -> None:
    """Eight times the text may cost eight times as much, and sixty-four times if it is gone through for each
    of its parts. What costs little is not compared: then the clock is too coarse."""
    short, long = (_cost(piece * (length // len(piece))) for length in (25_000, 200_000))
    assert long < 0.5 or long < 32 * short


def _cost(text: str) -> float:
    """Seconds of the processor, without those for looking through all that other tests left."""
    gc.disable()
    try:
        began = time.process_time()
        for name in ("Bash", "Read", "Edit", "apply_patch", "x"):
            arguments = {"command": text, "old_string": text, "new_string": text[1:], "input": text}
            assert summary(name, arguments, text)
            assert summary(name, text, text, is_error=True)
        return time.process_time() - began
    finally:
        gc.enable()
